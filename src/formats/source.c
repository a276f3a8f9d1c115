/*
 * An open source: see source.h. This file finds out what a path holds and answers questions about what was opened;
 * gguf_source.c and safetensors_source.c read the containers.
 *
 * Nothing is mapped until somebody asks for a view. Then the whole file is, once: the first to come makes the map
 * under a lock and publishes the pointer, everybody later reads just that pointer.
 */
#include "formats/source.h"
#include "formats/source_parts.h"
#include "formats/safetensors.h"
#include "base/alloc.h"
#include "base/checked.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nobody else knows the source yet, so the maps' pointers may move: there are none. */
bool wn_source_reserve_files(struct wn_source *s, size_t n, struct wn_err *err)
{
    struct wn_source_file *files;
    struct wn_source_held *held;

    assert(n >= s->room);
    files = wn_realloc(s->files, n, sizeof *files, err);
    if (!files)
        return false;
    s->files = files;
    held = wn_realloc(s->held, n, sizeof *held, err);
    if (!held)
        return false;
    s->held = held;
    for (size_t i = s->room; i < n; i++) {
        s->files[i] = (struct wn_source_file){0};
        s->held[i].header = NULL;
        s->held[i].gguf = (struct wn_gguf_meta){0};
        s->held[i].metadata = NULL;
        atomic_init(&s->held[i].map, NULL);
    }
    s->room = n;
    return true;
}

bool wn_source_add_file(struct wn_source *s, const char *path, struct wn_err *err)
{
    assert(s->file_count < s->room);
    if (!wn_file_open(&s->files[s->file_count].file, path, err))
        return false;
    s->file_count++;
    return true;
}

bool wn_source_index_names(struct wn_source *s, struct wn_err *err)
{
    const struct wn_tensor *t = s->tensors.at;

    if (!wn_name_table_init(&s->names, s->tensors.n, err))
        return false;
    for (size_t i = 0; i < s->tensors.n; i++) {
        size_t before;

        if (!wn_name_table_add(&s->names, t, i, &before, err))
            return wn_fail_in(err, "'%s'", s->path);
        if (before == WN_NAME_NONE)
            continue;
        if (t[before].file == t[i].file)
            return wn_fail(err, WN_ERR_FORMAT, "'%s': tensor '%s' is listed twice", s->files[t[i].file].file.path,
                           t[i].name);
        return wn_fail(err, WN_ERR_FORMAT, "tensor '%s' is in '%s' and again in '%s'", t[i].name,
                       s->files[t[before].file].file.path, s->files[t[i].file].file.path);
    }
    return true;
}

/* "GGUF" cannot begin a safetensors file: as a header length it would be 1,179,993,927 or more. */
static bool file_is_gguf(const char *path, bool *gguf, struct wn_err *err)
{
    struct wn_file f;
    char magic[4] = {0};
    bool ok;

    if (!wn_file_open(&f, path, err))
        return false;
    ok = wn_file_read(&f, 0, magic, (size_t)wn_min_u64(f.bytes, sizeof magic), err);
    *gguf = ok && memcmp(magic, "GGUF", sizeof magic) == 0;
    wn_file_close(&f);
    return ok;
}

static bool set_folder(struct wn_source *s, bool is_folder, struct wn_err *err)
{
    s->folder = is_folder ? wn_strdup(s->path, err) : wn_path_parent(s->path, err);
    return s->folder != NULL;
}

static bool open_path(struct wn_source *s, const char *path, struct wn_err *err)
{
    bool is_folder = wn_path_is_folder(path), gguf = false;

    s->path = wn_strdup(path, err);
    if (!s->path || !set_folder(s, is_folder, err))
        return false;
    if (is_folder)
        return wn_source_open_folder(s, path, err);
    if (!file_is_gguf(path, &gguf, err))
        return false;
    if (gguf)
        return wn_source_open_gguf(s, path, err);
    if (wn_ends_with(path, WN_SAFETENSORS_SUFFIX))
        return wn_source_open_safetensors(s, path, err);
    return wn_fail(err, WN_ERR_FORMAT, "'%s' is neither a GGUF (it does not begin with 'GGUF') nor named *.safetensors",
                   path);
}

char *wn_source_consumed_mark(const struct wn_source *s, struct wn_err *err)
{
    return wn_asprintf(err, "%s.consumed.part", s->files[0].file.path);
}

static bool is_unconsumed(const struct wn_source *s, struct wn_err *err)
{
    char *mark = s->file_count ? wn_source_consumed_mark(s, err) : NULL;
    bool ok = s->file_count == 0 ||
              (mark && (!wn_path_exists(mark) || wn_fail(err, WN_ERR_FORMAT,
                                                         "'%s': bytes of it were given away by a prune with --consume, "
                                                         "as '%s' tells",
                                                         s->path, mark)));

    free(mark);
    return ok;
}

void wn_source_tell_unfinished(const char *path, struct wn_err *err)
{
    static const char *const names[] = {WN_PLACING_NAME, WN_PROGRESS_NAME};
    const char *between = wn_path_is_folder(path) ? "/" : ".";

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct wn_err ignored;
        char *journal = wn_asprintf(&ignored, "%s%s%s", path, between, names[i]);
        bool there = journal && wn_path_exists(journal);

        if (there)
            (void)wn_fail_in(err, "unfinished output ('%s' is there: the command that made it goes on if given again)",
                             journal);
        free(journal);
        if (there)
            return;
    }
}

struct wn_source *wn_source_open(const char *path, struct wn_err *err)
{
    struct wn_source *s = wn_source_open_consumed(path, err);

    if (!s)
        wn_source_tell_unfinished(path, err);
    if (!s || is_unconsumed(s, err))
        return s;
    wn_source_close(s);
    return NULL;
}

struct wn_source *wn_source_open_consumed(const char *path, struct wn_err *err)
{
    struct wn_source *s = wn_alloc(1, sizeof *s, err);

    if (!s)
        return NULL;
    if (pthread_mutex_init(&s->map_lock, NULL) != 0) {
        wn_fail(err, WN_ERR_NOMEM, "a lock could not be made");
        free(s);
        return NULL;
    }
    if (open_path(s, path, err))
        return s;
    wn_source_close(s);
    return NULL;
}

void wn_source_close(struct wn_source *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->file_count; i++)
        wn_file_close(&s->files[i].file);
    for (size_t i = 0; i < s->room; i++) {
        free(s->held[i].header);
        free(s->held[i].gguf.kv);
        free(s->held[i].metadata);
    }
    free(s->files);
    free(s->held);
    wn_tensor_list_release(&s->tensors);
    wn_name_table_release(&s->names);
    free(s->path);
    free(s->folder);
    (void)pthread_mutex_destroy(&s->map_lock);
    free(s);
}

const char *wn_source_path(const struct wn_source *s)
{
    return s->path;
}

enum wn_container wn_source_container(const struct wn_source *s)
{
    return s->container;
}

const char *wn_source_folder(const struct wn_source *s)
{
    return s->folder;
}

size_t wn_source_file_count(const struct wn_source *s)
{
    return s->file_count;
}

const struct wn_source_file *wn_source_file_at(const struct wn_source *s, size_t i)
{
    assert(i < s->file_count);
    return &s->files[i];
}

size_t wn_source_file_find(const struct wn_source *s, const char *name)
{
    size_t i = 0;

    while (i < s->file_count && strcmp(wn_path_name(s->files[i].file.path), name) != 0)
        i++;
    return i;
}

bool wn_source_has_file(const struct wn_source *s, const char *name)
{
    return wn_source_file_find(s, name) < s->file_count;
}

size_t wn_source_tensor_count(const struct wn_source *s)
{
    return s->tensors.n;
}

const struct wn_tensor *wn_source_tensor_at(const struct wn_source *s, size_t i)
{
    assert(i < s->tensors.n);
    return &s->tensors.at[i];
}

const struct wn_tensor *wn_source_find(const struct wn_source *s, const char *name)
{
    size_t i = wn_name_table_find(&s->names, s->tensors.at, wn_bytes_of(name));

    return i == WN_NAME_NONE ? NULL : &s->tensors.at[i];
}

const struct wn_gguf_meta *wn_source_gguf(const struct wn_source *s)
{
    return wn_source_gguf_of(s, 0);
}

const struct wn_gguf_meta *wn_source_gguf_of(const struct wn_source *s, size_t file)
{
    assert(file < s->file_count);
    return s->container == WN_CONTAINER_GGUF ? &s->held[file].gguf : NULL;
}

const char *const *wn_source_metadata(const struct wn_source *s)
{
    for (size_t i = 0; i < s->file_count; i++)
        if (s->held[i].metadata)
            return wn_source_metadata_of(s, i);
    return NULL;
}

const char *const *wn_source_metadata_of(const struct wn_source *s, size_t file)
{
    assert(file < s->file_count);
    return (const char *const *)s->held[file].metadata;
}

bool wn_source_is_indexed(const struct wn_source *s, uint64_t *total_size)
{
    *total_size = s->indexed ? s->index_total : UINT64_MAX;
    return s->indexed;
}

/* The file's map, made by whoever comes first. Users see s as const: no answer depends on this cache. */
static const uint8_t *map_of(const struct wn_source *s, uint32_t file, struct wn_err *err)
{
    struct wn_source *own = (struct wn_source *)(uintptr_t)s;
    struct wn_source_held *held = &own->held[file];
    const uint8_t *map = atomic_load_explicit(&held->map, memory_order_acquire);

    if (map)
        return map;
    pthread_mutex_lock(&own->map_lock);
    if (wn_file_map(&own->files[file].file, err))
        map = own->files[file].file.map;
    atomic_store_explicit(&held->map, map, memory_order_release);
    pthread_mutex_unlock(&own->map_lock);
    return map;
}

const uint8_t *wn_source_view(const struct wn_source *s, const struct wn_tensor *t, struct wn_err *err)
{
    const uint8_t *map;

    assert(t->file < s->file_count);
    map = map_of(s, t->file, err);
    return map ? map + t->at : NULL;
}

bool wn_source_read(const struct wn_source *s, const struct wn_tensor *t, uint64_t at, void *dst, size_t n,
                    struct wn_err *err)
{
    assert(t->file < s->file_count);
    if (!wn_span_fits(at, n, t->bytes))
        return wn_fail(err, WN_ERR_ARG, "tensor '%s': %zu bytes at %" PRIu64 " of its %" PRIu64, t->name, n, at,
                       t->bytes);
    return wn_file_read(&s->files[t->file].file, t->at + at, dst, n, err);
}

void wn_source_will_need(const struct wn_source *s, const struct wn_tensor *t)
{
    struct wn_err ignored;

    if (map_of(s, t->file, &ignored))
        wn_file_will_need(&s->files[t->file].file, t->at, t->bytes);
}

/* Bytes of the tensor from `at` on that lie in a hole. */
static uint64_t hole_of(const struct wn_source *s, const struct wn_tensor *t, uint64_t at)
{
    uint64_t n;

    assert(t->file < s->file_count && at <= t->bytes);
    n = wn_file_next_data(&s->files[t->file].file, t->at + at) - (t->at + at);
    return wn_min_u64(n, t->bytes - at);
}

uint64_t wn_source_common_hole(const struct wn_source *s, const struct wn_tensor *a, uint64_t a_at,
                               const struct wn_source *other, const struct wn_tensor *b, uint64_t b_at)
{
    uint64_t n = hole_of(s, a, a_at);

    return n ? wn_min_u64(n, hole_of(other, b, b_at)) : 0;
}

void wn_source_drop_pages(const struct wn_source *s)
{
    /* the map is only looked at behind the acquire: somebody may just be making it */
    for (size_t i = 0; i < s->file_count; i++)
        if (atomic_load_explicit(&s->held[i].map, memory_order_acquire))
            wn_file_dont_need(&s->files[i].file, 0, s->files[i].file.bytes);
}

void wn_source_dont_need(const struct wn_source *s, const struct wn_tensor *t)
{
    if (atomic_load_explicit(&s->held[t->file].map, memory_order_acquire))
        wn_file_dont_need(&s->files[t->file].file, t->at, t->bytes);
}

static uint64_t fnv(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 1099511628211u;
    return h;
}

/* Numbers go in as little-endian bytes, types by name: the same headers give the same digits on every machine. */
static uint64_t fnv_u64(uint64_t h, uint64_t v)
{
    for (int i = 0; i < 8; i++, v >>= 8)
        h = (h ^ (v & 0xff)) * 1099511628211u;
    return h;
}

void wn_source_fingerprint(const struct wn_source *s, char out[17])
{
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < s->tensors.n; i++) {
        const struct wn_tensor *t = &s->tensors.at[i];
        const char *type = wn_type_info(t->type)->name;

        h = fnv(h, t->name, strlen(t->name) + 1);
        h = fnv(h, type, strlen(type) + 1);
        h = fnv_u64(h, t->dims);
        for (uint32_t d = 0; d < t->dims; d++)
            h = fnv_u64(h, t->shape[d]);
    }
    (void)snprintf(out, 17, "%016" PRIx64, h);
}
