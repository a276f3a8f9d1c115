/* See divergence.h. */
#include "jobs/divergence.h"

#include "jobs/exact_math.h"

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

bool wn_row_is_finite(const float *logits, size_t vocab)
{
    float zero = 0;

    /* x * 0 is 0 for finite x and NaN otherwise */
    for (size_t i = 0; i < vocab; i++)
        zero += logits[i] * 0.0f;
    return zero == 0;
}

static size_t best_of(const float *l, size_t n)
{
    size_t best = 0;

    for (size_t i = 1; i < n; i++)
        best = l[i] > l[best] ? i : best;
    return best;
}

struct wn_row wn_row_of(const float *logits, size_t vocab)
{
    size_t best = best_of(logits, vocab);

    return (struct wn_row){logits, best, (double)logits[best], sum_exp(logits, vocab, (double)logits[best])};
}

static double lse(const struct wn_row *r)
{
    return wn_exact_log(r->total) + r->max;
}

double wn_row_nll(const struct wn_row *r, uint32_t next)
{
    return wn_exact_log(r->total) + (r->max - (double)r->logits[next]);
}

double wn_row_kld(const struct wn_row *parent, const struct wn_row *model, size_t vocab)
{
    double gap = sum_gaps(parent->logits, model->logits, vocab, parent->max) / parent->total;
    double kld = gap + (lse(model) - lse(parent));

    return kld < 0 ? 0 : kld; /* what rounding leaves of two models that hardly differ */
}
