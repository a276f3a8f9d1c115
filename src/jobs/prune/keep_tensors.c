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

    wn_part_of(wn_source_container(k->source), t->name, &part);
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

bool wn_keep_list(struct wn_keep *k, struct wn_err *err)
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

/* ---- the walk ---- */

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
