/*
 * What the files of probing share. A probe is a layer and a share of experts that stay in it. Each goes a way through
 * the model: that of the whole model (way 0) as far as its layer, where it is masked, and from there on its own. All
 * ways keep their streams in one store (walk.h: their numbers lie apart).
 *
 * probe_plan.c works out what a run takes, probe_masks.c whom each probe drops, probe_ways.c takes all ways through the
 * layers, probe_score.c compares what comes out; probe.c is the whole.
 */
#ifndef WN_JOBS_PROBE_PROBE_PARTS_H
#define WN_JOBS_PROBE_PROBE_PARTS_H

#include "jobs/calibrate/saliency.h"
#include "jobs/corpus/corpus.h"
#include "jobs/divergence.h"
#include "jobs/plan/dropped.h"
#include "jobs/stream/walk.h"
#include <winnow/probe.h>

/* A run that is ready to start. */
struct wn_probing {
    const struct wn_model *model;
    const struct wn_config *config;
    const struct wn_layer_probe_options *options;
    struct wn_corpus corpus;
    struct wn_saliency archive;
    uint32_t *source;                   /* [corpus.source_count] the archive's number of each; owned, like all here */
    double share[WN_PROBE_POINTS_MOST]; /* [probes.points] of the experts that stay, as asked for */
    struct wn_probes probes;
    struct wn_dropped *dropped; /* [point] the masks, as layers take them */
    uint32_t *layer;            /* [layer_count] those with experts, rising */
    uint32_t layer_count;
    struct wn_layer_probe_need need;
};

/* Reads archive and corpus, makes the masks, works the need out. Release it after success. */
WN_CHECKED bool wn_probing_init(struct wn_probing *p, const struct wn_model *m, unsigned threads,
                                const struct wn_layer_probe_options *o, struct wn_err *err);
void wn_probing_release(struct wn_probing *p);

/* probe_masks.c: fills kept, mask, dropped, tokens and settings of the probes, and `dropped`. */
WN_CHECKED bool wn_probing_mask(struct wn_probing *p, struct wn_err *err);

/* Ways: 0 is the whole model's, way 1 + i that of probe i; probes come layer by layer, in each point by point. */
static inline uint32_t wn_way_count(const struct wn_probing *p)
{
    return 1 + p->layer_count * p->probes.points;
}

/* The probe's layer and point; way is not 0. */
static inline uint32_t wn_way_layer(const struct wn_probing *p, uint32_t way)
{
    return p->layer[(way - 1) / p->probes.points];
}

static inline uint32_t wn_way_point(const struct wn_probing *p, uint32_t way)
{
    return (way - 1) % p->probes.points;
}

/* True when way goes through layer i on its own, or begins to there. */
static inline bool wn_way_passes(const struct wn_probing *p, uint32_t way, uint32_t i)
{
    return way == 0 || wn_way_layer(p, way) <= i;
}

/*
 * True when the store has a stream of that way's own which enters layer i, at some time; i may be the number of layers.
 */
static inline bool wn_way_has(const struct wn_probing *p, uint32_t way, uint32_t i)
{
    return way == 0 || wn_way_layer(p, way) < i;
}

/* Points the walk at a way. */
void wn_way_take(const struct wn_probing *p, struct wn_walk *w, uint32_t way);

/* Rows of logits at a time. */
static inline uint32_t wn_probing_rows(uint32_t chunk)
{
    return chunk < WN_LOGIT_ROWS ? chunk : WN_LOGIT_ROWS;
}

/* Buffers of a run, all out of one arena, whose rest is the graph's. */
struct wn_probing_buffers {
    struct wn_arena arena;
    struct wn_walk walk;   /* its buffers */
    float *worker_scratch; /* [threads][worker_floats] */
    size_t worker_floats;
    float *logits[2];    /* [rows][vocab] of the whole model, of a probe */
    double *kld;         /* [rows] */
    struct wn_row *rows; /* [rows] of the whole model */
};

WN_CHECKED bool wn_probing_buffers_init(struct wn_probing_buffers *b, const struct wn_probing *p, unsigned threads,
                                        struct wn_err *err);

struct wn_probing_run {
    struct wn_probing p;
    const struct wn_job *job;
    struct wn_pool *pool;
    struct wn_store store;
    struct wn_probing_buffers buffers;
    struct wn_ctx ctx;
    double *sums; /* [way - 1][source] KLD summed over the tokens; owned */
    struct wn_layer_probe_result result;
};

/* probe_ways.c: all ways through all layers, behind what an earlier run did. The disk must have room for what comes. */
WN_CHECKED bool wn_probing_walk(struct wn_probing_run *r, struct wn_err *err);
/* probe_score.c: fills sums, sequence by sequence, likewise. */
WN_CHECKED bool wn_probing_score(struct wn_probing_run *r, struct wn_err *err);

#endif
