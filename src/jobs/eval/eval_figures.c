/*
 * Losses to figures: sums over tokens in their order, quantiles (eval_quantiles.c), and intervals by drawing windows
 * (bootstrap.h), which are the documents here. Windows are equally long, so a mean over tokens is the mean over
 * windows of their means, and a domain's part in the overall figure is its share of the windows.
 */
#include "base/alloc.h"
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

void wn_eval_set_interval(struct wn_eval_figure *figure, double *draws)
{
    wn_sort_f64(draws, WN_EVAL_RESAMPLES);
    figure->low = wn_quantile(draws, WN_EVAL_RESAMPLES, 0.025);
    figure->high = wn_quantile(draws, WN_EVAL_RESAMPLES, 0.975);
}

/* draws NULL: too few windows. */
static void intervals(double *draws, struct wn_eval_against *a)
{
    struct wn_eval_figure *figure[MEANS] = {
        [KLD] = &a->kld, [SAME] = &a->argmax, [GAP] = &a->ratio, [LOST] = &a->misroute};

    for (unsigned i = 0; i < MEANS; i++) {
        figure[i]->low = figure[i]->high = (double)NAN;
        if (draws && !isnan(figure[i]->value))
            wn_eval_set_interval(figure[i], draws + (size_t)i * WN_EVAL_RESAMPLES);
    }
    if (draws) {
        a->ratio.low = wn_exact_exp(a->ratio.low);
        a->ratio.high = wn_exact_exp(a->ratio.high);
    }
}

static void resample(struct figures *f, size_t first, struct wn_eval_domain *d)
{
    double share = (double)d->windows / (double)f->e->windows;
    bool enough = d->windows >= WN_EVAL_FEWEST_WINDOWS;

    f->every_domain = f->every_domain && enough;
    if (enough) {
        wn_bootstrap_means(f->window + first * MEANS, (size_t)d->windows, MEANS, wn_eval_seed(d), WN_EVAL_RESAMPLES,
                           f->draws);
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

    f->window = wn_alloc(e->windows * MEANS, sizeof *f->window, err);
    f->draws = f->window ? wn_alloc((size_t)MEANS * WN_EVAL_RESAMPLES, sizeof *f->draws, err) : NULL;
    f->overall = f->draws ? wn_alloc((size_t)MEANS * WN_EVAL_RESAMPLES, sizeof *f->overall, err) : NULL;
    return f->overall != NULL;
}

static bool compare(struct figures *f, struct wn_err *err)
{
    struct wn_eval_result *r = f->e->result;
    size_t texts = f->e->o->text_count;

    for (size_t w = 0; w < f->e->windows; w++)
        mean_window(f, w);
    for (size_t t = 0; t < texts; t++) {
        values(f, f->e->text[t].first, &r->domains[t]);
        resample(f, f->e->text[t].first, &r->domains[t]);
        if (!wn_eval_quantiles(f->e, t, 1, &r->domains[t].against, err))
            return false;
    }
    values(f, 0, &r->overall);
    intervals(f->every_domain ? f->overall : NULL, &r->overall.against);
    return wn_eval_quantiles(f->e, 0, texts, &r->overall.against, err);
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

uint64_t wn_eval_figures_bytes(const struct wn_eval_job *e)
{
    if (e->sides == 1)
        return 0;
    return (e->windows + 2 * (uint64_t)WN_EVAL_RESAMPLES) * MEANS * sizeof(double) + wn_eval_quantiles_bytes(e);
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
    if (e->sides > 1)
        ok = take(&f, err) && compare(&f, err);
    free(f.window);
    free(f.draws);
    free(f.overall);
    return ok;
}
