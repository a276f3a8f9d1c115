/* See prune_parts.h: whether the disk can hold it. */
#include "base/alloc.h"
#include "jobs/prune/prune_parts.h"

#include <inttypes.h>
#include <stdlib.h>

/* Blocks that are not full, and the file system's own tables: ext4's extents take less than 1/10 000. */
#define SPACE_MARGIN       ((double)(1 << 20))
#define SPACE_MARGIN_SHARE 1.001

/* What a file of the output takes, and what is given back when it is complete. */
struct file_space {
    double takes, frees;
};

/* Holes take no space, so each source file's bytes count by the share of it that is stored. */
static void count_copies(const struct wn_pruning *p, const struct wn_source *s, bool frees, struct file_space *space,
                         double *filled)
{
    for (size_t i = 0; i < wn_source_file_count(s); i++)
        filled[i] = wn_path_filled(wn_source_file_at(s, i)->file.path);
    for (size_t i = 0; i < p->keep.tensor_count; i++) {
        const struct wn_keep_tensor *t = &p->keep.tensors[i];
        double share;

        if (t->source != s)
            continue;
        share = filled[t->from->file];

        space[t->file].takes -= (double)t->bytes * (1 - share);
        space[t->file].frees += frees ? (double)t->from->bytes * share : 0;
    }
}

/* The most that is needed at any time from now on: files that were taken up are there already. */
static double space_needed(const struct wn_pruning *p, const struct wn_sink *dry, const struct file_space *space)
{
    double used = (double)p->folder.bytes + (double)wn_sink_total_bytes(dry), most = 0;

    for (uint32_t f = 0; f < wn_sink_file_count(dry); f++)
        used -= (double)wn_sink_file_bytes(dry, f); /* the index is left */
    for (uint32_t f = p->resume.taken; f < wn_sink_file_count(dry); f++) {
        used += space[f].takes;
        most = used > most ? used : most;
        used -= space[f].frees;
    }
    return most * SPACE_MARGIN_SHARE + SPACE_MARGIN;
}

/* The copies out of one parent; room for its files comes and goes here. */
static bool count_parent(const struct wn_pruning *p, const struct wn_source *s, bool frees, struct file_space *space,
                         struct wn_err *err)
{
    double *filled = wn_alloc(wn_source_file_count(s), sizeof *filled, err);

    if (filled)
        count_copies(p, s, frees, space, filled);
    free(filled);
    return filled != NULL;
}

static bool find_need(const struct wn_pruning *p, const struct wn_sink *dry, bool frees, double *need,
                      struct wn_err *err)
{
    uint32_t files = wn_sink_file_count(dry);
    struct file_space *space = wn_alloc(files, sizeof *space, err);
    bool ok = space != NULL;

    for (uint32_t f = 0; ok && f < files; f++)
        space[f].takes = (double)wn_sink_file_bytes(dry, f);
    if (ok && !p->recast)
        ok = count_parent(p, p->source, frees, space, err) && (!p->low || count_parent(p, p->low, false, space, err));
    if (ok)
        *need = space_needed(p, dry, space);
    free(space);
    return ok;
}

bool wn_pruning_check_space(const struct wn_pruning *p, const struct wn_sink *dry, struct wn_err *err)
{
    char *folder = !wn_pruning_makes_gguf(p) && wn_path_is_folder(p->o->out) ? wn_strdup(p->o->out, err)
                                                                             : wn_path_parent(p->o->out, err);
    uint64_t free_bytes;
    double need;
    bool ok = folder && wn_path_space(folder, &free_bytes, err) &&
              find_need(p, dry, p->consume.on && wn_path_same_disk(folder, wn_source_folder(p->source)), &need, err);

    if (ok && need > (double)free_bytes)
        ok =
            wn_fail(err, WN_ERR_IO, "'%s' has %" PRIu64 " bytes free, the output needs %.0f", folder, free_bytes, need);
    free(folder);
    return ok;
}
