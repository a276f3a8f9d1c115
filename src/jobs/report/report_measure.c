/*
 * The figures of a report (report_measure.h). Without a plan a make-believe one that keeps the best half of each layer
 * stands in, so that every figure has one definition.
 */
#include "jobs/report/report_measure.h"

#include "base/alloc.h"
#include "jobs/report/report_stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a plan makes of an expert. */
enum { DROPPED, FEWER_BITS, SOURCE_BITS };

struct measure {
    const struct wn_saliency *s;
    const struct wn_plan *p;
    struct wn_report_numbers *n;
    struct wn_ranked *rank; /* [expert] */
    double *sum;            /* [expert + 1] sums of the best 0, 1, 2 ... experts */
    uint8_t *bank;          /* [expert] where the plan puts it */
    double *spread;         /* [step][layer] shares; scratch at the end */
};

void wn_report_numbers_release(struct wn_report_numbers *n)
{
    free(n->layers);
    free(n->sources);
    free(n->ratio);
    wn_plan_kept_release(&n->kept);
    *n = (struct wn_report_numbers){0};
}

static void rank_row(struct measure *m, const double *row, uint32_t experts)
{
    for (uint32_t e = 0; e < experts; e++)
        m->rank[e] = (struct wn_ranked){row[e], e};
    wn_rank(m->rank, experts);
}

/* m->sum of a row, in the order of m->rank. */
static void sum_up(struct measure *m, const double *row, uint32_t experts)
{
    m->sum[0] = 0;
    for (uint32_t i = 0; i < experts; i++)
        m->sum[i + 1] = m->sum[i] + row[m->rank[i].expert];
}

/* The sum of the best `step` / 64 of the experts; a part of an expert counts as that part. */
static double sum_at(const struct measure *m, uint32_t experts, uint32_t step)
{
    uint64_t parts = (uint64_t)experts * step;
    uint32_t whole = (uint32_t)(parts / WN_REPORT_STEPS);
    double part = (double)(parts % WN_REPORT_STEPS) / WN_REPORT_STEPS;

    return part > 0 ? m->sum[whole] + part * (m->sum[whole + 1] - m->sum[whole]) : m->sum[whole];
}

static const double *total_row(const struct measure *m, const struct wn_report_layer *l)
{
    return m->s->saliency + wn_saliency_row(m->s, l->layer);
}

static const double *source_row(const struct measure *m, uint32_t source, const struct wn_report_layer *l)
{
    return m->s->source_saliency + wn_saliency_source_row(m->s, source, l->layer);
}

static uint32_t hi_of(const struct wn_plan_layer *p)
{
    return p->lo_bits ? p->hi_count : p->keep_count;
}

static void mark_banks(struct measure *m, uint32_t layer)
{
    const struct wn_plan_layer *p = &m->p->layers[layer];

    memset(m->bank, DROPPED, m->s->expert_count);
    for (uint32_t i = 0; i < p->keep_count; i++)
        m->bank[p->keep[i]] = i < hi_of(p) ? SOURCE_BITS : FEWER_BITS;
}

/* Of a row, what the first bank carries. */
static double hi_sum(const struct wn_plan_layer *p, const double *row)
{
    double sum = 0;

    for (uint32_t i = 0; i < hi_of(p); i++)
        sum += row[p->keep[i]];
    return sum;
}

static double count_never(const struct wn_saliency *s, uint32_t layer, uint32_t experts)
{
    const uint64_t *counts = s->counts + wn_saliency_row(s, layer);
    uint32_t never = 0;

    for (uint32_t e = 0; e < experts; e++)
        never += counts[e] == 0;
    /* archives by others may have no counts at all */
    return never < experts ? never : NAN;
}

/* What one layer has by itself, and its row of m->n->ratio; m->rank, m->sum and m->bank are the layer's afterwards. */
static void measure_layer(struct measure *m, uint32_t i)
{
    struct wn_report_layer *l = &m->n->layers[i];
    double whole, *ratio = m->n->ratio + (size_t)i * m->n->expert_count;

    rank_row(m, total_row(m, l), l->experts);
    sum_up(m, total_row(m, l), l->experts);
    mark_banks(m, i);
    whole = m->sum[l->experts];
    for (uint32_t e = 0; e < l->experts; e++)
        ratio[e] = whole > 0 ? m->rank[e].score / whole * l->experts : 0;
    for (uint32_t e = 0; e < l->keep; e++) {
        l->keep_best += m->bank[m->rank[e].expert] != DROPPED;
        l->hi_best += e < l->hi && m->bank[m->rank[e].expert] == SOURCE_BITS;
    }
    l->kept = whole > 0 ? m->n->kept.kept_layer[i] : NAN;
    l->kept_hi = whole > 0 ? hi_sum(&m->p->layers[i], total_row(m, l)) / whole : NAN;
    m->n->kept_hi += hi_sum(&m->p->layers[i], total_row(m, l));
    l->best = whole > 0 ? m->sum[l->keep] / whole : NAN;
    l->effective = wn_report_effective(m->rank, l->experts, whole);
    l->gini = wn_report_gini(m->rank, l->experts, whole);
    l->never = count_never(m->s, l->layer, l->experts);
}

/* Adds the layer's sums to the curves, which are shares only after finish_curves. */
static void add_to_curves(struct measure *m, uint32_t i)
{
    const struct wn_report_layer *l = &m->n->layers[i];

    for (uint32_t step = 0; step <= WN_REPORT_STEPS; step++) {
        double at = sum_at(m, l->experts, step);

        m->n->curve[step] += at;
        m->spread[(size_t)step * m->n->layer_count + i] = m->sum[l->experts] > 0 ? at / m->sum[l->experts] : NAN;
    }
    for (uint32_t k = 0; k < m->n->source_count; k++) {
        sum_up(m, source_row(m, k, l), l->experts);
        for (uint32_t step = 0; step <= WN_REPORT_STEPS; step++)
            m->n->sources[k].mixed[step] += sum_at(m, l->experts, step);
    }
}

/* Into the list of the worst, if it belongs there. */
static void note_lost(struct wn_report_numbers *n, const struct wn_report_lost *lost, uint32_t experts)
{
    double weight = lost->share * experts;
    uint32_t at = n->worst_count;

    while (at > 0 && n->worst[at - 1].share * n->layers[n->worst[at - 1].layer].experts < weight)
        at--;
    if (at == WN_REPORT_WORST)
        return;
    if (n->worst_count < WN_REPORT_WORST)
        n->worst_count++;
    memmove(&n->worst[at + 1], &n->worst[at], (n->worst_count - 1 - at) * sizeof(*lost));
    n->worst[at] = *lost;
}

/*
 * The best tenth of one source in layer i, in the order of m->rank; `seen` marks experts that were lost to a source
 * before.
 */
static void measure_lost(struct measure *m, uint32_t i, uint32_t source, uint8_t *seen)
{
    const struct wn_report_layer *l = &m->n->layers[i];
    struct wn_report_source *k = &m->n->sources[source];
    uint32_t best = l->experts < 10 ? 1 : l->experts / 10;

    for (uint32_t r = 0; r < best && m->rank[r].score > 0; r++) {
        uint32_t e = m->rank[r].expert;
        const struct wn_report_lost lost = {i, e, source, r + 1, m->rank[r].score / m->sum[l->experts]};

        k->best_count++;
        k->low_best += m->bank[e] == FEWER_BITS;
        if (m->bank[e] != DROPPED || !m->n->planned)
            continue;
        k->lost_best += 1;
        m->n->lost_count += !seen[e];
        seen[e] = 1;
        note_lost(m->n, &lost, l->experts);
    }
}

/* What follows from each source's own order. Turns m->rank and m->sum. */
static void measure_sources(struct measure *m, uint32_t i, uint8_t *seen)
{
    const struct wn_report_layer *l = &m->n->layers[i];

    memset(seen, 0, m->n->expert_count);
    for (uint32_t k = 0; k < m->n->source_count; k++) {
        m->n->sources[k].kept_hi += hi_sum(&m->p->layers[i], source_row(m, k, l));
        rank_row(m, source_row(m, k, l), l->experts);
        sum_up(m, source_row(m, k, l), l->experts);
        for (uint32_t step = 0; step <= WN_REPORT_STEPS; step++)
            m->n->sources[k].own[step] += sum_at(m, l->experts, step);
        measure_lost(m, i, k, seen);
    }
}

static bool measure_halves(struct measure *m, uint32_t i, uint8_t *top, struct wn_err *err)
{
    struct wn_report_layer *l = &m->n->layers[i];
    const double *half[2];
    uint32_t common = 0;

    l->half_rank = l->half_top = NAN;
    if (!m->s->half_saliency)
        return true;
    for (uint32_t k = 0; k < 2; k++)
        half[k] = m->s->half_saliency + wn_saliency_source_row(m->s, k, l->layer);
    if (!wn_report_rank_correlation(half[0], half[1], l->experts, &l->half_rank, err))
        return false;
    /* a half that knows no order has no best */
    if (isnan(l->half_rank))
        return true;
    memset(top, 0, m->n->expert_count);
    rank_row(m, half[0], l->experts);
    for (uint32_t r = 0; r < l->keep; r++)
        top[m->rank[r].expert] = 1;
    rank_row(m, half[1], l->experts);
    for (uint32_t r = 0; r < l->keep; r++)
        common += top[m->rank[r].expert];
    l->half_top = (double)common / l->keep;
    return true;
}

static void sums_to_shares(double *curve)
{
    double whole = curve[WN_REPORT_STEPS];

    for (uint32_t step = 0; step <= WN_REPORT_STEPS; step++)
        curve[step] = whole > 0 ? curve[step] / whole : NAN;
}

/* Layers without any saliency have no share, and are left out of the spread. */
static void finish_curves(struct measure *m)
{
    struct wn_report_numbers *n = m->n;

    n->kept_hi = n->curve[WN_REPORT_STEPS] > 0 ? n->kept_hi / n->curve[WN_REPORT_STEPS] : NAN;
    sums_to_shares(n->curve);
    for (uint32_t k = 0; k < n->source_count; k++) {
        double whole = n->sources[k].mixed[WN_REPORT_STEPS];

        n->sources[k].kept = whole > 0 ? n->kept.kept_source[k] : NAN;
        n->sources[k].kept_hi = whole > 0 ? n->sources[k].kept_hi / whole : NAN;
        sums_to_shares(n->sources[k].mixed);
        sums_to_shares(n->sources[k].own);
    }
    for (uint32_t step = 0; step <= WN_REPORT_STEPS; step++) {
        double *at = m->spread + (size_t)step * n->layer_count;
        size_t measured = 0;

        for (uint32_t i = 0; i < n->layer_count; i++)
            if (!isnan(at[i]))
                at[measured++] = at[i];
        n->middle[step] = wn_report_median(at, measured);
        n->low[step] = measured ? at[0] : NAN;
        n->high[step] = measured ? at[measured - 1] : NAN;
    }
}

/* Means and medians over layers. m->spread is scratch. */
static void finish_layers(struct measure *m)
{
    struct wn_report_numbers *n = m->n;
    double keep = 0, hi = 0, experts = 0;
    size_t ranks = 0, tops = 0;

    for (uint32_t i = 0; i < n->layer_count; i++) {
        keep += n->layers[i].keep;
        hi += n->layers[i].hi;
        experts += n->layers[i].experts;
        n->half_chance += (double)n->layers[i].keep / n->layers[i].experts / n->layer_count;
        if (!isnan(n->layers[i].half_rank))
            m->spread[ranks++] = n->layers[i].half_rank;
    }
    n->share_kept = keep / experts;
    n->share_hi = hi / experts;
    n->half_rank = wn_report_median(m->spread, ranks);
    for (uint32_t i = 0; i < n->layer_count; i++)
        if (!isnan(n->layers[i].half_top))
            m->spread[tops++] = n->layers[i].half_top;
    n->half_top = wn_report_median(m->spread, tops);
}

static void take_layer(struct measure *m, uint32_t i)
{
    const struct wn_plan_layer *p = &m->p->layers[i];
    struct wn_report_numbers *n = m->n;

    n->layers[i] = (struct wn_report_layer){.layer = p->layer,
                                            .experts = m->s->layer_experts[p->layer],
                                            .keep = p->keep_count,
                                            .hi = hi_of(p),
                                            .lo_bits = hi_of(p) < p->keep_count ? p->lo_bits : 0};
    if (n->layers[i].lo_bits == 0)
        return;
    n->lo_bits_least = !n->graded || p->lo_bits < n->lo_bits_least ? p->lo_bits : n->lo_bits_least;
    n->lo_bits_most = p->lo_bits > n->lo_bits_most ? p->lo_bits : n->lo_bits_most;
    n->graded = true;
}

/* Room for all figures; the plan is known to fit the archive. */
static bool take_numbers(struct measure *m, struct wn_err *err)
{
    struct wn_report_numbers *n = m->n;

    n->layer_count = m->p->layer_count;
    n->expert_count = m->s->expert_count;
    n->source_count = m->s->source_count;
    if (!(n->layers = wn_alloc(n->layer_count, sizeof(*n->layers), err)) ||
        !(n->sources = wn_alloc(n->source_count, sizeof(*n->sources), err)) ||
        !(n->ratio = wn_alloc((size_t)n->layer_count * n->expert_count, sizeof(*n->ratio), err)))
        return false;
    for (uint32_t i = 0; i < n->layer_count; i++)
        take_layer(m, i);
    return (m->rank = wn_alloc(n->expert_count, sizeof(*m->rank), err)) &&
           (m->sum = wn_alloc((size_t)n->expert_count + 1, sizeof(*m->sum), err)) &&
           (m->bank = wn_alloc((size_t)n->expert_count * 2, 1, err)) &&
           (m->spread = wn_alloc((size_t)n->layer_count * (WN_REPORT_STEPS + 1), sizeof(*m->spread), err));
}

static bool measure_all(struct measure *m, struct wn_err *err)
{
    uint8_t *marks;

    if (!wn_plan_keeps(m->s, m->p, &m->n->kept, err) || !take_numbers(m, err))
        return false;
    marks = m->bank + m->n->expert_count;
    for (uint32_t i = 0; i < m->n->layer_count; i++) {
        measure_layer(m, i);
        add_to_curves(m, i);
        measure_sources(m, i, marks);
        if (!measure_halves(m, i, marks, err))
            return false;
    }
    finish_curves(m);
    finish_layers(m);
    for (uint32_t k = 0; k < m->n->source_count && !m->n->planned; k++)
        m->n->sources[k].lost_best = NAN;
    return true;
}

/* The best half of each layer with experts. */
static bool plan_half(const struct wn_saliency *s, struct wn_plan *p, struct wn_err *err)
{
    struct wn_ranked *rank = wn_alloc(s->expert_count, sizeof(*rank), err);

    *p = (struct wn_plan){.num_experts = s->expert_count};
    if (rank)
        p->layers = wn_alloc(s->layer_count, sizeof(*p->layers), err);
    for (uint32_t l = 0; p->layers && l < s->layer_count; l++) {
        uint32_t n = s->layer_experts[l], keep = n / 2 + n % 2;
        struct wn_plan_layer *to = &p->layers[p->layer_count];

        if (n == 0)
            continue;
        to->keep = wn_alloc(keep, sizeof(*to->keep), err);
        if (!to->keep) {
            wn_plan_release(p);
            break;
        }
        for (uint32_t e = 0; e < n; e++)
            rank[e] = (struct wn_ranked){s->saliency[wn_saliency_row(s, l) + e], e};
        wn_rank(rank, n);
        for (uint32_t e = 0; e < keep; e++)
            to->keep[e] = rank[e].expert;
        *to = (struct wn_plan_layer){.layer = l, .keep_count = keep, .keep = to->keep};
        p->layer_count++;
    }
    free(rank);
    return p->layers != NULL;
}

static bool has_saliency(const struct wn_saliency *s)
{
    for (size_t i = 0; i < (size_t)s->layer_count * s->expert_count; i++)
        if (s->saliency[i] > 0)
            return true;
    return false;
}

bool wn_report_measure(struct wn_report_numbers *n, const struct wn_saliency *s, const struct wn_plan *plan,
                       struct wn_err *err)
{
    struct measure m = {.s = s, .n = n};
    struct wn_plan half = {0}, by_saliency;
    bool ok;

    *n = (struct wn_report_numbers){.planned = plan != NULL};
    if (!has_saliency(s))
        return wn_fail(err, WN_ERR_ARG, "all saliency in the archive is zero: there is nothing to report");
    if (!plan && !plan_half(s, &half, err))
        return false;
    by_saliency = plan ? *plan : half;
    by_saliency.criterion[0] = '\0'; /* shares of saliency, also of a plan by counts */
    m.p = &by_saliency;
    ok = measure_all(&m, err);
    free(m.rank);
    free(m.sum);
    free(m.bank);
    free(m.spread);
    wn_plan_release(&half);
    if (!ok)
        wn_report_numbers_release(n);
    return ok;
}
