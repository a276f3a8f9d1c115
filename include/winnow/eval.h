/*
 * Perplexity per domain over fixed, non-overlapping windows: positions 1 .. window - 1 of every whole window are predicted,
 * the last partial window is dropped, no BOS.
 */
#ifndef WINNOW_EVAL_H
#define WINNOW_EVAL_H

#include <winnow/job.h>
#include <winnow/session.h>

struct wn_eval_text {
    const char *domain, *path;
};

struct wn_eval_options {
    const struct wn_eval_text *texts;
    size_t text_count;
    uint32_t window;      /* 0: 512 */
    uint64_t max_windows; /* per text; 0: all */
};

struct wn_eval_domain {
    char domain[64];
    uint64_t tokens, windows, predicted;
    double nll, perplexity; /* mean negative log-likelihood in nats; exp of it */
};

/* results: [text_count], the caller's. */
WN_API WN_CHECKED bool wn_eval(const struct wn_model *m, const struct wn_weights *w, struct wn_pool *pool,
                               const struct wn_eval_options *o, const struct wn_job *job, struct wn_eval_domain *results,
                               struct wn_err *err);

#endif
