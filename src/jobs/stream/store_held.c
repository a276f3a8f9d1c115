/*
 * Streams in memory: written once, by the layer before, and read by every layer behind it that mixes banks. The memory
 * of one that is dropped is the next one's, so there are never more than was said.
 */
#include "base/alloc.h"
#include "jobs/stream/store_parts.h"

#include <assert.h>
#include <stdlib.h>

bool wn_store_hold(struct wn_store *s, size_t streams, struct wn_err *err)
{
    s->held = wn_alloc(streams, sizeof *s->held, err);
    if (!s->held)
        return false;
    s->held_count = streams;
    return true;
}

void wn_store_let_go(struct wn_store *s)
{
    for (size_t i = 0; i < s->held_count; i++)
        free(s->held[i].data);
    free(s->held);
    s->held = NULL;
    s->held_count = 0;
}

static struct wn_held *find(const struct wn_store *s, uint32_t layer)
{
    for (size_t i = 0; i < s->held_count; i++)
        if (s->held[i].state == WN_HELD_WHOLE && s->held[i].layer == layer)
            return &s->held[i];
    return NULL;
}

/* A free place with memory; of those that have some already, if there is one. */
static struct wn_held *take(struct wn_store *s, uint32_t layer, struct wn_err *err)
{
    struct wn_held *h = NULL;

    for (size_t i = 0; i < s->held_count; i++)
        if (s->held[i].state == WN_HELD_FREE && (!h || s->held[i].data))
            h = &s->held[i];
    assert(h);
    if (!h->data && !(h->data = wn_alloc((size_t)(s->tokens * s->token_bytes), 1, err)))
        return NULL;
    h->layer = layer;
    h->state = WN_HELD_FILLING;
    return h;
}

static struct wn_held *filling(const struct wn_store *s)
{
    for (size_t i = 0; i < s->held_count; i++)
        if (s->held[i].state == WN_HELD_FILLING)
            return &s->held[i];
    return NULL;
}

bool wn_held_begin(struct wn_store *s, uint32_t layer, struct wn_err *err)
{
    struct wn_held *old = filling(s);

    if (old)
        old->state = WN_HELD_FREE;
    return s->held_count == 0 || take(s, layer, err);
}

void wn_held_write(struct wn_store *s, uint64_t at, const void *src, size_t n)
{
    struct wn_held *h = filling(s);

    if (h)
        memcpy((char *)h->data + at, src, n);
}

void wn_held_commit(struct wn_store *s)
{
    struct wn_held *h = filling(s);

    if (h)
        h->state = WN_HELD_WHOLE;
}

void wn_held_drop(struct wn_store *s, uint32_t layer)
{
    struct wn_held *h = find(s, layer);

    if (h)
        h->state = WN_HELD_FREE;
}

const float *wn_held_find(const struct wn_store *s, uint32_t layer)
{
    const struct wn_held *h = find(s, layer);

    return h ? h->data : NULL;
}

bool wn_held_load(struct wn_store *s, uint32_t layer, const struct wn_file *f, struct wn_err *err)
{
    struct wn_held *h = s->held_count ? take(s, layer, err) : NULL;

    if (!h)
        return s->held_count == 0;
    if (!wn_file_read(f, 0, h->data, (size_t)(s->tokens * s->token_bytes), err)) {
        h->state = WN_HELD_FREE;
        return false;
    }
    h->state = WN_HELD_WHOLE;
    return true;
}
