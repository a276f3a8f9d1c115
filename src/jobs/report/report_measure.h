/*
 * The figures of a report: everything that the page says about an archive and a plan, computed here and drawn elsewhere
 * (report_draw.h). All shares are of saliency (gate x norm), 0..1, whatever criterion the plan was made by.
 *
 * A figure that the archive does not hold is not a number, which the page writes as "not measured".
 */
#ifndef WN_JOBS_REPORT_REPORT_MEASURE_H
#define WN_JOBS_REPORT_REPORT_MEASURE_H

#include "jobs/calibrate/saliency.h"
#include <winnow/plan.h>

enum {
    WN_REPORT_STEPS = 64, /* of a curve: values at i / 64 of the experts */
    WN_REPORT_WORST = 20  /* dropped experts that are listed */
};

struct wn_report_layer {
    uint32_t layer;     /* number in the model */
    uint32_t experts;   /* it has */
    uint32_t keep;      /* the plan keeps; without a plan half of them, rounded to nearest */
    uint32_t keep_best; /* of those kept, how many are among the `keep` with the largest saliency */
    uint32_t hi;        /* of those kept, how many have the source's bits; all where the layer is not graded */
    uint32_t hi_best;   /* of those, how many are among the `hi` with the largest saliency */
    uint32_t lo_bits;   /* of the others; 0: there are none */
    double kept;        /* share of saliency that stays; without a plan that of the best half */
    double kept_hi;     /* share that stays at the source's bits */
    double best;        /* the largest share that `keep` experts can have */
    double effective;   /* exp of the entropy of the shares: 1 (one expert does all) .. experts (all the same) */
    double gini;        /* 0 (all the same) .. 1 */
    double never;       /* experts that no token chose */
    double half_rank;   /* Spearman's rank correlation of the halves, -1..1, ties by their mean rank */
    double half_top;    /* share of the best `keep` of one half that are among those of the other */
};

/* An expert that the plan drops though it is among the best tenth of a source. */
struct wn_report_lost {
    uint32_t layer; /* index in `layers` */
    uint32_t expert, source;
    uint32_t rank; /* 1: the source's best in that layer */
    double share;  /* of the source's saliency in that layer */
};

struct wn_report_source {
    double kept;         /* share of its saliency that stays */
    double kept_hi;      /* share that stays at the source's bits */
    double lost_best;    /* (layer, expert) pairs of its best tenth that are dropped; not a number without a plan */
    uint32_t low_best;   /* such pairs that stay in fewer bits */
    uint32_t best_count; /* pairs in its best tenth */
    /* Share kept by i / 64 of each layer's experts: by the order of all sources together, and by its own. */
    double mixed[WN_REPORT_STEPS + 1], own[WN_REPORT_STEPS + 1];
};

struct wn_report_numbers {
    bool planned; /* there is a plan; otherwise what says "plan" is the best half of each layer */
    uint32_t layer_count, expert_count /* of the widest layer */, source_count;
    struct wn_report_layer *layers;   /* [layer], those with experts. Owned, like all here */
    struct wn_report_source *sources; /* [source] */
    double *ratio;            /* [layer][expert_count] by falling saliency: share x experts; 0 behind the last */
    struct wn_plan_kept kept; /* of the plan */
    /* Share kept by i / 64 of each layer's experts: all layers together, and the spread of single layers. */
    double curve[WN_REPORT_STEPS + 1], low[WN_REPORT_STEPS + 1], middle[WN_REPORT_STEPS + 1], high[WN_REPORT_STEPS + 1];
    double share_kept;                            /* experts kept, of all */
    bool graded;                                  /* some of them in fewer bits: two banks */
    double share_hi, kept_hi;                     /* experts at the source's bits, of all; the saliency they carry */
    uint32_t lo_bits_least, lo_bits_most;         /* of the others */
    uint32_t lost_count;                          /* dropped experts that are among the best tenth of some source */
    struct wn_report_lost worst[WN_REPORT_WORST]; /* of those, by falling share x experts */
    uint32_t worst_count;
    double half_rank, half_top; /* medians over layers */
    double half_chance;         /* what chance would give half_top: mean of keep / experts */
};

/*
 * plan NULL: none. Refused (WN_ERR_ARG): an archive without saliency, a plan that is not for its model. *n is all zero
 * on failure.
 */
WN_CHECKED bool wn_report_measure(struct wn_report_numbers *n, const struct wn_saliency *s, const struct wn_plan *plan,
                                  struct wn_err *err);
void wn_report_numbers_release(struct wn_report_numbers *n);

#endif
