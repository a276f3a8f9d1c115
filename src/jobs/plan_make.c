/*
 * Choosing the experts that stay: layer by layer, the best by the criterion.
 *
 *   reap    gate * norm summed over tokens, divided by all tokens of the archive
 *   count   how often an expert was chosen, divided by all tokens
 *
 * With weights, each source's sum is divided by that source's own tokens, so that a large source does not outvote a
 * small one, and the means are added up with the weights.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/number.h"
#include "jobs/plan_rank.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOOR_IN_TOP_K 4 /* below 4 x top-k the router has too little to choose from */

static const char *const criterion_names[] = {[WN_CRITERION_REAP] = "reap", [WN_CRITERION_COUNT] = "count"};

bool wn_criterion_find(const char *name, enum wn_criterion *c, struct wn_err *err)
{
    *c = WN_CRITERION_REAP;
    if (!name || strcmp(name, criterion_names[WN_CRITERION_REAP]) == 0)
        return true;
    *c = WN_CRITERION_COUNT;
    if (strcmp(name, criterion_names[WN_CRITERION_COUNT]) == 0)
        return true;
    return wn_fail(err, WN_ERR_ARG, "there is no criterion '%s'; there are 'reap' and 'count'", name);
}

bool wn_plan_criterion_known(const char *name, struct wn_err *err)
{
    enum wn_criterion c;

    return wn_criterion_find(name, &c, err);
}

double wn_criterion_total(const struct wn_saliency *s, enum wn_criterion c, uint32_t layer, uint32_t expert)
{
    size_t at = wn_saliency_row(s, layer) + expert;

    return c == WN_CRITERION_COUNT ? (double)s->counts[at] : s->saliency[at];
}

double wn_criterion_source(const struct wn_saliency *s, enum wn_criterion c, uint32_t source, uint32_t layer,
                           uint32_t expert)
{
    size_t at = wn_saliency_source_row(s, source, layer) + expert;

    return c == WN_CRITERION_COUNT ? (double)s->source_counts[at] : s->source_saliency[at];
}

static int better_first(const void *a, const void *b)
{
    const struct wn_ranked *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return (x->expert > y->expert) - (x->expert < y->expert);
}

void wn_rank(struct wn_ranked *r, uint32_t n)
{
    qsort(r, n, sizeof(*r), better_first);
}

static bool fail_source(const struct wn_saliency *s, const char *wanted, struct wn_err *err)
{
    struct wn_buf b = {0};
    bool ok = true;

    for (uint32_t i = 0; ok && i < s->source_count; i++)
        ok = wn_buf_printf(&b, err, "%s'%s'", i ? ", " : "", s->source[i]);
    if (ok)
        wn_fail(err, WN_ERR_ARG, "the archive has no source '%s'; it has %s", wanted, b.n ? b.at : "no sources at all");
    wn_buf_release(&b);
    return false;
}

static bool find_source(const struct wn_saliency *s, const char *label, uint32_t *source, struct wn_err *err)
{
    for (*source = 0; *source < s->source_count; (*source)++)
        if (strcmp(s->source[*source], label) == 0)
            return true;
    return fail_source(s, label, err);
}

/* factor[source]: what one unit of that source's sum counts for. */
static bool weigh_sources(const struct wn_saliency *s, const struct wn_plan_options *o, double *factor,
                          struct wn_err *err)
{
    double sum = 0;

    for (size_t i = 0; i < o->weight_count; i++) {
        const struct wn_source_weight *w = &o->weights[i];
        uint32_t source;

        if (!find_source(s, w->source, &source, err))
            return false;
        if (!isfinite(w->weight) || w->weight < 0)
            return wn_fail(err, WN_ERR_ARG, "the weight of source '%s' is not a finite number >= 0", w->source);
        if (factor[source] != 0)
            return wn_fail(err, WN_ERR_ARG, "source '%s' is given a weight twice", w->source);
        if (w->weight > 0 && s->source_tokens[source] == 0)
            return wn_fail(err, WN_ERR_FORMAT, "the archive does not tell how many tokens source '%s' has", w->source);
        if (w->weight > 0)
            factor[source] = w->weight / (double)s->source_tokens[source];
        sum += w->weight;
    }
    if (!(sum > 0))
        return wn_fail(err, WN_ERR_ARG, "the weights of all sources are zero");
    return true;
}

/* The criterion's figure for one expert; factor is NULL where sources are not weighed. */
static double score_of(const struct wn_saliency *s, enum wn_criterion c, const double *factor, uint32_t layer,
                       uint32_t expert)
{
    double sum = 0;

    if (!factor) {
        double total = wn_criterion_total(s, c, layer, expert);

        return s->token_count ? total / (double)s->token_count : total;
    }
    for (uint32_t i = 0; i < s->source_count; i++)
        if (factor[i] > 0)
            sum += factor[i] * wn_criterion_source(s, c, i, layer, expert);
    return sum;
}

static int rising(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static bool choose_layer(const struct wn_saliency *s, enum wn_criterion c, const double *factor, uint32_t keep,
                         struct wn_ranked *rank, struct wn_plan_layer *l, struct wn_err *err)
{
    uint32_t experts = s->layer_experts[l->layer];
    double sum = 0;

    if (keep > experts)
        return wn_fail(err, WN_ERR_ARG, "layer %" PRIu32 " has %" PRIu32 " experts, fewer than the %" PRIu32 " to keep",
                       l->layer, experts, keep);
    l->keep = wn_alloc(keep, sizeof(*l->keep), err);
    if (!l->keep)
        return false;
    l->keep_count = keep;
    for (uint32_t e = 0; e < experts; e++) {
        rank[e] = (struct wn_ranked){score_of(s, c, factor, l->layer, e), e};
        sum += rank[e].score;
    }
    if (!(sum > 0))
        return wn_fail(err, WN_ERR_FORMAT, "layer %" PRIu32 ": the sums of all its experts are zero, so none is better",
                       l->layer);
    wn_rank(rank, experts);
    for (uint32_t i = 0; i < keep; i++)
        l->keep[i] = rank[i].expert;
    qsort(l->keep, keep, sizeof(*l->keep), rising);
    return true;
}

/* How many stay, checked against the floor. */
static bool decide_count(const struct wn_saliency *s, const struct wn_plan_options *o, uint32_t *keep, uint32_t *least,
                         struct wn_err *err)
{
    uint64_t usual = (uint64_t)FLOOR_IN_TOP_K * s->top_k;

    if (s->top_k == 0)
        return wn_fail(err, WN_ERR_FORMAT, "the archive does not tell 'top_k', the experts per token");
    *least = o->min_experts ? o->min_experts : usual < s->expert_count ? (uint32_t)usual : s->top_k;
    if (*least < s->top_k || *least > s->expert_count)
        return wn_fail(err, WN_ERR_ARG,
                       "a floor of %" PRIu32 " experts is not within top-k %" PRIu32 " .. all %" PRIu32, *least,
                       s->top_k, s->expert_count);
    *keep = o->keep;
    if (!o->keep) {
        if (!(o->keep_share > 0 && o->keep_share <= 1))
            return wn_fail(err, WN_ERR_ARG, "a share of %g of the experts is not within 0 .. 1", o->keep_share);
        *keep = (uint32_t)lround(o->keep_share * s->expert_count);
    }
    if (*keep > s->expert_count)
        return wn_fail(err, WN_ERR_ARG, "%" PRIu32 " experts to keep, but the model has %" PRIu32 " in a layer", *keep,
                       s->expert_count);
    if (*keep < *least)
        return wn_fail(err, WN_ERR_ARG,
                       "%" PRIu32 " experts to keep is below the floor of %" PRIu32 " (top-k is %" PRIu32 " of %" PRIu32
                       ")",
                       *keep, *least, s->top_k, s->expert_count);
    return true;
}

static bool describe_weights(struct wn_plan *p, const struct wn_plan_options *o, struct wn_err *err)
{
    size_t used = 0;

    for (size_t i = 0; o->weights && i < o->weight_count; i++) {
        char number[WN_NUMBER_BYTES];

        used += (size_t)snprintf(p->weights + used, sizeof(p->weights) - used, "%s%s=%s", i ? "," : "",
                                 o->weights[i].source, wn_number_text(o->weights[i].weight, number));
        if (used >= sizeof(p->weights))
            return wn_fail(err, WN_ERR_ARG, "the weights do not fit the %zu bytes that a plan has for them",
                           sizeof(p->weights) - 1);
    }
    return true;
}

static bool choose(const struct wn_saliency *s, const struct wn_plan_options *o, struct wn_plan *p, struct wn_err *err)
{
    double *factor = wn_alloc(s->source_count, sizeof(*factor), err);
    struct wn_ranked *rank = wn_alloc(s->expert_count, sizeof(*rank), err);
    enum wn_criterion c;
    uint32_t keep;
    bool ok = factor && rank && wn_criterion_find(o->criterion, &c, err) &&
              decide_count(s, o, &keep, &p->min_experts, err) && (!o->weights || weigh_sources(s, o, factor, err)) &&
              describe_weights(p, o, err) && (p->layers = wn_alloc(s->layer_count, sizeof(*p->layers), err));

    for (uint32_t l = 0; ok && l < s->layer_count; l++) {
        if (s->layer_experts[l] == 0)
            continue;
        p->layers[p->layer_count].layer = l;
        ok = choose_layer(s, c, o->weights ? factor : NULL, keep, rank, &p->layers[p->layer_count++], err);
    }
    free(rank);
    free(factor);
    if (!ok)
        return false;
    if (p->layer_count == 0)
        return wn_fail(err, WN_ERR_FORMAT, "no layer of the archive has experts with any saliency");
    (void)snprintf(p->mode, sizeof(p->mode), "uniform");
    (void)snprintf(p->criterion, sizeof(p->criterion), "%s", criterion_names[c]);
    memcpy(p->model_fingerprint, s->model_fingerprint, sizeof(p->model_fingerprint));
    p->top_k = s->top_k;
    p->num_experts = s->expert_count;
    return true;
}

bool wn_plan_make(const char *saliency_path, const struct wn_plan_options *o, struct wn_plan *p,
                  struct wn_plan_kept *kept, struct wn_err *err)
{
    struct wn_plan_kept figures = {0};
    struct wn_saliency s;
    bool ok;

    *p = (struct wn_plan){0};
    if (kept)
        *kept = (struct wn_plan_kept){0};
    if (!wn_saliency_read(&s, saliency_path, err))
        return false;
    ok = (choose(&s, o, p, err) && wn_plan_keeps(&s, p, &figures, err)) || wn_fail_in(err, "'%s'", saliency_path);
    ok = ok && wn_saliency_fingerprint(saliency_path, p->saliency_fingerprint, err);
    p->kept = figures.kept;
    wn_saliency_release(&s);
    if (ok && kept)
        *kept = figures;
    else
        wn_plan_kept_release(&figures);
    if (!ok)
        wn_plan_release(p);
    return ok;
}
