/*
 * What a model's own words about its router must allow before experts may go; the same for both containers.
 */
#ifndef WN_JOBS_PRUNE_PRUNE_ROUTER_H
#define WN_JOBS_PRUNE_PRUNE_ROUTER_H

#include "jobs/prune/prune_meta.h"

struct wn_router_facts {
    uint64_t top_k, groups; /* 0: not told */
};

WN_CHECKED bool wn_router_check(const struct wn_keep *k, const struct wn_plan *plan,
                                const struct wn_router_facts *facts, struct wn_err *err);

#endif
