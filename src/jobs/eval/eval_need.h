/* What an evaluation takes, told before it starts and kept to. */
#ifndef WN_JOBS_EVAL_EVAL_NEED_H
#define WN_JOBS_EVAL_EVAL_NEED_H

#include "jobs/eval/eval_parts.h"

/* What the process holds before any weight is bound. */
void wn_eval_measure_base(struct wn_eval_job *e);

/* Fills weights, scratch and disk of the need for a chunk of so many tokens. */
typedef void wn_eval_size_fn(const void *arg, struct wn_eval_job *e, uint32_t chunk);

/*
 * Works the need out with the largest chunk that the limit allows, tells the listener, and takes the memory of logits
 * and losses. Refused: a need above the limit (WN_ERR_ARG, with the number that works); the listener's no
 * (WN_ERR_CANCELED).
 */
WN_CHECKED bool wn_eval_fit(struct wn_eval_job *e, wn_eval_size_fn *size, const void *arg, struct wn_err *err);

/* Resident bytes of embedding and head; the embedding only where its rows are looked up. */
uint64_t wn_eval_ends_bytes(const struct wn_ends *ends, bool embedding);

#endif
