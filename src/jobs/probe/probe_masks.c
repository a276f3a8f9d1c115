/*
 * Whom each probe drops: in a layer, all but the best by the criterion, as a uniform plan of that share would. No layer
 * keeps fewer than a token takes, and none drops nobody.
 */
#include "base/alloc.h"
#include "base/number.h"
#include "jobs/plan/plan_rank.h"
#include "jobs/probe/probe_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winnow/version.h>

struct masking {
    struct wn_probing *p;
    enum wn_criterion criterion;
    double *factor;         /* [source] of weighed sources; NULL: as they were counted */
    struct wn_ranked *rank; /* [expert] */
};

/* How many stay of a share: a token must find as many as it takes, and somebody must go. */
static uint32_t stays(const struct wn_probing *p, uint32_t layer, double share)
{
    uint32_t experts = p->config->layers[layer].expert_count, least = p->config->experts_per_token;
    uint32_t n = (uint32_t)lround(share * experts);

    n = n < experts ? n : experts - 1;
    return n > least ? n : least;
}

/* Whether both leave the same number in each layer, and so the same experts. */
static bool are_alike(const struct wn_probing *p, double a, double b)
{
    for (uint32_t i = 0; i < p->layer_count; i++)
        if (stays(p, p->layer[i], a) != stays(p, p->layer[i], b))
            return false;
    return true;
}

/* Fills share; those that come to what an earlier one does are left out. Sets *points. */
static bool take_shares(struct wn_probing *p, uint32_t *points, struct wn_err *err)
{
    const struct wn_layer_probe_options *o = p->options;
    size_t n = o->kept ? o->kept_count : 1;

    if (n == 0 || n > WN_PROBE_POINTS_MOST)
        return wn_fail(err, WN_ERR_ARG, "%zu shares of experts: 1 to %d are wanted", n, WN_PROBE_POINTS_MOST);
    *points = 0;
    for (size_t i = 0; i < n; i++) {
        double kept = o->kept ? o->kept[i] : WN_PROBE_KEPT;
        bool alike = false;

        if (!(kept > 0 && kept < 1))
            return wn_fail(err, WN_ERR_ARG, "a share of %g of the experts is not between 0 and 1", kept);
        for (size_t k = 0; k < i; k++)
            if (o->kept[k] == kept)
                return wn_fail(err, WN_ERR_ARG, "a share of %g of the experts is asked for twice", kept);
        for (uint32_t k = 0; k < *points; k++)
            alike = alike || are_alike(p, p->share[k], kept);
        if (!alike)
            p->share[(*points)++] = kept;
    }
    p->need.alike = n - *points;
    return true;
}

/* What really stays of a share, of the experts of all layers. */
static double kept_of(const struct wn_probing *p, double share)
{
    uint64_t stay = 0, all = 0;

    for (uint32_t i = 0; i < p->layer_count; i++) {
        stay += stays(p, p->layer[i], share);
        all += p->config->layers[p->layer[i]].expert_count;
    }
    return (double)stay / (double)all;
}

/* What each source loses of the criterion in the layer. */
static void measure(const struct masking *m, uint32_t layer, uint32_t point, const uint8_t *mask)
{
    const struct wn_saliency *s = &m->p->archive;
    enum wn_criterion c = wn_criterion_measured(m->criterion);

    for (uint32_t i = 0; i < s->source_count; i++) {
        double whole = 0, gone = 0;

        for (uint32_t e = 0; e < s->layer_experts[layer]; e++) {
            double v = wn_criterion_source(s, c, i, layer, e);

            whole += v;
            gone += mask[e] ? v : 0;
        }
        m->p->probes.dropped[((size_t)point * s->source_count + i) * s->layer_count + layer] =
            whole > 0 ? gone / whole : 0;
    }
}

static bool mask_layer(const struct masking *m, uint32_t layer, struct wn_err *err)
{
    struct wn_probing *p = m->p;
    const struct wn_saliency *s = &p->archive;
    uint32_t experts = s->layer_experts[layer];

    if (experts <= p->config->experts_per_token)
        return wn_fail(err, WN_ERR_ARG,
                       "layer %" PRIu32 " has %" PRIu32 " experts and each token takes %" PRIu32
                       ": none of them can be done without",
                       layer, experts, p->config->experts_per_token);
    for (uint32_t e = 0; e < experts; e++)
        m->rank[e] = (struct wn_ranked){wn_score(s, m->criterion, m->factor, layer, e), e};
    wn_rank(m->rank, experts);
    for (uint32_t i = 0; i < p->probes.points; i++) {
        uint8_t *mask = p->probes.mask + ((size_t)i * s->layer_count + layer) * s->expert_count;

        for (uint32_t k = stays(p, layer, p->share[i]); k < experts; k++)
            mask[m->rank[k].expert] = 1;
        measure(m, layer, i, mask);
    }
    return true;
}

/* For people: what the masks were made by. */
static bool describe(const struct masking *m, struct wn_err *err)
{
    const struct wn_layer_probe_options *o = m->p->options;
    char *text = m->p->probes.settings;
    size_t size = sizeof m->p->probes.settings;
    int used = snprintf(text, size, "winnow " WINNOW_VERSION ", criterion %s, sequences of %" PRIu32 " tokens",
                        wn_criterion_name(m->criterion), m->p->corpus.longest);

    m->p->probes.ghosts = o->ghosts == WN_GHOSTS_BUILT ? WN_GHOSTS_OFF : o->ghosts;
    if (m->p->probes.ghosts != WN_GHOSTS_OFF)
        used += snprintf(text + used, size - (size_t)used, ", ghosts %s", wn_ghosts_name(m->p->probes.ghosts));

    for (size_t i = 0; i < o->weight_count && used > 0 && (size_t)used < size; i++) {
        char number[WN_NUMBER_BYTES];

        used += snprintf(text + used, size - (size_t)used, "%s%s=%s", i ? "," : ", weights ", o->weights[i].source,
                         wn_number_text(o->weights[i].weight, number));
    }
    return (used > 0 && (size_t)used < size) ||
           wn_fail(err, WN_ERR_ARG, "the weights do not fit the %zu bytes that the archive has for them", size - 1);
}

static bool run(struct masking *m, struct wn_err *err)
{
    struct wn_probing *p = m->p;
    const struct wn_layer_probe_options *o = p->options;
    const struct wn_plan_options weights = {.weights = o->weights, .weight_count = o->weight_count};

    if (!wn_criterion_choose(&p->archive, o->criterion, &m->criterion, err) || !describe(m, err))
        return false;
    if (o->weights && (!(m->factor = wn_alloc(p->archive.source_count, sizeof *m->factor, err)) ||
                       !wn_weigh_sources(&p->archive, &weights, m->factor, err)))
        return false;
    m->rank = wn_alloc(p->archive.expert_count, sizeof *m->rank, err);
    for (uint32_t i = 0; m->rank && i < p->layer_count; i++)
        if (!mask_layer(m, p->layer[i], err))
            return false;
    return m->rank != NULL;
}

/* The same as layers take it, with what the dropped give. */
static bool make_dropped(struct wn_probing *p, struct wn_err *err)
{
    size_t flags = (size_t)p->archive.layer_count * p->archive.expert_count;

    p->dropped = wn_alloc(p->probes.points, sizeof *p->dropped, err);
    for (uint32_t i = 0; p->dropped && i < p->probes.points; i++) {
        struct wn_dropped *d = &p->dropped[i];

        d->experts = p->archive.expert_count;
        d->flags = wn_alloc(flags, sizeof *d->flags, err);
        if (!d->flags)
            return false;
        memcpy(d->flags, p->probes.mask + i * flags, flags);
        if (!wn_dropped_make_ghosts(d, p->options->ghosts, p->options->archive, p->model, p->options->force_plan, err))
            return false;
    }
    return p->dropped != NULL;
}

bool wn_probing_mask(struct wn_probing *p, struct wn_err *err)
{
    struct masking m = {.p = p};
    uint32_t points;
    bool ok;

    if (!take_shares(p, &points, err) || !wn_probes_init(&p->probes, points, p->archive.source_count,
                                                         p->archive.layer_count, p->archive.expert_count, err))
        return false;
    for (uint32_t i = 0; i < points; i++)
        p->probes.kept[i] = kept_of(p, p->share[i]);
    ok = run(&m, err) || wn_fail_in(err, "'%s'", p->options->archive);
    free(m.factor);
    free(m.rank);
    if (!ok || !make_dropped(p, err))
        return false;
    for (uint32_t i = 0; i < p->corpus.source_count; i++)
        p->probes.tokens[p->source[i]] = p->corpus.source[i].tokens;
    return true;
}
