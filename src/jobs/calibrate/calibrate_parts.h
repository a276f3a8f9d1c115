/*
 * What the files of calibration share: the plan of a run (calibrate_plan.c), the sums of a layer (calibrate_records.c,
 * from what calibrate_change.c works out of a token; calibrate_means.c), and their form in the work folder
 * (calibrate_save.c). The run itself is in calibrate_run.h.
 */
#ifndef WN_JOBS_CALIBRATE_CALIBRATE_PARTS_H
#define WN_JOBS_CALIBRATE_CALIBRATE_PARTS_H

#include "graph/graph.h"
#include "jobs/corpus/corpus.h"
#include "jobs/calibrate/saliency_means.h"
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

/* Bytes of a layer's mean outputs, of dense layers too; 0 where they are not asked for. */
static inline size_t wn_calibration_mean_bytes(const struct wn_calibration *c)
{
    return c->options->means ? (size_t)c->config->expert_count * wn_expert_width(c->config) * sizeof(uint16_t) : 0;
}

/* What the sums of a chunk are made of; width is that of the experts. */
struct wn_record_room {
    double *norms, *changes; /* [chunk][k]: of each output; of what its expert's absence changes */
    double *totals;          /* [chunk]: of the weighted sum of outputs */
    double *mixes;           /* [chunk]: of the residual mix */
    float *change;           /* [chunk][width]: the change in turn ... */
    float *up;               /* [chunk][hidden]: ... behind the way up, latent models only, ... */
    double *risen;           /* [chunk]: ... and its length */
    double *vectors;         /* [threads][2][width] */
    double *mean_sums;       /* [expert][width] over the layer's tokens; NULL without means */
};

/* Buffers of a run, all out of one arena, whose rest is the graph's. */
struct wn_calibration_buffers {
    struct wn_arena arena;
    struct wn_walk walk; /* its buffers; the rest of it is the run's */
    struct wn_record_room room;
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
    struct wn_saliency *sums; /* all pointers are borrowed */
    const struct wn_ctx *ctx;
    const struct wn_record_room *room;
    const struct wn_layer *layer; /* the one that the probe is shown */
    size_t top_k;
    const char *input;                  /* the probe's name for what the experts read */
    const struct wn_sequence *sequence; /* of the tokens that come next ... */
    size_t first;                       /* ... and the number of the first in it */
    struct wn_probe probe;              /* to be shown the layer */
};

/* ctx is kept, and only its config looked at before the probe is shown something. */
void wn_records_init(struct wn_records *r, const struct wn_ctx *ctx, struct wn_saliency *sums,
                     const struct wn_record_room *room);
/* The layer that comes next. */
void wn_records_begin(struct wn_records *r, const struct wn_layer *layer);

/* The expert behind a choice of the router; a ghost (weights.h) is none, and has no sums. */
#define WN_NO_EXPERT UINT32_MAX
static inline uint32_t wn_record_expert(const struct wn_records *r, uint32_t choice)
{
    uint32_t expert = r->layer->mixture.serves ? r->layer->mixture.serves[choice] : choice;

    return expert & WN_GHOST ? WN_NO_EXPERT : expert;
}

/* A chunk's tokens, and where what is worked out of them goes: norms, totals, changes and change of the room. */
struct wn_changes {
    const struct wn_record_room *room;
    const float *gates;      /* [token][listed] */
    const float *outputs;    /* [token][listed][width] */
    size_t k, listed, width; /* listed: k, or k + 1 with the router's next choice */
    bool renormalize;        /* as the router does */
    const float *norm;       /* [width], the norm before the way up; NULL: none */
    double eps;              /* its */
    size_t first;            /* number of the first token in its sequence: whose turn it is to be lifted */
};
void wn_changes_of(const struct wn_changes *c, struct wn_pool *pool, size_t tokens);
/* lengths [tokens] of rows [tokens][width] */
void wn_row_lengths(struct wn_pool *pool, const float *rows, size_t tokens, size_t width, double *lengths);

/* Adds a chunk's outputs to the sums of means, if there are any. */
void wn_record_add_means(const struct wn_records *r, const uint32_t *ids, const float *outputs, size_t tokens,
                         size_t listed, size_t width);
/* means [expert][width] of the layer whose tokens were all added; refused where 16 bits do not hold them. */
WN_CHECKED bool wn_record_means(const struct wn_records *r, uint32_t layer, uint16_t *means, struct wn_err *err);

/* A layer's sums as bytes and back. The size is the same for all layers; record NULL: only tells it. */
size_t wn_record_save(const struct wn_saliency *s, uint32_t layer, char *record);
void wn_record_load(struct wn_saliency *s, uint32_t layer, const char *record);

/* A layer whose sums are not finite is refused, by the expert's number. */
WN_CHECKED bool wn_record_check(const struct wn_saliency *s, uint32_t layer, struct wn_err *err);

#endif
