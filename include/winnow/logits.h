/*
 * The logits of every position of a sequence, as a file that numpy reads.
 */
#ifndef WINNOW_LOGITS_H
#define WINNOW_LOGITS_H

#include <winnow/job.h>
#include <winnow/session.h>

/*
 * Writes f32 [count][vocab_size] to path (.npy), row by row, so that memory does not grow with count. Whole or not at
 * all; an existing path is refused unless overwrite. No ids, or one outside the vocabulary: WN_ERR_ARG.
 */
WN_API WN_CHECKED bool wn_logits_write(const struct wn_model *m, const struct wn_weights *w, struct wn_pool *pool,
                                       const uint32_t *ids, size_t count, const char *path, bool overwrite,
                                       const struct wn_job *job, struct wn_err *err);

#endif
