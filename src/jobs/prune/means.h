/*
 * The mean outputs of experts, out of a saliency archive ("mean_out", docs/formats/saliency.md): what a dropped expert
 * leaves behind. One thread at a time.
 */
#ifndef WN_JOBS_PRUNE_MEANS_H
#define WN_JOBS_PRUNE_MEANS_H

#include "formats/npz.h"

struct wn_means {
    uint32_t layers, experts, width;
    char model_fingerprint[17]; /* of the model that they were measured on; empty: not told */
    char sha256[65];            /* of the archive's file */
    struct wn_npz_part part;    /* open */
    uint8_t *rows;              /* [experts][width] f16 of `layer`, once one was read; owned */
    uint32_t layer;
    bool read;
};

/* Refuses an archive without means. NULL: *err says why. */
WN_CHECKED struct wn_means *wn_means_open(const char *path, struct wn_err *err);
void wn_means_close(struct wn_means *m); /* NULL is all right */
/* Of NULL 0. */
uint64_t wn_means_memory(const struct wn_means *m);
/* Refuses (WN_ERR_ARG) means that are not of so many layers, experts of the widest and numbers each. */
WN_CHECKED bool wn_means_fit(const struct wn_means *m, uint32_t layers, uint32_t experts, uint32_t width,
                             struct wn_err *err);
/* Reads all of them: what is no number is found before anything is made of them. */
WN_CHECKED bool wn_means_check(struct wn_means *m, struct wn_err *err);
/*
 * The mean of one expert, width f16 numbers as a file has them; zeros where no token chose it. Good until another
 * layer's is asked for; a layer at a time is in memory. NULL: *err says why.
 */
WN_CHECKED const uint8_t *wn_means_row(struct wn_means *m, uint32_t layer, uint32_t expert, struct wn_err *err);

#endif
