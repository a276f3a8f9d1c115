/*
 * What the files of an evaluation share. Texts become windows (eval_text.c); a road takes the windows through the model
 * and its parent, resident (eval_resident.c) or layer by layer (eval_stream.c); both end in the same scoring of rows
 * (eval_score.c); and the losses become figures (eval_figures.c).
 */
#ifndef WN_JOBS_EVAL_EVAL_PARTS_H
#define WN_JOBS_EVAL_EVAL_PARTS_H

#include "base/arena.h"
#include "base/bytes.h"
#include "graph/graph.h"
#include "jobs/divergence.h"
#include "jobs/plan/dropped.h"
#include <winnow/eval.h>

enum { WN_EVAL_MODEL, WN_EVAL_PARENT, WN_EVAL_SIDES };

/* One of the two models. */
struct wn_eval_side {
    const struct wn_model *model;
    const struct wn_config *config;
    const struct wn_dropped *masked; /* NULL: as it is */
};

struct wn_eval_ids {
    uint32_t *ids; /* owned: the first windows * window of the text */
    size_t first;  /* the number of its first window among all texts' */
};

/*
 * What every predicted token and every window gave. Windows of all texts are counted through; predictions are
 * [window][window - 1]. Each entry is written once, so no order of work changes it.
 */
struct wn_eval_losses {
    double *nll, *parent_nll, *kld; /* nats; the latter two NULL without a parent */
    uint8_t *same;
    double *misroute; /* [window][layer] shares summed over the window's tokens in their order; NULL: not known */
    /* [window] of a model with ghosts, or NULL; lost is that window's row of ghosted [window][layer]. */
    struct wn_route_meter *meter;
    double *ghosted;
};

struct wn_eval_job {
    const struct wn_eval_options *o;
    const struct wn_job *job;
    struct wn_pool *pool;
    const struct wn_kernels *kernels;
    struct wn_eval_side side[WN_EVAL_SIDES];
    unsigned sides;
    uint32_t window;
    struct wn_dropped dropped; /* by the plan or the config; flags NULL: not known */
    struct wn_eval_ids *text;  /* [text_count], owned */
    size_t windows;            /* of all texts */
    /* Bytes: of the process before the texts; of ids that stay; at most while texts were read. */
    uint64_t before, kept, reading;
    bool counting; /* the ids are more than the memory allowed: they were only counted, the need is refused */
    struct wn_eval_losses losses;
    float *logits; /* [sides][WN_LOGIT_ROWS][vocab], owned */
    struct wn_eval_result *result;
};

static inline bool wn_eval_has_ghosts(const struct wn_eval_job *e)
{
    return e->result->ghosts != WN_GHOSTS_OFF;
}

/* Whose meter the model's next tokens move; NULL: nobody's. */
static inline struct wn_route_meter *wn_eval_meter_of(const struct wn_eval_job *e, size_t window)
{
    return e->losses.meter ? &e->losses.meter[window] : NULL;
}

static inline uint32_t wn_eval_predicted(const struct wn_eval_job *e)
{
    return e->window - 1;
}

/* eval_text.c: all texts to windows of ids, which mean the same tokens to both models. */
WN_CHECKED bool wn_eval_read_texts(struct wn_eval_job *e, struct wn_err *err);
/* The ids of a window, counted through all texts; *text is whose. */
const uint32_t *wn_eval_window(const struct wn_eval_job *e, size_t window, size_t *text);

/* eval_score.c: the last rows of one side, from which logits are made. */
struct wn_eval_rows {
    const struct wn_ctx *ctx;
    const struct wn_ends *ends;
    const struct wn_stream *stream;
};
uint64_t wn_eval_logits_bytes(const struct wn_eval_job *e);
/* Tokens first .. first + stream->tokens - 1 of a window; rows [sides]. Logits that are not finite give NaN losses. */
void wn_eval_score(struct wn_eval_job *e, const struct wn_eval_rows *rows, size_t window, uint32_t first);

/* Adds what the parent's router gave to dropped experts; the probe's arg is one of these. */
struct wn_eval_meter {
    struct wn_eval_job *job;
    size_t window; /* of the tokens that come next */
};
void wn_eval_meter_routed(void *arg, int32_t layer, const uint32_t *ids, const float *weights, const float *outputs,
                          size_t tokens, size_t k, size_t width);

/* Window w of text t is scored: false when one of its losses is no number. */
WN_CHECKED bool wn_eval_check_finite(const struct wn_eval_job *e, size_t t, size_t w, struct wn_err *err);

/* The two roads: each tells its need, then fills the losses. */
WN_CHECKED bool wn_eval_resident(struct wn_eval_job *e, struct wn_err *err);
WN_CHECKED bool wn_eval_stream(struct wn_eval_job *e, struct wn_err *err);

/* eval_figures.c: the losses to the result's figures; and the memory that takes. */
WN_CHECKED bool wn_eval_figures(struct wn_eval_job *e, struct wn_err *err);
uint64_t wn_eval_figures_bytes(const struct wn_eval_job *e);
/* The figure's interval of its resampled values [WN_EVAL_RESAMPLES], which are sorted. */
void wn_eval_set_interval(struct wn_eval_figure *figure, double *draws);
/* The label seeds the draws: other texts beside this one do not change its intervals. */
static inline uint64_t wn_eval_seed(const struct wn_eval_domain *d)
{
    return wn_bytes_hash(wn_bytes_of(d->domain));
}

/* eval_quantiles.c: of the divergences of `texts` texts from the first on, together. The figures' draws. */
WN_CHECKED bool wn_eval_quantiles(const struct wn_eval_job *e, size_t first, size_t texts, struct wn_eval_against *a,
                                  struct wn_err *err);
uint64_t wn_eval_quantiles_bytes(const struct wn_eval_job *e);

#endif
