/*
 * Saliency, streamed layer by layer: one layer of weights and the activations of the calibration set, never the model.
 */
#ifndef WINNOW_CALIBRATE_H
#define WINNOW_CALIBRATE_H

#include <winnow/job.h>
#include <winnow/model.h>
#include <winnow/pool.h>

struct wn_calibrate_options {
    const char *corpus;    /* JSONL of {"source","text"} (or "tokens": [ids]); or plain text, its source then "text" */
    const char *out;       /* SAL.npz; must not exist unless overwrite */
    bool overwrite;
    uint32_t sequence;     /* tokens per sequence; 0: 512. Texts of one source are joined and cut; what is left over is dropped */
    uint64_t max_tokens;   /* 0: all. Taken evenly from the front of the corpus, so the mix stays */
    const char *work;      /* folder of the resumable state; NULL: OUT.work. Removed when done */
    bool fresh;            /* ignore what an earlier run left */
    uint64_t ram;          /* bytes; 0: no limit. A need above it is refused with the smallest workable number */
};

struct wn_calibrate_need {
    uint64_t sequences, tokens, sources;
    uint64_t activations; /* bytes of the streams and banks of all tokens, on disk (mapped) */
    uint64_t layer;       /* largest layer */
    uint64_t scratch, records, peak; /* peak: resident bytes at most */
};

struct wn_calibrate_result {
    struct wn_calibrate_need need;
    uint32_t layers_done, layers_resumed;
    double seconds;
};

/* Tells what the job will take, without running it. */
WN_API WN_CHECKED bool wn_calibrate_plan(const struct wn_model *m, unsigned threads, const struct wn_calibrate_options *o,
                                         struct wn_calibrate_need *need, struct wn_err *err);
WN_API WN_CHECKED bool wn_calibrate(const struct wn_model *m, struct wn_pool *pool, const struct wn_calibrate_options *o,
                                    const struct wn_job *job, struct wn_calibrate_result *result, struct wn_err *err);

#endif
