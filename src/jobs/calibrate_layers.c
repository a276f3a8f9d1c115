/*
 * The walk of a calibration: the embeddings of all tokens into the store, then layer after layer over all sequences.
 *
 *   stream L -> layer L (fresh state for every sequence, chunk by chunk; the probe adds to the sums) -> stream L + 1
 *   commit:  stream L + 1 in place;  record of L in place (L is now finished);  stream L removed unless L banks it
 *
 * store.h says why a run may be killed anywhere in this. What comes out depends on the tokens only: chunks, threads and
 * interruptions change no bit of a stream (graph.h) and no sum (calibrate_parts.h).
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "jobs/calibrate_run.h"
#include "jobs/talk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One phase over all layers, so that what is left of it is what is left of the job. */
static bool progress(const struct wn_calibration_run *r, uint32_t layer, uint64_t tokens, struct wn_err *err)
{
    uint64_t all = r->c.corpus.tokens, layers = r->c.config->layer_count;
    char step[64];

    (void)snprintf(step, sizeof step, "layer %" PRIu32 " of 0 to %" PRIu64, layer, layers - 1);
    return wn_job_step(r->job, "calibrating", step, layer * all + tokens, layers * all, "tokens", err);
}

static bool embed_sequence(struct wn_calibration_run *r, const struct wn_ends *ends, const struct wn_sequence *q,
                           uint64_t *done, struct wn_err *err)
{
    for (size_t first = 0; first < q->n; first += r->c.need.chunk) {
        struct wn_stream stream = {.p = r->buffers.p, .tokens = wn_min_size(r->c.need.chunk, q->n - first)};

        wn_embed(&r->ctx, ends, q->ids + first, &stream);
        if (!wn_store_write(&r->store, stream.tokens, stream.p, err))
            return false;
        *done += stream.tokens;
    }
    return wn_job_progress(r->job, "embedding", *done, r->c.corpus.tokens, "tokens", err);
}

static bool embed(struct wn_calibration_run *r, struct wn_err *err)
{
    const struct wn_corpus *c = &r->c.corpus;
    struct wn_ends ends;
    uint64_t done = 0;
    bool ok;

    if (!wn_ends_bind(r->c.model, &ends, err))
        return false;
    ok = wn_store_begin_stream(&r->store, 0, err);
    for (size_t i = 0; ok && i < c->sequence_count; i++)
        ok = embed_sequence(r, &ends, &c->sequence[i], &done, err);
    ok = ok && wn_store_commit_stream(&r->store, err);
    wn_ends_release(&ends);
    wn_source_drop_pages(wn_model_source(r->c.model));
    return ok || wn_fail_in(err, "embedding");
}

/* The layer's state of an empty sequence. */
static struct wn_layer_state empty_state(struct wn_calibration_run *r, uint32_t layer)
{
    const struct wn_config *c = r->c.config;
    size_t width = (size_t)c->kda_heads * c->kda_head_dim, tail = (size_t)(c->conv_taps - 1) * width;
    float *kda = r->buffers.state, *tails = kda + width * c->kda_head_dim;

    if (c->layers[layer].attention == WN_ATTENTION_MLA)
        return (struct wn_layer_state){.cache = r->buffers.cache};
    memset(kda, 0, r->buffers.state_floats * sizeof *kda);
    return (struct wn_layer_state){.kda = kda, .tail_q = tails, .tail_k = tails + tail, .tail_v = tails + 2 * tail};
}

/* Tokens first .. first + n - 1 of the store: banks and running stream in, the layer, the stream out. */
static bool run_chunk(struct wn_calibration_run *r, const struct wn_layer *layer, struct wn_layer_state *state,
                      uint64_t first, size_t n, struct wn_err *err)
{
    size_t stride = (size_t)r->c.need.chunk * r->c.config->hidden_size, banks = r->store.stream_count - 1;
    struct wn_stream stream = {.p = r->buffers.p,
                               .banks = r->buffers.banks,
                               .bank_stride = stride,
                               .bank_count = (uint32_t)banks,
                               .tokens = n};

    for (size_t i = 0; i < banks; i++)
        if (!wn_store_read(&r->store, i, first, n, stream.banks + i * stride, err))
            return false;
    if (!wn_store_read(&r->store, banks, first, n, stream.p, err))
        return false;
    wn_layer_forward(&r->ctx, layer, &stream, state, r->records.first);
    return layer->index + 1 == r->c.config->layer_count || wn_store_write(&r->store, n, stream.p, err);
}

static bool run_sequences(struct wn_calibration_run *r, const struct wn_layer *layer, struct wn_err *err)
{
    const struct wn_corpus *c = &r->c.corpus;
    uint64_t done = 0;

    for (size_t i = 0; i < c->sequence_count; i++) {
        const struct wn_sequence *q = &c->sequence[i];
        struct wn_layer_state state = empty_state(r, layer->index);

        r->records.sequence = q;
        for (size_t first = 0; first < q->n; first += r->c.need.chunk) {
            size_t n = wn_min_size(r->c.need.chunk, q->n - first);

            r->records.first = first;
            if (!run_chunk(r, layer, &state, done, n, err))
                return false;
            done += n;
            if (!progress(r, layer->index, done, err))
                return false;
        }
    }
    return wn_record_check(&r->sums, layer->index, err);
}

/* The streams that layer i reads: its banks, oldest first, and the one that enters it. */
static bool open_streams(struct wn_calibration_run *r, uint32_t i, struct wn_err *err)
{
    uint32_t *layers = wn_alloc((size_t)i + 1, sizeof *layers, err);
    size_t n = 0;
    bool ok;

    if (!layers)
        return false;
    for (uint32_t k = 0; k < i; k++)
        if (wn_layer_banks(r->c.config, k))
            layers[n++] = k;
    layers[n++] = i;
    ok = wn_store_open_streams(&r->store, layers, n, err);
    free(layers);
    return ok;
}

/* What makes layer i finished; see store.h. */
static bool commit(struct wn_calibration_run *r, uint32_t i, struct wn_err *err)
{
    bool last = i + 1 == r->c.config->layer_count;

    (void)wn_record_save(&r->sums, i, r->record);
    if (!last && !wn_store_commit_stream(&r->store, err))
        return false;
    if (!progress(r, i, r->c.corpus.tokens, err) ||
        !wn_store_put_record(&r->store, i, (struct wn_bytes){r->record, r->record_bytes}, err))
        return false;
    r->result.layers_done++;
    if (!progress(r, i, r->c.corpus.tokens, err))
        return false;
    wn_store_close_streams(&r->store);
    if (!wn_layer_banks(r->c.config, i))
        wn_store_drop_stream(&r->store, i);
    return true;
}

static bool run_layer(struct wn_calibration_run *r, uint32_t i, struct wn_err *err)
{
    bool last = i + 1 == r->c.config->layer_count, ok;
    struct wn_layer layer;

    if (!wn_layer_bind(r->c.model, i, &layer, err))
        return false;
    wn_layer_will_need(r->c.model, &layer);
    ok = open_streams(r, i, err) && (last || wn_store_begin_stream(&r->store, i + 1, err)) &&
         run_sequences(r, &layer, err) && commit(r, i, err);
    wn_layer_release(&layer);
    wn_source_drop_pages(wn_model_source(r->c.model));
    return ok || wn_fail_in(err, "calibrating layer %" PRIu32, i);
}

bool wn_calibration_run_layers(struct wn_calibration_run *r, struct wn_err *err)
{
    uint32_t first = r->result.layers_resumed;

    if (first == 0 && !wn_store_has_stream(&r->store, 0) && !embed(r, err))
        return false;
    for (uint32_t i = first; i < r->c.config->layer_count; i++)
        if (!run_layer(r, i, err))
            return false;
    return true;
}
