/* See twins.h: what the metadata of the two must have in common. */
#include "base/alloc.h"
#include "jobs/prune/twins.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHOWN 60 /* bytes of a text in a sentence */

/* Says how much text a model takes, and nothing of its weights; makers set it as they please. */
static bool is_about_context(struct wn_bytes name)
{
    return wn_bytes_is(name, "context_length") || (name.n >= 12 && memcmp(name.at, "rope.scaling", 12) == 0);
}

static bool architecture_of(const struct wn_source *s, struct wn_bytes *name, struct wn_err *err)
{
    const struct wn_gguf_kv *kv = wn_gguf_find(wn_source_gguf(s), "general.architecture");

    return (kv && wn_gguf_as_string(kv, name)) ||
           wn_fail(err, WN_ERR_FORMAT, "'%s' has no 'general.architecture'", wn_source_path(s));
}

static int shown(struct wn_bytes b)
{
    return (int)(b.n < SHOWN ? b.n : SHOWN);
}

/* ---- numbers of the architecture ---- */

/* A number that the record is, in words that do not depend on its type; false when it is none. */
static bool number_text(const struct wn_gguf_kv *kv, char *text, size_t size)
{
    uint64_t u;
    int64_t i;
    double d;
    bool b;

    if (wn_gguf_as_u64(kv, &u))
        (void)snprintf(text, size, "%" PRIu64, u);
    else if (wn_gguf_as_i64(kv, &i))
        (void)snprintf(text, size, "%" PRId64, i);
    else if (wn_gguf_as_f64(kv, &d))
        (void)snprintf(text, size, "%.7g", d); /* as many digits as an f32 has */
    else if (wn_gguf_as_bool(kv, &b))
        (void)snprintf(text, size, "%s", b ? "true" : "false");
    else
        return false;
    return true;
}

static bool same_array(const struct wn_gguf_kv *a, const struct wn_gguf_kv *b)
{
    int64_t x, y;

    if (a->type != WN_GGUF_ARRAY || b->type != WN_GGUF_ARRAY || a->count != b->count)
        return false;
    for (uint64_t i = 0; i < a->count; i++)
        if (!wn_gguf_array_i64(a, i, &x) || !wn_gguf_array_i64(b, i, &y) || x != y)
            return false;
    return true;
}

static bool compare_values(const struct wn_gguf_kv *a, const struct wn_gguf_kv *b, struct wn_err *err)
{
    char x[64], y[64];

    if (wn_gguf_same(a, b) || same_array(a, b))
        return true;
    if (!number_text(a, x, sizeof x) || !number_text(b, y, sizeof y))
        return wn_fail(err, WN_ERR_ARG, "key '%.*s' has other values", shown(a->key), a->key.at);
    return strcmp(x, y) == 0 || wn_fail(err, WN_ERR_ARG, "key '%.*s' is %s in the first and %s in the second",
                                        shown(a->key), a->key.at, x, y);
}

static const struct wn_gguf_kv *find(const struct wn_gguf_meta *m, struct wn_bytes key)
{
    for (size_t i = m->n; i-- > 0;)
        if (wn_bytes_equal(m->kv[i].key, key))
            return &m->kv[i];
    return NULL;
}

static bool compare_keys(const struct wn_gguf_meta *a, const struct wn_gguf_meta *b, struct wn_bytes arch,
                         struct wn_err *err)
{
    for (size_t i = 0; i < a->n; i++) {
        struct wn_bytes key = a->kv[i].key, name;
        const struct wn_gguf_kv *other;

        if (key.n <= arch.n || memcmp(key.at, arch.at, arch.n) != 0 || key.at[arch.n] != '.')
            continue;
        name = (struct wn_bytes){key.at + arch.n + 1, key.n - arch.n - 1};
        other = find(b, key);
        if (other && !is_about_context(name) && !compare_values(&a->kv[i], other, err))
            return false;
    }
    return true;
}

/* ---- the vocabulary ---- */

#define NORMAL 1 /* tokenizer.ggml.token_type of an ordinary token */

/* Special ones are named anew by makers of GGUFs, and by vendors from one release to the next. */
static bool is_normal(const struct wn_gguf_meta *m, uint64_t id)
{
    const struct wn_gguf_kv *types = wn_gguf_find(m, "tokenizer.ggml.token_type");
    int64_t type;

    return !types || !wn_gguf_array_i64(types, id, &type) || type == NORMAL;
}

static bool compare_tokens(const struct wn_gguf_meta *a, const struct wn_gguf_meta *b, const struct wn_gguf_kv *x,
                           const struct wn_gguf_kv *y, struct wn_err *err)
{
    uint64_t x_at = 0, y_at = 0;

    for (uint64_t id = 0; id < x->count; id++) {
        struct wn_bytes p, q;

        if (!wn_gguf_array_string(x, &x_at, &p) || !wn_gguf_array_string(y, &y_at, &q))
            return wn_fail(err, WN_ERR_FORMAT, "'tokenizer.ggml.tokens' is no list of texts");
        if (!wn_bytes_equal(p, q) && is_normal(a, id) && is_normal(b, id))
            return wn_fail(err, WN_ERR_ARG, "token %" PRIu64 " is '%.*s' in the first and '%.*s' in the second", id,
                           shown(p), p.at, shown(q), q.at);
    }
    return true;
}

static bool compare_vocabularies(const struct wn_gguf_meta *a, const struct wn_gguf_meta *b, struct wn_err *err)
{
    const struct wn_gguf_kv *x = wn_gguf_find(a, "tokenizer.ggml.tokens"),
                            *y = wn_gguf_find(b, "tokenizer.ggml.tokens");

    if (!x || !y || wn_gguf_same(x, y))
        return true;
    if (x->count != y->count)
        return wn_fail(err, WN_ERR_ARG,
                       "the vocabulary has %" PRIu64 " tokens in the first and %" PRIu64 " in the second", x->count,
                       y->count);
    return compare_tokens(a, b, x, y, err);
}

bool wn_twins_check_meta(const struct wn_source *first, const struct wn_source *second, struct wn_err *err)
{
    const struct wn_gguf_meta *a = wn_source_gguf(first), *b = wn_source_gguf(second);
    struct wn_bytes x, y;

    if (!architecture_of(first, &x, err) || !architecture_of(second, &y, err))
        return false;
    if (!wn_bytes_equal(x, y))
        return wn_fail(err, WN_ERR_ARG, "the architecture is '%.*s' in the first and '%.*s' in the second", shown(x),
                       x.at, shown(y), y.at);
    return compare_keys(a, b, x, err) && compare_vocabularies(a, b, err);
}
