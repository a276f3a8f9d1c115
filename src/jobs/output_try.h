/* An output that is written at the end of a long job, looked at before it begins. */
#ifndef WN_JOBS_OUTPUT_TRY_H
#define WN_JOBS_OUTPUT_TRY_H

#include <winnow/job.h>

/*
 * What would only be found out at the end: the output is begun, and left for later. Refused: an empty name, what
 * wn_outfile_open refuses, and what wn_output_spares does.
 */
WN_CHECKED bool wn_output_try(const char *out, bool overwrite, const char *const *inputs, size_t n,
                              const struct wn_model *m, struct wn_err *err);

#endif
