/*
 * Perplexity per domain over fixed, non-overlapping windows from the start of a text: positions 1 .. window - 1 of
 * every whole window are predicted, each window from an empty state; the last partial window is dropped; no BOS.
 *
 * Against a parent, per predicted token: KLD = sum over the vocabulary of p (ln p - ln q), p the parent's distribution
 * and q the model's, in nats; whether both hold the same token for the most probable; and both likelihoods.
 *
 * The log-softmax is taken in f64 from the f32 logits, and summed in the order of the text: the same bits for any
 * number of threads, on any processor, resident or streamed.
 */
#ifndef WINNOW_EVAL_H
#define WINNOW_EVAL_H

#include <winnow/job.h>
#include <winnow/session.h>

/* The work folder where nobody names one. */
#define WN_EVAL_WORK "winnow-eval.work"

/* Fewer windows than this have no interval: resampling so few says too little about the text they came from. */
#define WN_EVAL_FEWEST_WINDOWS 10
#define WN_EVAL_RESAMPLES      4000

struct wn_eval_text {
    const char *domain, *path; /* the domain is a label for the result, at most 63 bytes, and nobody else's */
};

/* One prediction. */
struct wn_eval_token {
    size_t text;
    uint64_t window;
    uint32_t position;           /* in the window, of the token that predicts */
    double nll, parent_nll, kld; /* nats; the last two are 0 without a parent */
    bool same_best;
};
typedef void wn_eval_token_fn(void *arg, const struct wn_eval_token *t);

/*
 * What a run takes. peak is the largest resident set of the whole process at most: what it held before (base), the
 * weights with every expert touched (streamed: the largest layer), the scratch and the results. disk: the work folder.
 */
struct wn_eval_need {
    uint64_t tokens; /* of all windows */
    uint64_t weights, scratch, records, base, peak, disk;
    uint32_t chunk; /* tokens at a time */
};
typedef bool wn_eval_need_fn(void *arg, const struct wn_eval_need *need);

struct wn_eval_options {
    const struct wn_eval_text *texts;
    size_t text_count;
    uint32_t window;      /* 0: 512; otherwise 2 .. the model's context */
    uint64_t max_windows; /* per text, from its start; 0: all */

    const struct wn_model *against; /* the parent, of the same vocabulary; NULL: perplexity alone */
    /*
     * A plan's file. The model is a whole one, and what it drops is never chosen: the bits of the pruned build. NULL:
     * as it is.
     */
    const char *masked;
    /*
     * With masked: what stands for a dropped expert in a build whose router still has it, and WN_GHOSTS_MEAN's archive.
     * WN_GHOSTS_BUILT and _OFF: nothing does, the router's next choice comes in.
     */
    enum wn_ghosts ghosts;
    const char *saliency;
    bool force_plan; /* with masked: accept a plan, or means, whose model fingerprint is another's */
    /* What the model was cut by, a plan's file, for the misroute rate; NULL: what its config.json tells (reap.keep). */
    const char *plan;

    bool stream; /* one layer of weights at a time, activations in the work folder */
    /*
     * That folder (its parent must exist), which a run that is stopped goes on from. NULL: WN_EVAL_WORK, and where
     * another run is at work there, winnow-eval.2.work and so on. Removed when the job is done.
     */
    const char *work;
    bool fresh;   /* ignore what an earlier run left there */
    uint64_t ram; /* bytes; 0: no limit. A need above it is refused */

    /* Told what the run takes before it starts; false stops it. May be NULL. */
    wn_eval_need_fn *told;
    void *told_arg;
    /* Told of every prediction, in the order of texts and windows, when all are made. May be NULL. */
    wn_eval_token_fn *token;
    void *token_arg;
};

/*
 * A figure with its 95 % interval: the 2.5th and 97.5th percentile of the figure over WN_EVAL_RESAMPLES draws of the
 * windows with replacement, the same draws for both models. The overall figure draws within each domain.
 */
struct wn_eval_figure {
    double value, low, high; /* low and high: not a number without an interval */
};

struct wn_eval_against {
    double nll, perplexity;                             /* the parent's */
    struct wn_eval_figure kld_median, kld_p90, kld_p99; /* over tokens; between two of them by straight line */
    double kld_max;
    struct wn_eval_figure kld, argmax, ratio; /* mean; share of the same best token; model's PPL / parent's */
    /* Share of the parent's routing mass, on its own activations, that went to dropped experts; NaN: not known. */
    struct wn_eval_figure misroute;
    uint64_t same;   /* tokens with the same best */
    uint64_t routed; /* tokens x layers behind misroute */
};

struct wn_eval_domain {
    char domain[64];
    char sha256[65];             /* of the text's file; empty for all together */
    uint64_t tokens;             /* of the whole text */
    uint64_t windows, predicted; /* scored: windows, and (window - 1) tokens of each */
    double nll, perplexity;      /* mean negative log-likelihood in nats; exp of it */
    /* Of a model with ghosts: the share of its routing mass that went to them, and of its choices; NaN: none. */
    double ghosted, ghost_choices;
    struct wn_eval_against against;
};

struct wn_eval_result {
    struct wn_eval_domain *domains; /* [text_count], owned */
    struct wn_eval_domain overall;  /* all predicted tokens together; domain "overall" */
    uint32_t window;
    uint64_t max_windows;                               /* of each text, as it was asked for; 0: all */
    char model_fingerprint[17], parent_fingerprint[17]; /* of the headers; the latter empty without a parent */
    char plan_sha256[65];                               /* of the file of `masked` or `plan`; empty without */
    /*
     * Where the dropped experts are known from: "plan", "record" (the model's, which names this parent), "model" (all
     * there, or config.json); NULL: not known.
     */
    const char *dropped;
    enum wn_ghosts ghosts; /* of the model, masked or built; WN_GHOSTS_OFF: none are chosen */
    struct wn_eval_need need;
};

/*
 * Streamed, canceled (WN_ERR_CANCELED), failed or killed, a run leaves what its finished layers gave, and the same call
 * goes on from there, to the same bits; what a run with another model, text or setting left is noted and thrown away
 * (the parent's part stays where that is the same). Only one run at a time may use a work folder (WN_ERR_BUSY).
 *
 * Progress counts tokens. On failure *result is all zero. Refused: a model without a vocabulary, another one in the
 * parent, a text of fewer tokens than one window, a plan of another model (WN_ERR_ARG), logits that are not finite
 * (WN_ERR_FORMAT), a need above ram (WN_ERR_ARG).
 */
WN_API WN_CHECKED bool wn_eval(const struct wn_model *m, struct wn_pool *pool, const struct wn_eval_options *o,
                               const struct wn_job *job, struct wn_eval_result *result, struct wn_err *err);
WN_API void wn_eval_result_release(struct wn_eval_result *r);

#endif
