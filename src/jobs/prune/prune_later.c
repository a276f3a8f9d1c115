/* See prune_meta.h: records of the files behind the first of a GGUF set, and names of shards. */
#include "base/alloc.h"
#include "jobs/prune/prune_meta.h"

#include <stdlib.h>

/* What file 1 will have of its record; NULL: it goes. */
static const struct wn_gguf_kv *new_of(const struct wn_prune_kv *kv, const struct wn_gguf_kv *record)
{
    for (size_t i = 0; i < kv->n; i++)
        if (wn_gguf_same(&kv->kv[i], record))
            return &kv->kv[i];
    for (size_t i = 0; i < kv->n; i++)
        if (wn_bytes_equal(kv->kv[i].key, record->key))
            return &kv->kv[i];
    return NULL;
}

/*
 * The record of a later file as it will be, or *goes. What repeats file 1 goes on repeating it; a key that the cut
 * changes in file 1 and that had another value here says something that nobody knows how to change.
 */
static bool follow(const struct wn_gguf_meta *first, const struct wn_prune_kv *kv, struct wn_gguf_kv *record,
                   bool *goes, struct wn_err *err)
{
    bool changed = false;

    *goes = false;
    for (size_t i = 0; i < first->n; i++) {
        const struct wn_gguf_kv *now;

        if (!wn_bytes_equal(first->kv[i].key, record->key))
            continue;
        now = new_of(kv, &first->kv[i]);
        if (wn_gguf_same(&first->kv[i], record)) {
            *goes = !now;
            if (now)
                *record = *now;
            return true;
        }
        changed = changed || !now || !wn_gguf_same(&first->kv[i], now);
    }
    return !changed || wn_fail(err, WN_ERR_FORMAT, "key '%.*s' has another value than in the set's first file",
                               (int)(record->key.n < 100 ? record->key.n : 100), record->key.at);
}

static bool copy_meta(const struct wn_source *s, size_t file, const struct wn_prune_kv *kv, struct wn_gguf_meta *out,
                      struct wn_err *err)
{
    const struct wn_gguf_meta *m = wn_source_gguf_of(s, file);
    bool goes;

    *out = *m;
    out->n = 0;
    out->kv = wn_alloc(m->n, sizeof *out->kv, err);
    if (!out->kv)
        return false;
    for (size_t i = 0; i < m->n; i++) {
        out->kv[out->n] = m->kv[i];
        if (!follow(wn_source_gguf(s), kv, &out->kv[out->n], &goes, err))
            return wn_fail_in(err, "'%s'", wn_source_file_at(s, file)->file.path);
        out->n += !goes;
    }
    return true;
}

bool wn_prune_later(const struct wn_source *s, const struct wn_prune_kv *kv, struct wn_prune_later *out,
                    struct wn_err *err)
{
    size_t files = wn_source_file_count(s);

    *out = (struct wn_prune_later){0};
    if (!wn_source_gguf(s) || files < 2)
        return true;
    out->meta = wn_alloc(files - 1, sizeof *out->meta, err);
    if (!out->meta)
        return false;
    while (out->n + 1 < files) {
        uint32_t f = ++out->n;

        if (!copy_meta(s, f, kv, &out->meta[f - 1], err)) {
            wn_prune_later_release(out);
            return false;
        }
    }
    return true;
}

void wn_prune_later_release(struct wn_prune_later *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        free(l->meta[i].kv);
    free(l->meta);
    *l = (struct wn_prune_later){0};
}

bool wn_prune_names(const struct wn_source *s, const char ***names, struct wn_err *err)
{
    size_t n = wn_source_file_count(s);

    *names = wn_alloc(n, sizeof **names, err);
    for (size_t i = 0; *names && i < n; i++)
        (*names)[i] = wn_path_name(wn_source_file_at(s, i)->file.path);
    return *names != NULL;
}
