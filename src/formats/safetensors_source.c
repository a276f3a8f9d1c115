/*
 * Opens safetensors: one file, or a folder of shards with or without model.safetensors.index.json.
 *
 * The shards' headers say everything, so the index is only a second opinion: which shards there are, and that each name
 * lies in the file it names, none missing and none extra on either side. K3's index is 59.8 MB; read by the same
 * scanner as the headers the comparison costs about as much as the headers themselves, so it is always made. Its
 * total_size is not looked at: writers do not agree on what it counts.
 */
#include "formats/source_parts.h"
#include "formats/json_scan.h"
#include "formats/safetensors.h"
#include "base/alloc.h"
#include "base/checked.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_NAME  "model.safetensors.index.json"
#define INDEX_LIMIT ((uint64_t)1 << 30)

/* Reads the header of the file that was opened last. */
static bool read_header(struct wn_source *s, struct wn_err *err)
{
    uint32_t number = (uint32_t)(s->file_count - 1);
    struct wn_source_file *f = &s->files[number];
    size_t before = s->tensors.n, n;
    unsigned char first[8];
    char **metadata, *json;

    if (f->file.bytes < sizeof first)
        return wn_fail(err, WN_ERR_FORMAT, "%" PRIu64 " bytes are too few for a header", f->file.bytes);
    if (!wn_file_read(&f->file, 0, first, sizeof first, err) || !wn_safetensors_length(first, f->file.bytes, &n, err))
        return false;
    json = s->held[number].header = wn_alloc(n, 1, err);
    if (!json || !wn_file_read(&f->file, sizeof first, json, n, err) ||
        !wn_safetensors_parse(json, n, f->file.bytes, number, &s->tensors, &metadata, err))
        return false;
    f->header_bytes = sizeof first + n;
    f->tensor_count = s->tensors.n - before;
    if (s->metadata)
        free(metadata);
    else
        s->metadata = metadata;
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

/* ---- the index ---- */

struct mapped {
    const char *name;
    uint32_t file; /* into index.files */
};

struct index {
    char *text; /* owned; names are borrowed from it */
    struct mapped *map;
    size_t n, room;
    const char **files; /* as they came; then sorted together with `rank` */
    size_t file_n;
    uint32_t *rank; /* [file_n]: place of the file among the sorted */
};

static void index_release(struct index *x)
{
    free(x->text);
    free(x->map);
    free(x->files);
    free(x->rank);
    *x = (struct index){0};
}

/* Neighbours mostly share a file, so the latest is tried first. */
static bool index_file(struct index *x, struct wn_bytes name, uint32_t *number, struct wn_err *err)
{
    const char **more;

    for (size_t i = x->file_n; i-- > 0;) {
        if (wn_bytes_is(name, x->files[i])) {
            *number = (uint32_t)i;
            return true;
        }
    }
    if (name.n == 0 || strchr(name.at, '/') || strcmp(name.at, ".") == 0 || strcmp(name.at, "..") == 0)
        return wn_fail(err, WN_ERR_FORMAT, "'%.200s' is not the name of a file beside the index", name.at);
    if (x->file_n >= UINT16_MAX)
        return wn_fail(err, WN_ERR_FORMAT, "more than %d files", UINT16_MAX);
    more = wn_realloc(x->files, x->file_n + 1, sizeof *more, err);
    if (!more)
        return false;
    x->files = more;
    x->files[x->file_n] = name.at;
    *number = (uint32_t)x->file_n++;
    return true;
}

static bool index_add(struct index *x, struct wn_bytes name, struct wn_bytes file, struct wn_err *err)
{
    struct mapped m = {.name = name.at};

    if (!index_file(x, file, &m.file, err))
        return false;
    if (x->n == x->room) {
        size_t room = x->room ? x->room * 2 : 64;
        struct mapped *more = wn_realloc(x->map, room, sizeof *more, err);

        if (!more)
            return false;
        x->map = more;
        x->room = room;
    }
    x->map[x->n++] = m;
    return true;
}

static bool parse_weight_map(struct index *x, struct wn_json *j)
{
    struct wn_bytes name, file;
    bool first = true, more;

    if (!wn_json_take(j, '{'))
        return false;
    for (;;) {
        if (!wn_json_more(j, '}', &first, &more))
            return false;
        if (!more)
            return true;
        if (!wn_json_string(j, &name) || !wn_json_take(j, ':') || !wn_json_string(j, &file) ||
            !index_add(x, name, file, j->err))
            return false;
    }
}

static bool parse_index(struct index *x, struct wn_json *j)
{
    struct wn_bytes key;
    bool first = true, more, seen = false;

    if (!wn_json_take(j, '{'))
        return false;
    for (;;) {
        if (!wn_json_more(j, '}', &first, &more))
            return false;
        if (!more)
            break;
        if (!wn_json_string(j, &key) || !wn_json_take(j, ':'))
            return false;
        if (!wn_bytes_is(key, "weight_map")) {
            if (!wn_json_skip(j))
                return false;
            continue;
        }
        if (seen)
            return wn_fail(j->err, WN_ERR_FORMAT, "'weight_map' occurs twice");
        seen = true;
        if (!parse_weight_map(x, j))
            return false;
    }
    if (!seen)
        return wn_fail(j->err, WN_ERR_FORMAT, "'weight_map' is missing");
    return wn_json_end(j);
}

/* rank[i] = how many file names are smaller than files[i]; K3 has 96 of them. */
static bool rank_files(struct index *x, struct wn_err *err)
{
    x->rank = wn_alloc(x->file_n, sizeof *x->rank, err);
    if (!x->rank)
        return false;
    for (size_t i = 0; i < x->file_n; i++)
        for (size_t k = 0; k < x->file_n; k++)
            x->rank[i] += strcmp(x->files[k], x->files[i]) < 0;
    return true;
}

static bool index_read(struct index *x, const char *path, struct wn_err *err)
{
    struct wn_json j;
    size_t n = 0;

    x->text = wn_file_slurp(path, INDEX_LIMIT, &n, err);
    if (!x->text)
        return false;
    j = wn_json_of(x->text, n, err);
    return (parse_index(x, &j) && rank_files(x, err)) || wn_fail_in(err, "'%s'", path);
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
static bool cross_check(const struct wn_source *s, const struct index *x, bool *named, const char *path,
                        struct wn_err *err)
{
    for (size_t i = 0; i < x->n; i++) {
        const struct mapped *m = &x->map[i];
        size_t t = wn_name_table_find(&s->names, s->tensors.at, wn_bytes_of(m->name));

        if (t == WN_NAME_NONE)
            return wn_fail(err, WN_ERR_FORMAT, "'%s': tensor '%s' is not in '%s'", path, m->name, x->files[m->file]);
        if (s->tensors.at[t].file != x->rank[m->file])
            return wn_fail(err, WN_ERR_FORMAT, "'%s': tensor '%s' should be in '%s' and is in '%s'", path, m->name,
                           x->files[m->file], s->files[s->tensors.at[t].file].file.path);
        if (named[t])
            return wn_fail(err, WN_ERR_FORMAT, "'%s': tensor '%s' is listed twice", path, m->name);
        named[t] = true;
    }
    return fail_unnamed(s, named, path, err);
}

/* Opens the files that the index names, sorted by name. */
static bool add_indexed_shards(struct wn_source *s, const struct index *x, const char *folder, const char *path,
                               struct wn_err *err)
{
    if (!wn_source_reserve_files(s, x->file_n, err))
        return false;
    for (uint32_t k = 0; k < x->file_n; k++) {
        size_t i = 0;
        char *shard;
        bool ok;

        while (x->rank[i] != k)
            i++;
        shard = wn_path_join(folder, x->files[i], err);
        if (!shard)
            return false;
        ok = wn_path_exists(shard)
                 ? add_shard(s, shard, err)
                 : wn_fail(err, WN_ERR_FORMAT, "'%s' names '%s', which is missing", path, x->files[i]);
        free(shard);
        if (!ok)
            return false;
    }
    return true;
}

static bool open_indexed(struct wn_source *s, const char *folder, const char *path, struct wn_err *err)
{
    struct index x = {0};
    bool *named = NULL, ok = false;

    if (!index_read(&x, path, err) || !add_indexed_shards(s, &x, folder, path, err) || !wn_source_index_names(s, err))
        goto done;
    named = wn_alloc(s->tensors.n, sizeof *named, err);
    ok = named && cross_check(s, &x, named, path, err);
done:
    free(named);
    index_release(&x);
    return ok;
}

/* ---- a folder without an index ---- */

static bool is_shard(const char *name)
{
    size_t n = strlen(name), tail = strlen(".safetensors");

    return n > tail && strcmp(name + n - tail, ".safetensors") == 0;
}

static bool add_listed_shards(struct wn_source *s, const char *folder, char **names, size_t n, struct wn_err *err)
{
    size_t shards = 0;

    for (size_t i = 0; i < n; i++)
        shards += is_shard(names[i]);
    if (shards == 0)
        return wn_fail(err, WN_ERR_FORMAT, "folder '%s' holds no *.safetensors file (a GGUF is named by its file)",
                       folder);
    if (!wn_source_reserve_files(s, shards, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        char *shard;
        bool ok;

        if (!is_shard(names[i]))
            continue;
        shard = wn_path_join(folder, names[i], err);
        ok = shard && add_shard(s, shard, err);
        free(shard);
        if (!ok)
            return false;
    }
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
    char *path = wn_path_join(folder, INDEX_NAME, err);
    bool ok;

    s->container = WN_CONTAINER_SAFETENSORS;
    if (!path)
        return false;
    ok = wn_path_exists(path) ? open_indexed(s, folder, path, err) : open_listed(s, folder, err);
    free(path);
    return ok;
}
