/*
 * Which experts stay. A plan is JSON, a superset of the plans that exist (docs/formats/plan.md).
 */
#ifndef WINNOW_PLAN_H
#define WINNOW_PLAN_H

#include <winnow/model.h>

struct wn_plan_layer {
    uint32_t layer; /* 0-based tensor layer number */
    uint32_t keep_count;
    uint32_t *keep; /* old expert ids in the new order; owned */
    /*
     * A graded layer: the first hi_count keep their bytes, the rest are stored in lo_bits. lo_bits 0: all keep theirs.
     */
    uint32_t hi_count, lo_bits;
};

/* By what losses are predicted. */
enum wn_plan_basis {
    WN_BASIS_NONE,
    WN_BASIS_PROBE, /* KLD that `winnow probe` measured: nats a token */
    WN_BASIS_PROXY  /* what leaving experts out changes in the residual stream: up to a common factor */
};

/* What a source is predicted to lose, and what it would by the same number in each layer (0: not told). */
struct wn_plan_loss {
    char source[64];
    double loss, same;
};

struct wn_plan {
    char sha256[65]; /* of the file that it was read from; empty: of none */
    char mode[16];   /* "uniform", "global", "graded" */
    uint32_t top_k, num_experts, min_experts;
    uint32_t layer_count;         /* MoE layers */
    struct wn_plan_layer *layers; /* by rising layer; owned */
    /* The "winnow" part; empty strings and zeros in plans by others. */
    char criterion[16];
    char weights[256]; /* "code=2,en=1"; empty: all sources as they were counted */
    double kept;       /* share of the criterion that stays, 0..1 */
    uint64_t bytes;    /* of the build's files as they were predicted (wn_fit_predict); 0: not told */
    /* What the number of experts was solved from: memory that a run may take, or bytes of tensors; 0: from neither. */
    uint64_t asked_memory, asked_size;
    uint32_t protect; /* loudest experts of each layer that stay however they rank */
    bool raw;         /* layers were compared by sums as they are, not by shares of their layer's */
    char budget[16];  /* how experts were divided among the layers: "uniform", "global", "probe", "proxy" */
    /* Predicted losses, where they were; basis WN_BASIS_NONE: they were not. */
    enum wn_plan_basis basis;
    enum wn_ghosts probed;       /* what stood for the dropped experts when probed; WN_GHOSTS_BUILT: not told */
    double power, loss;          /* of all sources with their weights */
    double loss_same;            /* of as many bytes with the same number in each layer; 0: not told, or they are so */
    struct wn_plan_loss *losses; /* [loss_count]; owned */
    uint32_t loss_count;
    char saliency_fingerprint[17], model_fingerprint[17];
};

WN_API void wn_plan_release(struct wn_plan *p);
/*
 * Refuses: ids out of range or twice, fewer than top_k kept, "bits" that are no build (docs/formats/plan.md),
 * contradictions; by name and number. On failure *p is all zero.
 */
WN_API WN_CHECKED bool wn_plan_read(struct wn_plan *p, const char *path, struct wn_err *err);
WN_API WN_CHECKED bool wn_plan_parse(struct wn_plan *p, const char *json, size_t n, struct wn_err *err);
WN_API WN_CHECKED bool wn_plan_write(const struct wn_plan *p, const char *path, bool overwrite, struct wn_err *err);
/*
 * True when what it is predicted to lose was probed with something else in the place of dropped experts than a build
 * will have: then it may lose more or less. WN_GHOSTS_BUILT is none, WN_GHOSTS_OFF.
 */
WN_API bool wn_plan_probed_otherwise(const struct wn_plan *p, enum wn_ghosts build);
/* NULL when the layer is not in the plan. */
WN_API const struct wn_plan_layer *wn_plan_find(const struct wn_plan *p, uint32_t layer);
/* "probe", "proxy", "none" */
WN_API const char *wn_plan_basis_name(enum wn_plan_basis basis);
/* True when every layer keeps the same number. */
WN_API bool wn_plan_is_uniform(const struct wn_plan *p);
/* True when a layer has experts of fewer bits. */
WN_API bool wn_plan_is_graded(const struct wn_plan *p);

/* Making one from a saliency archive. */

#define WN_WEIGHT_MOST 1e6 /* only what they are to each other counts */

struct wn_source_weight {
    const char *source; /* label in the archive */
    double weight;      /* 0 .. WN_WEIGHT_MOST */
};

/* False (WN_ERR_ARG, naming those that there are) when it is none. */
WN_API WN_CHECKED bool wn_plan_criterion_known(const char *name, struct wn_err *err);

enum wn_plan_mode {
    WN_PLAN_UNIFORM, /* the same number in each layer */
    WN_PLAN_GLOBAL,  /* the best of all layers together: layers keep different numbers */
    WN_PLAN_GRADED,  /* in each layer the first `hi` keep their bytes, the next `lo` become lo_bits */
    /* Layers keep different numbers, by which the predicted loss is least: by probes, or by the proxy. */
    WN_PLAN_PROBE,
    WN_PLAN_PROXY
};

struct wn_fit; /* fit.h: the sizes of a model, and what it must fit into */

struct wn_plan_options {
    enum wn_plan_mode mode;
    /* All but graded: experts per layer, in the mean where they differ; 0: from keep_share, or the budget of `fit`. */
    uint32_t keep;
    double keep_share; /* 0..1 of num_experts, rounded to nearest; used when keep is 0 */
    uint32_t hi, lo;   /* graded; a 0 is solved from the budget of `fit` */
    /* Of experts of fewer bits. 0: those of the fit's second parent; without one 2 (graded) or none (the others). */
    uint32_t lo_bits;
    double power; /* of predicted losses, 1 .. 4; 0: 1.5, or more where probes of several shares show it */
    /*
     * The largest norms of each layer stay with their bytes, so many experts, wherever the criterion ranks them: they
     * are rare and loud, and a mean does not see them.
     */
    uint32_t protect;
    bool raw;              /* global: sums as they are, not as shares of their layer's sum */
    const char *criterion; /* NULL: "loo" where the archive has its sums, otherwise "reap" */
    /*
     * NULL: all sources as they were counted. Otherwise each source's mean per token of its own, times its weight; a
     * source that is not named weighs nothing.
     */
    const struct wn_source_weight *weights;
    size_t weight_count;
    uint32_t min_experts; /* 0: 4 x top-k, or top-k where the model has no more experts than that */
    uint32_t top_k;       /* of archives that do not tell it; 0: they must, or the model of `fit` does */
    /*
     * Borrowed; NULL: no sizes are known. With a budget it says how many stay. Its lo_bits must be those of the plan.
     */
    const struct wn_fit *fit;
};

/*
 * Shares of the criterion that stay, 0..1; of gate x norm where it is a mean over routed tokens, which does not add up.
 * Where there was nothing to lose the share is 1. Layers are those of the plan, in its order; source_count is 0 for
 * archives that have no sums per source. Arrays are owned.
 */
struct wn_plan_kept {
    size_t source_count, layer_count;
    char **source;             /* labels */
    double *kept_source_layer; /* [source][layer] */
    double *kept_source;       /* [source], over all layers */
    double *kept_layer;        /* [layer], all sources as they were counted */
    double kept;               /* overall */
    double *overlap;           /* [source][source]: share of the best (as many as kept) in common, mean over layers */
    double chance;             /* the overlap that chance would give: kept / experts, mean over layers */
    double kept_low;           /* what of `kept` lies in experts of fewer bits */
    double low_routed;         /* share of the choices of experts that stay which fall on those */
    /*
     * Of a plan that was solved from a budget: kept saliency times fidelity that was reached, the mean of the layers'
     * shares, and what no choice of experts can exceed in the same bytes. 0: it was not.
     */
    double reached, bound;
    /*
     * Predicted losses: of all sources with their weights and of each (not a number: not known); of the plan, and of
     * one that keeps the same number in each layer within the same budget. And the share of what this plan loses that
     * no choice within its budget can go below, both by the power; 0 where nothing was chosen by loss. Of a uniform
     * plan what the same budget would lose with layers that keep different numbers, chosen by loss; 0: not known.
     */
    enum wn_plan_basis basis;      /* WN_BASIS_NONE: there is nothing to predict by */
    enum wn_ghosts probed;         /* as in struct wn_plan */
    uint32_t untold, untold_layer; /* layers whose probes tell nothing, which count as the others' mean; the first */
    double power;
    bool power_fitted; /* to the probes */
    double loss, loss_same, loss_bound, loss_apart;
    double *loss_source, *loss_same_source; /* [source] */
};
WN_API void wn_plan_kept_release(struct wn_plan_kept *k);

/* kept may be NULL. On failure both are all zero. */
WN_API WN_CHECKED bool wn_plan_make(const char *saliency_path, const struct wn_plan_options *o, struct wn_plan *p,
                                    struct wn_plan_kept *kept, struct wn_err *err);
/* The same figures for a plan that exists. */
WN_API WN_CHECKED bool wn_plan_measure(const char *saliency_path, const struct wn_plan *p, struct wn_plan_kept *kept,
                                       struct wn_err *err);

#endif
