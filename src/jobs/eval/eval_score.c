/*
 * Rows of the last stream to losses (divergence.h). Logits of several positions are kept and scored together, one
 * position a piece of work.
 */
#include "jobs/divergence.h"
#include "jobs/eval/eval_parts.h"

#include <math.h>

struct batch {
    struct wn_eval_job *job;
    const uint32_t *next; /* what followed each position */
    size_t vocab, at;     /* at: of the batch's first among all predictions */
};

static void score_piece(void *arg, size_t i, unsigned worker)
{
    const struct batch *b = arg;
    const struct wn_eval_losses *out = &b->job->losses;
    const float *model = b->job->logits + i * b->vocab, *parent = model + WN_LOGIT_ROWS * b->vocab;
    size_t at = b->at + i;
    struct wn_row mine, theirs;

    (void)worker;
    if (!wn_row_is_finite(model, b->vocab) || (out->kld && !wn_row_is_finite(parent, b->vocab))) {
        out->nll[at] = (double)NAN;
        return;
    }
    mine = wn_row_of(model, b->vocab);
    out->nll[at] = wn_row_nll(&mine, b->next[i]);
    if (!out->kld)
        return;
    theirs = wn_row_of(parent, b->vocab);
    out->parent_nll[at] = wn_row_nll(&theirs, b->next[i]);
    out->kld[at] = wn_row_kld(&theirs, &mine, b->vocab);
    out->same[at] = mine.best == theirs.best;
}

uint64_t wn_eval_logits_bytes(const struct wn_eval_job *e)
{
    return (uint64_t)e->sides * WN_LOGIT_ROWS * e->side[WN_EVAL_MODEL].config->vocab_size * sizeof(float);
}

void wn_eval_score(struct wn_eval_job *e, const struct wn_eval_rows *rows, size_t window, uint32_t first)
{
    size_t text, tokens = rows[WN_EVAL_MODEL].stream->tokens;
    const uint32_t *next = wn_eval_window(e, window, &text) + first + 1;
    struct batch b = {.job = e, .vocab = e->side[WN_EVAL_MODEL].config->vocab_size};

    for (size_t i = 0; i < tokens; i += WN_LOGIT_ROWS) {
        size_t n = tokens - i < WN_LOGIT_ROWS ? tokens - i : WN_LOGIT_ROWS;

        for (unsigned k = 0; k < e->sides; k++)
            wn_logits(rows[k].ctx, rows[k].ends, rows[k].stream, i, n, e->logits + k * WN_LOGIT_ROWS * b.vocab);
        b.next = next + i;
        b.at = window * wn_eval_predicted(e) + first + i;
        wn_pool_run(e->pool, score_piece, &b, n);
    }
}

/* The share of token after token; a token without any weight (no number) would make the sum one that shows it. */
void wn_eval_meter_routed(void *arg, int32_t layer, const uint32_t *ids, const float *weights, const float *outputs,
                          size_t tokens, size_t k, size_t width)
{
    const struct wn_eval_meter *m = arg;
    const struct wn_dropped *d = &m->job->dropped;
    double *sum =
        &m->job->losses.misroute[m->window * m->job->side[WN_EVAL_PARENT].config->layer_count + (size_t)layer];

    (void)outputs;
    (void)width;
    for (size_t t = 0; t < tokens; t++) {
        double all = 0, lost = 0;

        for (size_t i = t * k; i < (t + 1) * k; i++) {
            all += (double)weights[i];
            lost += wn_dropped_at(d, (uint32_t)layer, ids[i]) ? (double)weights[i] : 0;
        }
        *sum += lost / all;
    }
}
