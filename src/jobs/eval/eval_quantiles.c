/*
 * Quantiles of the divergences over tokens, with intervals: of each draw of the windows (bootstrap.h) the quantile of
 * all tokens that were drawn. A domain's draws are those of its means; overall, each domain draws within itself.
 */
#include "base/alloc.h"
#include "jobs/eval/bootstrap.h"
#include "jobs/eval/eval_parts.h"

#include <math.h>
#include <stdlib.h>

enum { QUANTILES = 3 };
static const double share[QUANTILES] = {0.5, 0.9, 0.99};

struct drawing {
    const struct wn_eval_job *e;
    size_t first, texts;
    struct wn_bootstrap_pool pool;
    uint32_t *drawn;    /* [windows of the texts] */
    struct wn_rng *rng; /* [texts] */
    double *draws;      /* [QUANTILES][resamples] */
};

static const struct wn_eval_domain *domain_of(const struct drawing *d, size_t t)
{
    return &d->e->result->domains[d->first + t];
}

static bool enough(const struct drawing *d)
{
    for (size_t t = 0; t < d->texts; t++)
        if (domain_of(d, t)->windows < WN_EVAL_FEWEST_WINDOWS)
            return false;
    return true;
}

static void draw(struct drawing *d)
{
    uint32_t *drawn = d->drawn;

    for (size_t t = 0; t < d->texts; t++) {
        size_t windows = (size_t)domain_of(d, t)->windows;

        wn_bootstrap_draw(&d->rng[t], drawn, windows);
        drawn += windows;
    }
}

static void resample(struct drawing *d, struct wn_eval_figure *const figure[QUANTILES])
{
    for (size_t t = 0; t < d->texts; t++)
        d->rng[t].state = wn_eval_seed(domain_of(d, t));
    for (size_t r = 0; r < WN_EVAL_RESAMPLES; r++) {
        draw(d);
        for (unsigned k = 0; k < QUANTILES; k++)
            d->draws[k * WN_EVAL_RESAMPLES + r] = wn_bootstrap_quantile(&d->pool, d->drawn, share[k]);
    }
    for (unsigned k = 0; k < QUANTILES; k++)
        wn_eval_set_interval(figure[k], d->draws + (size_t)k * WN_EVAL_RESAMPLES);
}

static bool take(struct drawing *d, size_t windows, struct wn_err *err)
{
    const double *kld = d->e->losses.kld + d->e->text[d->first].first * wn_eval_predicted(d->e);

    d->drawn = wn_alloc(windows, sizeof *d->drawn, err);
    d->rng = d->drawn ? wn_alloc(d->texts, sizeof *d->rng, err) : NULL;
    d->draws = d->rng ? wn_alloc((size_t)QUANTILES * WN_EVAL_RESAMPLES, sizeof *d->draws, err) : NULL;
    return d->draws && wn_bootstrap_pool_init(&d->pool, kld, windows, wn_eval_predicted(d->e), err);
}

uint64_t wn_eval_quantiles_bytes(const struct wn_eval_job *e)
{
    return wn_bootstrap_pool_bytes(e->windows, wn_eval_predicted(e)) + e->windows * sizeof(uint32_t) +
           e->o->text_count * sizeof(struct wn_rng) + (uint64_t)QUANTILES * WN_EVAL_RESAMPLES * sizeof(double);
}

bool wn_eval_quantiles(const struct wn_eval_job *e, size_t first, size_t texts, struct wn_eval_against *a,
                       struct wn_err *err)
{
    struct wn_eval_figure *const figure[QUANTILES] = {&a->kld_median, &a->kld_p90, &a->kld_p99};
    struct drawing d = {.e = e, .first = first, .texts = texts};
    size_t windows = 0;
    bool ok;

    for (size_t t = 0; t < texts; t++)
        windows += (size_t)domain_of(&d, t)->windows;
    ok = take(&d, windows, err);
    if (ok) {
        for (size_t w = 0; w < windows; w++)
            d.drawn[w] = 1;
        for (unsigned k = 0; k < QUANTILES; k++)
            *figure[k] = (struct wn_eval_figure){wn_bootstrap_quantile(&d.pool, d.drawn, share[k]), NAN, NAN};
        a->kld_max = d.pool.sorted[d.pool.n - 1].value;
        if (enough(&d))
            resample(&d, figure);
    }
    wn_bootstrap_pool_release(&d.pool);
    free(d.drawn);
    free(d.rng);
    free(d.draws);
    return ok;
}
