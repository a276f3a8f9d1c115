/* See verify_parts.h: config.json, and the files beside the weights. */
#include "base/alloc.h"
#include "jobs/prune/folder_more.h"
#include "jobs/prune/prune_folder.h"
#include "jobs/prune/prune_meta.h"
#include "jobs/prune/seal.h"
#include "jobs/verify/verify_parts.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define STEP ((size_t)1 << 20)

/* Names the first key whose value differs; path grows on the way down. */
static bool compare_json(json_t *want, json_t *have, const char *path, struct wn_err *err)
{
    const char *key;
    json_t *value;
    bool ok = true;

    if (!json_is_object(want) || !json_is_object(have))
        return json_equal(want, have) || wn_fail(err, WN_ERR_DIFFERENT, "config: '%s' has another value", path);
    json_object_foreach(want, key, value) {
        json_t *other = json_object_get(have, key);
        char *below = wn_asprintf(err, "%s%s%s", path, *path ? "." : "", key);

        ok = below && (other ? compare_json(value, other, below, err)
                             : wn_fail(err, WN_ERR_DIFFERENT, "config: '%s' is missing", below));
        free(below);
        if (!ok)
            return false;
    }
    json_object_foreach(have, key, value) {
        if (!json_object_get(want, key))
            return wn_fail(err, WN_ERR_DIFFERENT, "config: '%s%s%s' should not be there", path, *path ? "." : "", key);
    }
    return true;
}

/* The same bytes, or at least the same values (somebody may have laid the text out anew). */
static bool compare_config(const struct wn_buf *want, const char *have, size_t n, bool *same, struct wn_err *err)
{
    json_t *a, *b;
    bool ok;

    if (want->n == n && memcmp(want->at, have, n) == 0)
        return true;
    *same = false;
    a = json_loadb(want->at, want->n, JSON_REJECT_DUPLICATES, NULL);
    b = json_loadb(have, n, JSON_REJECT_DUPLICATES, NULL);
    ok = a && b ? compare_json(a, b, "", err)
                : wn_fail(err, WN_ERR_DIFFERENT, "config.json differs from the source's and one of them is not JSON");
    json_decref(a);
    json_decref(b);
    return ok;
}

static bool check_config(const struct wn_folder *f, const struct wn_source *out, bool *same, struct wn_err *err)
{
    char *path = wn_path_join(wn_source_folder(out), "config.json", err), *text = NULL;
    size_t n;
    bool ok = path != NULL;

    if (ok && wn_path_exists(path) != f->has_config)
        ok = wn_fail(err, WN_ERR_DIFFERENT, "config.json %s", f->has_config ? "is missing" : "should not be there");
    if (ok && f->has_config)
        ok = (text = wn_file_slurp(path, WN_CONFIG_BYTES_MAX, &n, err)) &&
             compare_config(&f->config, text, n, same, err);
    free(text);
    free(path);
    return ok;
}

static bool compare_files(const struct wn_file *a, const struct wn_file *b, const char *name, struct wn_err *err)
{
    uint8_t *x = wn_alloc(STEP, 1, err), *y = wn_alloc(STEP, 1, err);
    bool ok = x && y;

    if (ok && a->bytes != b->bytes)
        ok = wn_fail(err, WN_ERR_DIFFERENT, "'%s' has %" PRIu64 " bytes, the source's has %" PRIu64, name, b->bytes,
                     a->bytes);
    for (uint64_t at = 0; ok && at < a->bytes; at += STEP) {
        size_t n = a->bytes - at < STEP ? (size_t)(a->bytes - at) : STEP, i = 0;

        ok = wn_file_read(a, at, x, n, err) && wn_file_read(b, at, y, n, err);
        if (!ok || memcmp(x, y, n) == 0)
            continue;
        while (x[i] == y[i])
            i++;
        ok = wn_fail(err, WN_ERR_DIFFERENT, "'%s' differs from the source's at byte %" PRIu64, name, at + i);
    }
    free(x);
    free(y);
    return ok;
}

static bool check_beside(const struct wn_source *source, const struct wn_source *out, const char *name,
                         struct wn_err *err)
{
    char *a_path = wn_path_join(wn_source_folder(source), name, err);
    char *b_path = a_path ? wn_path_join(wn_source_folder(out), name, err) : NULL;
    struct wn_file a, b;
    bool ok = b_path != NULL;

    if (ok && !wn_path_exists(b_path))
        ok = wn_fail(err, WN_ERR_DIFFERENT, "'%s' is missing", name);
    if (ok && (ok = wn_file_open(&a, a_path, err))) {
        if ((ok = wn_file_open(&b, b_path, err))) {
            ok = compare_files(&a, &b, name, err);
            wn_file_close(&b);
        }
        wn_file_close(&a);
    }
    free(b_path);
    free(a_path);
    return ok;
}

/* A file that may differ, as a card does: *same is whether both have it, byte for byte, or neither. */
static bool look_beside(const struct wn_source *source, const struct wn_source *out, const char *name, bool *same,
                        struct wn_err *err)
{
    char *path = wn_path_join(wn_source_folder(source), name, err);
    bool ok = path != NULL, there = path && wn_path_exists(path);

    free(path);
    if (!ok)
        return false;
    if (there) {
        *same = check_beside(source, out, name, err);
        return *same || err->code == WN_ERR_DIFFERENT;
    }
    path = wn_path_join(wn_source_folder(out), name, err);
    *same = path && !wn_path_exists(path);
    free(path);
    return path != NULL;
}

/* wn_folder_known_fn */
static bool is_of_build(const void *arg, const char *name)
{
    const struct wn_folder *f = arg;

    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->copied[i], name) == 0)
            return true;
    return strcmp(name, "config.json") == 0 || strcmp(name, WN_SAFETENSORS_INDEX) == 0 ||
           strcmp(name, WN_SEAL_NAME) == 0;
}

/* What may be more costs the claim that all is the source's. */
static bool look_for_more(const struct wn_folder *f, const struct wn_source *out, bool *same, struct wn_err *err)
{
    bool more = false;
    bool ok = wn_folder_check_more(out, is_of_build, f, "should not be there, the source does not have it", &more, err);

    *same = *same && !more;
    return ok;
}

/* The two that may differ, so far as they are right: the card, which a build has of its own, and the index. */
static bool look_at_card_and_index(const struct wn_source *source, const struct wn_source *out, bool *same,
                                   struct wn_err *err)
{
    bool same_card = true, same_index = true;

    if (wn_folder_is_whole(source) && wn_folder_is_whole(out) &&
        (!look_beside(source, out, WN_CARD_NAME, &same_card, err) ||
         !look_beside(source, out, WN_SAFETENSORS_INDEX, &same_index, err)))
        return false;
    *same = *same && same_card && same_index;
    return wn_verify_shards(source, out, same_index, err);
}

bool wn_verify_beside(const struct wn_folder *f, const struct wn_source *source, const struct wn_source *out,
                      bool *same, struct wn_err *err)
{
    bool ok = check_config(f, out, same, err);

    for (size_t i = 0; ok && i < f->n; i++)
        if (strcmp(f->copied[i], WN_CARD_NAME) != 0)
            ok = check_beside(source, out, f->copied[i], err);
    return ok && look_for_more(f, out, same, err);
}

bool wn_verify_folder(const struct wn_keep *k, const struct wn_plan *plan, const struct wn_source *out, bool *same,
                      struct wn_err *err)
{
    struct wn_folder f;
    bool ok;

    if (!wn_folder_init(&f, k, plan, NULL, err))
        return wn_fail_in(err, "the source");
    ok = wn_verify_beside(&f, k->source, out, same, err) && look_at_card_and_index(k->source, out, same, err);
    wn_folder_release(&f);
    return ok;
}
