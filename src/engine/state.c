/*
 * The state of one timeline: what KDA layers remember (a matrix per head and the last inputs of three convolutions) and
 * what MLA layers cache (a latent row per token). The first is a lossy summary and cannot be wound back; the second
 * only grows.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "engine/engine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void wn_state_need(const struct wn_config *c, uint32_t context, uint64_t *recurrent, uint64_t *cache)
{
    *recurrent = *cache = 0;
    for (uint32_t i = 0; i < c->layer_count; i++) {
        *recurrent = wn_add_capped(*recurrent, wn_layer_state_bytes(c, i));
        *cache = wn_add_capped(*cache, wn_mul_capped(wn_layer_cache_bytes_per_token(c, i), context));
    }
}

/* Cuts the next n floats off a block. */
static float *cut(float **at, size_t n)
{
    float *p = *at;

    *at += n;
    return p;
}

static void divide(struct wn_state *s, const struct wn_config *c)
{
    float *recurrent = s->recurrent, *cache = s->cache;
    size_t width = (size_t)c->kda_heads * c->kda_head_dim, tail = (c->conv_taps - 1) * width;

    for (uint32_t i = 0; i < c->layer_count; i++) {
        struct wn_layer_state *l = &s->layers[i];

        if (c->layers[i].attention == WN_ATTENTION_KDA) {
            l->kda = cut(&recurrent, width * c->kda_head_dim);
            l->tail_q = cut(&recurrent, tail);
            l->tail_k = cut(&recurrent, tail);
            l->tail_v = cut(&recurrent, tail);
        } else {
            l->cache = cut(&cache, s->row_floats * s->context);
            s->cached_layers++;
        }
    }
    assert(recurrent == s->recurrent + s->recurrent_floats && cache == s->cache + s->cache_floats);
}

bool wn_state_init(struct wn_state *s, const struct wn_config *c, uint32_t context, struct wn_err *err)
{
    uint64_t recurrent, cache;

    wn_state_need(c, context, &recurrent, &cache);
    assert(recurrent < UINT64_MAX && cache < UINT64_MAX);
    *s = (struct wn_state){.recurrent_floats = recurrent / sizeof(float),
                           .cache_floats = cache / sizeof(float),
                           .row_floats = (size_t)c->kv_lora_rank + c->qk_rope_dim,
                           .context = context};
    s->layers = wn_alloc(c->layer_count, sizeof *s->layers, err);
    s->recurrent = s->layers ? wn_alloc(s->recurrent_floats, sizeof(float), err) : NULL;
    s->cache = s->recurrent ? wn_alloc(s->cache_floats, sizeof(float), err) : NULL;
    if (!s->cache) {
        wn_state_release(s);
        return false;
    }
    divide(s, c);
    return true;
}

void wn_state_release(struct wn_state *s)
{
    free(s->layers);
    free(s->recurrent);
    free(s->cache);
    *s = (struct wn_state){0};
}

void wn_state_reset(struct wn_state *s)
{
    /* cache rows are written before they are read */
    memset(s->recurrent, 0, s->recurrent_floats * sizeof *s->recurrent);
}
