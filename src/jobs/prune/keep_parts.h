/*
 * Between the layers that stay (keep.c), the list of what is made of them (keep_tensors.c), and the tensors of builds
 * with ghosts (keep_ghosts.c).
 */
#ifndef WN_JOBS_PRUNE_KEEP_PARTS_H
#define WN_JOBS_PRUNE_KEEP_PARTS_H

#include "jobs/prune/keep.h"
#include "model/names.h"

/* Fills tensors and names; sources, layers, ghosts and identity are there. */
WN_CHECKED bool wn_keep_list(struct wn_keep *k, struct wn_err *err);

/*
 * Sets what k says of ghosts, and with it whether it is the identity; layers are there. Where the source's ghosts go,
 * reads which rows of the router stay.
 */
WN_CHECKED bool wn_keep_set_ghosts(struct wn_keep *k, const struct wn_keep_how *how, struct wn_err *err);

/* Tensors that a layer with new ghosts has more. */
#define WN_GHOST_TENSORS 2
/*
 * Puts behind the matrix of layer l's router, which is the last of k's tensors, what says whose its rows are and the
 * ghosts' means. *names is room for their names, and moves behind them. Nothing happens when that tensor is the bias.
 */
void wn_keep_add_ghosts(struct wn_keep *k, const struct wn_keep_layer *l, char **names);

#endif
