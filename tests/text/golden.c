/* See golden.h. */
#include "golden.h"

#include "base/bytes.h"
#include "text/base64.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void golden_open(struct golden *g, const char *path)
{
    *g = (struct golden){.file = fopen(path, "rb")};
    if (!g->file)
        fail_msg("cannot open '%s'", path);
}

json_t *golden_next(struct golden *g)
{
    json_error_t why;
    ssize_t n = getline(&g->line, &g->room, g->file);
    json_t *c;

    if (n < 0) {
        fclose(g->file);
        free(g->line);
        return NULL;
    }
    c = json_loadb(g->line, (size_t)n, JSON_ALLOW_NUL, &why);
    if (!c) /* some chats hold integers of more than 64 bits */
        c = json_loadb(g->line, (size_t)n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &why);
    if (!c)
        fail_msg("golden data: %s", why.text);
    return c;
}

static char *repeated(const json_t *r, size_t *n)
{
    const json_t *unit = json_object_get(r, "unit"), *suffix = json_object_get(r, "suffix");
    size_t unit_n = json_string_length(unit), suffix_n = json_string_length(suffix);
    size_t count = (size_t)json_integer_value(json_object_get(r, "count"));
    char *out = malloc(unit_n * count + suffix_n + 1);

    *n = 0;
    for (size_t i = 0; i < count; i++, *n += unit_n)
        memcpy(out + *n, json_string_value(unit), unit_n);
    memcpy(out + *n, json_string_value(suffix), suffix_n);
    *n += suffix_n;
    return out;
}

char *golden_input(const json_t *c, size_t *n)
{
    const json_t *text = json_object_get(c, "text"), *b64 = json_object_get(c, "bytes_b64");
    char *out;

    if (json_object_get(c, "repeat"))
        return repeated(json_object_get(c, "repeat"), n);
    if (b64) {
        out = malloc(json_string_length(b64) + 1);
        if (!wn_base64_decode(wn_bytes_of(json_string_value(b64)), out, n))
            fail_msg("%s: bytes_b64 is not base64", golden_name(c));
        return out;
    }
    *n = json_string_length(text);
    out = malloc(*n + 1);
    memcpy(out, json_string_value(text), *n);
    return out;
}

const char *golden_name(const json_t *c)
{
    const char *name = json_string_value(json_object_get(c, "name"));

    return name ? name : "?";
}

static void check_some(const json_t *c, const char *key, const uint32_t *ids)
{
    const json_t *want = json_object_get(c, key);
    size_t i;
    json_t *id;

    json_array_foreach((json_t *)want, i, id)
        if ((json_int_t)ids[i] != json_integer_value(id))
            fail_msg("%s: '%s' id %zu is %" PRIu32 ", not %" JSON_INTEGER_FORMAT, golden_name(c), key, i, ids[i],
                     json_integer_value(id));
}

static void check_digest(const json_t *c, const uint32_t *ids, size_t n)
{
    char *list = malloc(n * 11 + 3), hex[65];
    size_t at = 0;

    list[at++] = '[';
    for (size_t i = 0; i < n; i++)
        at += (size_t)sprintf(list + at, i ? ",%" PRIu32 : "%" PRIu32, ids[i]);
    list[at++] = ']';
    golden_sha256(list, at, hex);
    free(list);
    if (strcmp(hex, json_string_value(json_object_get(c, "ids_sha256"))) != 0)
        fail_msg("%s: the digest of %zu ids is %s", golden_name(c), n, hex);
}

void golden_check_ids(const json_t *c, const uint32_t *ids, size_t n)
{
    const json_t *all = json_object_get(c, "ids"), *last = json_object_get(c, "last");
    size_t want = all ? json_array_size(all) : (size_t)json_integer_value(json_object_get(c, "n_ids"));

    if (n != want)
        fail_msg("%s: %zu ids, wanted %zu", golden_name(c), n, want);
    if (all) {
        check_some(c, "ids", ids);
        return;
    }
    check_some(c, "first", ids);
    if (last)
        check_some(c, "last", ids + n - json_array_size(last));
    check_digest(c, ids, n);
}

static void run_case(const struct wn_vocab *v, const json_t *c)
{
    bool special = strcmp(json_string_value(json_object_get(c, "mode")), "special") == 0;
    struct wn_err err;
    size_t n, count, back_n;
    char *text = golden_input(c, &n), *back;
    uint32_t *ids;

    CHECK_OK(wn_vocab_encode(v, text, n, special, &ids, &count, &err), &err);
    golden_check_ids(c, ids, count);
    back = wn_vocab_decode(v, ids, count, &back_n, &err);
    CHECK_OK(back, &err);
    assert_int_equal(back_n, n);
    assert_memory_equal(back, text, n);
    free(back);
    free(ids);
    free(text);
}

size_t golden_run(const struct wn_vocab *v, const char *path)
{
    struct golden g;
    size_t n = 0;
    json_t *c;

    golden_open(&g, path);
    while ((c = golden_next(&g)) != NULL) {
        if (json_object_get(c, "mode")) { /* not the first line, which is about the vocabulary */
            run_case(v, c);
            n++;
        }
        json_decref(c);
    }
    return n;
}

struct wn_vocab *golden_vocab(void)
{
    struct wn_err err;
    struct wn_vocab *v = wn_vocab_open(wn_test_need_data("golden/tokenizer/test-vocab"), &err);

    CHECK_OK(v, &err);
    return v;
}
