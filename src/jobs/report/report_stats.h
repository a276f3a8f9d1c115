/*
 * Statistics of a report that know nothing of archives.
 */
#ifndef WN_JOBS_REPORT_REPORT_STATS_H
#define WN_JOBS_REPORT_REPORT_STATS_H

#include "jobs/plan/plan_rank.h"

/* The middle of n numbers (the mean of two), which are sorted on the way; not a number when there is none. */
double wn_report_median(double *v, size_t n);
/*
 * Spearman's correlation of a and b [n], equal values by their mean rank; not a number when one of them does not vary.
 */
WN_CHECKED bool wn_report_rank_correlation(const double *a, const double *b, uint32_t n, double *rho,
                                           struct wn_err *err);
/*
 * How evenly `sum` is spread over r [n], whose scores add up to it and fall: the number of experts that would have the
 * same entropy if all were equal, 1..n; and Gini's coefficient, 0 (even) .. 1. Not a number when sum is 0.
 */
double wn_report_effective(const struct wn_ranked *r, uint32_t n, double sum);
double wn_report_gini(const struct wn_ranked *r, uint32_t n, double sum);

#endif
