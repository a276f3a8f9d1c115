/*
 * What the logits of one position say, alone and against another model's for the same position. With a the parent's
 * logits and b the model's, f32, all else in f64:
 *
 *   lse(l) = ln sum_i exp(l_i - max) + max;   nll = lse(l) - l_next
 *   KLD = sum_i p_i (ln p_i - ln q_i) = sum_i exp(a_i - max) (a_i - b_i) / sum_i exp(a_i - max) + lse(b) - lse(a)
 *
 * so that a model against itself has exactly 0. Each sum has one order, on any machine.
 */
#ifndef WN_JOBS_DIVERGENCE_H
#define WN_JOBS_DIVERGENCE_H

#include <winnow/common.h>

/* Positions whose logits are worth computing together: a head's rows are then read once for all of them. */
#define WN_LOGIT_ROWS 16

/* One row of logits; borrowed. */
struct wn_row {
    const float *logits;
    size_t best;       /* the first of the largest */
    double max, total; /* total: sum_i exp(l_i - max) */
};

bool wn_row_is_finite(const float *logits, size_t vocab);
/* The logits must be finite. */
struct wn_row wn_row_of(const float *logits, size_t vocab);
/* Nats that the token costs which followed. */
double wn_row_nll(const struct wn_row *r, uint32_t next);
/* Nats, not below 0. */
double wn_row_kld(const struct wn_row *parent, const struct wn_row *model, size_t vocab);

#endif
