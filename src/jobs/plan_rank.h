/*
 * Ranking experts: what both choosing (plan_make.c) and measuring (plan_measure.c) need. A figure is a row of one
 * number an expert, the larger the better; ties go to the lower id, so that a plan depends on nothing but the archive.
 */
#ifndef WN_JOBS_PLAN_RANK_H
#define WN_JOBS_PLAN_RANK_H

#include "jobs/saliency.h"
#include <winnow/plan.h>

enum wn_criterion { WN_CRITERION_REAP, WN_CRITERION_COUNT };

/* NULL is "reap". An unknown name is WN_ERR_ARG, with the list. */
WN_CHECKED bool wn_criterion_find(const char *name, enum wn_criterion *c, struct wn_err *err);

/* What expert `expert` of a layer has of the criterion: over all sources, and of one. */
double wn_criterion_total(const struct wn_saliency *s, enum wn_criterion c, uint32_t layer, uint32_t expert);
double wn_criterion_source(const struct wn_saliency *s, enum wn_criterion c, uint32_t source, uint32_t layer,
                           uint32_t expert);

struct wn_ranked {
    double score;
    uint32_t expert;
};
/* Best first. The caller fills score and expert. */
void wn_rank(struct wn_ranked *r, uint32_t n);

/* The figures of plan p by archive s, which must fit each other. *kept is all zero on failure. */
WN_CHECKED bool wn_plan_keeps(const struct wn_saliency *s, const struct wn_plan *p, struct wn_plan_kept *kept,
                              struct wn_err *err);

#endif
