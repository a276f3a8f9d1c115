/*
 * The walk of a calibration (walk.h): the embeddings of all tokens into the store, then layer after layer over all
 * sequences.
 *
 *   stream L -> layer L (the probe adds to the sums) -> stream L + 1
 *   commit:  stream L + 1 in place;  record of L in place (L is now finished);  stream L removed unless L banks it
 *
 * store.h says why a run may be killed anywhere in this. What comes out depends on the tokens only: chunks, threads and
 * interruptions change no bit of a stream (graph.h) and no sum (calibrate_parts.h).
 */
#include "jobs/calibrate/calibrate_run.h"
#include "jobs/talk.h"
#include "jobs/stream/walk.h"

#include <inttypes.h>
#include <stdio.h>

/* One phase over all layers, so that what is left of it is what is left of the job. */
static bool progress(const struct wn_calibration_run *r, uint32_t layer, uint64_t tokens, struct wn_err *err)
{
    uint64_t all = r->c.corpus.tokens, layers = r->c.config->layer_count;
    char step[64];

    (void)snprintf(step, sizeof step, "layer %" PRIu32 " of %" PRIu64, layer + 1, layers);
    return wn_job_step(r->job, "calibrating", step, layer * all + tokens, layers * all, "tokens", err);
}

/* The walk as this job drives it. */
struct drive {
    struct wn_calibration_run *run;
    struct wn_walk walk;
    uint32_t layer;
    bool embedding;
};

static void begin_chunk(void *arg, size_t i, size_t first)
{
    struct wn_calibration_run *r = ((struct drive *)arg)->run;

    r->records.sequence = &r->c.corpus.sequence[i];
    r->records.first = first;
}

static bool chunk_done(void *arg, uint64_t done, struct wn_err *err)
{
    const struct drive *d = arg;

    if (d->embedding)
        return wn_job_progress(d->run->job, "embedding", done, d->run->c.corpus.tokens, "tokens", err);
    return progress(d->run, d->layer, done, err);
}

/* What the layer leaves in the work folder. */
static bool make_record(struct wn_calibration_run *r, uint32_t i, struct wn_err *err)
{
    (void)wn_record_save(&r->sums, i, r->record);
    return !r->c.options->means || wn_record_means(&r->records, i, (uint16_t *)(void *)(r->record + r->sum_bytes), err);
}

static bool run_layer(struct drive *d, uint32_t i, struct wn_err *err)
{
    struct wn_calibration_run *r = d->run;
    struct wn_layer layer;
    bool ok;

    if (!wn_layer_bind(r->c.model, i, &layer, err))
        return false;
    wn_layer_will_need(r->c.model, &layer);
    wn_records_begin(&r->records, &layer);
    d->layer = i;
    ok = wn_walk_open(&d->walk, i, err) && wn_walk_layer(&d->walk, &layer, err);
    wn_saliency_settle(&r->sums, i);
    ok = ok && wn_record_check(&r->sums, i, err) && make_record(r, i, err) &&
         wn_walk_commit(&d->walk, i, (struct wn_bytes){r->record, r->record_bytes}, err);
    r->result.layers_done += ok;
    wn_layer_release(&layer);
    wn_source_drop_pages(wn_model_source(r->c.model));
    return ok || wn_fail_in(err, "calibrating layer %" PRIu32, i);
}

static bool embed(struct drive *d, struct wn_err *err)
{
    bool ok;

    d->embedding = true;
    ok = wn_walk_embed(&d->walk, err);
    d->embedding = false;
    return ok;
}

bool wn_calibration_run_layers(struct wn_calibration_run *r, struct wn_err *err)
{
    uint32_t first = r->result.layers_resumed;
    struct drive d = {.run = r, .walk = r->buffers.walk};

    d.walk.begin = begin_chunk;
    d.walk.told = chunk_done;
    d.walk.arg = &d;
    if (first == 0 && !embed(&d, err))
        return false;
    for (uint32_t i = first; i < r->c.config->layer_count; i++)
        if (!run_layer(&d, i, err))
            return false;
    return true;
}
