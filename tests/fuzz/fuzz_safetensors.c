/*
 * A safetensors file from hostile bytes; or, when the first 8 are no length, all of them as a header before a data
 * section of 1 MiB. What is accepted must hold together. The scanner also goes over the bytes as any JSON, as it does
 * over an index.
 */
#include "formats/json_scan.h"
#include "formats/safetensors.h"
#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            abort();                                                                                                   \
    } while (0)

static char *copy_of(const uint8_t *data, size_t n)
{
    char *copy = malloc(n ? n : 1);

    CHECK(copy);
    if (n)
        memcpy(copy, data, n);
    return copy;
}

static void use_tensors(const struct wn_tensor_list *list, uint64_t data_at, uint64_t file_bytes)
{
    uint64_t end = data_at;

    for (size_t i = 0; i < list->n; i++) {
        const struct wn_tensor *t = &list->at[i];
        uint64_t bytes;

        CHECK(strlen(t->name) > 0 && t->dims <= WN_DIMS && t->at >= data_at);
        CHECK(wn_span_fits(t->at, t->bytes, file_bytes));
        CHECK(wn_type_bytes(t->type, wn_tensor_elements(t), &bytes) && bytes == t->bytes);
        CHECK(i == 0 || t->at >= list->at[i - 1].at);
        CHECK(t->bytes == 0 || t->at >= end);
        if (t->bytes)
            end = t->at + t->bytes;
    }
}

static void parse(const uint8_t *data, size_t n, uint64_t file_bytes)
{
    char *json = copy_of(data, n), **metadata;
    struct wn_tensor_list list = {0};
    struct wn_err err;

    if (wn_safetensors_parse(json, n, file_bytes, 0, &list, &metadata, &err)) {
        use_tensors(&list, 8 + n, file_bytes);
        for (size_t i = 0; metadata && metadata[i]; i++)
            CHECK(strlen(metadata[i]) <= n);
        free(metadata);
    } else {
        CHECK(err.msg[0]);
    }
    wn_tensor_list_release(&list);
    free(json);
}

static void skip(const uint8_t *data, size_t n)
{
    char *text = copy_of(data, n);
    struct wn_err err;
    struct wn_json j = wn_json_of(text, n, &err);

    CHECK((wn_json_skip(&j) && wn_json_end(&j)) || err.msg[0]);
    CHECK(j.at >= text && j.at <= text + n);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wn_err err;
    size_t n;

    if (size >= 8 && wn_safetensors_length(data, size, &n, &err))
        parse(data + 8, n, size);
    else
        parse(data, size, 8 + (uint64_t)size + (1 << 20));
    skip(data, size);
    return 0;
}
