/* See verify_parts.h: metadata records of GGUF. */
#include "jobs/prune/prune_meta.h"
#include "jobs/verify/verify_parts.h"

#include <inttypes.h>
#include <string.h>

/* Which file of a set this is, is the affair of the file, not of the model. */
static bool is_split_key(struct wn_bytes key)
{
    return key.n > 6 && memcmp(key.at, "split.", 6) == 0;
}

/* The next record at or behind *i that is not a split key; NULL at the end. */
static const struct wn_gguf_kv *next_record(const struct wn_gguf_kv *kv, size_t n, size_t *i)
{
    while (*i < n && is_split_key(kv[*i].key))
        (*i)++;
    return *i < n ? &kv[(*i)++] : NULL;
}

static bool compare_record(const struct wn_gguf_kv *want, const struct wn_gguf_kv *have, struct wn_err *err)
{
    int n = (int)(want->key.n < 100 ? want->key.n : 100);

    if (!wn_bytes_equal(want->key, have->key))
        return wn_fail(err, WN_ERR_DIFFERENT, "metadata: key '%.*s' stands where the source has '%.*s'",
                       (int)(have->key.n < 100 ? have->key.n : 100), have->key.at, n, want->key.at);
    if (want->type != have->type || want->element != have->element || want->count != have->count)
        return wn_fail(err, WN_ERR_DIFFERENT, "metadata: key '%.*s' is of type %s, wanted %s", n, want->key.at,
                       wn_gguf_value_name(have->type), wn_gguf_value_name(want->type));
    if (!wn_bytes_equal(want->value, have->value)) {
        uint64_t a, b;

        if (wn_gguf_as_u64(want, &a) && wn_gguf_as_u64(have, &b))
            return wn_fail(err, WN_ERR_DIFFERENT, "metadata: key '%.*s' is %" PRIu64 ", wanted %" PRIu64, n,
                           want->key.at, b, a);
        return wn_fail(err, WN_ERR_DIFFERENT, "metadata: key '%.*s' has another value", n, want->key.at);
    }
    return true;
}

static bool compare_records(const struct wn_gguf_kv *want, size_t want_n, const struct wn_gguf_kv *have, size_t have_n,
                            struct wn_err *err)
{
    const struct wn_gguf_kv *a, *b;
    size_t i = 0, o = 0;

    do {
        a = next_record(want, want_n, &i);
        b = next_record(have, have_n, &o);
        if (a && b && !compare_record(a, b, err))
            return false;
        if (!a != !b)
            return wn_fail(err, WN_ERR_DIFFERENT, "metadata: key '%.*s' %s", (int)((a ? a : b)->key.n),
                           (a ? a : b)->key.at, a ? "is missing" : "should not be there");
    } while (a && b);
    return true;
}

bool wn_verify_records(const struct wn_gguf_kv *want, size_t want_n, const struct wn_gguf_meta *have,
                       struct wn_err *err)
{
    return compare_records(want, want_n, have->kv, have->n, err);
}

/* Files 2 .. of a set that is cut anew have records that number them, and nothing else. */
static bool has_own_records(const struct wn_source *s)
{
    for (size_t f = 1; f < wn_source_file_count(s); f++) {
        const struct wn_gguf_meta *m = wn_source_gguf_of(s, f);
        size_t i = 0;

        if (next_record(m->kv, m->n, &i))
            return true;
    }
    return false;
}

/* A set that is laid out as its source has the source's records in its later files, with what the cut changes. */
static bool verify_later(const struct wn_keep *k, const struct wn_prune_kv *kv, const struct wn_source *out,
                         struct wn_err *err)
{
    bool as_source = wn_source_file_count(out) == wn_source_file_count(k->source) &&
                     (has_own_records(out) || !wn_source_gguf_is_whole(k->source, err));
    struct wn_prune_later want = {0};
    bool ok = true;

    if (as_source && !wn_prune_later(k->source, kv, &want, err))
        return wn_fail_in(err, "the source");
    for (size_t f = 1; ok && f < wn_source_file_count(out); f++) {
        const struct wn_gguf_meta *m = wn_source_gguf_of(out, f);

        ok = compare_records(as_source ? want.meta[f - 1].kv : NULL, as_source ? want.meta[f - 1].n : 0, m->kv, m->n,
                             err) ||
             wn_fail_in(err, "'%s'", wn_path_name(wn_source_file_at(out, f)->file.path));
    }
    wn_prune_later_release(&want);
    return ok;
}

bool wn_verify_kv(const struct wn_keep *k, const struct wn_plan *plan, const struct wn_source *out, struct wn_err *err)
{
    const struct wn_gguf_meta *m = wn_source_gguf(out);
    struct wn_prune_kv wanted;
    bool ok;

    if (!wn_prune_kv(k, plan, &wanted, err))
        return wn_fail_in(err, "the source");
    ok = compare_records(wanted.kv, wanted.n, m->kv, m->n, err) && verify_later(k, &wanted, out, err);
    wn_prune_kv_release(&wanted);
    return ok;
}
