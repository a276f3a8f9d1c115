/*
 * A GGUF header from hostile bytes. What is accepted must hold together: tensors lie inside the file, one behind the
 * other, every record can be walked to its end, and a copy of it would have the size that the source has.
 */
#include "formats/gguf_parse.h"
#include "formats/sink.h"
#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            abort();                                                                                                   \
    } while (0)

static void use_record(const struct wn_gguf_kv *kv)
{
    struct wn_bytes s;
    uint64_t u, at = 0;
    int64_t i;
    double d;
    bool b;

    CHECK(kv->key.n > 0 && wn_gguf_value_name(kv->type));
    if (wn_gguf_as_u64(kv, &u) && wn_gguf_as_i64(kv, &i))
        CHECK(i >= 0 && (uint64_t)i == u);
    (void)!wn_gguf_as_f64(kv, &d);
    (void)!wn_gguf_as_bool(kv, &b);
    if (wn_gguf_as_string(kv, &s))
        CHECK(s.n == 0 || memchr(s.at, s.at[0], s.n) == s.at);
    if (kv->type != WN_GGUF_ARRAY)
        return;
    if (kv->element == WN_GGUF_STRING) {
        for (u = 0; u < kv->count; u++)
            CHECK(wn_gguf_array_string(kv, &at, &s) && (size_t)(s.at + s.n - kv->value.at) == at);
        CHECK(at == kv->value.n && !wn_gguf_array_string(kv, &at, &s));
    } else if (kv->count > 0) {
        (void)!wn_gguf_array_i64(kv, kv->count - 1, &i);
        CHECK(!wn_gguf_array_i64(kv, kv->count, &i));
    }
}

static void use_tensors(const struct wn_gguf_header *h, const struct wn_tensor_list *list, uint64_t file_bytes)
{
    uint64_t end = h->data_at;

    CHECK(list->n == h->tensor_count);
    for (size_t i = 0; i < list->n; i++) {
        const struct wn_tensor *t = &list->at[i];

        CHECK(t->at >= end && wn_span_fits(t->at, t->bytes, file_bytes) && t->dims <= WN_GGUF_DIMS);
        CHECK(strlen(t->name) > 0 && strlen(t->name) < WN_GGUF_NAME_LIMIT);
        end = t->at + t->bytes;
    }
}

/* Split keys are the sink's own, so a file that has some is not copied as it is. */
static bool copies_as_it_is(const struct wn_gguf_meta *m)
{
    return !wn_gguf_find(m, WN_GGUF_SPLIT_NO) && !wn_gguf_find(m, WN_GGUF_SPLIT_COUNT) &&
           !wn_gguf_find(m, WN_GGUF_SPLIT_TENSORS) && m->alignment <= 1 << 16;
}

static void use_as_source(const struct wn_gguf_header *h, const struct wn_tensor_list *list, uint64_t file_bytes)
{
    const struct wn_sink_options o = {.dry_run = true,
                                      .kv = h->meta.kv,
                                      .kv_count = h->meta.n,
                                      .gguf_version = h->meta.version,
                                      .gguf_alignment = h->meta.alignment};
    struct wn_err err;
    struct wn_sink *s = wn_sink_new(WN_CONTAINER_GGUF, "copy.gguf", &o, &err);

    CHECK(s);
    for (size_t i = 0; i < list->n; i++) {
        const struct wn_tensor *t = &list->at[i];

        CHECK(wn_sink_declare(s, t->name, t->type, t->dims, t->shape, 0, &err));
    }
    if (wn_sink_begin(s, &err)) /* a name that occurs twice is found by whoever indexes names, not by the parser */
        CHECK(wn_sink_total_bytes(s) >= file_bytes && wn_sink_total_bytes(s) - file_bytes < h->meta.alignment);
    wn_sink_free(s);
}

/* The parser wants bytes of its own to put NULs into. */
static void parse(const uint8_t *data, size_t n, uint64_t file_bytes)
{
    char *bytes = malloc(n ? n : 1);
    struct wn_tensor_list list = {0};
    struct wn_gguf_header h;
    struct wn_err err;

    CHECK(bytes);
    memcpy(bytes, data, n);
    if (wn_gguf_parse(&h, bytes, n, file_bytes, 0, &list, &err)) {
        for (size_t i = 0; i < h.meta.n; i++)
            use_record(&h.meta.kv[i]);
        use_tensors(&h, &list, file_bytes);
        if (file_bytes == n && copies_as_it_is(&h.meta))
            use_as_source(&h, &list, file_bytes);
    } else {
        CHECK(err.msg[0] && (!h.ran_out || n < file_bytes));
    }
    wn_gguf_header_release(&h);
    wn_tensor_list_release(&list);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    parse(data, size, size);
    parse(data, size / 2, size);          /* the first try of a longer header */
    parse(data, size, (uint64_t)1 << 40); /* counts that such a file could hold */
    return 0;
}
