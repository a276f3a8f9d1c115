/*
 * Opens safetensors: one file, or a folder of shards with or without model.safetensors.index.json.
 *
 * The shards' headers say everything, so the index is only a second opinion: which shards there are, and that each name
 * lies in the file it names, none missing and none extra on either side. K3's index is 59.8 MB; read by the same
 * scanner as the headers the comparison costs about as much as the headers themselves, so it is always made. Its
 * total_size is not looked at: writers do not agree on what it counts.
 */
#include "formats/source_parts.h"
#include "formats/safetensors.h"
#include "formats/safetensors_index.h"
#include "base/alloc.h"
#include "base/checked.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Reads the header of the file that was opened last. */
static bool read_header(struct wn_source *s, struct wn_err *err)
{
    uint32_t number = (uint32_t)(s->file_count - 1);
    struct wn_source_file *f = &s->files[number];
    size_t before = s->tensors.n, n;
    unsigned char first[8];
    char *json;

    if (f->file.bytes < sizeof first)
        return wn_fail(err, WN_ERR_FORMAT, "%" PRIu64 " bytes are too few for a header", f->file.bytes);
    if (!wn_file_read(&f->file, 0, first, sizeof first, err) || !wn_safetensors_length(first, f->file.bytes, &n, err))
        return false;
    json = s->held[number].header = wn_alloc(n, 1, err);
    if (!json || !wn_file_read(&f->file, sizeof first, json, n, err) ||
        !wn_safetensors_parse(json, n, f->file.bytes, number, &s->tensors, &s->held[number].metadata, err))
        return false;
    f->header_bytes = sizeof first + n;
    f->tensor_count = s->tensors.n - before;
    return true;
}

static bool add_shard(struct wn_source *s, const char *path, struct wn_err *err)
{
    if (!wn_source_add_file(s, path, err))
        return false;
    return read_header(s, err) || wn_fail_in(err, "'%s'", path);
}

bool wn_source_open_safetensors(struct wn_source *s, const char *path, struct wn_err *err)
{
    s->container = WN_CONTAINER_SAFETENSORS;
    return wn_source_reserve_files(s, 1, err) && add_shard(s, path, err) && wn_source_index_names(s, err);
}

/* The first tensor that no line of the index named. */
static bool fail_unnamed(const struct wn_source *s, const bool *named, const char *path, struct wn_err *err)
{
    for (size_t i = 0; i < s->tensors.n; i++)
        if (!named[i])
            return wn_fail(err, WN_ERR_FORMAT, "'%s' does not name tensor '%s', which '%s' holds", path,
                           s->tensors.at[i].name, s->files[s->tensors.at[i].file].file.path);
    return true;
}

/* Each line of the index against the headers, and each tensor against the index. */
static bool cross_check(const struct wn_source *s, const struct wn_safetensors_index *x, bool *named, const char *path,
                        struct wn_err *err)
{
    for (size_t i = 0; i < x->line_n; i++) {
        const struct wn_safetensors_line *l = &x->lines[i];
        size_t t = wn_name_table_find(&s->names, s->tensors.at, wn_bytes_of(l->tensor));

        if (t == WN_NAME_NONE)
            return wn_fail(err, WN_ERR_FORMAT, "'%s': tensor '%s' is not in '%s'", path, l->tensor, x->files[l->file]);
        if (s->tensors.at[t].file != l->file)
            return wn_fail(err, WN_ERR_FORMAT, "'%s': tensor '%s' should be in '%s' and is in '%s'", path, l->tensor,
                           x->files[l->file], s->files[s->tensors.at[t].file].file.path);
        if (named[t])
            return wn_fail(err, WN_ERR_FORMAT, "'%s': tensor '%s' is listed twice", path, l->tensor);
        named[t] = true;
    }
    return fail_unnamed(s, named, path, err);
}

/* One file of the folder as the next shard. */
static bool add_shard_of(struct wn_source *s, const char *folder, const char *name, struct wn_err *err)
{
    char *path = wn_path_join(folder, name, err);
    bool ok = path && add_shard(s, path, err);

    free(path);
    return ok;
}

static bool check_present(const char *folder, const char *name, const char *index, struct wn_err *err)
{
    char *path = wn_path_join(folder, name, err);
    bool ok =
        path && (wn_path_exists(path) || wn_fail(err, WN_ERR_FORMAT, "'%s' names '%s', which is missing", index, name));

    free(path);
    return ok;
}

static bool add_indexed_shards(struct wn_source *s, const struct wn_safetensors_index *x, const char *folder,
                               const char *path, struct wn_err *err)
{
    if (!wn_source_reserve_files(s, x->file_n, err))
        return false;
    for (size_t i = 0; i < x->file_n; i++)
        if (!check_present(folder, x->files[i], path, err) || !add_shard_of(s, folder, x->files[i], err))
            return false;
    return true;
}

static bool open_indexed(struct wn_source *s, const char *folder, const char *path, struct wn_err *err)
{
    struct wn_safetensors_index x;
    bool *named = NULL, ok = false;

    if (!wn_safetensors_index_read(&x, path, err) || !add_indexed_shards(s, &x, folder, path, err) ||
        !wn_source_index_names(s, err))
        goto done;
    named = wn_alloc(s->tensors.n, sizeof *named, err);
    ok = named && cross_check(s, &x, named, path, err);
    s->indexed = true;
    s->index_total = x.total_size;
done:
    free(named);
    wn_safetensors_index_release(&x);
    return ok;
}

static bool add_listed_shards(struct wn_source *s, const char *folder, char **names, size_t n, struct wn_err *err)
{
    size_t shards = 0;

    for (size_t i = 0; i < n; i++)
        shards += wn_ends_with(names[i], WN_SAFETENSORS_SUFFIX);
    if (shards == 0)
        return wn_fail(err, WN_ERR_FORMAT, "folder '%s' holds no *.safetensors file (a GGUF is named by its file)",
                       folder);
    if (!wn_source_reserve_files(s, shards, err))
        return false;
    for (size_t i = 0; i < n; i++)
        if (wn_ends_with(names[i], WN_SAFETENSORS_SUFFIX) && !add_shard_of(s, folder, names[i], err))
            return false;
    return true;
}

static bool open_listed(struct wn_source *s, const char *folder, struct wn_err *err)
{
    char **names;
    size_t n;
    bool ok;

    if (!wn_path_list(folder, &names, &n, err))
        return false;
    ok = add_listed_shards(s, folder, names, n, err);
    wn_names_free(names, n);
    return ok && wn_source_index_names(s, err);
}

bool wn_source_open_folder(struct wn_source *s, const char *folder, struct wn_err *err)
{
    char *path = wn_path_join(folder, WN_SAFETENSORS_INDEX, err);
    bool ok;

    s->container = WN_CONTAINER_SAFETENSORS;
    if (!path)
        return false;
    ok = wn_path_exists(path) ? open_indexed(s, folder, path, err) : open_listed(s, folder, err);
    free(path);
    return ok;
}
