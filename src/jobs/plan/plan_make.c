/*
 * Making a plan: each layer's experts are ranked by the criterion (plan_score.c), the mode says how many of each
 * ranking stay (plan_budget.c), and with how many bits.
 *
 * Where layers are weighed against each other, by a global plan or a budget, an expert counts with its share of its
 * layer's sum. Raw sums would starve the early layers: their outputs are small next to those of late ones, and no less
 * needed.
 */
#include "jobs/plan/plan_make.h"
#include "base/alloc.h"
#include "base/number.h"
#include "jobs/plan/fit.h"
#include "quant/affine.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LO_BITS        2
#define FLOOR_IN_TOP_K 4 /* below 4 x top-k the router has too little to choose from */

static int rising(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* ---- ranking ---- */

static double largest_norm(const struct wn_saliency *s, uint32_t layer, uint32_t expert)
{
    double most = 0;

    for (uint32_t i = 0; i < s->source_count; i++)
        most = fmax(most, s->max_norm[wn_saliency_source_row(s, i, layer) + expert]);
    return most;
}

/* The loudest come to the front of the ranking, among themselves in its order. */
static bool protect(const struct wn_making *m, struct wn_choice_layer *l, struct wn_err *err)
{
    struct wn_ranked *loud = wn_alloc(2 * (size_t)l->experts, sizeof *loud, err), *sorted = loud + l->experts;
    uint32_t n = 0, count = m->choice.protect;
    bool chosen;

    if (!loud)
        return false;
    for (uint32_t e = 0; e < l->experts; e++)
        loud[e] = (struct wn_ranked){largest_norm(m->s, l->layer, e), e};
    wn_rank(loud, l->experts);
    for (int wanted = 1; wanted >= 0; wanted--)
        for (uint32_t i = 0; i < l->experts; i++) {
            chosen = false;
            for (uint32_t k = 0; k < count; k++)
                chosen |= loud[k].expert == l->rank[i].expert;
            if (chosen == (wanted == 1))
                sorted[n++] = l->rank[i];
        }
    memcpy(l->rank, sorted, l->experts * sizeof *sorted);
    free(loud);
    return true;
}

static bool rank_layer(const struct wn_making *m, struct wn_choice_layer *l, double *sum, struct wn_err *err)
{
    l->rank = wn_alloc(l->experts, sizeof *l->rank, err);
    l->before = l->rank ? wn_alloc((size_t)l->experts + 1, sizeof *l->before, err) : NULL;
    if (!l->before)
        return false;
    *sum = 0;
    for (uint32_t e = 0; e < l->experts; e++) {
        l->rank[e] = (struct wn_ranked){wn_score(m->s, m->criterion, m->factor, l->layer, e), e};
        *sum += l->rank[e].score;
    }
    if (!(*sum > 0))
        return wn_fail(err, WN_ERR_FORMAT, "layer %" PRIu32 ": the sums of all its experts are zero, so none is better",
                       l->layer);
    wn_rank(l->rank, l->experts);
    return m->choice.protect == 0 || protect(m, l, err);
}

/* before[] in shares of the layer's sum; raw: so that all layers' mean is the share of the whole. */
static void add_before(struct wn_making *m, const double *sums)
{
    double all = 0;

    for (uint32_t i = 0; i < m->choice.n; i++)
        all += sums[i] / m->choice.n;
    for (uint32_t i = 0; i < m->choice.n; i++) {
        struct wn_choice_layer *l = &m->choice.layers[i];

        l->scale = 1 / (m->o->raw ? all : sums[i]);
        for (uint32_t e = 0; e < l->experts; e++)
            l->before[e + 1] = l->before[e] + l->rank[e].score * l->scale;
    }
}

static bool rank_all(struct wn_making *m, struct wn_err *err)
{
    const struct wn_saliency *s = m->s;
    double *sums = wn_alloc(s->layer_count, sizeof *sums, err);
    bool ok = sums && (m->choice.layers = wn_alloc(s->layer_count, sizeof *m->choice.layers, err));

    for (uint32_t l = 0; ok && l < s->layer_count; l++) {
        struct wn_choice_layer *c = &m->choice.layers[m->choice.n];

        if (s->layer_experts[l] == 0)
            continue;
        *c = (struct wn_choice_layer){.layer = l, .experts = s->layer_experts[l], .hi_bytes = 1};
        ok = rank_layer(m, c, &sums[m->choice.n++], err);
    }
    if (ok && m->choice.n == 0)
        ok = wn_fail(err, WN_ERR_FORMAT, "no layer of the archive has experts with any saliency");
    if (ok)
        add_before(m, sums);
    free(sums);
    return ok;
}

/* ---- how many ---- */

static bool decide_floor(struct wn_making *m, struct wn_err *err)
{
    const struct wn_saliency *s = m->s;
    uint64_t usual = (uint64_t)FLOOR_IN_TOP_K * s->top_k;
    uint32_t *least = &m->choice.floor;

    if (s->top_k == 0)
        return wn_fail(err, WN_ERR_FORMAT,
                       "the archive does not tell 'top_k', the experts per token: --top-k says it, or --model");
    *least = m->o->min_experts ? m->o->min_experts : usual < s->expert_count ? (uint32_t)usual : s->top_k;
    if (*least < s->top_k || *least > s->expert_count)
        return wn_fail(err, WN_ERR_ARG,
                       "a floor of %" PRIu32 " experts is not within top-k %" PRIu32 " .. all %" PRIu32, *least,
                       s->top_k, s->expert_count);
    m->choice.protect = m->o->protect;
    if (m->o->protect && !s->max_norm)
        return wn_fail(err, WN_ERR_ARG, "protecting outliers needs 'max_norm', which the archive does not have");
    for (uint32_t l = 0; l < s->layer_count; l++)
        if (s->layer_experts[l] && s->layer_experts[l] < m->o->protect)
            return wn_fail(err, WN_ERR_ARG, "%" PRIu32 " experts to protect, but layer %" PRIu32 " has %" PRIu32,
                           m->o->protect, l, s->layer_experts[l]);
    return true;
}

/* So many in each layer, checked against floor and layers. */
static bool check_count(const struct wn_making *m, uint64_t keep, struct wn_err *err)
{
    const struct wn_saliency *s = m->s;

    if (keep > s->expert_count)
        return wn_fail(err, WN_ERR_ARG, "%" PRIu64 " experts to keep, but the model has %" PRIu32 " in a layer", keep,
                       s->expert_count);
    if (keep < m->choice.floor)
        return wn_fail(err, WN_ERR_ARG,
                       "%" PRIu64 " experts to keep is below the floor of %" PRIu32 " (top-k is %" PRIu32 " of %" PRIu32
                       ")",
                       keep, m->choice.floor, s->top_k, s->expert_count);
    if (keep < m->choice.protect)
        return wn_fail(err, WN_ERR_ARG, "%" PRIu64 " experts to keep are fewer than the %" PRIu32 " to protect", keep,
                       m->choice.protect);
    for (uint32_t i = 0; i < m->choice.n; i++)
        if (m->choice.layers[i].experts < keep)
            return wn_fail(err, WN_ERR_ARG,
                           "layer %" PRIu32 " has %" PRIu32 " experts, fewer than the %" PRIu64 " to keep",
                           m->choice.layers[i].layer, m->choice.layers[i].experts, keep);
    return true;
}

/* The number that the options ask for; 0: they leave it to the budget. */
static bool asked_count(const struct wn_making *m, uint32_t *keep, struct wn_err *err)
{
    const struct wn_plan_options *o = m->o;
    uint32_t experts = m->s->expert_count;

    *keep = o->keep;
    if (o->keep || (o->keep_share == 0 && wn_fit_has_budget(o->fit)))
        return true;
    if (!(o->keep_share > 0 && o->keep_share <= 1))
        return wn_fail(err, WN_ERR_ARG, "a share of %g of the experts is not within 0 .. 1", o->keep_share);
    *keep = (uint32_t)lround(o->keep_share * experts);
    return *keep > 0 ||
           wn_fail(err, WN_ERR_ARG,
                   "0 experts to keep is below the floor of %" PRIu32 " (top-k is %" PRIu32 " of %" PRIu32 ")",
                   m->choice.floor, m->s->top_k, experts);
}

static bool choose_uniform(struct wn_making *m, struct wn_err *err)
{
    if (!asked_count(m, &m->keep, err))
        return false;
    if (m->keep == 0)
        return wn_solve_same(&m->choice, 0, 0, err);
    if (!check_count(m, m->keep, err))
        return false;
    wn_choose_same(&m->choice, m->keep, 0);
    return true;
}

static bool solve(struct wn_making *m, struct wn_err *err)
{
    return wn_making_by_loss(m->o) ? wn_solve_loss(&m->choice, &m->loss, &m->loss_bound, err)
                                   : wn_solve_apart(&m->choice, err);
}

/* Of all layers together. A number per layer is a budget in which each expert counts 1, whatever it weighs. */
static bool choose_apart(struct wn_making *m, struct wn_err *err)
{
    if (!asked_count(m, &m->keep, err))
        return false;
    if (m->keep == 0)
        return solve(m, err);
    if (m->choice.lo_bits)
        return wn_fail(err, WN_ERR_ARG,
                       "a number of experts does not say how many of them get %" PRIu32 " bits; a budget in bytes does",
                       m->choice.lo_bits);
    if (m->keep > m->s->expert_count || m->keep < m->choice.floor)
        return check_count(m, m->keep, err);
    for (uint32_t i = 0; i < m->choice.n; i++)
        m->choice.layers[i].hi_bytes = 1;
    m->choice.room = (uint64_t)m->keep * m->choice.n;
    if (!solve(m, err))
        return false;
    m->choice.bound = 0; /* of a number there is nothing to tell: the best ones are in */
    return true;
}

static bool choose_graded(struct wn_making *m, struct wn_err *err)
{
    const struct wn_plan_options *o = m->o;

    if (o->hi && o->hi < m->choice.protect)
        return wn_fail(err, WN_ERR_ARG,
                       "%" PRIu32 " experts with their bytes are fewer than the %" PRIu32 " to protect", o->hi,
                       m->choice.protect);
    if (!o->hi || !o->lo)
        return wn_fit_has_budget(o->fit)
                   ? wn_solve_same(&m->choice, o->hi, o->lo, err)
                   : wn_fail(err, WN_ERR_ARG,
                             "a graded plan needs both numbers, of whole experts and of those of fewer "
                             "bits, or a budget to solve them from");
    if (!check_count(m, (uint64_t)o->hi + o->lo, err))
        return false;
    wn_choose_same(&m->choice, o->hi, o->lo);
    return true;
}

static bool decide_bits(struct wn_making *m, struct wn_err *err)
{
    const struct wn_plan_options *o = m->o;
    uint32_t usual = o->fit && wn_fit_is_of_two(o->fit) ? wn_fit_lo_bits(o->fit)
                     : o->mode == WN_PLAN_GRADED        ? LO_BITS
                                                        : 0;
    uint32_t bits = o->mode == WN_PLAN_UNIFORM ? 0 : o->lo_bits ? o->lo_bits : usual;

    m->choice.lo_bits = bits;
    if (bits && wn_affine_type(bits) == WN_TYPE_COUNT)
        return wn_fail(err, WN_ERR_ARG, "experts of %" PRIu32 " bits are not known: 2, 3, 4, 5, 6, 8", bits);
    if (bits && o->fit && wn_fit_lo_bits(o->fit) != bits)
        return wn_fail(err, WN_ERR_ARG, "experts of %" PRIu32 " bits, but sizes are known for %u", bits,
                       wn_fit_lo_bits(o->fit));
    return true;
}

static bool decide(struct wn_making *m, struct wn_err *err)
{
    const struct wn_plan_options *o = m->o;

    if (!decide_bits(m, err) || (o->fit && !wn_fit_price(o->fit, &m->choice, err)))
        return false;
    if (o->mode == WN_PLAN_UNIFORM  ? choose_uniform(m, err)
        : o->mode == WN_PLAN_GRADED ? choose_graded(m, err)
                                    : choose_apart(m, err))
        return true;
    return wn_fit_has_budget(o->fit) ? wn_fit_say_budget(o->fit, err) : false;
}

/* ---- the plan ---- */

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

/* Each bank in rising order of the old numbers. */
static bool write_layer(const struct wn_making *m, const struct wn_choice_layer *from, struct wn_plan_layer *l,
                        struct wn_err *err)
{
    l->layer = from->layer;
    l->keep = wn_alloc(from->kept, sizeof(*l->keep), err);
    if (!l->keep)
        return false;
    l->keep_count = from->kept;
    for (uint32_t i = 0; i < from->kept; i++)
        l->keep[i] = from->rank[i].expert;
    qsort(l->keep, from->hi, sizeof(*l->keep), rising);
    qsort(l->keep + from->hi, from->kept - from->hi, sizeof(*l->keep), rising);
    if (from->hi < from->kept) {
        l->hi_count = from->hi;
        l->lo_bits = m->choice.lo_bits;
    }
    return true;
}

/* A budget in bytes, if it was what said how many stay. */
static void write_asked(const struct wn_making *m, struct wn_plan *p)
{
    const struct wn_fit *f = m->o->fit;

    if (!wn_fit_has_budget(f) || (m->o->mode == WN_PLAN_GRADED ? m->o->hi && m->o->lo : m->keep))
        return;
    p->asked_memory = f->options.memory;
    p->asked_size = f->options.size;
}

static bool write_plan(const struct wn_making *m, struct wn_plan *p, struct wn_err *err)
{
    static const char *const modes[] = {[WN_PLAN_UNIFORM] = "uniform",
                                        [WN_PLAN_GLOBAL] = "global",
                                        [WN_PLAN_GRADED] = "graded",
                                        [WN_PLAN_PROBE] = "global",
                                        [WN_PLAN_PROXY] = "global"};

    if (!describe_weights(p, m->o, err) || !(p->layers = wn_alloc(m->choice.n, sizeof(*p->layers), err)))
        return false;
    for (uint32_t i = 0; i < m->choice.n; i++)
        if (!write_layer(m, &m->choice.layers[i], &p->layers[p->layer_count++], err))
            return false;
    (void)snprintf(p->mode, sizeof(p->mode), "%s", modes[m->o->mode]);
    (void)snprintf(p->criterion, sizeof(p->criterion), "%s", wn_criterion_name(m->criterion));
    memcpy(p->model_fingerprint, m->s->model_fingerprint, sizeof(p->model_fingerprint));
    p->top_k = m->s->top_k;
    p->num_experts = m->s->expert_count;
    p->min_experts = m->choice.floor;
    p->protect = m->o->protect;
    p->raw = m->o->raw;
    write_asked(m, p);
    return true;
}

/* ---- the whole ---- */

static bool run(struct wn_making *m, struct wn_plan *p, struct wn_plan_kept *kept, struct wn_err *err)
{
    const struct wn_saliency *s = m->s;

    if (!wn_criterion_choose(s, m->o->criterion, &m->criterion, err) || !decide_floor(m, err))
        return false;
    if (m->o->weights && (!(m->factor = wn_alloc(s->source_count, sizeof(*m->factor), err)) ||
                          !wn_weigh_sources(s, m->o, m->factor, err)))
        return false;
    if (!rank_all(m, err) || !wn_making_predict(m, err) || !decide(m, err) || !write_plan(m, p, err) ||
        !wn_plan_keeps(s, p, kept, err) || !wn_making_measure(m, kept, err) || !wn_making_note(m, kept, p, err))
        return false;
    if (m->choice.bound > 0) {
        kept->reached = wn_choice_value(&m->choice) / m->choice.n;
        kept->bound = m->choice.bound / m->choice.n;
    }
    return true;
}

static bool choose(const struct wn_saliency *s, const struct wn_plan_options *o, struct wn_plan *p,
                   struct wn_plan_kept *kept, struct wn_err *err)
{
    struct wn_making m = {.s = s, .o = o, .choice.fidelity = 1};
    bool ok = run(&m, p, kept, err);

    wn_choice_release(&m.choice);
    wn_loss_release(&m.loss);
    wn_loss_release(&m.told);
    free(m.factor);
    return ok;
}

/* By the options, or by the model; 0: neither tells. */
static bool told_top_k(const struct wn_plan_options *o, uint32_t *top_k, struct wn_err *err)
{
    uint32_t model = wn_fit_top_k(o->fit);

    *top_k = o->top_k ? o->top_k : model;
    return *top_k == model || model == 0 ||
           wn_fail(err, WN_ERR_ARG, "a top-k of %" PRIu32 " is asked for, the model has %" PRIu32, o->top_k, model);
}

/* An archive that tells it is believed, and nothing may say otherwise. */
static bool read_archive(const char *path, const struct wn_plan_options *o, struct wn_saliency *s, struct wn_err *err)
{
    uint32_t top_k;

    if (!told_top_k(o, &top_k, err) || !wn_archive_read(s, path, top_k, err))
        return false;
    if (top_k == 0 || s->top_k == top_k)
        return true;
    wn_fail(err, WN_ERR_ARG, "'%s': the archive has a top-k of %" PRIu32 ", %s %" PRIu32, path, s->top_k,
            o->top_k ? "asked for is" : "the model", top_k);
    wn_saliency_release(s);
    return false;
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
    if (!read_archive(saliency_path, o, &s, err))
        return false;
    ok = choose(&s, o, p, &figures, err) || wn_fail_in(err, "'%s'", saliency_path);
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
