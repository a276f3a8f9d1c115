/*
 * A model card for the hub, in Markdown: what a build says of itself and what logs measured of it, and nothing else.
 */
#ifndef WINNOW_CARD_H
#define WINNOW_CARD_H

#include <winnow/error.h>

/* Logs are JSON as winnow's commands print it with --json. All strings are borrowed. */
struct wn_card_options {
    const char *build;           /* a GGUF, an HF or an MLX folder, of any architecture */
    const char *const *evals;    /* [eval_count] of `winnow eval` */
    const char *const *verifies; /* [verify_count] of `winnow verify` */
    const char *const *runs;     /* [run_count] of `winnow run` */
    const char *plan_path;       /* what it was cut by; NULL: none is shown */
    size_t eval_count, verify_count, run_count;
};

/*
 * The card's text, *n bytes and a NUL, to be freed; NULL on failure. The same build and logs make the same bytes.
 * Weights are not read, only headers. One thread.
 *
 * Refused, by name (WN_ERR_FORMAT): a log that is of another command or tells no fingerprint, or another model's, or
 * not the SHA-256 of the build's record, where either has one; a verify that found a difference; a plan or a log by a
 * plan that is not the one of the build's record; a record that is damaged or of other files; a plan for a build
 * without a record.
 */
WN_API WN_CHECKED char *wn_card_text(const struct wn_card_options *o, size_t *n, struct wn_err *err);

/*
 * The same as a file, whole or not at all; *bytes is its size. `out` may be the README.md of the build's folder, with
 * overwrite, but no other file of it and no log. What that README.md told of license (and, when it was such a card,
 * base_model) stays in its place.
 */
WN_API WN_CHECKED bool wn_card_write(const struct wn_card_options *o, const char *out, bool overwrite, uint64_t *bytes,
                                     struct wn_err *err);

#endif
