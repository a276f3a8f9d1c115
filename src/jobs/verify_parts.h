/*
 * The parts of verify: tensors (verify.c), metadata and the files beside the weights (verify_meta.c), and what can be
 * said without a source (verify_alone.c).
 */
#ifndef WN_JOBS_VERIFY_PARTS_H
#define WN_JOBS_VERIFY_PARTS_H

#include "jobs/keep.h"
#include <winnow/prune.h>

/* k: what should have been made of the source. A difference is WN_ERR_DIFFERENT. *same: not one byte of it differs. */
WN_CHECKED bool wn_verify_kv(const struct wn_keep *k, const struct wn_plan *plan, const struct wn_source *out,
                             struct wn_err *err);
WN_CHECKED bool wn_verify_folder(const struct wn_keep *k, const struct wn_plan *plan, const struct wn_source *out,
                                 bool *same, struct wn_err *err);

/*
 * The model opens, every part has its shape, and counts and special ids agree. Says by job->note what was not checked.
 */
WN_CHECKED bool wn_verify_alone(const char *path, const struct wn_job *job, struct wn_verify_result *r,
                                struct wn_err *err);

#endif
