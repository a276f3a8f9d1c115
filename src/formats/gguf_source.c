/*
 * Opens a GGUF: one file, or a split set by its first file. Headers are read whole into memory (7 MB for K3, most of it
 * vocabulary); nobody knows how long one is before it has been parsed, so it is tried with twice as much until it fits.
 */
#include "formats/source_parts.h"
#include "formats/gguf_parse.h"
#include "base/alloc.h"
#include "base/checked.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_TRY ((size_t)64 << 10)

/* "-00001-of-00003.gguf" */
#define SUFFIX_BYTES 20
#define SET_MAX      99999

/* Tries with the first n bytes. The buffer is the source's, whether it worked or not. */
static bool try_header(struct wn_source *s, uint32_t number, size_t n, struct wn_gguf_header *h, struct wn_err *err)
{
    const struct wn_file *f = &s->files[number].file;
    char *bytes = wn_realloc(s->held[number].header, n, 1, err);

    *h = (struct wn_gguf_header){0};
    if (!bytes)
        return false;
    s->held[number].header = bytes;
    return wn_file_read(f, 0, bytes, n, err) && wn_gguf_parse(h, bytes, n, f->bytes, number, &s->tensors, err);
}

static bool read_header(struct wn_source *s, uint32_t number, struct wn_gguf_header *h, struct wn_err *err)
{
    struct wn_source_file *f = &s->files[number];
    size_t before = s->tensors.n, n = FIRST_TRY;

    for (;;) {
        bool whole = n >= f->file.bytes;

        if (try_header(s, number, whole ? (size_t)f->file.bytes : n, h, err))
            break;
        if (!h->ran_out || whole || n >= WN_GGUF_LENGTH_LIMIT)
            return false;
        wn_gguf_header_release(h);
        s->tensors.n = before;
        n *= 2;
    }
    f->header_bytes = h->data_at;
    f->tensor_count = h->tensor_count;
    return true;
}

static bool add_file(struct wn_source *s, const char *path, struct wn_err *err)
{
    struct wn_gguf_header h = {0};
    uint32_t number;

    if (!wn_source_add_file(s, path, err))
        return false;
    number = (uint32_t)(s->file_count - 1);
    if (!read_header(s, number, &h, err)) {
        wn_gguf_header_release(&h);
        return wn_fail_in(err, "'%s'", path);
    }
    s->held[number].gguf = h.meta; /* taken over */
    return true;
}

/* A split key as a number; false when it is absent or none. */
static bool split_key(const struct wn_gguf_meta *m, const char *key, uint64_t *v)
{
    const struct wn_gguf_kv *kv = wn_gguf_find(m, key);

    return kv && wn_gguf_as_u64(kv, v);
}

static bool check_split_keys(const struct wn_gguf_meta *m, uint64_t no, uint64_t count, const char *path,
                             struct wn_err *err)
{
    uint64_t found;

    if (!split_key(m, WN_GGUF_SPLIT_COUNT, &found) || found != count)
        return wn_fail(err, WN_ERR_FORMAT, "'%s': key '" WN_GGUF_SPLIT_COUNT "' is not %" PRIu64, path, count);
    if (!split_key(m, WN_GGUF_SPLIT_NO, &found) || found != no)
        return wn_fail(err, WN_ERR_FORMAT, "'%s': key '" WN_GGUF_SPLIT_NO "' is not %" PRIu64, path, no);
    return true;
}

/* Path of file `no` (from 0) of the set whose first file's path is `first`. */
static char *set_path(const char *first, uint64_t no, uint64_t count, struct wn_err *err)
{
    return wn_asprintf(err, "%.*s-%05" PRIu64 "-of-%05" PRIu64 ".gguf", (int)(strlen(first) - SUFFIX_BYTES), first,
                       no + 1, count);
}

static bool check_first_name(const char *path, uint64_t no, uint64_t count, struct wn_err *err)
{
    char suffix[64];
    size_t n = strlen(path);

    if (count > SET_MAX)
        return wn_fail(err, WN_ERR_FORMAT, "'%s': a set of %" PRIu64 " files", path, count);
    if (no != 0)
        return wn_fail(err, WN_ERR_ARG,
                       "'%s' is file %" PRIu64 " of a set of %" PRIu64 ": name the first, -00001-of-%05" PRIu64 ".gguf",
                       path, no + 1, count, count);
    (void)snprintf(suffix, sizeof suffix, "-00001-of-%05" PRIu64 ".gguf", count);
    if (n <= SUFFIX_BYTES || !wn_ends_with(path, suffix))
        return wn_fail(err, WN_ERR_FORMAT, "'%s' begins a set of %" PRIu64 " files, so its name should end in '%s'",
                       path, count, suffix);
    return true;
}

static bool add_set_file(struct wn_source *s, const char *first, uint64_t no, uint64_t count, struct wn_err *err)
{
    char *path = set_path(first, no, count, err);
    bool ok = false;

    if (!path)
        return false;
    if (!wn_path_exists(path))
        wn_fail(err, WN_ERR_FORMAT, "'%s' is missing: it is file %" PRIu64 " of a set of %" PRIu64, path, no + 1,
                count);
    else
        ok = add_file(s, path, err) && check_split_keys(&s->held[no].gguf, no, count, path, err);
    free(path);
    return ok;
}

/* The first file is open; the set's others follow. */
static bool add_rest(struct wn_source *s, const char *first, uint64_t count, struct wn_err *err)
{
    uint64_t total;

    if (!split_key(&s->held[0].gguf, WN_GGUF_SPLIT_TENSORS, &total))
        return wn_fail(err, WN_ERR_FORMAT, "'%s': key '" WN_GGUF_SPLIT_TENSORS "' is missing", first);
    for (uint64_t no = 1; no < count; no++)
        if (!add_set_file(s, first, no, count, err))
            return false;
    if (total != s->tensors.n)
        return wn_fail(err, WN_ERR_FORMAT, "the set of '%s' has %zu tensors, '" WN_GGUF_SPLIT_TENSORS "' says %" PRIu64,
                       first, s->tensors.n, total);
    return true;
}

/* How many files the set has that this file begins, 1 for a file of its own; checked against its name. */
static bool count_files(const struct wn_gguf_meta *m, const char *path, uint64_t *count, struct wn_err *err)
{
    uint64_t no = 0;

    *count = 1;
    if (!wn_gguf_find(m, WN_GGUF_SPLIT_COUNT))
        return true;
    if (!split_key(m, WN_GGUF_SPLIT_COUNT, count))
        return wn_fail(err, WN_ERR_FORMAT, "'%s': key '" WN_GGUF_SPLIT_COUNT "' is not a number", path);
    if (*count <= 1) {
        *count = 1;
        return true;
    }
    if (!split_key(m, WN_GGUF_SPLIT_NO, &no))
        return wn_fail(err, WN_ERR_FORMAT, "'%s': key '" WN_GGUF_SPLIT_NO "' is missing", path);
    return check_first_name(path, no, *count, err);
}

bool wn_source_open_gguf(struct wn_source *s, const char *path, struct wn_err *err)
{
    uint64_t count;

    s->container = WN_CONTAINER_GGUF;
    if (!wn_source_reserve_files(s, 1, err) || !add_file(s, path, err) ||
        !count_files(&s->held[0].gguf, path, &count, err))
        return false;
    if (count > 1 && (!wn_source_reserve_files(s, (size_t)count, err) || !add_rest(s, path, count, err)))
        return false;
    return wn_source_index_names(s, err);
}

/* Keys that are about the file they stand in, and not about the model. */
static bool is_file_key(struct wn_bytes key)
{
    return wn_bytes_is(key, WN_GGUF_SPLIT_NO) || wn_bytes_is(key, WN_GGUF_SPLIT_COUNT) ||
           wn_bytes_is(key, WN_GGUF_SPLIT_TENSORS) || wn_bytes_is(key, WN_GGUF_ALIGNMENT_KEY);
}

/* Any record of that key will do: one may occur twice. */
static bool has_record(const struct wn_gguf_meta *m, const struct wn_gguf_kv *kv)
{
    for (size_t i = 0; i < m->n; i++)
        if (wn_gguf_same(&m->kv[i], kv))
            return true;
    return false;
}

bool wn_source_gguf_is_whole(const struct wn_source *s, struct wn_err *err)
{
    for (size_t f = 1; s->container == WN_CONTAINER_GGUF && f < s->file_count; f++) {
        const struct wn_gguf_meta *m = &s->held[f].gguf;

        for (size_t i = 0; i < m->n; i++)
            if (!is_file_key(m->kv[i].key) && !has_record(&s->held[0].gguf, &m->kv[i]))
                return wn_fail(err, WN_ERR_FORMAT, "key '%.*s' of '%s' is not in the set's first file with this value",
                               (int)wn_min_size(m->kv[i].key.n, 100), m->kv[i].key.at, s->files[f].file.path);
    }
    return true;
}
