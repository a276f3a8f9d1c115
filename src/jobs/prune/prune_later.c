/* See prune_meta.h: records of the files behind the first of a GGUF set, and names of shards. */
#include "base/alloc.h"
#include "jobs/prune/prune_meta.h"

#include <stdlib.h>

/*
 * The record of a later file as it will be. What repeats file 1 goes on repeating it; a key that the cut changes in
 * file 1 and that had another value here says something that nobody knows how to change.
 */
static bool follow(const struct wn_gguf_meta *first, const struct wn_prune_kv *kv, struct wn_gguf_kv *record,
                   struct wn_err *err)
{
    bool changed = false;

    for (size_t i = 0; i < first->n; i++) {
        if (wn_gguf_same(&first->kv[i], record)) {
            *record = kv->kv[i];
            return true;
        }
        if (wn_bytes_equal(first->kv[i].key, record->key) && !wn_gguf_same(&first->kv[i], &kv->kv[i]))
            changed = true;
    }
    return !changed || wn_fail(err, WN_ERR_FORMAT, "key '%.*s' has another value than in the set's first file",
                               (int)(record->key.n < 100 ? record->key.n : 100), record->key.at);
}

static bool copy_meta(const struct wn_source *s, size_t file, const struct wn_prune_kv *kv, struct wn_gguf_meta *out,
                      struct wn_err *err)
{
    const struct wn_gguf_meta *m = wn_source_gguf_of(s, file);

    *out = *m;
    out->kv = wn_alloc(m->n, sizeof *out->kv, err);
    if (!out->kv)
        return false;
    for (size_t i = 0; i < m->n; i++) {
        out->kv[i] = m->kv[i];
        if (!follow(wn_source_gguf(s), kv, &out->kv[i], err))
            return wn_fail_in(err, "'%s'", wn_source_file_at(s, file)->file.path);
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
    for (size_t f = 1; out->meta && f < files; f++, out->n++) {
        if (!copy_meta(s, f, kv, &out->meta[f - 1], err)) {
            free(out->meta[f - 1].kv);
            wn_prune_later_release(out);
            return false;
        }
    }
    return out->meta != NULL;
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
