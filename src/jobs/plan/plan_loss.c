/* See plan_loss.h. */
#include "jobs/plan/plan_loss.h"

#include "base/alloc.h"
#include "jobs/exact_math.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define COST_MOST 1e100 /* sums of costs are numbers */

struct making {
    struct wn_loss *l;
    const struct wn_saliency *s;
    enum wn_criterion criterion; /* an additive one */
    const struct wn_choice *c;
};

/* x ^ power for x in 0 .. 1; the same bits everywhere. */
static double powered(double x, double power)
{
    return power == 1 ? x : x > 0x1p-1000 ? wn_exact_exp(power * wn_exact_log(x)) : 0;
}

/* Counts of an imatrix, and archives of before, have no such sums, or nothing in them. */
static bool has_proxy(const struct wn_saliency *s)
{
    return wn_saliency_tells(s->loo_up_sq, (size_t)s->source_count * s->layer_count);
}

/* ---- tables ---- */

static bool make_tail(const struct making *m, uint32_t i, struct wn_err *err)
{
    const struct wn_choice_layer *from = &m->c->layers[i];
    uint32_t sources = m->l->source_count;
    double *tail = wn_alloc(((size_t)from->experts + 1) * sources, sizeof *tail, err);

    m->l->layers[i].tail = tail;
    for (uint32_t s = 0; tail && s < sources; s++) {
        double whole = 0;

        for (uint32_t e = 0; e < from->experts; e++)
            whole += wn_criterion_source(m->s, m->criterion, s, from->layer, e);
        /* from the end, so that what is small is not what large sums leave */
        for (uint32_t n = from->experts; whole > 0 && n-- > 0;)
            tail[(size_t)n * sources + s] =
                tail[(size_t)(n + 1) * sources + s] +
                wn_criterion_source(m->s, m->criterion, s, from->layer, from->rank[n].expert) / whole;
    }
    return tail != NULL;
}

/* ---- the power, and the costs ---- */

static double mean_of(const double *v, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += v[i] / n;
    return sum;
}

/* The slope that all curves have in common, each about its own mean. */
static double fit_power(const struct making *m)
{
    double xy = 0, xx = 0, power;

    for (uint32_t i = 0; i < m->c->n; i++)
        for (uint32_t s = 0; s < m->l->source_count; s++) {
            struct wn_curve c;
            double mean_x, mean_y;

            wn_curve_read(&c, m->s, m->criterion, m->c->layers[i].layer, s);
            mean_x = mean_of(c.x, c.n);
            mean_y = mean_of(c.y, c.n);
            for (uint32_t k = 0; m->l->omega[s] > 0 && k < c.n; k++) {
                xy += m->l->omega[s] * (c.x[k] - mean_x) * (c.y[k] - mean_y);
                xx += m->l->omega[s] * (c.x[k] - mean_x) * (c.x[k] - mean_x);
            }
        }
    power = xx > 0 ? xy / xx : WN_POWER_USUAL;
    return power > WN_POWER_MOST ? WN_POWER_MOST : power;
}

static void decide_power(const struct making *m, double power)
{
    double fitted = power == 0 && m->l->basis == WN_BASIS_PROBE && m->s->probes.points > 1 ? fit_power(m) : 0;

    m->l->fitted = fitted > WN_POWER_USUAL;
    m->l->power = power > 0 ? power : m->l->fitted ? fitted : WN_POWER_USUAL;
}

/*
 * Through the middle of the source's points. One that dropped nothing or lost nothing there tells nothing of its own,
 * and has what the layer costs in the mean of the others.
 */
static void cost_by_probe(const struct making *m, uint32_t i)
{
    const struct wn_probes *p = &m->s->probes;
    double *cost = m->l->layers[i].cost, sum = 0;
    uint32_t known = 0;

    for (uint32_t s = 0; s < m->l->source_count; s++) {
        struct wn_curve c;

        cost[s] = p->tokens[s] ? -1 : (double)NAN;
        wn_curve_read(&c, m->s, m->criterion, m->c->layers[i].layer, s);
        if (p->tokens[s] == 0 || c.n == 0)
            continue;
        cost[s] = wn_exact_exp(mean_of(c.y, c.n) - m->l->power * mean_of(c.x, c.n));
        sum += cost[s];
        known++;
    }
    m->l->layers[i].untold = known == 0;
    for (uint32_t s = 0; s < m->l->source_count; s++)
        if (cost[s] < 0)
            cost[s] = known ? sum / known : 0;
}

/* Where nobody went, or nothing was lost, a layer would be free; what the others cost is the better guess. */
static bool cost_of_untold(const struct making *m, struct wn_err *err)
{
    struct wn_loss_layer *layers = m->l->layers;
    uint32_t told = 0;

    for (uint32_t i = 0; i < m->l->n; i++)
        told += !layers[i].untold;
    for (uint32_t s = 0; told && s < m->l->source_count; s++) {
        double sum = 0;

        for (uint32_t i = 0; i < m->l->n; i++)
            sum += layers[i].untold ? 0 : layers[i].cost[s];
        for (uint32_t i = 0; i < m->l->n; i++)
            if (layers[i].untold)
                layers[i].cost[s] = sum / told;
    }
    return told || wn_fail(err, WN_ERR_ARG, "no probe lost anything, so they do not tell what a layer costs");
}

static bool check_costs(const struct making *m, struct wn_err *err)
{
    for (uint32_t i = 0; i < m->l->n; i++)
        for (uint32_t s = 0; s < m->l->source_count; s++)
            if (m->l->layers[i].cost[s] > COST_MOST)
                return wn_fail(err, WN_ERR_ARG,
                               "layer %" PRIu32 ": what source '%s' lost there is out of proportion to what was "
                               "dropped",
                               m->c->layers[i].layer, m->s->source[s]);
    return true;
}

static void cost_by_proxy(const struct making *m, uint32_t i)
{
    const struct wn_saliency *a = m->s;

    for (uint32_t s = 0; s < m->l->source_count; s++) {
        double tokens = (double)a->source_tokens[s];

        m->l->layers[i].cost[s] =
            tokens > 0 ? a->loo_up_sq[(size_t)s * a->layer_count + m->c->layers[i].layer] / tokens : (double)NAN;
    }
}

/* ---- weights ---- */

static bool is_known(const struct making *m, uint32_t source)
{
    return (m->l->basis == WN_BASIS_PROBE ? m->s->probes.tokens : m->s->source_tokens)[source] > 0;
}

static bool weigh(const struct making *m, const double *factor, struct wn_err *err)
{
    double sum = 0;

    for (uint32_t s = 0; s < m->l->source_count; s++) {
        double tokens = (double)m->s->source_tokens[s], weight = factor ? factor[s] * tokens : tokens;

        if (factor && weight > 0 && !is_known(m, s))
            return wn_fail(err, WN_ERR_ARG, "source '%s' has a weight, but the archive has no probes of it",
                           m->s->source[s]);
        m->l->omega[s] = is_known(m, s) ? weight : 0;
        sum += m->l->omega[s];
    }
    for (uint32_t s = 0; sum > 0 && s < m->l->source_count; s++)
        m->l->omega[s] /= sum;
    return sum > 0 || wn_fail(err, WN_ERR_ARG, "the archive does not tell how many tokens its sources have");
}

static bool check(const struct wn_saliency *s, enum wn_plan_basis basis, double power, struct wn_err *err)
{
    if (basis == WN_BASIS_PROBE && !s->probes.points)
        return wn_fail(err, WN_ERR_ARG, "the archive has no probes: winnow probe adds them");
    if (basis == WN_BASIS_PROXY && !has_proxy(s))
        return wn_fail(err, WN_ERR_ARG, "the archive has no 'loo_up_sq', which a calibration of this version writes");
    return power == 0 || (power >= WN_POWER_LEAST && power <= WN_POWER_MOST) ||
           wn_fail(err, WN_ERR_ARG, "a power of %g is not within %g .. %g", power, WN_POWER_LEAST, WN_POWER_MOST);
}

static bool make(const struct making *m, const double *factor, double power, struct wn_err *err)
{
    struct wn_loss *l = m->l;

    if (!(l->omega = wn_alloc(l->source_count, sizeof *l->omega, err)) ||
        !(l->layers = wn_alloc(l->n, sizeof *l->layers, err)) || !weigh(m, factor, err))
        return false;
    decide_power(m, power);
    for (uint32_t i = 0; i < l->n; i++) {
        if (!make_tail(m, i, err) || !(l->layers[i].cost = wn_alloc(l->source_count, sizeof(double), err)))
            return false;
        if (l->basis == WN_BASIS_PROBE)
            cost_by_probe(m, i);
        else
            cost_by_proxy(m, i);
    }
    return (l->basis != WN_BASIS_PROBE || cost_of_untold(m, err)) && check_costs(m, err);
}

bool wn_loss_init(struct wn_loss *l, const struct wn_saliency *s, enum wn_criterion criterion,
                  const struct wn_choice *c, const double *factor, enum wn_plan_basis basis, double power,
                  struct wn_err *err)
{
    const struct making m = {l, s, wn_criterion_measured(criterion), c};

    *l = (struct wn_loss){.basis = basis, .source_count = s->source_count, .n = c->n};
    if (!check(s, basis, power, err))
        return false;
    if (make(&m, factor, power, err))
        return true;
    wn_loss_release(l);
    return false;
}

bool wn_loss_init_told(struct wn_loss *l, const struct wn_saliency *s, enum wn_criterion criterion,
                       const struct wn_choice *c, const double *factor, enum wn_plan_basis basis, double power,
                       struct wn_err *err)
{
    if (wn_criterion_has_loo(s))
        criterion = WN_CRITERION_LOO;
    if (!wn_loss_init(l, s, criterion, c, factor, basis, power, err))
        return false;
    for (uint32_t i = 0; basis == WN_BASIS_PROBE && i < l->n; i++) {
        struct wn_curve *curve = l->layers[i].curve = wn_alloc(l->source_count, sizeof *curve, err);

        if (!curve) {
            wn_loss_release(l);
            return false;
        }
        for (uint32_t k = 0; k < l->source_count; k++)
            wn_curve_read(&curve[k], s, wn_criterion_measured(criterion), c->layers[i].layer, k);
    }
    return true;
}

void wn_loss_release(struct wn_loss *l)
{
    for (uint32_t i = 0; l->layers && i < l->n; i++) {
        free(l->layers[i].curve);
        free(l->layers[i].cost);
        free(l->layers[i].tail);
    }
    free(l->layers);
    free(l->omega);
    *l = (struct wn_loss){0};
}

/* ---- what a choice loses ---- */

double wn_loss_of(const struct wn_loss *l, uint32_t i, uint32_t s, double fidelity, uint32_t hi, uint32_t kept)
{
    const double *tail = l->layers[i].tail;
    double whole = tail[(size_t)hi * l->source_count + s], none = tail[(size_t)kept * l->source_count + s];
    double dropped = fidelity * none + (1 - fidelity) * whole;
    const struct wn_curve *curve = l->layers[i].curve;

    if (curve && curve[s].n > 0)
        return wn_curve_at(&curve[s], dropped, l->power);
    return l->layers[i].cost[s] * powered(dropped, l->power);
}

double wn_loss_layer(const struct wn_loss *l, uint32_t i, double fidelity, uint32_t hi, uint32_t kept)
{
    double sum = 0;

    for (uint32_t s = 0; s < l->source_count; s++)
        if (l->omega[s] > 0)
            sum += l->omega[s] * wn_loss_of(l, i, s, fidelity, hi, kept);
    return sum;
}

double wn_loss_source(const struct wn_loss *l, const struct wn_choice *c, uint32_t s)
{
    double sum = 0;

    for (uint32_t i = 0; i < c->n; i++)
        sum += wn_loss_of(l, i, s, c->fidelity, c->layers[i].hi, c->layers[i].kept);
    return sum;
}

double wn_loss_all(const struct wn_loss *l, const struct wn_choice *c)
{
    double sum = 0;

    for (uint32_t i = 0; i < c->n; i++)
        sum += wn_loss_layer(l, i, c->fidelity, c->layers[i].hi, c->layers[i].kept);
    return sum;
}
