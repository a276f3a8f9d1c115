/*
 * A saliency archive, and what a plan makes of it, as one self-contained HTML page: inline SVG, no scripts, nothing
 * from a network.
 */
#ifndef WINNOW_REPORT_H
#define WINNOW_REPORT_H

#include <winnow/error.h>

struct wn_report_options {
    const char *saliency_path;
    const char *plan_path; /* NULL: none; the figures that need a number of experts then take half of them */
    /* Results as `winnow eval --json` prints them; changes are told against the first. */
    const char *const *eval_paths; /* [eval_count] */
    size_t eval_count;
    bool overwrite; /* of the output */
};

/*
 * Writes the page to `out`, whole or not at all; *bytes is its size. Memory: the archive and about as much again.
 * Refused: a plan that is not for the archive's model, results without a list of domains; by name. One thread.
 */
WN_API WN_CHECKED bool wn_report(const struct wn_report_options *o, const char *out, uint64_t *bytes,
                                 struct wn_err *err);

#endif
