/* See fit.h (include): a plan's ledger. The build's bytes are those of a dry run of the prune that will write it. */
#include "jobs/plan/fit.h"

#include <inttypes.h>

/* A place that is not there: a dry run looks at it and writes nothing. */
#define NOWHERE "winnow-plan.dry-run/build"

static bool size_build(const struct wn_fit *f, const struct wn_plan *p, struct wn_fit_ledger *l, struct wn_err *err)
{
    const struct wn_prune_options o = {.source = f->path,
                                       .lo_source = wn_plan_is_graded(p) ? f->options.lo_source : NULL,
                                       .out = NOWHERE,
                                       .model = f->model,
                                       .plan = p,
                                       .ghosts = f->options.ghosts,
                                       .dry_run = true,
                                       .overwrite = true,
                                       .force_plan = true, /* sizes are of this model, saliency may be of its twin */
                                       .format = f->options.format,
                                       .rest_bits = f->options.rest_bits,
                                       .encoder = f->options.encoder};
    struct wn_prune_result r;

    if (!wn_prune(&o, NULL, &r, err))
        return false;
    l->file_bytes = r.out_bytes;
    l->tensor_bytes = r.out_tensor_bytes;
    l->files = r.files;
    l->tensors = r.tensors;
    l->lo_bytes = r.lo_bytes;
    l->lo_weights = r.lo_weights;
    return true;
}

static void add_ghosts(const struct wn_fit *f, const struct wn_fit_layer *w, uint32_t ghosts, struct wn_fit_ledger *l)
{
    l->ghosts += ghosts;
    l->ghost_bytes += ghosts * (w->router + f->mean) + (w->experts - ghosts) * sizeof(int32_t);
}

/* Sums over the plan's layers of what grows with experts. */
static bool add_experts(const struct wn_fit *f, const struct wn_plan *p, double low_routed, struct wn_fit_ledger *l,
                        struct wn_err *err)
{
    for (uint32_t i = 0; i < f->layer_count; i++) {
        const struct wn_fit_layer *w = &f->layers[i];
        const struct wn_plan_layer *from = wn_plan_find(p, w->layer);
        uint64_t hi, low;
        double mean;

        if (!from)
            return wn_fail(err, WN_ERR_ARG, "layer %" PRIu32 " of '%s' has experts, but is not in the plan", w->layer,
                           f->path);
        if (from->lo_bits && from->lo_bits != f->options.lo_bits)
            return wn_fail(err, WN_ERR_ARG, "layer %" PRIu32 " has experts of %" PRIu32 " bits, which were not priced",
                           w->layer, from->lo_bits);
        hi = from->lo_bits ? from->hi_count : from->keep_count;
        low = from->keep_count - hi;
        l->experts += hi * w->slab + low * w->low_slab + from->keep_count * (uint64_t)wn_fit_row(f, w);
        l->tables += from->keep_count * wn_fit_beside(f, w);
        l->one_more += w->slab + (uint64_t)wn_fit_row(f, w);
        mean = low ? (1 - low_routed) * (double)w->slab + low_routed * (double)w->low_slab : (double)w->slab;
        l->token_expert_bytes += (uint64_t)(p->top_k * mean);
        if (wn_fit_has_ghosts(f))
            add_ghosts(f, w, w->experts - from->keep_count, l);
        else
            l->token_bytes += from->keep_count * w->router;
    }
    l->experts += f->ghosts;
    l->token_bytes += l->token_expert_bytes + f->token_rest;
    return true;
}

static void add_memory(const struct wn_fit *f, struct wn_fit_ledger *l)
{
    uint64_t sessions = f->options.sessions ? f->options.sessions : 1;

    l->context = f->context;
    l->rest = f->rest - f->vision;
    l->state = sessions * f->state;
    l->cache = sessions * f->cache;
    l->scratch = sessions * f->scratch;
    l->checkpoints = sessions * f->options.checkpoints * (f->state + f->cache);
    l->total = wn_fit_fixed_memory(f) - f->ghosts + l->experts + l->tables;
    l->tables = l->total - l->experts - l->rest - l->state - l->cache - l->scratch - l->checkpoints;
}

bool wn_fit_predict(const struct wn_fit *f, const struct wn_plan *p, double low_routed, struct wn_fit_ledger *l,
                    struct wn_err *err)
{
    *l = (struct wn_fit_ledger){.budget = f->options.size ? f->options.size : f->options.memory};
    if (!add_experts(f, p, low_routed, l, err) || !size_build(f, p, l, err))
        return false;
    if (f->model) {
        add_memory(f, l);
        return true;
    }
    l->experts = l->tables = l->token_bytes = l->token_expert_bytes = 0;
    return true;
}
