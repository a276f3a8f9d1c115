/*
 * What the files of merging share: what all archives have (merge_look.c), the adding (merge_add.c), and the means
 * (merge_means.c). merge.c is the whole.
 */
#ifndef WN_JOBS_CALIBRATE_MERGE_PARTS_H
#define WN_JOBS_CALIBRATE_MERGE_PARTS_H

#include "jobs/calibrate/saliency_means.h"
#include "jobs/prune/means.h"
#include <winnow/merge.h>

/* What an archive may have beside its totals: each sum, and these. */
enum wn_merge_part {
    WN_PART_MAX_NORM = WN_SUMS,
    WN_PART_SOURCE_COUNTS,
    WN_PART_SOURCE_TOKENS,
    WN_PART_COUNTS,
    WN_PART_TOKENS,
    WN_PART_HALVES, /* over all sources; WN_SUM_HALF has them by source */
    WN_PART_MEANS,
    WN_PARTS
};

struct wn_merge_look {
    uint32_t layer_count, expert_count, top_k, latent_size, mean_width; /* the last three 0: nobody tells */
    uint32_t *layer_experts; /* [layer_count]; owned, like all pointers here */
    const char *first;       /* path of the first archive, for messages; borrowed */
    char **label;            /* [label_count] of all archives, in order of appearance */
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

/* The means of the archives, open, and how often each expert was chosen there. */
struct wn_merge_mean {
    struct wn_means *means;
    uint64_t *counts; /* [layer][expert] */
};

struct wn_merge_means {
    struct wn_merge_mean *of; /* [count]; owned, like all pointers here */
    size_t count;
    uint32_t expert_count, width;
    double *sum, *all; /* [expert][width]; [expert]: tokens that chose it */
};

/* The next archive, which has means and was looked at. */
WN_CHECKED bool wn_merge_means_take(struct wn_merge_means *m, const struct wn_saliency *s, const char *path,
                                    struct wn_err *err);
/* What the merged archive is written from; m stays where it is. */
WN_CHECKED bool wn_merge_means_source(struct wn_merge_means *m, struct wn_mean_source *source, struct wn_err *err);
void wn_merge_means_release(struct wn_merge_means *m);

#endif
