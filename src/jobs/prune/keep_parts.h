/*
 * Between the layers that stay (keep.c) and the list of what is made of them (keep_tensors.c).
 */
#ifndef WN_JOBS_PRUNE_KEEP_PARTS_H
#define WN_JOBS_PRUNE_KEEP_PARTS_H

#include "jobs/prune/keep.h"

/* Fills tensors and names; sources, layers and identity are there. */
WN_CHECKED bool wn_keep_list(struct wn_keep *k, struct wn_err *err);

#endif
