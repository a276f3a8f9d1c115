/*
 * The mean outputs in a saliency archive: of each expert, over the tokens that chose it, before weighting, in 16-bit
 * floats [layer][expert][channel]. For the real model that is 0.6 GB, so they are nowhere in memory as a whole: an
 * archive is written layer by layer, and read so (jobs/prune/means.h).
 */
#ifndef WN_JOBS_CALIBRATE_SALIENCY_MEANS_H
#define WN_JOBS_CALIBRATE_SALIENCY_MEANS_H

#include "jobs/calibrate/saliency.h"

#define WN_MEANS_KEY "mean_out"

/* Where they come from when an archive is written. */
struct wn_mean_source {
    uint32_t width; /* channels */
    /* means [expert_count][width] of a layer; zeros where there is no expert. Asked for once each, rising. */
    bool (*layer)(void *arg, uint32_t layer, uint16_t *means, struct wn_err *err);
    void *arg;
};

/* wn_saliency_write, with means (NULL: without). */
WN_CHECKED bool wn_saliency_write_with(const struct wn_saliency *s, const struct wn_mean_source *means,
                                       const char *path, bool overwrite, struct wn_err *err);

/* Of a 16-bit float. */
bool wn_means_finite(uint16_t v);

/*
 * sum [width] divided by count (0: zeros) and rounded, by way of f32. False when a mean is none that 16 bits hold:
 * *worst is then one of those.
 */
WN_CHECKED bool wn_means_round(const double *sum, double count, uint32_t width, uint16_t *means, double *worst);

#endif
