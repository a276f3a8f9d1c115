/*
 * Losses to figures: sums over tokens in their order, quantiles of the sorted divergences, and intervals by drawing
 * windows (bootstrap.h), which are the documents here. Windows are equally long, so a mean over tokens is the mean over
 * windows of their means, and a domain's part in the overall figure is its share of the windows.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "jobs/eval/bootstrap.h"
#include "jobs/eval/eval_parts.h"
#include "jobs/exact_math.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a window's mean is taken of. */
enum { KLD, SAME, GAP, LOST, MEANS }; /* GAP: the model's nll less the parent's, whose exp is the ratio */

struct figures {
    const struct wn_eval_job *e;
    double *sorted;    /* [predictions] */
    double *window;    /* [windows][MEANS] */
    double *draws;     /* [MEANS][resamples] of the domain at hand */
    double *overall;   /* the same of all together */
    bool every_domain; /* has windows enough */
};

static double mean_of(const double *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

static uint64_t moe_layers(const struct wn_config *c)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < c->layer_count; i++)
        n += c->layers[i].moe;
    return n;
}

/* Mean share over the window's tokens and layers. */
static double lost_of(const struct wn_eval_job *e, size_t window)
{
    const struct wn_config *c = e->side[WN_EVAL_PARENT].config;
    const double *layer = e->losses.misroute;
    double sum = 0;

    for (uint32_t i = 0; layer && i < c->layer_count; i++)
        sum += layer[window * c->layer_count + i];
    return layer ? sum / ((double)wn_eval_predicted(e) * (double)moe_layers(c)) : (double)NAN;
}

static void mean_window(const struct figures *f, size_t w)
{
    const struct wn_eval_losses *l = &f->e->losses;
    size_t n = wn_eval_predicted(f->e), at = w * n;
    double *mean = f->window + w * MEANS, same = 0, gap = 0;

    for (size_t i = at; i < at + n; i++) {
        same += l->same[i];
        gap += l->nll[i] - l->parent_nll[i];
    }
    mean[KLD] = mean_of(l->kld + at, n);
    mean[SAME] = same / (double)n;
    mean[GAP] = gap / (double)n;
    mean[LOST] = lost_of(f->e, w);
}

/* Predictions [windows] from `first` on. */
static void quantiles(const struct figures *f, size_t first, struct wn_eval_domain *d)
{
    size_t n = (size_t)d->predicted;

    memcpy(f->sorted, f->e->losses.kld + first * wn_eval_predicted(f->e), n * sizeof *f->sorted);
    wn_sort_f64(f->sorted, n);
    d->against.kld_median = wn_quantile(f->sorted, n, 0.5);
    d->against.kld_p90 = wn_quantile(f->sorted, n, 0.9);
    d->against.kld_p99 = wn_quantile(f->sorted, n, 0.99);
    d->against.kld_max = f->sorted[n - 1];
}

static void values(const struct figures *f, size_t first, struct wn_eval_domain *d)
{
    const struct wn_eval_losses *l = &f->e->losses;
    size_t n = (size_t)d->predicted, at = first * wn_eval_predicted(f->e);
    struct wn_eval_against *a = &d->against;
    double lost = 0;

    for (size_t i = at; i < at + n; i++)
        a->same += l->same[i];
    for (size_t w = first; w < first + d->windows; w++)
        lost += f->window[w * MEANS + LOST];
    a->nll = mean_of(l->parent_nll + at, n);
    a->perplexity = wn_exact_exp(a->nll);
    a->kld.value = mean_of(l->kld + at, n);
    a->argmax.value = (double)a->same / (double)n;
    a->ratio.value = wn_exact_exp(d->nll - a->nll);
    a->misroute.value = lost / (double)d->windows;
    a->routed = l->misroute ? n * moe_layers(f->e->side[WN_EVAL_PARENT].config) : 0;
}

static void set_interval(double *draws, unsigned which, struct wn_eval_figure *figure)
{
    double *x = draws + (size_t)which * WN_EVAL_RESAMPLES;

    wn_sort_f64(x, WN_EVAL_RESAMPLES);
    figure->low = wn_quantile(x, WN_EVAL_RESAMPLES, 0.025);
    figure->high = wn_quantile(x, WN_EVAL_RESAMPLES, 0.975);
}

/* draws NULL: too few windows. */
static void intervals(double *draws, struct wn_eval_against *a)
{
    struct wn_eval_figure *figure[MEANS] = {
        [KLD] = &a->kld, [SAME] = &a->argmax, [GAP] = &a->ratio, [LOST] = &a->misroute};

    for (unsigned i = 0; i < MEANS; i++) {
        figure[i]->low = figure[i]->high = (double)NAN;
        if (draws && !isnan(figure[i]->value))
            set_interval(draws, i, figure[i]);
    }
    if (draws) {
        a->ratio.low = wn_exact_exp(a->ratio.low);
        a->ratio.high = wn_exact_exp(a->ratio.high);
    }
}

/* The label seeds the draws: other texts beside this one do not change its interval. */
static void resample(struct figures *f, size_t first, struct wn_eval_domain *d)
{
    double share = (double)d->windows / (double)f->e->windows;
    bool enough = d->windows >= WN_EVAL_FEWEST_WINDOWS;

    f->every_domain = f->every_domain && enough;
    if (enough) {
        wn_bootstrap_means(f->window + first * MEANS, (size_t)d->windows, MEANS, wn_bytes_hash(wn_bytes_of(d->domain)),
                           WN_EVAL_RESAMPLES, f->draws);
        for (size_t i = 0; i < (size_t)MEANS * WN_EVAL_RESAMPLES; i++)
            f->overall[i] += share * f->draws[i];
    }
    intervals(enough ? f->draws : NULL, &d->against);
}

static void perplexity(const struct wn_eval_job *e, size_t first, struct wn_eval_domain *d)
{
    d->nll = mean_of(e->losses.nll + first * wn_eval_predicted(e), (size_t)d->predicted);
    d->perplexity = wn_exact_exp(d->nll);
}

/* Over windows and layers, each token of each layer alike. */
static void ghosts(const struct wn_eval_job *e, size_t first, struct wn_eval_domain *d)
{
    uint32_t layers = e->side[WN_EVAL_MODEL].config->layer_count;
    double lost = 0, tokens = 0, chosen = 0, ghosts = 0;

    for (size_t w = first; e->losses.meter && w < first + d->windows; w++) {
        const struct wn_route_meter *m = &e->losses.meter[w];

        for (uint32_t i = 0; i < layers; i++)
            lost += m->lost[i];
        tokens += (double)m->tokens;
        chosen += (double)m->chosen;
        ghosts += (double)m->ghosts;
    }
    d->ghosted = tokens > 0 ? lost / tokens : (double)NAN;
    d->ghost_choices = chosen > 0 ? ghosts / chosen : (double)NAN;
}

static bool take(struct figures *f, struct wn_err *err)
{
    const struct wn_eval_job *e = f->e;

    f->sorted = wn_alloc(e->windows * wn_eval_predicted(e), sizeof *f->sorted, err);
    f->window = f->sorted ? wn_alloc(e->windows * MEANS, sizeof *f->window, err) : NULL;
    f->draws = f->window ? wn_alloc((size_t)MEANS * WN_EVAL_RESAMPLES, sizeof *f->draws, err) : NULL;
    f->overall = f->draws ? wn_alloc((size_t)MEANS * WN_EVAL_RESAMPLES, sizeof *f->overall, err) : NULL;
    return f->overall != NULL;
}

static void compare(struct figures *f)
{
    struct wn_eval_result *r = f->e->result;

    for (size_t w = 0; w < f->e->windows; w++)
        mean_window(f, w);
    for (size_t t = 0; t < f->e->o->text_count; t++) {
        values(f, f->e->text[t].first, &r->domains[t]);
        quantiles(f, f->e->text[t].first, &r->domains[t]);
        resample(f, f->e->text[t].first, &r->domains[t]);
    }
    values(f, 0, &r->overall);
    quantiles(f, 0, &r->overall);
    intervals(f->every_domain ? f->overall : NULL, &r->overall.against);
}

static void sum_up(struct wn_eval_result *r, size_t texts)
{
    (void)snprintf(r->overall.domain, sizeof r->overall.domain, "overall");
    for (size_t t = 0; t < texts; t++) {
        r->overall.tokens += r->domains[t].tokens;
        r->overall.windows += r->domains[t].windows;
        r->overall.predicted += r->domains[t].predicted;
    }
}

bool wn_eval_figures(struct wn_eval_job *e, struct wn_err *err)
{
    struct figures f = {.e = e, .every_domain = true};
    bool ok = true;

    sum_up(e->result, e->o->text_count);
    for (size_t t = 0; t < e->o->text_count; t++) {
        perplexity(e, e->text[t].first, &e->result->domains[t]);
        ghosts(e, e->text[t].first, &e->result->domains[t]);
    }
    perplexity(e, 0, &e->result->overall);
    ghosts(e, 0, &e->result->overall);
    if (e->sides > 1 && (ok = take(&f, err)))
        compare(&f);
    free(f.sorted);
    free(f.window);
    free(f.draws);
    free(f.overall);
    return ok;
}
