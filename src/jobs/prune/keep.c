/*
 * See keep.h. Two passes over the source's tensors: the first finds the layers with experts and how many each has, the
 * second makes the list of what stays. Names are the table's affair (model/parts.h).
 */
#include "jobs/prune/keep.h"
#include "base/alloc.h"
#include "model/names.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Far above any model; what a name claims is not believed beyond this. */
#define LAYERS_MAX  65536
#define EXPERTS_MAX 65536

/* Tensors that count a layer's experts alike: the router's, and the stacks of either bank. */
enum { ROUTER, STACK, LOW_STACK, COUNTED };

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
    struct seen *layer; /* [LAYERS_MAX] */
};

static void part_of(const struct wn_source *source, const struct wn_tensor *t, struct wn_part *part)
{
    wn_part_of(wn_source_container(source), t->name, part);
}

static bool count_named(struct seen *l, const struct wn_tensor *t, uint32_t expert, struct wn_err *err)
{
    if (expert >= EXPERTS_MAX)
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

    if (part->axis == WN_AXIS_NONE)
        return true;
    if (part->layer < 0 || part->layer >= LAYERS_MAX)
        return wn_fail(err, WN_ERR_FORMAT, "tensor '%s' has experts, but is in no layer that can be told", t->name);
    l = &c->layer[part->layer];
    if (part->axis == WN_AXIS_NAME)
        return count_named(l, t, part->expert, err);
    if (t->dims == 0 || t->shape[0] == 0 || t->shape[0] > EXPERTS_MAX)
        return wn_fail(err, WN_ERR_FORMAT, "tensor '%s' should have experts as its outermost dimension", t->name);
    kind = part->router ? ROUTER : part->low ? LOW_STACK : STACK;
    if (l->outer[kind].n == 0) {
        l->outer[kind].n = t->shape[0];
        l->outer[kind].name = t->name;
    }
    return l->outer[kind].n == t->shape[0] || unlike(t->name, t->shape[0], l->outer[kind].name, l->outer[kind].n, err);
}

/* Experts by the outermost dimension: those of both banks, or as many as the router has rows. */
static uint64_t outer_count(const struct seen *l)
{
    uint64_t stacked = l->outer[STACK].n + l->outer[LOW_STACK].n;

    return stacked ? stacked : l->outer[ROUTER].n;
}

static const char *outer_name(const struct seen *l)
{
    return l->outer[STACK].n ? l->outer[STACK].name : l->outer[ROUTER].name;
}

/* Numbers 0 .. named - 1 must all be there, with as many tensors each, and agree with the stacked ones. */
static bool check_seen(const struct seen *l, uint32_t layer, struct wn_err *err)
{
    uint64_t outer = outer_count(l), rows = l->outer[ROUTER].n;

    if (l->outer[LOW_STACK].n && rows != outer)
        return wn_fail(err, WN_ERR_FORMAT,
                       "layer %" PRIu32 ": %" PRIu64 " experts in one bank and %" PRIu64
                       " in the other ('%s'), but the "
                       "router knows %" PRIu64,
                       layer, l->outer[STACK].n, l->outer[LOW_STACK].n, l->outer[LOW_STACK].name, rows);
    if (rows && rows != outer)
        return unlike(l->outer[STACK].name, outer, l->outer[ROUTER].name, rows, err);
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

    c->layer = wn_alloc(LAYERS_MAX, sizeof(*c->layer), err);
    if (!c->layer)
        return false;
    for (size_t i = 0; i < wn_source_tensor_count(source); i++) {
        const struct wn_tensor *t = wn_source_tensor_at(source, i);

        part_of(source, t, &part);
        if (!count_tensor(c, t, &part, err))
            return false;
    }
    for (uint32_t l = 0; l < LAYERS_MAX; l++)
        if (!check_seen(&c->layer[l], l, err))
            return false;
    return true;
}

static void release_census(struct census *c)
{
    for (uint32_t l = 0; c->layer && l < LAYERS_MAX; l++)
        free(c->layer[l].tensors);
    free(c->layer);
}

/* Fills keep and new_of from a plan's layer, or with everything when it is NULL. */
static bool fill_layer(struct wn_keep_layer *l, const struct wn_plan_layer *plan, struct wn_err *err)
{
    l->hi = l->count = plan ? plan->keep_count : l->experts;
    if (plan && plan->lo_bits) {
        l->hi = plan->hi_count;
        l->lo_bits = plan->lo_bits;
    }
    l->keep = wn_alloc(l->count, sizeof(*l->keep), err);
    l->new_of = wn_alloc(l->experts, sizeof(*l->new_of), err);
    if (!l->keep || !l->new_of)
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
        l->keep[i] = old_expert;
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

static bool make_layers(struct wn_keep *k, const struct wn_plan *plan, struct wn_err *err)
{
    struct census c = {0};
    bool ok = take_census(&c, k->source, err) && (k->layers = wn_alloc(LAYERS_MAX, sizeof(*k->layers), err));

    for (uint32_t l = 0; ok && l < LAYERS_MAX; l++) {
        const struct seen *s = &c.layer[l];

        if (s->outer[LOW_STACK].n && plan)
            ok = wn_fail(
                err, WN_ERR_ARG,
                "this is a graded build ('%s' holds a second bank), which is not cut: cut the model that it was "
                "made from",
                s->outer[LOW_STACK].name);
        if (outer_count(s) || s->named)
            k->layers[k->layer_count++] =
                (struct wn_keep_layer){.layer = l, .experts = s->named ? s->named : (uint32_t)outer_count(s)};
    }
    release_census(&c);
    if (!ok || (plan && !check_plan(k, plan, err)))
        return false;
    for (uint32_t i = 0; i < k->layer_count; i++)
        if (!fill_layer(&k->layers[i], plan ? wn_plan_find(plan, k->layers[i].layer) : NULL, err))
            return false;
    k->identity = is_identity(k);
    return true;
}

/*
 * A tensor that the table does not know, but whose name or shape speaks of experts: a copy of it might belong to the
 * wrong ones. Names tell of stacks that have a count of their own (a few experts to one chunk of them), dimensions of
 * all others.
 */
static bool check_unknown(const struct wn_keep *k, const struct wn_tensor *t, const struct wn_part *part,
                          struct wn_err *err)
{
    const struct wn_keep_layer *l = part->layer >= 0 ? wn_keep_find(k, (uint32_t)part->layer) : NULL;

    if (part->class != WN_CLASS_OTHER || k->identity)
        return true;
    if (strstr(t->name, "exps.") || strstr(t->name, ".experts."))
        return wn_fail(err, WN_ERR_FORMAT,
                       "tensor '%s' is unknown, and by its name holds experts: nothing tells how to cut it", t->name);
    for (uint32_t d = 0; l && d < t->dims; d++)
        if (t->shape[d] == l->experts)
            return wn_fail(err, WN_ERR_FORMAT,
                           "tensor '%s' is unknown, and its dimension %" PRIu32 " is as long as layer %" PRIu32
                           " has experts (%" PRIu32 "): it may run over experts, and nothing tells how to cut it",
                           t->name, d, l->layer, l->experts);
    return true;
}

/* One expert of a stacked tensor must be whole blocks, whole bytes. */
static bool cut_outer(struct wn_keep_tensor *out, const struct wn_tensor *t, struct wn_err *err)
{
    uint64_t experts = out->layer->experts, inner = wn_tensor_elements(t) / experts;

    if (inner % wn_type_info(t->type)->block_elements != 0 || t->bytes % experts != 0)
        return wn_fail(err, WN_ERR_FORMAT,
                       "tensor '%s': %" PRIu64 " weights of type %s an expert are not whole blocks, it cannot be cut",
                       t->name, inner, wn_type_info(t->type)->name);
    out->slab_bytes = t->bytes / experts;
    out->shape[0] = out->layer->count;
    out->bytes = out->slab_bytes * out->layer->count;
    return true;
}

/* Writes the tensor's name with the new expert number at *at, and moves *at behind it. */
static void rename_expert(struct wn_keep_tensor *out, const struct wn_part *part, char **at)
{
    const char *old = out->from->name;
    int n = sprintf(*at, "%.*s%" PRIu32 "%s", (int)part->expert_at, old, out->new_expert,
                    old + part->expert_at + part->expert_digits);

    out->name = *at;
    *at += n + 1;
}

/* A stack that has only some of its layer's experts: of a graded build, which is copied as it is or not at all. */
static bool is_bank(const struct wn_keep *k, const struct wn_tensor *t, const struct wn_part *part)
{
    return part->axis == WN_AXIS_OUTER && !part->router &&
           t->shape[0] != wn_keep_find(k, (uint32_t)part->layer)->experts;
}

static bool keep_tensor(struct wn_keep *k, const struct wn_tensor *t, char **names, struct wn_err *err)
{
    struct wn_keep_tensor out = {.from = t, .name = t->name, .bytes = t->bytes, .file = t->file};
    struct wn_part part;

    part_of(k->source, t, &part);
    memcpy(out.shape, t->shape, sizeof(out.shape));
    out.router = part.router;
    if (is_bank(k, t, &part))
        part.axis = WN_AXIS_NONE;
    if (part.axis == WN_AXIS_NONE) {
        if (!check_unknown(k, t, &part, err))
            return false;
    } else {
        out.axis = part.axis;
        out.layer = wn_keep_find(k, (uint32_t)part.layer);
        assert(out.layer); /* the census saw this tensor */
    }
    if (part.axis == WN_AXIS_OUTER && !cut_outer(&out, t, err))
        return false;
    if (part.axis == WN_AXIS_NAME) {
        out.old_expert = part.expert;
        out.new_expert = out.layer->new_of[part.expert];
        if (out.new_expert == WN_DROPPED)
            return true;
        if (out.new_expert != out.old_expert)
            rename_expert(&out, &part, names);
    }
    k->tensors[k->tensor_count++] = out;
    return true;
}

/* Room for every name with a number of up to five digits in the place of a shorter one. */
static size_t name_room(const struct wn_source *source)
{
    size_t room = 0;

    for (size_t i = 0; i < wn_source_tensor_count(source); i++)
        room += strlen(wn_source_tensor_at(source, i)->name) + 6;
    return room;
}

static bool make_tensors(struct wn_keep *k, struct wn_err *err)
{
    size_t n = wn_source_tensor_count(k->source);
    char *names;

    k->tensors = wn_alloc(n, sizeof(*k->tensors), err);
    if (!k->tensors)
        return false;
    if (!k->identity) {
        k->names = wn_alloc(name_room(k->source), 1, err);
        if (!k->names)
            return false;
    }
    names = k->names;
    for (size_t i = 0; i < n; i++)
        if (!keep_tensor(k, wn_source_tensor_at(k->source, i), &names, err))
            return false;
    return true;
}

bool wn_keep_init(struct wn_keep *k, const struct wn_source *source, const struct wn_plan *plan, struct wn_err *err)
{
    *k = (struct wn_keep){.source = source};
    if (plan && wn_naming_of_source(source) == WN_NAMING_MLX)
        return wn_fail(err, WN_ERR_ARG, "this is an MLX folder, which is not cut: cut the model that it was made from");
    if (make_layers(k, plan, err) && make_tensors(k, err))
        return true;
    wn_keep_release(k);
    return false;
}

void wn_keep_release(struct wn_keep *k)
{
    for (uint32_t i = 0; k->layers && i < k->layer_count; i++) {
        free(k->layers[i].keep);
        free(k->layers[i].new_of);
    }
    free(k->layers);
    free(k->tensors);
    free(k->names);
    *k = (struct wn_keep){0};
}

const struct wn_keep_layer *wn_keep_find(const struct wn_keep *k, uint32_t layer)
{
    uint32_t low = 0, high = k->layer_count;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (k->layers[mid].layer == layer)
            return &k->layers[mid];
        if (k->layers[mid].layer < layer)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
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

/* The experts that stay, as runs of old neighbours. */
static bool gather_slabs(const struct wn_keep_tensor *t, wn_keep_range_fn *fn, void *arg, struct wn_err *err)
{
    const struct wn_keep_layer *l = t->layer;

    for (uint32_t first = 0, n; first < l->count; first += n) {
        struct wn_keep_range r = {.old_expert = l->keep[first], .new_expert = first};

        for (n = 1; first + n < l->count && l->keep[first + n] == l->keep[first] + n; n++)
            ;
        r.from = l->keep[first] * t->slab_bytes;
        r.to = first * t->slab_bytes;
        r.bytes = n * t->slab_bytes;
        if (!fn(arg, t, &r, err))
            return false;
    }
    return true;
}

bool wn_keep_gather(const struct wn_keep_tensor *t, wn_keep_range_fn *fn, void *arg, struct wn_err *err)
{
    struct wn_keep_range all = {.bytes = t->bytes, .old_expert = WN_DROPPED, .new_expert = WN_DROPPED};

    if (t->axis == WN_AXIS_OUTER)
        return gather_slabs(t, fn, arg, err);
    if (t->axis == WN_AXIS_NAME) {
        all.old_expert = t->old_expert;
        all.new_expert = t->new_expert;
    }
    return fn(arg, t, &all, err);
}
