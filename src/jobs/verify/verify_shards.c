/*
 * See verify_parts.h: what is in and about the files of weights besides tensors. Engines read some of it (an index's
 * lines, the strings in a header), and bytes that belong to no tensor are read by none, so they are there for something
 * else.
 */
#include "base/checked.h"
#include "formats/safetensors_index.h"
#include "jobs/verify/verify_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/*
 * The sum of all tensors is what winnow writes; an index that stayed with the same tensors may count as its source
 * does.
 */
static bool check_total(const struct wn_source *source, const struct wn_source *out, struct wn_err *err)
{
    uint64_t want = 0, theirs, have;

    if (!wn_source_is_indexed(out, &have))
        return true;
    for (size_t i = 0; i < wn_source_tensor_count(out); i++)
        want += wn_source_tensor_at(out, i)->bytes;
    if (have == want)
        return true;
    if (wn_source_is_indexed(source, &theirs) && theirs == have &&
        wn_source_tensor_count(source) == wn_source_tensor_count(out))
        return true;
    if (have == UINT64_MAX)
        return wn_fail(err, WN_ERR_DIFFERENT, "'%s' tells no total_size, its tensors have %" PRIu64 " bytes",
                       WN_SAFETENSORS_INDEX, want);
    return wn_fail(err, WN_ERR_DIFFERENT, "'%s': total_size is %" PRIu64 ", its tensors have %" PRIu64 " bytes",
                   WN_SAFETENSORS_INDEX, have, want);
}

/*
 * Opening held the lines against the headers already. Shards without an index are what some folders are from the start,
 * and a copy of one is then as good as it; whatever else has several files was written with one.
 */
static bool check_index(const struct wn_source *source, const struct wn_source *out, bool same, struct wn_err *err)
{
    uint64_t total;
    bool bare = wn_source_file_count(source) > 1 && !wn_source_is_indexed(source, &total);

    if (wn_source_file_count(out) > 1 && !wn_source_is_indexed(out, &total) && !bare)
        return wn_fail(err, WN_ERR_DIFFERENT, "'%s' is missing", WN_SAFETENSORS_INDEX);
    return same || check_total(source, out, err);
}

static const char *find_value(const char *const *pairs, const char *key)
{
    for (; pairs && *pairs; pairs += 2)
        if (strcmp(pairs[0], key) == 0)
            return pairs[1];
    return NULL;
}

/* The first key that one has and the other has not, or with another value; NULL: they say the same. */
static const char *first_difference(const char *const *a, const char *const *b)
{
    for (const char *const *p = a; p && *p; p += 2) {
        const char *other = find_value(b, p[0]);

        if (!other || strcmp(other, p[1]) != 0)
            return p[0];
    }
    for (const char *const *p = b; p && *p; p += 2)
        if (!find_value(a, p[0]))
            return p[0];
    return NULL;
}

/* What the source's file of that name says; NULL when there is none. */
static const char *const *metadata_of_namesake(const struct wn_source *source, const char *name)
{
    size_t i = wn_source_file_find(source, name);

    return i < wn_source_file_count(source) ? wn_source_metadata_of(source, i) : NULL;
}

/* Every file that is written has what the source's first has; a copied file, what it had. */
static bool check_metadata(const struct wn_source *source, const struct wn_source *out, struct wn_err *err)
{
    for (size_t i = 0; i < wn_source_file_count(out); i++) {
        const char *name = wn_path_name(wn_source_file_at(out, i)->file.path);
        const char *const *have = wn_source_metadata_of(out, i);
        const char *key = first_difference(wn_source_metadata(source), have);

        if (key && first_difference(metadata_of_namesake(source, name), have))
            return wn_fail(err, WN_ERR_DIFFERENT, "'%s': '__metadata__' key '%s' is not as in the source", name, key);
    }
    return true;
}

bool wn_verify_shards(const struct wn_source *source, const struct wn_source *out, bool same_index, struct wn_err *err)
{
    return check_index(source, out, same_index, err) && check_metadata(source, out, err);
}

/* Where a file ends that holds nothing but its header, these tensors and their padding. */
static uint64_t bytes_accounted(const struct wn_source *s, size_t file, size_t *next)
{
    const struct wn_gguf_meta *gguf = wn_source_gguf_of(s, file);
    uint64_t alignment = gguf ? gguf->alignment : 1, sum = 0, padded;

    for (; *next < wn_source_tensor_count(s) && wn_source_tensor_at(s, *next)->file == file; ++*next) {
        sum += wn_source_tensor_at(s, *next)->bytes;
        if (wn_align_u64(sum, alignment, &padded))
            sum = padded;
    }
    return wn_source_file_at(s, file)->header_bytes + sum;
}

bool wn_verify_nothing_else(const struct wn_source *out, struct wn_err *err)
{
    size_t next = 0;

    for (size_t i = 0; i < wn_source_file_count(out); i++) {
        const struct wn_file *f = &wn_source_file_at(out, i)->file;
        uint64_t known = bytes_accounted(out, i, &next);

        if (f->bytes > known)
            return wn_fail(err, WN_ERR_DIFFERENT, "'%s' has %" PRIu64 " bytes that belong to no tensor",
                           wn_path_name(f->path), f->bytes - known);
    }
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool wn_verify_no_others(const struct wn_source *out, const char **names, size_t n, struct wn_err *err)
{
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < wn_source_tensor_count(out); i++) {
        const char *name = wn_source_tensor_at(out, i)->name;

        if (!bsearch(&name, names, n, sizeof *names, by_name))
            return wn_fail(err, WN_ERR_DIFFERENT, "tensor '%s' should not be there", name);
    }
    return true;
}
