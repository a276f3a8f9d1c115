/*
 * What probes measured of one source in one layer: KLD against the share of the criterion's sum that they dropped.
 */
#ifndef WN_JOBS_PLAN_PLAN_CURVE_H
#define WN_JOBS_PLAN_PLAN_CURVE_H

#include "jobs/plan/plan_rank.h"

/* The natural logarithms of both, at the points where something went and something was lost; x rises. */
struct wn_curve {
    uint32_t n;
    double x[WN_PROBE_POINTS_MOST], y[WN_PROBE_POINTS_MOST];
};

/* criterion: an additive one. No points where the source was not probed. */
void wn_curve_read(struct wn_curve *c, const struct wn_saliency *s, enum wn_criterion criterion, uint32_t layer,
                   uint32_t source);
/*
 * Nats a token when the share `dropped`, 0 .. 1, goes: straight between two points (of the logarithms, so a power law
 * of their own), and beyond the outer ones as between the two next to them, by a power of 0.5 to 4; by `power` where
 * there is one point only. The curve has points.
 */
double wn_curve_at(const struct wn_curve *c, double dropped, double power);

#endif
