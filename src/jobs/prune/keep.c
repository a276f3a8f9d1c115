/*
 * See keep.h. Two passes over the source's tensors: the first, here, finds the layers with experts and how many each
 * has, the second makes the list of what stays (keep_tensors.c).
 */
#include "base/alloc.h"
#include "jobs/by_layer.h"
#include "jobs/prune/keep_parts.h"
#include "jobs/prune/twins.h"
#include <winnow/config.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/*
 * Tensors that count a layer's experts alike: the router's, but in builds with ghosts the list of its experts' rows,
 * and the stacks of either bank.
 */
enum { ROUTER, EXPERT_ROWS, STACK, LOW_STACK, COUNTED };

/* What the names and shapes of one layer say. */
struct seen {
    struct {
        uint64_t n;       /* by the outermost dimension; 0: no such tensor */
        const char *name; /* which said so first */
    } outer[COUNTED];
    uint32_t named;    /* experts by number in the name */
    uint32_t *tensors; /* [named] how many tensors each has */
    size_t room;       /* of tensors */
};

struct census {
    struct seen *layer; /* [WN_LAYERS_MAX] */
};

static bool count_named(struct seen *l, const struct wn_tensor *t, uint32_t expert, struct wn_err *err)
{
    if (expert >= WN_EXPERTS_MAX)
        return wn_fail(err, WN_ERR_FORMAT, "tensor '%s': expert number %" PRIu32 " is not believable", t->name, expert);
    if (expert >= l->named) {
        uint32_t *p = wn_grow(l->tensors, &l->room, expert + 1, sizeof(*p), err);

        if (!p)
            return false;
        memset(p + l->named, 0, (expert + 1 - l->named) * sizeof(*p));
        l->tensors = p;
        l->named = expert + 1;
    }
    l->tensors[expert]++;
    return true;
}

static bool unlike(const char *a, uint64_t a_experts, const char *b, uint64_t b_experts, struct wn_err *err)
{
    return wn_fail(err, WN_ERR_FORMAT, "tensor '%s' has %" PRIu64 " experts, but '%s' has %" PRIu64, a, a_experts, b,
                   b_experts);
}

static bool count_tensor(struct census *c, const struct wn_tensor *t, const struct wn_part *part, struct wn_err *err)
{
    struct seen *l;
    int kind;

    if (part->axis == WN_AXIS_NONE && !part->expert_rows)
        return true;
    if (part->layer < 0 || part->layer >= WN_LAYERS_MAX)
        return wn_fail(err, WN_ERR_FORMAT, "tensor '%s' has experts, but is in no layer that can be told", t->name);
    l = &c->layer[part->layer];
    if (part->axis == WN_AXIS_NAME)
        return count_named(l, t, part->expert, err);
    if (t->dims == 0 || t->shape[0] == 0 || t->shape[0] > WN_EXPERTS_MAX)
        return wn_fail(err, WN_ERR_FORMAT, "tensor '%s' should have experts as its outermost dimension", t->name);
    kind = part->expert_rows ? EXPERT_ROWS : part->router ? ROUTER : part->low ? LOW_STACK : STACK;
    if (l->outer[kind].n == 0) {
        l->outer[kind].n = t->shape[0];
        l->outer[kind].name = t->name;
    }
    return l->outer[kind].n == t->shape[0] || unlike(t->name, t->shape[0], l->outer[kind].name, l->outer[kind].n, err);
}

/* What tells how many experts the router knows: its rows, or which of them are experts'. */
static int router_kind(const struct seen *l)
{
    return l->outer[EXPERT_ROWS].n ? EXPERT_ROWS : ROUTER;
}

/* Experts by the outermost dimension: those of both banks, or as many as the router knows. */
static uint64_t outer_count(const struct seen *l)
{
    uint64_t stacked = l->outer[STACK].n + l->outer[LOW_STACK].n;

    return stacked ? stacked : l->outer[router_kind(l)].n;
}

static const char *outer_name(const struct seen *l)
{
    return l->outer[STACK].n ? l->outer[STACK].name : l->outer[router_kind(l)].name;
}

/* Numbers 0 .. named - 1 must all be there, with as many tensors each, and agree with the stacked ones. */
static bool check_seen(const struct seen *l, uint32_t layer, struct wn_err *err)
{
    uint64_t outer = outer_count(l), rows = l->outer[router_kind(l)].n;

    if (l->outer[ROUTER].n < l->outer[EXPERT_ROWS].n)
        return wn_fail(err, WN_ERR_FORMAT,
                       "layer %" PRIu32 ": '%s' has %" PRIu64 " experts, but the router has %" PRIu64 " rows", layer,
                       l->outer[EXPERT_ROWS].name, l->outer[EXPERT_ROWS].n, l->outer[ROUTER].n);
    if (l->outer[LOW_STACK].n && rows != outer)
        return wn_fail(err, WN_ERR_FORMAT,
                       "layer %" PRIu32 ": %" PRIu64 " experts in one bank and %" PRIu64
                       " in the other ('%s'), but the "
                       "router knows %" PRIu64,
                       layer, l->outer[STACK].n, l->outer[LOW_STACK].n, l->outer[LOW_STACK].name, rows);
    if (rows && rows != outer)
        return unlike(l->outer[STACK].name, outer, l->outer[router_kind(l)].name, rows, err);
    for (uint32_t e = 0; e < l->named; e++)
        if (l->tensors[e] != l->tensors[0])
            return wn_fail(err, WN_ERR_FORMAT,
                           "layer %" PRIu32 ": expert %" PRIu32 " has %" PRIu32 " tensors, expert 0 has %" PRIu32,
                           layer, e, l->tensors[e], l->tensors[0]);
    if (l->named && outer && l->named != outer)
        return wn_fail(err, WN_ERR_FORMAT, "layer %" PRIu32 ": %" PRIu32 " experts by name, but '%s' has %" PRIu64,
                       layer, l->named, outer_name(l), outer);
    return true;
}

static bool take_census(struct census *c, const struct wn_source *source, struct wn_err *err)
{
    struct wn_part part;

    c->layer = wn_alloc(WN_LAYERS_MAX, sizeof(*c->layer), err);
    if (!c->layer)
        return false;
    for (size_t i = 0; i < wn_source_tensor_count(source); i++) {
        const struct wn_tensor *t = wn_source_tensor_at(source, i);

        wn_part_of(wn_source_container(source), t->name, &part);
        if (!count_tensor(c, t, &part, err))
            return false;
    }
    for (uint32_t l = 0; l < WN_LAYERS_MAX; l++)
        if (!check_seen(&c->layer[l], l, err))
            return false;
    return true;
}

static void release_census(struct census *c)
{
    for (uint32_t l = 0; c->layer && l < WN_LAYERS_MAX; l++)
        free(c->layer[l].tensors);
    free(c->layer);
}

/* Fills keep, new_of and row_of from a plan's layer, or with everything when it is NULL. */
static bool fill_layer(struct wn_keep_layer *l, const struct wn_plan_layer *plan, struct wn_err *err)
{
    l->hi = l->count = plan ? plan->keep_count : l->experts;
    if (plan && plan->lo_bits) {
        l->hi = plan->hi_count;
        l->lo_bits = plan->lo_bits;
    }
    l->keep = wn_alloc(l->count, sizeof(*l->keep), err);
    l->new_of = wn_alloc(l->experts, sizeof(*l->new_of), err);
    l->row_of = wn_alloc(l->count, sizeof(*l->row_of), err);
    if (!l->keep || !l->new_of || !l->row_of)
        return false;
    for (uint32_t e = 0; e < l->experts; e++)
        l->new_of[e] = WN_DROPPED;
    for (uint32_t i = 0; i < l->count; i++) {
        uint32_t old_expert = plan ? plan->keep[i] : i;

        if (old_expert >= l->experts)
            return wn_fail(err, WN_ERR_ARG,
                           "layer %" PRIu32 ": the plan keeps expert %" PRIu32 ", the model has %" PRIu32, l->layer,
                           old_expert, l->experts);
        if (l->new_of[old_expert] != WN_DROPPED)
            return wn_fail(err, WN_ERR_ARG, "layer %" PRIu32 ": the plan keeps expert %" PRIu32 " twice", l->layer,
                           old_expert);
        l->keep[i] = l->row_of[i] = old_expert;
        l->new_of[old_expert] = i;
    }
    return true;
}

static bool is_identity(const struct wn_keep *k)
{
    for (uint32_t i = 0; i < k->layer_count; i++) {
        const struct wn_keep_layer *l = &k->layers[i];

        if (l->count != l->experts || l->lo_bits)
            return false;
        for (uint32_t e = 0; e < l->count; e++)
            if (l->keep[e] != e)
                return false;
    }
    return true;
}

/* The layers of plan and model must be the same ones, and the widest as wide as the plan says. */
static bool check_plan(const struct wn_keep *k, const struct wn_plan *plan, struct wn_err *err)
{
    for (uint32_t i = 0; i < plan->layer_count; i++)
        if (!wn_keep_find(k, plan->layers[i].layer))
            return wn_fail(err, WN_ERR_ARG,
                           "the plan has a layer %" PRIu32
                           ", but that layer of the model has no experts (the model has "
                           "%" PRIu32 " layers with experts, the plan %" PRIu32 ")",
                           plan->layers[i].layer, k->layer_count, plan->layer_count);
    for (uint32_t i = 0; i < k->layer_count; i++)
        if (!wn_plan_find(plan, k->layers[i].layer))
            return wn_fail(err, WN_ERR_ARG,
                           "layer %" PRIu32 " has experts, but is not in the plan (the model has %" PRIu32
                           " layers with experts, the plan %" PRIu32 ")",
                           k->layers[i].layer, k->layer_count, plan->layer_count);
    if (wn_keep_widest(k, false) != plan->num_experts)
        return wn_fail(err, WN_ERR_ARG, "the plan is for %" PRIu32 " experts a layer, the model has %" PRIu32,
                       plan->num_experts, wn_keep_widest(k, false));
    return true;
}

/* Builds that are cut already in another way than by leaving experts out. */
static bool check_whole(const struct seen *s, struct wn_err *err)
{
    if (s->outer[LOW_STACK].n)
        return wn_fail(err, WN_ERR_ARG,
                       "this is a graded build ('%s' holds a second bank), which is not cut: cut the model that it was "
                       "made from",
                       s->outer[LOW_STACK].name);
    return !s->outer[EXPERT_ROWS].n ||
           wn_fail(err, WN_ERR_ARG,
                   "this is a build with ghosts ('%s' says whose the router's rows are), which is not cut: cut the "
                   "model that it was made from",
                   s->outer[EXPERT_ROWS].name);
}

static bool find_layers(struct wn_keep *k, const struct wn_plan *plan, struct wn_err *err)
{
    struct census c = {0};
    bool ok = take_census(&c, k->source, err) && (k->layers = wn_alloc(WN_LAYERS_MAX, sizeof(*k->layers), err));

    for (uint32_t l = 0; ok && l < WN_LAYERS_MAX; l++) {
        const struct seen *s = &c.layer[l];
        uint32_t experts = s->named ? s->named : (uint32_t)outer_count(s);

        ok = !plan || check_whole(s, err);
        if (experts)
            k->layers[k->layer_count++] = (struct wn_keep_layer){
                .layer = l, .experts = experts, .rows = s->outer[ROUTER].n ? (uint32_t)s->outer[ROUTER].n : experts};
    }
    release_census(&c);
    return ok;
}

static bool make_layers(struct wn_keep *k, const struct wn_keep_how *how, struct wn_err *err)
{
    const struct wn_plan *plan = how->plan;

    if (!find_layers(k, plan, err) || (plan && !check_plan(k, plan, err)))
        return false;
    for (uint32_t i = 0; i < k->layer_count; i++)
        if (!fill_layer(&k->layers[i], plan ? wn_plan_find(plan, k->layers[i].layer) : NULL, err))
            return false;
    k->identity = is_identity(k);
    return wn_keep_set_ghosts(k, how, err);
}

/* What the plan takes from a second parent, and that it is worth taking. */
static bool check_banks(const struct wn_keep *k, struct wn_err *err)
{
    uint64_t whole = 0, low = 0;

    for (size_t i = 1; i < k->tensor_count; i++)
        if (k->tensors[i].source == k->low) {
            low += k->tensors[i].slab_bytes;
            whole += k->tensors[i - 1].slab_bytes;
        }
    return low < whole ||
           wn_fail(err, WN_ERR_ARG,
                   "one expert in each graded layer takes %" PRIu64 " bytes in the second parent and %" PRIu64
                   " in the first, so that its tail would save nothing (are the two exchanged?)",
                   low, whole);
}

bool wn_keep_init(struct wn_keep *k, const struct wn_source *source, const struct wn_keep_how *how, struct wn_err *err)
{
    bool ok;

    *k = (struct wn_keep){.source = source, .low = how->low};
    if (how->plan && wn_naming_of_source(source) == WN_NAMING_MLX)
        return wn_fail(err, WN_ERR_ARG, "this is an MLX folder, which is not cut: cut the model that it was made from");
    if (how->low && (!how->plan || !wn_plan_is_graded(how->plan)))
        return wn_fail(err, WN_ERR_ARG,
                       "the plan gives no expert fewer bits, so nothing would come from the second parent");
    ok = make_layers(k, how, err) && (!k->low || wn_twins_check(source, k->low, err)) && wn_keep_list(k, err) &&
         (!k->low || check_banks(k, err));
    if (!ok)
        wn_keep_release(k);
    return ok;
}

void wn_keep_release(struct wn_keep *k)
{
    for (uint32_t i = 0; k->layers && i < k->layer_count; i++) {
        free(k->layers[i].keep);
        free(k->layers[i].new_of);
        free(k->layers[i].row_of);
    }
    free(k->layers);
    free(k->tensors);
    free(k->names);
    *k = (struct wn_keep){0};
}

const struct wn_keep_layer *wn_keep_find(const struct wn_keep *k, uint32_t layer)
{
    size_t i = wn_by_layer(k->layers, k->layer_count, sizeof *k->layers, layer);

    _Static_assert(offsetof(struct wn_keep_layer, layer) == 0, "wn_by_layer looks there");
    return i < k->layer_count ? &k->layers[i] : NULL;
}

uint32_t wn_keep_widest(const struct wn_keep *k, bool after)
{
    uint32_t widest = 0;

    for (uint32_t i = 0; i < k->layer_count; i++) {
        uint32_t n = after ? k->layers[i].count : k->layers[i].experts;

        widest = n > widest ? n : widest;
    }
    return widest;
}

bool wn_keep_is_graded(const struct wn_keep *k)
{
    for (uint32_t i = 0; i < k->layer_count; i++)
        if (k->layers[i].lo_bits)
            return true;
    return false;
}

bool wn_keep_is_uniform(const struct wn_keep *k)
{
    for (uint32_t i = 1; i < k->layer_count; i++)
        if (k->layers[i].count != k->layers[0].count)
            return false;
    return true;
}
