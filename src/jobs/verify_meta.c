/* See verify_parts.h: metadata records of GGUF. */
#include "jobs/prune_meta.h"
#include "jobs/verify_parts.h"

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

bool wn_verify_kv(const struct wn_keep *k, const struct wn_plan *plan, const struct wn_source *out, struct wn_err *err)
{
    const struct wn_gguf_meta *m = wn_source_gguf(out);
    const struct wn_gguf_kv *want, *have;
    struct wn_prune_kv wanted;
    size_t i = 0, o = 0;
    bool ok = true;

    if (!wn_prune_kv(k, plan, &wanted, err))
        return wn_fail_in(err, "the source");
    do {
        want = next_record(wanted.kv, wanted.n, &i);
        have = next_record(m->kv, m->n, &o);
        if (want && have)
            ok = compare_record(want, have, err);
        else if (want || have)
            ok = wn_fail(err, WN_ERR_DIFFERENT, "metadata: key '%.*s' %s", (int)((want ? want : have)->key.n),
                         (want ? want : have)->key.at, want ? "is missing" : "should not be there");
    } while (ok && want && have);
    wn_prune_kv_release(&wanted);
    return ok;
}
