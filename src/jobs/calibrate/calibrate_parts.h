/*
 * What the files of calibration share: the plan of a run (calibrate_plan.c) and the sums of a layer
 * (calibrate_records.c). The run itself is in calibrate_run.h.
 */
#ifndef WN_JOBS_CALIBRATE_CALIBRATE_PARTS_H
#define WN_JOBS_CALIBRATE_CALIBRATE_PARTS_H

#include "graph/graph.h"
#include "jobs/corpus/corpus.h"
#include "jobs/calibrate/saliency.h"
#include "jobs/stream/walk.h"
#include <winnow/calibrate.h>

/* A run that is ready to start: the corpus in memory and the needs worked out. */
struct wn_calibration {
    const struct wn_model *model;
    const struct wn_config *config;
    const struct wn_calibrate_options *options;
    struct wn_corpus corpus;
    struct wn_calibrate_need need;
};

/* Reads the corpus, binds each layer once for its size, and chooses the chunk. Release it after success. */
WN_CHECKED bool wn_calibration_init(struct wn_calibration *c, const struct wn_model *m, unsigned threads,
                                    const struct wn_calibrate_options *o, struct wn_err *err);
void wn_calibration_release(struct wn_calibration *c);

/*
 * Streams that are there at a time at most: the banks below a layer, what enters it, and what leaves it, but for the
 * last.
 */
size_t wn_calibration_streams(const struct wn_config *k);

/* Channels of what a layer's experts read. */
static inline uint32_t wn_expert_width(const struct wn_config *c)
{
    return c->latent_size ? c->latent_size : c->hidden_size;
}

/* Buffers of a run, all out of one arena, whose rest is the graph's. */
struct wn_calibration_buffers {
    struct wn_arena arena;
    struct wn_walk walk;   /* its buffers; the rest of it is the run's */
    double *norms;         /* [chunk][k] */
    double *totals;        /* [chunk] */
    float *worker_scratch; /* [threads][worker_floats] */
    size_t worker_floats;
};

WN_CHECKED bool wn_calibration_buffers_init(struct wn_calibration_buffers *b, const struct wn_calibration *c,
                                            unsigned threads, struct wn_err *err);

/*
 * Adds what the probe shows to the sums of its layer: all exact (exact_sum.h), on the thread that runs the job, so no
 * sum depends on threads, chunks or the order of the corpus. wn_saliency_settle ends a layer.
 */
struct wn_records {
    struct wn_saliency *sums; /* borrowed */
    struct wn_pool *pool;
    double *norms, *totals;             /* [chunk][k], [chunk] */
    const struct wn_sequence *sequence; /* of the tokens that come next ... */
    size_t first;                       /* ... and the number of the first in it */
    struct wn_probe probe;              /* to be shown the layer */
};

void wn_records_init(struct wn_records *r, const struct wn_config *c, struct wn_saliency *sums, struct wn_pool *pool,
                     double *norms, double *totals);

/* A layer's sums as bytes and back. The size is the same for all layers; record NULL: only tells it. */
size_t wn_record_save(const struct wn_saliency *s, uint32_t layer, char *record);
void wn_record_load(struct wn_saliency *s, uint32_t layer, const char *record);

/* A layer whose sums are not finite is refused, by the expert's number. */
WN_CHECKED bool wn_record_check(const struct wn_saliency *s, uint32_t layer, struct wn_err *err);

#endif
