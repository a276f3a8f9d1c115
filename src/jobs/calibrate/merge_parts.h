/*
 * What the files of merging share: what all archives have (merge_look.c), and the adding (merge_add.c). merge.c is the
 * whole.
 */
#ifndef WN_JOBS_CALIBRATE_MERGE_PARTS_H
#define WN_JOBS_CALIBRATE_MERGE_PARTS_H

#include "jobs/calibrate/saliency.h"
#include <winnow/merge.h>

/* What an archive may have beside its totals: each sum, and these. */
enum wn_merge_part {
    WN_PART_MAX_NORM = WN_SUMS,
    WN_PART_SOURCE_COUNTS,
    WN_PART_SOURCE_TOKENS,
    WN_PART_COUNTS,
    WN_PART_TOKENS,
    WN_PART_HALVES, /* over all sources; WN_SUM_HALF has them by source */
    WN_PARTS
};

struct wn_merge_look {
    uint32_t layer_count, expert_count, top_k, latent_size; /* top_k and latent 0: nobody tells */
    uint32_t *layer_experts;                                /* [layer_count]; owned, like all pointers here */
    const char *first;                                      /* path of the first archive, for messages; borrowed */
    char **label;                                           /* [label_count] of all archives, in order of appearance */
    uint32_t label_count;
    char (*corpora)[17]; /* [corpus_count] rising */
    const char **from;   /* [corpus_count] path of the archive; borrowed */
    uint32_t corpus_count;
    char model[17];
    char settings[256];
    bool same_settings, exact;
    const char *lacks[WN_PARTS]; /* path of the first archive without it; NULL: all have it. Borrowed */
    bool some[WN_PARTS];         /* an archive has it */
};

/* Notes what the archive has; refuses one that cannot be added to those before. */
WN_CHECKED bool wn_merge_look_at(struct wn_merge_look *m, const struct wn_saliency *s, const char *path,
                                 struct wn_err *err);
/* Refuses an archive that is not what it was when it was looked at. */
WN_CHECKED bool wn_merge_check(const struct wn_merge_look *m, const struct wn_saliency *s, struct wn_err *err);
void wn_merge_look_release(struct wn_merge_look *m);

/* All zero sums with what all archives have, and no pointer to the rest. */
WN_CHECKED bool wn_merge_begin(const struct wn_merge_look *m, struct wn_saliency *total, struct wn_err *err);
/* Adds an archive that was looked at. */
WN_CHECKED bool wn_merge_add(const struct wn_merge_look *m, struct wn_saliency *total, const struct wn_saliency *s,
                             struct wn_err *err);
/* Sums become numbers, and totals are made. */
WN_CHECKED bool wn_merge_end(const struct wn_merge_look *m, struct wn_saliency *total, struct wn_err *err);

#endif
