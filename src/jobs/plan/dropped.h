/*
 * Which experts of a whole model a cut drops: by a plan, by the lists in the cut's record (docs/formats/provenance.md),
 * or by those that an MLX folder's config.json keeps ("reap": {"source_num_experts", "keep": {"1": [old ids]}}).
 */
#ifndef WN_JOBS_PLAN_DROPPED_H
#define WN_JOBS_PLAN_DROPPED_H

#include "model/weights.h"
#include <winnow/plan.h>

struct wn_dropped {
    uint8_t *flags;   /* owned: [layer][experts], 1: dropped; NULL: not known */
    uint32_t experts; /* of the widest layer of the whole model */
    bool by_record;   /* whose word it is */
    /* Where the dropped ones are ghosts; NULL: they are never chosen. All owned. */
    uint32_t *serves;         /* [layer][experts]: weights.h */
    struct wn_matrix *ghosts; /* [layer]: their means, rows 0 where they give nothing */
    uint16_t *means;          /* f16, what those matrices are views of */
};

/*
 * whole: the model that the plan is for, and cut: what it was made into, or NULL. Refused (WN_ERR_ARG), with the
 * layer: a plan of other layers or other numbers of experts than the two have.
 */
WN_CHECKED bool wn_dropped_init(struct wn_dropped *d, const struct wn_plan *plan, const struct wn_config *whole,
                                const struct wn_config *cut, struct wn_err *err);
/*
 * By the model itself: where it has all the experts, none is dropped; otherwise by its record, if that names `whole` as
 * a parent, or by the config.json of its folder. No list in either: d stays empty and the answer is true.
 */
WN_CHECKED bool wn_dropped_read(struct wn_dropped *d, const struct wn_model *cut, const struct wn_model *whole,
                                struct wn_err *err);
/* A plan by which, as its record says, the build was not cut is refused, with both digests. */
WN_CHECKED bool wn_dropped_check_plan(const struct wn_model *cut, const struct wn_plan *plan, struct wn_err *err);
void wn_dropped_release(struct wn_dropped *d);

static inline bool wn_dropped_at(const struct wn_dropped *d, uint32_t layer, uint32_t expert)
{
    return d->flags[(size_t)layer * d->experts + expert];
}

/*
 * Makes ghosts of them: with WN_GHOSTS_MEAN they give the means of `saliency`, an archive of the whole model;
 * WN_GHOSTS_SKIP: nothing. Other modes leave them as they are. The archive is read here only. One that is of another
 * model by its fingerprint, or does not tell, is refused, but with `force`.
 */
WN_CHECKED bool wn_dropped_make_ghosts(struct wn_dropped *d, enum wn_ghosts mode, const char *saliency,
                                       const struct wn_model *whole, bool force, struct wn_err *err);

/*
 * In a bound layer of the whole model the router never chooses what is dropped, or takes them for ghosts: it has the
 * bits of the build. What the layer then points into is d's.
 */
void wn_dropped_mask(const struct wn_dropped *d, struct wn_layer *layer);

#endif
