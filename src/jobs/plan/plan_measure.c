/*
 * What a plan keeps: shares per source and layer, and how far the sources' favourites agree.
 *
 * Overlap: each source ranks a layer's experts by itself; of the best as many as the plan keeps there, two sources
 * share some. Two sets of k out of n drawn by chance share k / n of themselves, so that is the figure to hold it
 * against.
 */
#include "base/alloc.h"
#include "jobs/plan/imatrix.h"
#include "jobs/plan/plan_rank.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct measure {
    const struct wn_saliency *s;
    const struct wn_plan *p;
    struct wn_plan_kept *k;
    enum wn_criterion criterion;
    struct wn_ranked *rank; /* [expert] */
    uint8_t *top;           /* [source][expert]: 1 where the expert is among the source's best */
    bool too_large;         /* a sum that double cannot hold: a share of it would be none */
};

void wn_plan_kept_release(struct wn_plan_kept *k)
{
    for (size_t i = 0; k->source && i < k->source_count; i++)
        free(k->source[i]);
    free(k->source);
    free(k->kept_source_layer);
    free(k->kept_source);
    free(k->kept_layer);
    free(k->overlap);
    free(k->loss_source);
    free(k->loss_same_source);
    *k = (struct wn_plan_kept){0};
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 1;
}

/* The plan must be one for the archive's model. */
static bool check_fit(const struct wn_saliency *s, const struct wn_plan *p, struct wn_err *err)
{
    if (p->num_experts != s->expert_count)
        return wn_fail(err, WN_ERR_ARG, "the plan is for %" PRIu32 " experts, the archive has %" PRIu32, p->num_experts,
                       s->expert_count);
    for (uint32_t l = 0; l < s->layer_count; l++)
        if (s->layer_experts[l] && !wn_plan_find(p, l))
            return wn_fail(err, WN_ERR_ARG, "layer %" PRIu32 " has experts in the archive, but is not in the plan", l);
    for (uint32_t i = 0; i < p->layer_count; i++) {
        const struct wn_plan_layer *l = &p->layers[i];

        if (l->layer >= s->layer_count || s->layer_experts[l->layer] == 0)
            return wn_fail(err, WN_ERR_ARG, "layer %" PRIu32 " of the plan has no experts in the archive", l->layer);
        for (uint32_t e = 0; e < l->keep_count; e++)
            if (l->keep[e] >= s->layer_experts[l->layer])
                return wn_fail(err, WN_ERR_ARG,
                               "layer %" PRIu32 ": the plan keeps expert %" PRIu32 ", the archive has %" PRIu32,
                               l->layer, l->keep[e], s->layer_experts[l->layer]);
    }
    return true;
}

/* Sums over one plan layer; source UINT32_MAX means all. */
static void add_layer(const struct measure *m, const struct wn_plan_layer *l, uint32_t source, double *part,
                      double *whole)
{
    for (uint32_t e = 0; e < m->s->layer_experts[l->layer]; e++)
        *whole += source == UINT32_MAX ? wn_criterion_total(m->s, m->criterion, l->layer, e)
                                       : wn_criterion_source(m->s, m->criterion, source, l->layer, e);
    for (uint32_t i = 0; i < l->keep_count; i++)
        *part += source == UINT32_MAX ? wn_criterion_total(m->s, m->criterion, l->layer, l->keep[i])
                                      : wn_criterion_source(m->s, m->criterion, source, l->layer, l->keep[i]);
}

/* per_layer [layer]; returns the share over all layers. */
static double measure_kept(struct measure *m, uint32_t source, double *per_layer)
{
    double part = 0, whole = 0;

    for (uint32_t i = 0; i < m->p->layer_count; i++) {
        double layer_part = 0, layer_whole = 0;

        add_layer(m, &m->p->layers[i], source, &layer_part, &layer_whole);
        per_layer[i] = share(layer_part, layer_whole);
        part += layer_part;
        whole += layer_whole;
    }
    m->too_large |= !isfinite(whole);
    return share(part, whole);
}

static void mark_top(const struct measure *m, uint32_t source, const struct wn_plan_layer *l)
{
    uint32_t experts = m->s->layer_experts[l->layer];
    uint8_t *top = m->top + (size_t)source * m->s->expert_count;

    for (uint32_t e = 0; e < experts; e++)
        m->rank[e] = (struct wn_ranked){wn_criterion_source(m->s, m->criterion, source, l->layer, e), e};
    wn_rank(m->rank, experts);
    memset(top, 0, experts);
    for (uint32_t i = 0; i < l->keep_count; i++)
        top[m->rank[i].expert] = 1;
}

static void measure_overlap(const struct measure *m)
{
    size_t n = m->k->source_count;

    for (uint32_t i = 0; i < m->p->layer_count; i++) {
        const struct wn_plan_layer *l = &m->p->layers[i];
        uint32_t experts = m->s->layer_experts[l->layer];
        double layers = m->p->layer_count;

        m->k->chance += (double)l->keep_count / experts / layers;
        for (uint32_t a = 0; a < n; a++)
            mark_top(m, a, l);
        for (size_t a = 0; a < n; a++) {
            for (size_t b = 0; b < n; b++) {
                uint32_t common = 0;

                for (uint32_t e = 0; e < experts; e++)
                    common += m->top[a * m->s->expert_count + e] & m->top[b * m->s->expert_count + e];
                m->k->overlap[a * n + b] += (double)common / l->keep_count / layers;
            }
        }
    }
}

/* What lies in the banks of fewer bits. */
static void measure_low(const struct measure *m)
{
    double whole = 0, low = 0, chosen = 0, chosen_low = 0;

    for (uint32_t i = 0; i < m->p->layer_count; i++) {
        const struct wn_plan_layer *l = &m->p->layers[i];

        for (uint32_t e = 0; e < m->s->layer_experts[l->layer]; e++)
            whole += wn_criterion_total(m->s, m->criterion, l->layer, e);
        for (uint32_t k = 0; k < l->keep_count; k++) {
            double count = (double)m->s->counts[wn_saliency_row(m->s, l->layer) + l->keep[k]];
            bool is_low = l->lo_bits && k >= l->hi_count;

            chosen += count;
            chosen_low += is_low ? count : 0;
            low += is_low ? wn_criterion_total(m->s, m->criterion, l->layer, l->keep[k]) : 0;
        }
    }
    m->k->kept_low = whole > 0 ? low / whole : 0;
    m->k->low_routed = chosen > 0 ? chosen_low / chosen : 0;
}

static bool take_kept(struct wn_plan_kept *k, const struct wn_saliency *s, const struct wn_plan *p, struct wn_err *err)
{
    k->source_count = s->source_count;
    k->layer_count = p->layer_count;
    if (!(k->source = wn_alloc(k->source_count, sizeof(*k->source), err)) ||
        !(k->kept_source_layer = wn_alloc(k->source_count * k->layer_count, sizeof(double), err)) ||
        !(k->kept_source = wn_alloc(k->source_count, sizeof(double), err)) ||
        !(k->kept_layer = wn_alloc(k->layer_count, sizeof(double), err)) ||
        !(k->overlap = wn_alloc(k->source_count * k->source_count, sizeof(double), err)))
        return false;
    for (size_t i = 0; i < k->source_count; i++)
        if (!(k->source[i] = wn_strdup(s->source[i], err)))
            return false;
    return true;
}

bool wn_plan_keeps(const struct wn_saliency *s, const struct wn_plan *p, struct wn_plan_kept *kept, struct wn_err *err)
{
    struct measure m = {.s = s, .p = p, .k = kept};
    struct wn_err ignored;
    bool ok;

    *kept = (struct wn_plan_kept){0};
    /* plans by others name no criterion, or one we do not have: saliency is what people compare */
    if (!wn_criterion_find(p->criterion, &m.criterion, &ignored) || !wn_criterion_in(s, m.criterion, &ignored))
        m.criterion = WN_CRITERION_REAP;
    m.criterion = wn_criterion_measured(m.criterion);
    ok = check_fit(s, p, err) && take_kept(kept, s, p, err) &&
         (m.rank = wn_alloc(s->expert_count, sizeof(*m.rank), err)) &&
         (m.top = wn_alloc((size_t)s->source_count * s->expert_count, 1, err));
    if (ok) {
        kept->kept = measure_kept(&m, UINT32_MAX, kept->kept_layer);
        for (uint32_t i = 0; i < s->source_count; i++)
            kept->kept_source[i] = measure_kept(&m, i, kept->kept_source_layer + i * kept->layer_count);
        measure_overlap(&m);
        measure_low(&m);
        if (m.too_large)
            ok = wn_fail(err, WN_ERR_FORMAT, "the saliency of all experts sums up to more than a number can hold");
    }
    if (!ok)
        wn_plan_kept_release(kept);
    free(m.rank);
    free(m.top);
    return ok;
}

bool wn_plan_measure(const char *saliency_path, const struct wn_plan *p, struct wn_plan_kept *kept, struct wn_err *err)
{
    struct wn_saliency s;
    bool ok;

    *kept = (struct wn_plan_kept){0};
    if (!wn_archive_read(&s, saliency_path, p->top_k, err))
        return false;
    ok = wn_plan_keeps(&s, p, kept, err) || wn_fail_in(err, "'%s'", saliency_path);
    wn_saliency_release(&s);
    return ok;
}

bool wn_archive_read(struct wn_saliency *s, const char *path, uint32_t top_k, struct wn_err *err)
{
    bool imatrix;

    *s = (struct wn_saliency){0};
    if (!wn_imatrix_is(path, &imatrix, err))
        return false;
    if (imatrix)
        return wn_imatrix_read(s, path, top_k, err);
    if (!wn_saliency_read(s, path, err))
        return false;
    if (s->top_k == 0)
        s->top_k = top_k;
    return true;
}
