/*
 * All ways through the model, layer by layer, so that each layer is bound once and read once:
 *
 *   the whole model's stream L        -> layer L                     -> its stream L + 1
 *   a probe's of an earlier layer     -> layer L                     -> its own stream L + 1
 *   the whole model's again           -> layer L, masked by a probe  -> that probe's first stream of its own
 *
 * A step is one way through one layer, done when the stream that leaves it is in place. A layer is done when its record
 * is (one byte: that it is there is all it says); then the whole model's stream goes that entered it, unless it is a
 * bank. So a run may be killed anywhere, and the next one computes only the step again that was not done.
 */
#include "jobs/probe/probe_parts.h"
#include "jobs/talk.h"

#include <inttypes.h>
#include <stdio.h>

struct drive {
    struct wn_probing_run *run;
    struct wn_walk walk;
    uint32_t layer;
    uint64_t before; /* tokens times layers of the steps behind us */
};

static bool progress(const struct drive *d, uint64_t tokens, struct wn_err *err)
{
    const struct wn_probing *p = &d->run->p;
    char step[64];

    (void)snprintf(step, sizeof step, "layer %" PRIu32 " of %" PRIu32, d->layer + 1, p->config->layer_count);
    return wn_job_step(d->run->job, "probing", step, d->before + tokens, p->need.token_layers, "token-layers", err);
}

static void begin_chunk(void *arg, size_t i, size_t first)
{
    (void)arg;
    (void)i;
    (void)first;
}

static bool chunk_done(void *arg, uint64_t done, struct wn_err *err)
{
    return progress(arg, done, err);
}

static bool embedded(void *arg, uint64_t done, struct wn_err *err)
{
    const struct drive *d = arg;

    return wn_job_progress(d->run->job, "embedding", done, d->run->p.corpus.tokens, "tokens", err);
}

/* The one place where a layer is masked; who binds it anew has it whole again. */
static void mask(const struct wn_probing *p, uint32_t way, struct wn_layer *layer)
{
    wn_dropped_mask(&p->dropped[wn_way_point(p, way)], layer);
}

static bool compute(struct drive *d, const struct wn_layer *layer, struct wn_err *err)
{
    bool ok = wn_walk_open(&d->walk, layer->index, err) && wn_walk_layer(&d->walk, layer, err) &&
              wn_store_commit_stream(d->walk.store, err);

    wn_store_close_streams(d->walk.store);
    d->run->result.done += ok;
    return ok;
}

/* A step, unless it is done. What entered the layer goes if it was the probe's own. */
static bool take_step(struct drive *d, uint32_t way, const struct wn_layer *layer, struct wn_err *err)
{
    const struct wn_probing *p = &d->run->p;
    uint32_t i = layer->index;

    wn_way_take(p, &d->walk, way);
    if (wn_store_has_stream(d->walk.store, wn_walk_number(&d->walk, i + 1)))
        d->run->result.resumed++;
    else if (!compute(d, layer, err))
        return false;
    if (way && wn_way_has(p, way, i) && !wn_layer_banks(p->config, i))
        wn_store_drop_stream(d->walk.store, wn_walk_number(&d->walk, i));
    d->before += p->corpus.tokens;
    return progress(d, 0, err);
}

static bool take_masked(struct drive *d, uint32_t way, struct wn_err *err)
{
    struct wn_layer layer;
    bool ok;

    if (!wn_layer_bind(d->walk.model, d->layer, &layer, err))
        return false;
    mask(&d->run->p, way, &layer);
    ok = take_step(d, way, &layer, err);
    wn_layer_release(&layer);
    return ok;
}

static bool take_whole(struct drive *d, struct wn_err *err)
{
    const struct wn_probing *p = &d->run->p;
    struct wn_layer layer;
    bool ok;

    if (!wn_layer_bind(d->walk.model, d->layer, &layer, err))
        return false;
    wn_layer_will_need(d->walk.model, &layer);
    ok = take_step(d, 0, &layer, err);
    for (uint32_t way = 1; ok && way < wn_way_count(p) && wn_way_layer(p, way) < d->layer; way++)
        ok = take_step(d, way, &layer, err);
    wn_layer_release(&layer);
    return ok;
}

static bool run_layer(struct drive *d, uint32_t i, struct wn_err *err)
{
    const struct wn_probing *p = &d->run->p;
    bool ok;

    d->layer = i;
    ok = take_whole(d, err);
    for (uint32_t way = 1; ok && way < wn_way_count(p); way++)
        if (wn_way_layer(p, way) == i)
            ok = take_masked(d, way, err);
    ok = ok && wn_store_put_record(d->walk.store, i, (struct wn_bytes){"", 1}, err);
    if (ok && !wn_layer_banks(p->config, i))
        wn_store_drop_stream(d->walk.store, i);
    wn_source_drop_pages(wn_model_source(d->walk.model));
    return ok || wn_fail_in(err, "probing layer %" PRIu32, i);
}

/* ---- taking up ---- */

/* With the layers below `next` done: a step reads that way's stream into layer i, or it is one's result. */
static bool is_needed(const struct wn_probing *p, uint32_t way, uint32_t i, uint32_t next)
{
    return wn_way_has(p, way, i) && (i == next || i == next + 1 || (i < next && wn_layer_banks(p->config, i)));
}

/* What a killed run could not remove goes; what is there and will be read is looked at as a whole. */
static bool look_over(struct drive *d, uint32_t next, struct wn_err *err)
{
    const struct wn_probing *p = &d->run->p;

    for (uint32_t way = 0; way < wn_way_count(p); way++) {
        wn_way_take(p, &d->walk, way);
        for (uint32_t i = 0; i <= p->config->layer_count; i++) {
            uint32_t number = wn_walk_number(&d->walk, i);

            if (!wn_way_has(p, way, i) || !wn_store_has_stream(d->walk.store, number))
                continue;
            if (!is_needed(p, way, i, next))
                wn_store_drop_stream(d->walk.store, number);
            else if (!wn_store_check_stream(d->walk.store, number, d->run->job, err))
                return false;
        }
    }
    return true;
}

static uint32_t layers_done(const struct wn_probing_run *r)
{
    uint32_t n = 0;

    while (n < r->p.config->layer_count && wn_store_has_record(&r->store, n))
        n++;
    return n;
}

/* Counts the steps of the layers that are done. */
static void count_done(struct drive *d, uint32_t next)
{
    const struct wn_probing *p = &d->run->p;

    for (uint32_t i = 0; i < next; i++)
        for (uint32_t way = 0; way < wn_way_count(p); way++)
            d->run->result.resumed += wn_way_passes(p, way, i);
    d->before = d->run->result.resumed * p->corpus.tokens;
}

bool wn_probing_walk(struct wn_probing_run *r, struct wn_err *err)
{
    struct drive d = {.run = r, .walk = r->buffers.walk};
    uint32_t next = layers_done(r);

    d.walk.begin = begin_chunk;
    d.walk.told = embedded;
    d.walk.arg = &d;
    count_done(&d, next);
    wn_walk_note_resumed(&r->store, r->job, next);
    if (!look_over(&d, next, err))
        return false;
    wn_way_take(&r->p, &d.walk, 0);
    if (next == 0 && !wn_store_has_stream(&r->store, 0) &&
        (!wn_store_check_room(&r->store, r->p.need.activations, err) || !wn_walk_embed(&d.walk, err)))
        return false;
    d.walk.told = chunk_done;
    for (uint32_t i = next; i < r->p.config->layer_count; i++)
        if (!run_layer(&d, i, err))
            return false;
    return true;
}
