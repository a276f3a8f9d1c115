/*
 * Checkpoints: a copy of all that a timeline has become at one position, every layer's recurrent state and every cached
 * row up to there. There is no part that could be left out, and no way to any other position than the one saved.
 */
#include "base/alloc.h"
#include "engine/engine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct wn_checkpoint {
    const struct wn_weights *weights; /* borrowed; only compared */
    uint64_t position;
    size_t recurrent_floats, row_floats;
    uint32_t cached_layers;
    float *recurrent; /* owned */
    float *cache;     /* owned: [cached layer][position][row_floats] */
    float *logits;    /* owned: [vocab], NULL when the session had none */
};

/* Copies the rows that are in use between a session's cache and a checkpoint's, which has no gaps. */
static void copy_cache(float *to, size_t to_stride, const float *from, size_t from_stride, uint32_t layers, size_t n)
{
    for (uint32_t i = 0; i < layers; i++)
        memcpy(to + i * to_stride, from + i * from_stride, n * sizeof *to);
}

static bool fill(struct wn_checkpoint *c, const struct wn_session *s, struct wn_err *err)
{
    size_t vocab = s->ctx.config->vocab_size, rows = (size_t)c->position * c->row_floats;

    c->recurrent = wn_alloc(c->recurrent_floats, sizeof(float), err);
    c->cache = c->recurrent ? wn_alloc(c->cached_layers * rows, sizeof(float), err) : NULL;
    if (!c->cache)
        return false;
    memcpy(c->recurrent, s->state.recurrent, c->recurrent_floats * sizeof(float));
    copy_cache(c->cache, rows, s->state.cache, s->context * c->row_floats, c->cached_layers, rows);
    if (!s->last)
        return true;
    c->logits = wn_alloc(vocab, sizeof(float), err);
    if (!c->logits)
        return false;
    memcpy(c->logits, s->last, vocab * sizeof(float));
    return true;
}

struct wn_checkpoint *wn_session_save(const struct wn_session *s, struct wn_err *err)
{
    struct wn_checkpoint *c = wn_alloc(1, sizeof *c, err);

    if (!c)
        return NULL;
    *c = (struct wn_checkpoint){.weights = s->weights,
                                .position = s->position,
                                .recurrent_floats = s->state.recurrent_floats,
                                .row_floats = s->state.row_floats,
                                .cached_layers = s->state.cached_layers};
    if (!fill(c, s, err)) {
        wn_checkpoint_free(c);
        wn_fail_in(err, "saving position %" PRIu64, s->position);
        return NULL;
    }
    return c;
}

bool wn_session_restore(struct wn_session *s, const struct wn_checkpoint *c, struct wn_err *err)
{
    size_t rows = (size_t)c->position * c->row_floats;

    if (c->weights != s->weights || c->recurrent_floats != s->state.recurrent_floats ||
        c->row_floats != s->state.row_floats || c->cached_layers != s->state.cached_layers)
        return wn_fail(err, WN_ERR_ARG, "the checkpoint of position %" PRIu64 " was saved from other weights",
                       c->position);
    if (c->position > s->context)
        return wn_fail(err, WN_ERR_ARG, "the checkpoint of position %" PRIu64 " does not fit a context of %" PRIu32,
                       c->position, s->context);
    memcpy(s->state.recurrent, c->recurrent, c->recurrent_floats * sizeof(float));
    copy_cache(s->state.cache, s->context * c->row_floats, c->cache, rows, c->cached_layers, rows);
    s->position = c->position;
    s->last = NULL;
    if (c->logits) {
        memcpy(s->logits, c->logits, s->ctx.config->vocab_size * sizeof(float));
        s->last = s->logits;
    }
    return true;
}

void wn_checkpoint_free(struct wn_checkpoint *c)
{
    if (!c)
        return;
    free(c->recurrent);
    free(c->cache);
    free(c->logits);
    free(c);
}

uint64_t wn_checkpoint_position(const struct wn_checkpoint *c)
{
    return c->position;
}
