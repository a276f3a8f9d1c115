/*
 * What a choice of experts is predicted to lose, source by source: the sum over layers l of
 *
 *   cost_ls x dropped_ls ^ power,    dropped_ls = share of the criterion's sum of source s in layer l that goes; of an
 *                                    expert in fewer bits, what they leave out of it
 *
 * and over sources with their weights. The cost is what probes measured (KLD over dropped ^ power, nats a token), or,
 * without them, the mean square of what one expert's leaving changes in the residual stream: KLD is quadratic in small
 * changes. That one is known up to a common factor only. plan_loss.c makes the tables, plan_solve.c chooses by them.
 */
#ifndef WN_JOBS_PLAN_PLAN_LOSS_H
#define WN_JOBS_PLAN_PLAN_LOSS_H

#include "jobs/plan/plan_budget.h"
#include "jobs/plan/plan_curve.h"

/* Powers that are worked with: below 1 losses are not convex, and the solver's bound would be none. */
#define WN_POWER_LEAST 1.0
#define WN_POWER_MOST  4.0
/*
 * Single layers of k3-mini, at 71, 50, 36 and 20 % of their experts, follow a power of 1.2. A plan goes further down in
 * its cheap layers than probes do, where losses grow faster, and costs are measured: planned with 1.5 held-out text
 * loses less than with 1, 1.2, 2 or 3, and as much as is predicted (docs/fidelity.md). So this is what is used, and a
 * fit below it is not.
 */
#define WN_POWER_USUAL 1.5

struct wn_loss_layer {
    bool untold;            /* its probes tell nothing: it costs what the others do in the mean */
    double *cost;           /* [source]; not a number: not known. Owned, like all here */
    double *tail;           /* [experts + 1][source] share of the source's sum behind the first n of the ranking */
    struct wn_curve *curve; /* [source]: of losses that are told; NULL: cost and power alone */
};

struct wn_loss {
    enum wn_plan_basis basis;
    uint32_t source_count, n; /* sources of the archive; layers of the choice */
    double power;
    bool fitted;                  /* the power, to the probes of this archive */
    double *omega;                /* [source] weights, of a sum of 1; 0 where the cost is not known */
    struct wn_loss_layer *layers; /* [n] */
};

/*
 * For a ranked choice. factor [source]: as wn_weigh_sources gives it; NULL: sources count as they were counted. power
 * 0: WN_POWER_USUAL, or more where probes of several shares show it. Refused (WN_ERR_ARG): a basis that the
 * archive does not have, a source that weighs something and was not probed, a power out of range.
 */
WN_CHECKED bool wn_loss_init(struct wn_loss *l, const struct wn_saliency *s, enum wn_criterion criterion,
                             const struct wn_choice *c, const double *factor, enum wn_plan_basis basis, double power,
                             struct wn_err *err);
/*
 * Losses as they are told, not as they are chosen by. One law for every plan, so that plans by different criteria can
 * be compared: shares are those of loo's sum where the archive has it, whatever ranks the experts. And along the
 * probes' own points: a choice needs smooth and convex losses, a prediction does not. Over twelve plans of k3-mini at
 * 50 % the order predicted and the order measured so have a rank correlation of 0.97 instead of 0.80
 * (docs/fidelity.md).
 */
WN_CHECKED bool wn_loss_init_told(struct wn_loss *l, const struct wn_saliency *s, enum wn_criterion criterion,
                                  const struct wn_choice *c, const double *factor, enum wn_plan_basis basis,
                                  double power, struct wn_err *err);
void wn_loss_release(struct wn_loss *l);

/* What source s loses in layer i when so many of it stay, the first hi with their bytes; not a number: not known. */
double wn_loss_of(const struct wn_loss *l, uint32_t i, uint32_t s, double fidelity, uint32_t hi, uint32_t kept);
/* All sources with their weights. */
double wn_loss_layer(const struct wn_loss *l, uint32_t i, double fidelity, uint32_t hi, uint32_t kept);
/* Sums over the layers of a choice: of a source, and weighed. */
double wn_loss_source(const struct wn_loss *l, const struct wn_choice *c, uint32_t s);
double wn_loss_all(const struct wn_loss *l, const struct wn_choice *c);

/*
 * Into the room, or WN_ERR_ARG with what the floor takes: the numbers of each layer that lose the least. *bound is what
 * no choice within the room can lose less than (the tangent of the losses where this one stands, relaxed to parts of
 * experts in any order). With experts of equal bytes and losses that are convex along the ranking, as those of one
 * source are, there is no better choice; with several sources, two banks or other bytes it is near the bound.
 */
WN_CHECKED bool wn_solve_loss(struct wn_choice *c, const struct wn_loss *l, double *bound, struct wn_err *err);

#endif
