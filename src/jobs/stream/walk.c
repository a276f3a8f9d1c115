/* See walk.h. */
#include "jobs/stream/walk.h"

#include "base/alloc.h"
#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

static const struct wn_config *config_of(const struct wn_walk *w)
{
    return wn_model_config(w->model);
}

void wn_walk_lay(struct wn_walk *w, struct wn_room *room, const struct wn_config *c, uint64_t longest)
{
    uint64_t state = 0, cache = 0;

    for (uint32_t i = 0; i < c->layer_count; i++) {
        state = wn_max_u64(state, wn_layer_state_bytes(c, i));
        cache = wn_max_u64(cache, wn_layer_cache_bytes_per_token(c, i));
    }
    w->state_floats = (size_t)state / sizeof(float);
    w->p = wn_room_f32(room, w->chunk, c->hidden_size);
    w->banks = wn_room_f32(room, (uint64_t)wn_bank_count(c) * w->chunk, c->hidden_size);
    w->state = wn_room_f32(room, w->state_floats, 1);
    w->cache = wn_room_take(room, longest, 1, (size_t)cache);
}

uint32_t wn_walk_number(const struct wn_walk *w, uint32_t i)
{
    return i <= w->branch ? i : i + w->apart;
}

static bool embed_sequence(struct wn_walk *w, const struct wn_ends *ends, const struct wn_sequence *q, uint64_t *done,
                           struct wn_err *err)
{
    for (size_t first = 0; first < q->n; first += w->chunk) {
        struct wn_stream stream = {.p = w->p, .tokens = wn_min_size(w->chunk, q->n - first)};

        wn_embed(w->ctx, ends, q->ids + first, &stream);
        if (!wn_store_write(w->store, stream.tokens, stream.p, err))
            return false;
        *done += stream.tokens;
    }
    return w->told(w->arg, *done, err);
}

bool wn_walk_embed(struct wn_walk *w, struct wn_err *err)
{
    struct wn_ends ends;
    uint64_t done = 0;
    bool ok;

    if (wn_store_has_stream(w->store, 0))
        return true;
    if (!wn_ends_bind(w->model, &ends, err))
        return false;
    ok = wn_store_begin_stream(w->store, 0, err);
    for (size_t i = 0; ok && i < w->sequence_count; i++)
        ok = embed_sequence(w, &ends, &w->sequence[i], &done, err);
    ok = ok && wn_store_commit_stream(w->store, err);
    wn_ends_release(&ends);
    wn_source_drop_pages(wn_model_source(w->model));
    return ok || wn_fail_in(err, "embedding");
}

/* The layer's state of an empty sequence. */
static struct wn_layer_state empty_state(const struct wn_walk *w, uint32_t layer)
{
    const struct wn_config *c = config_of(w);
    size_t width = (size_t)c->kda_heads * c->kda_head_dim, tail = (size_t)(c->conv_taps - 1) * width;
    float *kda = w->state, *tails = kda + width * c->kda_head_dim;

    if (c->layers[layer].attention == WN_ATTENTION_MLA)
        return (struct wn_layer_state){.cache = w->cache};
    memset(kda, 0, w->state_floats * sizeof *kda);
    return (struct wn_layer_state){.kda = kda, .tail_q = tails, .tail_k = tails + tail, .tail_v = tails + 2 * tail};
}

bool wn_walk_writes(const struct wn_walk *w, uint32_t i)
{
    return w->keep_last || i + 1 < config_of(w)->layer_count;
}

bool wn_walk_read(const struct wn_walk *w, uint64_t first, size_t n, struct wn_stream *stream, struct wn_err *err)
{
    size_t stride = (size_t)w->chunk * config_of(w)->hidden_size, banks = w->store->stream_count - 1;

    *stream = (struct wn_stream){
        .p = w->p, .banks = w->banks, .bank_stride = stride, .bank_count = (uint32_t)banks, .tokens = n};
    for (size_t i = 0; i < banks; i++)
        if (!wn_store_read(w->store, i, first, n, stream->banks + i * stride, err))
            return false;
    return wn_store_read(w->store, banks, first, n, stream->p, err);
}

/* Tokens at .. at + n - 1 of the store, which are tokens first ... of their sequence. */
static bool run_chunk(struct wn_walk *w, const struct wn_layer *layer, struct wn_layer_state *state, uint64_t at,
                      size_t first, size_t n, struct wn_err *err)
{
    struct wn_stream stream;

    if (!wn_walk_read(w, at, n, &stream, err))
        return false;
    wn_layer_forward(w->ctx, layer, &stream, state, first);
    return !wn_walk_writes(w, layer->index) || wn_store_write(w->store, n, stream.p, err);
}

bool wn_walk_layer(struct wn_walk *w, const struct wn_layer *layer, struct wn_err *err)
{
    uint64_t done = 0;

    for (size_t i = 0; i < w->sequence_count; i++) {
        const struct wn_sequence *q = &w->sequence[i];
        struct wn_layer_state state = empty_state(w, layer->index);

        for (size_t first = 0; first < q->n; first += w->chunk) {
            size_t n = wn_min_size(w->chunk, q->n - first);

            w->begin(w->arg, i, first);
            if (!run_chunk(w, layer, &state, done, first, n, err))
                return false;
            done += n;
            if (!w->told(w->arg, done, err))
                return false;
        }
    }
    return true;
}

/* The banks that layers below i filled, oldest first, and the stream that enters i. */
static bool open_streams(struct wn_walk *w, uint32_t i, struct wn_err *err)
{
    uint32_t *layers = wn_alloc((size_t)i + 1, sizeof *layers, err);
    size_t n = 0;
    bool ok;

    if (!layers)
        return false;
    for (uint32_t k = 0; k < i; k++)
        if (wn_layer_banks(config_of(w), k))
            layers[n++] = wn_walk_number(w, k);
    layers[n++] = wn_walk_number(w, i);
    ok = wn_store_open_streams(w->store, layers, n, err);
    free(layers);
    return ok;
}

bool wn_walk_open(struct wn_walk *w, uint32_t i, struct wn_err *err)
{
    return open_streams(w, i, err) &&
           (!wn_walk_writes(w, i) || wn_store_begin_stream(w->store, wn_walk_number(w, i + 1), err));
}

bool wn_walk_open_last(struct wn_walk *w, struct wn_err *err)
{
    return open_streams(w, config_of(w)->layer_count, err);
}
