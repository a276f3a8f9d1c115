/*
 * See keep.h: the list of what stays, made of the layers that keep.c found, and the walk over the bytes of each. Names
 * are the table's affair (model/parts.h).
 */
#include "base/alloc.h"
#include "jobs/prune/keep_parts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A list that is being made. */
struct list {
    struct wn_keep *k;
    char *names; /* room for the names of the output that are not the source's */
    struct wn_err *err;
};

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

/*
 * Slabs first .. first + count - 1 of the layer, out of a stack that has all of its experts (a router: and ghosts). One
 * expert must be whole blocks, whole bytes.
 */
static bool cut_outer(struct wn_keep_tensor *out, const struct wn_tensor *t, uint32_t first, uint32_t count,
                      struct wn_err *err)
{
    uint64_t slabs = out->router ? out->layer->rows : out->layer->experts, inner = wn_tensor_elements(t) / slabs;

    if (inner % wn_type_info(t->type)->block_elements != 0 || t->bytes % slabs != 0)
        return wn_fail(err, WN_ERR_FORMAT,
                       "tensor '%s': %" PRIu64 " weights of type %s an expert are not whole blocks, it cannot be cut",
                       t->name, inner, wn_type_info(t->type)->name);
    out->first = first;
    out->count = count;
    out->slab_bytes = t->bytes / slabs;
    out->shape[0] = count;
    out->bytes = out->slab_bytes * count;
    return true;
}

/* Writes the tensor's name with the new expert number into the room for names. */
static void rename_expert(struct list *l, struct wn_keep_tensor *out, const struct wn_part *part)
{
    const char *old = out->from->name;
    int n = sprintf(l->names, "%.*s%" PRIu32 "%s", (int)part->expert_at, old, out->new_expert,
                    old + part->expert_at + part->expert_digits);

    out->name = l->names;
    l->names += n + 1;
}

/* A stack that has only some of its layer's experts: of a graded build, which is copied as it is or not at all. */
static bool is_bank(const struct wn_keep *k, const struct wn_tensor *t, const struct wn_part *part)
{
    return part->axis == WN_AXIS_OUTER && !part->router &&
           t->shape[0] != wn_keep_find(k, (uint32_t)part->layer)->experts;
}

/* Of a build with ghosts, where the output has them or where they have gone. */
static bool is_whole(const struct wn_keep *k, const struct wn_part *part)
{
    return part->router && k->ghosts != WN_GHOSTS_OFF;
}

static bool has_gone(const struct wn_keep *k, const struct wn_part *part)
{
    return (part->expert_rows || part->ghost_mean) && k->ghosts == WN_GHOSTS_OFF;
}

static void add(struct list *l, const struct wn_keep_tensor *t)
{
    l->k->tensors[l->k->tensor_count++] = *t;
}

/* The experts of the second bank, which are the second parent's: behind those of the first one. */
static bool add_low_bank(struct list *l, const struct wn_keep_tensor *hi)
{
    const struct wn_tensor *t = wn_source_find(l->k->low, hi->from->name);
    const struct wn_keep_layer *layer = hi->layer;
    struct wn_keep_tensor out = *hi;
    size_t n;

    assert(t && t->dims == hi->from->dims); /* the two are twins */
    out.from = t;
    out.source = l->k->low;
    out.type = t->type;
    if (!wn_name_write_low(hi->name, l->names, &n))
        return wn_fail(l->err, WN_ERR_FORMAT, "tensor '%s' has no name for a second bank", hi->name);
    out.name = l->names;
    l->names += n + 1;
    if (!cut_outer(&out, t, layer->hi, layer->count - layer->hi, l->err))
        return wn_fail_in(l->err, "the second parent");
    add(l, &out);
    return true;
}

/* Routers and their biases have all experts in one tensor; stacks too, unless a second bank has a parent of its own. */
static bool keep_outer(struct list *l, struct wn_keep_tensor *out)
{
    const struct wn_keep_layer *layer = out->layer;
    bool two = l->k->low && !out->router && layer->hi < layer->count;

    if (!cut_outer(out, out->from, 0, two ? layer->hi : layer->count, l->err))
        return false;
    add(l, out);
    return !two || add_low_bank(l, out);
}

static bool keep_tensor(struct list *l, const struct wn_tensor *t)
{
    struct wn_keep *k = l->k;
    struct wn_keep_tensor out = {.from = t,
                                 .source = k->source,
                                 .name = t->name,
                                 .type = t->type,
                                 .dims = t->dims,
                                 .bytes = t->bytes,
                                 .file = t->file};
    struct wn_part part;

    wn_part_of(wn_source_container(k->source), t->name, &part);
    if (has_gone(k, &part))
        return true;
    memcpy(out.shape, t->shape, sizeof(out.shape));
    out.router = part.router;
    if (is_bank(k, t, &part) || is_whole(k, &part))
        part.axis = WN_AXIS_NONE;
    out.axis = part.axis;
    if (part.axis == WN_AXIS_NONE) {
        if (!check_unknown(k, t, &part, l->err))
            return false;
        add(l, &out);
        if (part.router && k->new_ghosts)
            wn_keep_add_ghosts(k, wn_keep_find(k, (uint32_t)part.layer), &l->names);
        return true;
    }
    out.layer = wn_keep_find(k, (uint32_t)part.layer);
    assert(out.layer); /* the census saw this tensor */
    if (part.axis == WN_AXIS_OUTER)
        return keep_outer(l, &out);
    out.old_expert = part.expert;
    out.new_expert = out.layer->new_of[part.expert];
    if (out.new_expert == WN_DROPPED)
        return true;
    if (out.new_expert != out.old_expert)
        rename_expert(l, &out, &part);
    add(l, &out);
    return true;
}

/*
 * Room for every name with a number of up to five digits in the place of a shorter one, or a word more; and for those
 * of ghosts.
 */
static size_t name_room(const struct wn_keep *k)
{
    size_t room = k->new_ghosts ? (size_t)k->layer_count * WN_GHOST_TENSORS * WN_NAME_BYTES : 0;

    for (size_t i = 0; i < wn_source_tensor_count(k->source); i++)
        room += strlen(wn_source_tensor_at(k->source, i)->name) + 6;
    return room;
}

/* The router's matrix of each layer was there, and something stands behind it. */
static bool check_ghosts(const struct wn_keep *k, struct wn_err *err)
{
    uint32_t n = 0;

    for (size_t i = 0; i < k->tensor_count; i++)
        n += k->tensors[i].made == WN_MADE_ROWS;
    return !k->new_ghosts || n == k->layer_count ||
           wn_fail(err, WN_ERR_FORMAT, "%" PRIu32 " layers have experts, but %" PRIu32 " a router", k->layer_count, n);
}

bool wn_keep_list(struct wn_keep *k, struct wn_err *err)
{
    size_t n = wn_source_tensor_count(k->source);
    struct list l = {.k = k, .err = err};

    k->tensors = wn_alloc((k->low ? 2 * n : n) + (size_t)k->layer_count * WN_GHOST_TENSORS, sizeof(*k->tensors), err);
    if (!k->tensors)
        return false;
    if (!k->identity) {
        k->names = wn_alloc(name_room(k), 1, err);
        if (!k->names)
            return false;
    }
    l.names = k->names;
    for (size_t i = 0; i < n; i++)
        if (!keep_tensor(&l, wn_source_tensor_at(k->source, i)))
            return false;
    return check_ghosts(k, err);
}

/* ---- the walk ---- */

/* The experts that stay, as runs of old neighbours. */
static bool gather_slabs(const struct wn_keep_tensor *t, wn_keep_range_fn *fn, void *arg, struct wn_err *err)
{
    const uint32_t *old = t->router ? t->layer->row_of : t->layer->keep, end = t->first + t->count;

    for (uint32_t at = t->first, n; at < end; at += n) {
        struct wn_keep_range r = {.old_expert = old[at], .new_expert = at};

        for (n = 1; at + n < end && old[at + n] == old[at] + n; n++)
            ;
        r.from = old[at] * t->slab_bytes;
        r.to = (at - t->first) * t->slab_bytes;
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
