/*
 * Ranking experts: what choosing (plan_make.c, plan_budget.c), measuring (plan_measure.c) and reporting need. A figure
 * is a row of one number an expert, the larger the better; ties go to the lower id, so that a plan depends on nothing
 * but the archive.
 */
#ifndef WN_JOBS_PLAN_PLAN_RANK_H
#define WN_JOBS_PLAN_PLAN_RANK_H

#include "jobs/calibrate/saliency.h"
#include <winnow/plan.h>

enum wn_criterion {
    WN_CRITERION_REAP,
    WN_CRITERION_REAP_MEAN,
    WN_CRITERION_COUNT,
    WN_CRITERION_GATE,
    WN_CRITERION_NORM_MEAN,
    WN_CRITERION_SHARE,
    WN_CRITERION_LOO,
    WN_CRITERION_END
};

/* An unknown name is WN_ERR_ARG, with the list. */
WN_CHECKED bool wn_criterion_find(const char *name, enum wn_criterion *c, struct wn_err *err);
const char *wn_criterion_name(enum wn_criterion c);
/* False, saying what is missing, when the archive does not have the sums that the criterion is made of. */
WN_CHECKED bool wn_criterion_in(const struct wn_saliency *s, enum wn_criterion c, struct wn_err *err);
/* Whether there are sums of loo, and not only zeros. */
bool wn_criterion_has_loo(const struct wn_saliency *s);
/*
 * The one that is named and in the archive. NULL: "loo" where the archive has its sums, else "reap", which any archive
 * has: held-out text loses less by loo at every size (docs/fidelity.md).
 */
WN_CHECKED bool wn_criterion_choose(const struct wn_saliency *s, const char *name, enum wn_criterion *c,
                                    struct wn_err *err);
/*
 * The one whose sums tell what share of it stays: itself, but for means over routed tokens, which do not add up; there
 * it is reap, gate x norm.
 */
enum wn_criterion wn_criterion_measured(enum wn_criterion c);

/*
 * What expert `expert` of a layer has of an additive criterion (wn_criterion_measured): over all sources, and of one.
 */
double wn_criterion_total(const struct wn_saliency *s, enum wn_criterion c, uint32_t layer, uint32_t expert);
double wn_criterion_source(const struct wn_saliency *s, enum wn_criterion c, uint32_t source, uint32_t layer,
                           uint32_t expert);

/*
 * factor [source]: what one unit of that source's sum counts for; by the weights of o, which must be there. Weights are
 * per token, so a source that had more of them does not count for more.
 */
WN_CHECKED bool wn_weigh_sources(const struct wn_saliency *s, const struct wn_plan_options *o, double *factor,
                                 struct wn_err *err);
/* The criterion's figure for one expert; factor NULL: all sources as they were counted. */
double wn_score(const struct wn_saliency *s, enum wn_criterion c, const double *factor, uint32_t layer,
                uint32_t expert);

struct wn_ranked {
    double score;
    uint32_t expert;
};
/* Best first. The caller fills score and expert. */
void wn_rank(struct wn_ranked *r, uint32_t n);

/* A saliency archive, or an imatrix of llama.cpp (imatrix.h): what can be planned from. */
WN_CHECKED bool wn_archive_read(struct wn_saliency *s, const char *path, uint32_t top_k, struct wn_err *err);

/* The figures of plan p by archive s, which must fit each other. *kept is all zero on failure. */
WN_CHECKED bool wn_plan_keeps(const struct wn_saliency *s, const struct wn_plan *p, struct wn_plan_kept *kept,
                              struct wn_err *err);

#endif
