/*
 * Routing counts out of an importance matrix of llama.cpp in GGUF form, for planning: of models whose forward pass
 * winnow does not have.
 *
 * A file of general.type "imatrix" has for each matrix NAME that was watched "NAME.in_sum2" and "NAME.counts", f32;
 * counts of a stack of experts [expert][1] are how many tokens were given to each, counts of other matrices have one
 * entry, all tokens.
 */
#ifndef WN_JOBS_PLAN_IMATRIX_H
#define WN_JOBS_PLAN_IMATRIX_H

#include "jobs/calibrate/saliency.h"

/* True when the file begins as a GGUF does; whether it is an imatrix, wn_imatrix_read tells. */
WN_CHECKED bool wn_imatrix_is(const char *path, bool *is, struct wn_err *err);

/*
 * An archive with counts and one source, "imatrix"; its saliency is all zero. top_k 0: the counts of a layer divided by
 * all tokens. Counts that are no whole numbers, or too many to be exact, are refused.
 */
WN_CHECKED bool wn_imatrix_read(struct wn_saliency *s, const char *path, uint32_t top_k, struct wn_err *err);

#endif
