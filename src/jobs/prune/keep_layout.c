/*
 * Which file of the output each tensor goes to, and in what order they stand there.
 *
 * Published checkpoints order each file by element size, largest first, then by name. Renumbering experts changes
 * names, so where the source has that order it is made again; any other order is kept as it is.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "jobs/prune/keep.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static uint32_t element_bytes(enum wn_type type)
{
    return wn_type_info(type)->block_bytes / wn_type_info(type)->block_elements;
}

/* By size and name; the name of a tensor of the source, or of the output. */
static int published_order(enum wn_type a_type, const char *a, enum wn_type b_type, const char *b)
{
    uint32_t x = element_bytes(a_type), y = element_bytes(b_type);

    if (x != y)
        return x > y ? -1 : 1;
    return strcmp(a, b);
}

static int by_file_and_name(const void *a, const void *b)
{
    const struct wn_keep_tensor *x = a, *y = b;

    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return published_order(x->type, x->name, y->type, y->name);
}

static bool has_published_order(const struct wn_source *source)
{
    for (size_t i = 1; i < wn_source_tensor_count(source); i++) {
        const struct wn_tensor *a = wn_source_tensor_at(source, i - 1), *b = wn_source_tensor_at(source, i);

        if (a->file == b->file && published_order(a->type, a->name, b->type, b->name) > 0)
            return false;
    }
    return true;
}

/* The reference tool's rule: a file is closed when the next tensor, padded, would make it exceed the limit. */
static bool cut_greedily(struct wn_keep *k, const struct wn_keep_cut *cut, struct wn_err *err)
{
    /* published GGUF sets have their metadata alone in the first file */
    uint32_t file = wn_source_file_count(k->source) > 1 && wn_source_file_at(k->source, 0)->tensor_count == 0 ? 1 : 0;
    uint64_t sum = 0, padded, next;

    for (size_t i = 0; i < k->tensor_count; i++) {
        struct wn_keep_tensor *t = &k->tensors[i];

        if (!wn_align_u64(t->bytes, cut->alignment, &padded) || !wn_add_u64(sum, padded, &next))
            return wn_fail(err, WN_ERR_FORMAT, "the tensors' sizes do not add up");
        if (sum > 0 && next > cut->shard_bytes) {
            file++;
            next = padded;
        }
        sum = next;
        t->file = file;
    }
    return true;
}

bool wn_keep_lay_out(struct wn_keep *k, const struct wn_keep_cut *cut, uint32_t *files, struct wn_err *err)
{
    bool published = wn_source_container(k->source) == WN_CONTAINER_SAFETENSORS && has_published_order(k->source);

    if (cut->joined)
        for (size_t i = 0; i < k->tensor_count; i++)
            k->tensors[i].file = 0;
    else if (cut->shard_bytes && !cut_greedily(k, cut, err))
        return false;
    if (published)
        qsort(k->tensors, k->tensor_count, sizeof(*k->tensors), by_file_and_name);
    *files = k->tensor_count ? k->tensors[k->tensor_count - 1].file + 1 : 1;
    if (!cut->joined && !cut->shard_bytes)
        *files = (uint32_t)wn_source_file_count(k->source);
    return true;
}
