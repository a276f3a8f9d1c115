/*
 * Rows of the last stream to losses. With a the parent's logits and b the model's, f32, all else in f64:
 *
 *   lse(l) = ln sum_i exp(l_i - max) + max;   nll = lse(l) - l_next
 *   KLD = sum_i p_i (ln p_i - ln q_i) = sum_i exp(a_i - max) (a_i - b_i) / sum_i exp(a_i - max) + lse(b) - lse(a)
 *
 * so that a model against itself has exactly 0. Logits of several positions are kept and scored together, one position
 * a piece of work; each sum has one order.
 */
#include "jobs/eval/eval_parts.h"
#include "jobs/exact_math.h"

#include <math.h>

#define LANES WN_EXACT_LANES

/* sum_i exp(l_i - max) */
static double sum_exp(const float *l, size_t n, double max)
{
    double lane[LANES] = {0};
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lane[k] += wn_exact_exp((double)l[i + k] - max);
    for (size_t k = 0; i + k < n; k++)
        lane[k] += wn_exact_exp((double)l[i + k] - max);
    return wn_exact_fold(lane);
}

/* sum_i exp(a_i - max) (a_i - b_i) */
static double sum_gaps(const float *a, const float *b, size_t n, double max)
{
    double lane[LANES] = {0};
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lane[k] += wn_exact_exp((double)a[i + k] - max) * ((double)a[i + k] - (double)b[i + k]);
    for (size_t k = 0; i + k < n; k++)
        lane[k] += wn_exact_exp((double)a[i + k] - max) * ((double)a[i + k] - (double)b[i + k]);
    return wn_exact_fold(lane);
}

static bool all_finite(const float *l, size_t n)
{
    float zero = 0;

    /* x * 0 is 0 for finite x and NaN otherwise */
    for (size_t i = 0; i < n; i++)
        zero += l[i] * 0.0f;
    return zero == 0;
}

/* The first of the largest. */
static size_t best_of(const float *l, size_t n)
{
    size_t best = 0;

    for (size_t i = 1; i < n; i++)
        best = l[i] > l[best] ? i : best;
    return best;
}

struct batch {
    struct wn_eval_job *job;
    const uint32_t *next; /* what followed each position */
    size_t vocab, at;     /* at: of the batch's first among all predictions */
};

/* What one row says by itself. */
struct row {
    const float *logits;
    size_t best;
    double max, total; /* total: sum_i exp(l_i - max) */
};

static struct row row_of(const struct batch *b, unsigned side, size_t i)
{
    const float *l = b->job->logits + (side * WN_EVAL_ROWS + i) * b->vocab;
    size_t best = best_of(l, b->vocab);

    return (struct row){l, best, (double)l[best], sum_exp(l, b->vocab, (double)l[best])};
}

static double lse(const struct row *r)
{
    return wn_exact_log(r->total) + r->max;
}

static double nll_of(const struct row *r, uint32_t next)
{
    return wn_exact_log(r->total) + (r->max - (double)r->logits[next]);
}

static double kld_of(const struct row *parent, const struct row *model, size_t n)
{
    double gap = sum_gaps(parent->logits, model->logits, n, parent->max) / parent->total;
    double kld = gap + (lse(model) - lse(parent));

    return kld < 0 ? 0 : kld; /* what rounding leaves of two models that hardly differ */
}

static void score_piece(void *arg, size_t i, unsigned worker)
{
    const struct batch *b = arg;
    const struct wn_eval_losses *out = &b->job->losses;
    const float *model = b->job->logits + i * b->vocab, *parent = model + WN_EVAL_ROWS * b->vocab;
    size_t at = b->at + i;
    struct row mine, theirs;

    (void)worker;
    if (!all_finite(model, b->vocab) || (out->kld && !all_finite(parent, b->vocab))) {
        out->nll[at] = (double)NAN;
        return;
    }
    mine = row_of(b, WN_EVAL_MODEL, i);
    out->nll[at] = nll_of(&mine, b->next[i]);
    if (!out->kld)
        return;
    theirs = row_of(b, WN_EVAL_PARENT, i);
    out->parent_nll[at] = nll_of(&theirs, b->next[i]);
    out->kld[at] = kld_of(&theirs, &mine, b->vocab);
    out->same[at] = mine.best == theirs.best;
}

uint64_t wn_eval_logits_bytes(const struct wn_eval_job *e)
{
    return (uint64_t)e->sides * WN_EVAL_ROWS * e->side[WN_EVAL_MODEL].config->vocab_size * sizeof(float);
}

void wn_eval_score(struct wn_eval_job *e, const struct wn_eval_rows *rows, size_t window, uint32_t first)
{
    size_t text, tokens = rows[WN_EVAL_MODEL].stream->tokens;
    const uint32_t *next = wn_eval_window(e, window, &text) + first + 1;
    struct batch b = {.job = e, .vocab = e->side[WN_EVAL_MODEL].config->vocab_size};

    for (size_t i = 0; i < tokens; i += WN_EVAL_ROWS) {
        size_t n = tokens - i < WN_EVAL_ROWS ? tokens - i : WN_EVAL_ROWS;

        for (unsigned k = 0; k < e->sides; k++)
            wn_logits(rows[k].ctx, rows[k].ends, rows[k].stream, i, n, e->logits + k * WN_EVAL_ROWS * b.vocab);
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
