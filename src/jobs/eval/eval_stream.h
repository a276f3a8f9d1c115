/*
 * The work folder of a streamed evaluation (eval_stream.c): where it is, what ties it to a run, and what of an earlier
 * run is taken up.
 *
 *     WORK           the model's streams and records (jobs/stream/store.h)
 *     WORK/parent    the parent's
 */
#ifndef WN_JOBS_EVAL_EVAL_STREAM_H
#define WN_JOBS_EVAL_EVAL_STREAM_H

#include "jobs/eval/eval_parts.h"
#include "jobs/stream/walk.h"

/* All zero: not open. */
struct wn_eval_work {
    const struct wn_eval_job *e;
    struct wn_store store[WN_EVAL_SIDES]; /* WN_EVAL_MODEL: of the folder itself */
    char *record;                         /* what a layer's holds; owned */
};

/* Tokens that go through the layers. */
static inline uint64_t wn_eval_all_tokens(const struct wn_eval_job *e)
{
    return (uint64_t)e->windows * wn_eval_predicted(e);
}

/* Bytes of activations on disk of one side, at most. */
uint64_t wn_eval_work_bytes(const struct wn_eval_job *e, unsigned side);

/*
 * Opens the folders of all sides. Where nobody named one, it is the first of WN_EVAL_WORK, winnow-eval.2.work ... that
 * no other run holds. What runs of other texts, models or settings left is thrown away, with a note. On failure it is
 * to be closed, too.
 */
WN_CHECKED bool wn_eval_work_open(struct wn_eval_work *w, const struct wn_eval_job *e, struct wn_err *err);
/* done, or no layer is finished: the folder is removed. Otherwise it stays, with a note, for the next run. */
void wn_eval_work_close(struct wn_eval_work *w, bool done);

/* wn_walk_take_up of a side; its records are losses of the job. */
WN_CHECKED bool wn_eval_work_take_up(struct wn_eval_work *w, unsigned side, const struct wn_walk *walk, uint32_t *done,
                                     struct wn_err *err);
/*
 * What a finished layer gave besides its stream, window by window: the shares that the parent's router gave to dropped
 * experts, the model's to ghosts. Good until the next.
 */
struct wn_bytes wn_eval_work_record(struct wn_eval_work *w, unsigned side, uint32_t layer);
/* Bytes of the largest of them. */
uint64_t wn_eval_work_record_bytes(const struct wn_eval_job *e);

#endif
