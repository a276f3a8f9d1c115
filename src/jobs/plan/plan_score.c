/*
 * Criteria: how much an expert matters, by the sums of an archive.
 *
 *   reap        gate x norm summed over tokens, divided by all tokens of the archive
 *   reap-mean   the same sum divided by the tokens that chose the expert
 *   count       how often it was chosen, divided by all tokens
 *   gate        gate summed, divided by all tokens
 *   norm-mean   norm summed, divided by the tokens that chose the expert: what it says, however softly
 *   share       gate x norm divided by the length of the token's whole routed output, summed; divided by all tokens
 *   loo         how far the normed routed output moves when the expert is gone and the router's next choice enters,
 *               summed; divided by all tokens
 *
 * With weights, each source's sum is divided by that source's own tokens, so that a large source does not outvote a
 * small one, and the means are added up with the weights. Means over routed tokens weigh both of their sums that way.
 */
#include "base/bytes.h"
#include "jobs/plan/plan_rank.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static const struct {
    const char *name;
    enum wn_criterion sum; /* an additive one */
    bool per_routed;       /* its sum divided by the tokens that chose the expert */
} criteria[] = {
    [WN_CRITERION_REAP] = {"reap", WN_CRITERION_REAP, false},
    [WN_CRITERION_REAP_MEAN] = {"reap-mean", WN_CRITERION_REAP, true},
    [WN_CRITERION_COUNT] = {"count", WN_CRITERION_COUNT, false},
    [WN_CRITERION_GATE] = {"gate", WN_CRITERION_GATE, false},
    [WN_CRITERION_NORM_MEAN] = {"norm-mean", WN_CRITERION_NORM_MEAN, true},
    [WN_CRITERION_SHARE] = {"share", WN_CRITERION_SHARE, false},
    [WN_CRITERION_LOO] = {"loo", WN_CRITERION_LOO, false},
};

const char *wn_criterion_name(enum wn_criterion c)
{
    return criteria[c].name;
}

bool wn_criterion_find(const char *name, enum wn_criterion *c, struct wn_err *err)
{
    struct wn_buf list = {0};
    bool ok = true;

    for (int i = 0; i < WN_CRITERION_END; i++) {
        *c = (enum wn_criterion)i;
        if (strcmp(name, criteria[i].name) == 0)
            return true;
    }
    for (int i = 0; ok && i < WN_CRITERION_END; i++)
        ok = wn_buf_printf(&list, err, "%s'%s'",
                           i == 0                      ? ""
                           : i + 1 == WN_CRITERION_END ? " and "
                                                       : ", ",
                           criteria[i].name);
    if (ok)
        wn_fail(err, WN_ERR_ARG, "there is no criterion '%s'; there are %s", name, list.at);
    wn_buf_release(&list);
    return false;
}

bool wn_plan_criterion_known(const char *name, struct wn_err *err)
{
    enum wn_criterion c;

    return wn_criterion_find(name, &c, err);
}

enum wn_criterion wn_criterion_measured(enum wn_criterion c)
{
    return criteria[c].per_routed ? WN_CRITERION_REAP : c;
}

/* Sums by source, of what the archive need not have; NULL: it does not, or it has them in another form. */
static const double *own_sum(const struct wn_saliency *s, enum wn_criterion sum)
{
    return sum == WN_CRITERION_GATE        ? s->sum_gate
           : sum == WN_CRITERION_NORM_MEAN ? s->sum_norm
           : sum == WN_CRITERION_SHARE     ? s->sum_share
           : sum == WN_CRITERION_LOO       ? s->loo
                                           : NULL;
}

static bool has_counts_only(const struct wn_saliency *s)
{
    size_t n = (size_t)s->layer_count * s->expert_count;
    bool counts = false;

    for (size_t i = 0; i < n; i++) {
        if (s->saliency[i] > 0)
            return false;
        counts |= s->counts[i] > 0;
    }
    return counts;
}

bool wn_criterion_in(const struct wn_saliency *s, enum wn_criterion c, struct wn_err *err)
{
    static const char *const key[] = {[WN_CRITERION_GATE] = "sum_gate",
                                      [WN_CRITERION_NORM_MEAN] = "sum_norm",
                                      [WN_CRITERION_SHARE] = "sum_share",
                                      [WN_CRITERION_LOO] = "loo"};
    enum wn_criterion sum = criteria[c].sum;

    if (sum != WN_CRITERION_COUNT && has_counts_only(s))
        return wn_fail(err, WN_ERR_ARG, "it has counts and no saliency: the criterion can be 'count' only, not '%s'",
                       criteria[c].name);
    if (sum == WN_CRITERION_REAP || sum == WN_CRITERION_COUNT || own_sum(s, sum))
        return true;
    return wn_fail(err, WN_ERR_ARG, "criterion '%s' needs '%s', which the archive does not have", criteria[c].name,
                   key[sum]);
}

bool wn_criterion_has_loo(const struct wn_saliency *s)
{
    return wn_saliency_tells(s->loo, (size_t)s->source_count * s->layer_count * s->expert_count);
}

bool wn_criterion_choose(const struct wn_saliency *s, const char *name, enum wn_criterion *c, struct wn_err *err)
{
    if (name)
        return wn_criterion_find(name, c, err) && wn_criterion_in(s, *c, err);
    *c = wn_criterion_has_loo(s) ? WN_CRITERION_LOO : WN_CRITERION_REAP;
    return wn_criterion_in(s, *c, err);
}

double wn_criterion_source(const struct wn_saliency *s, enum wn_criterion c, uint32_t source, uint32_t layer,
                           uint32_t expert)
{
    size_t at = wn_saliency_source_row(s, source, layer) + expert;
    const double *own = own_sum(s, c);

    return own ? own[at] : c == WN_CRITERION_COUNT ? (double)s->source_counts[at] : s->source_saliency[at];
}

double wn_criterion_total(const struct wn_saliency *s, enum wn_criterion c, uint32_t layer, uint32_t expert)
{
    size_t at = wn_saliency_row(s, layer) + expert;
    double sum = 0;

    if (!own_sum(s, c))
        return c == WN_CRITERION_COUNT ? (double)s->counts[at] : s->saliency[at];
    for (uint32_t i = 0; i < s->source_count; i++)
        sum += wn_criterion_source(s, c, i, layer, expert);
    return sum;
}

/* ---- weights ---- */

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

bool wn_weigh_sources(const struct wn_saliency *s, const struct wn_plan_options *o, double *factor, struct wn_err *err)
{
    double sum = 0;

    for (size_t i = 0; i < o->weight_count; i++) {
        const struct wn_source_weight *w = &o->weights[i];
        uint32_t source;

        if (!find_source(s, w->source, &source, err))
            return false;
        if (!(w->weight >= 0 && w->weight <= WN_WEIGHT_MOST))
            return wn_fail(err, WN_ERR_ARG, "the weight of source '%s' is %g, not within 0 .. %g", w->source, w->weight,
                           WN_WEIGHT_MOST);
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

/* An additive criterion per token. */
static double weighed(const struct wn_saliency *s, enum wn_criterion c, const double *factor, uint32_t layer,
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

double wn_score(const struct wn_saliency *s, enum wn_criterion c, const double *factor, uint32_t layer, uint32_t expert)
{
    double sum = weighed(s, criteria[c].sum, factor, layer, expert), tokens;

    if (!criteria[c].per_routed)
        return sum;
    tokens = weighed(s, WN_CRITERION_COUNT, factor, layer, expert);
    return tokens > 0 ? sum / tokens : 0;
}

/* ---- ranking ---- */

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
