/*
 * Perplexity per domain over fixed, non-overlapping windows from the start of a text: positions 1 .. window - 1 of
 * every whole window are predicted, each window from an empty state; the last partial window is dropped; no BOS.
 *
 * The log-softmax is taken in f64 from the f32 logits, and summed in the order of the text: the same bits for any
 * number of threads and on any processor.
 */
#ifndef WINNOW_EVAL_H
#define WINNOW_EVAL_H

#include <winnow/job.h>
#include <winnow/session.h>

struct wn_eval_text {
    const char *domain, *path; /* the domain is a label for the result, at most 63 bytes */
};

struct wn_eval_options {
    const struct wn_eval_text *texts;
    size_t text_count;
    uint32_t window;      /* 0: 512; otherwise 2 .. the model's context */
    uint64_t max_windows; /* per text, from its start; 0: all */
};

struct wn_eval_domain {
    char domain[64];
    uint64_t tokens;             /* of the whole text */
    uint64_t windows, predicted; /* scored: windows, and (window - 1) tokens of each */
    double nll, perplexity;      /* mean negative log-likelihood in nats; exp of it */
};

/*
 * results: [text_count], the caller's. Progress counts tokens of one text after the other. Refused: a model without a
 * vocabulary, a text of fewer tokens than one window (WN_ERR_ARG), logits that are not finite (WN_ERR_FORMAT).
 */
WN_API WN_CHECKED bool wn_eval(const struct wn_model *m, const struct wn_weights *w, struct wn_pool *pool,
                               const struct wn_eval_options *o, const struct wn_job *job,
                               struct wn_eval_domain *results, struct wn_err *err);

#endif
