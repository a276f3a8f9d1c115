/*
 * Whether two GGUFs are one model at two precisions, so that an expert of either may stand for that of the other. A
 * build of two models' experts would load, speak fluently, and be neither.
 */
#ifndef WN_JOBS_PRUNE_TWINS_H
#define WN_JOBS_PRUNE_TWINS_H

#include "formats/source.h"

/*
 * Refused (WN_ERR_ARG) with the first thing that differs, by name and number:
 *
 *   metadata   the architecture; a key of it that both have (but for the length of context and its scaling); the
 *              ordinary tokens
 *   tensors    shapes; experts or routers that only one of them has. Others may be missing, since they are not taken
 *   routers    bytes, where both have one type: the order of the rows is that of the experts. Of two types the rows
 *              must point the same way
 *   experts    a few rows of each stack are decoded and must point the same way; rows of zeros say nothing
 *
 * So are experts of the second whose type winnow cannot compute with: nobody else reads such a bank.
 */
WN_CHECKED bool wn_twins_check(const struct wn_source *first, const struct wn_source *second, struct wn_err *err);

/* The part about metadata. */
WN_CHECKED bool wn_twins_check_meta(const struct wn_source *first, const struct wn_source *second, struct wn_err *err);

/*
 * Row `row` of t, counted over all dimensions but the last, decoded into that dimension's floats at dst. Refuses a type
 * that cannot be decoded, and rows that are no whole blocks.
 */
WN_CHECKED bool wn_twins_row(const struct wn_source *s, const struct wn_tensor *t, uint64_t row, float *dst,
                             struct wn_err *err);

#endif
