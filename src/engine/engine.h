/*
 * What the files of this folder share, and what tests and jobs may use beside include/winnow/session.h: the state of
 * one timeline, and a session made with chosen kernels and watched by a probe.
 */
#ifndef WN_ENGINE_ENGINE_H
#define WN_ENGINE_ENGINE_H

#include "graph/graph.h"
#include <winnow/session.h>

/* State and cache of all layers. Two blocks of memory, cut up by layer; the cache grows with the position. */
struct wn_state {
    struct wn_layer_state *layers; /* [layer_count], owned; they point into the blocks */
    float *recurrent;              /* owned: KDA matrices and convolution tails, in layer order */
    float *cache;                  /* owned: [MLA layer][context][row_floats] */
    size_t recurrent_floats, cache_floats;
    size_t row_floats; /* of a cache row */
    uint32_t cached_layers, context;
};

/* Bytes of the two blocks; UINT64_MAX when 64 bits do not count them. Init takes what is known to be less. */
void wn_state_need(const struct wn_config *c, uint32_t context, uint64_t *recurrent, uint64_t *cache);
WN_CHECKED bool wn_state_init(struct wn_state *s, const struct wn_config *c, uint32_t context, struct wn_err *err);
void wn_state_release(struct wn_state *s);
/* Back to the beginning of a sequence. */
void wn_state_reset(struct wn_state *s);

struct wn_session {
    const struct wn_weights *weights; /* borrowed */
    struct wn_ctx ctx;
    struct wn_state state;
    struct wn_arena arena;
    float *workers;    /* owned: scratch of all workers */
    float *rows;       /* owned: what the stream points into */
    float *logits;     /* owned: [logit_rows][vocab] */
    const float *last; /* logits of the last token fed: a row of them, or NULL */
    struct wn_stream stream;
    wn_watch_fn *watch;          /* NULL: nobody */
    void *watch_arg;             /* borrowed */
    struct wn_route_meter meter; /* its lost: owned */
    uint32_t context, chunk;
    size_t logit_rows;
    uint64_t position;
};

/* As wn_session_new, with weights that stand for themselves and kernels of the caller's choice. */
WN_CHECKED struct wn_session *wn_session_new_with(const struct wn_weights *w, struct wn_pool *pool,
                                                  const struct wn_kernels *kernels, const struct wn_session_options *o,
                                                  struct wn_err *err);
/* The probe is borrowed; NULL ends it. It cannot ask for runner-ups, for which a session has no scratch. */
void wn_session_probe(struct wn_session *s, const struct wn_probe *probe);
/*
 * Appends up to a chunk of ids and computes no logits: s->stream then holds what wn_logits makes them of, until the
 * next call.
 */
WN_CHECKED bool wn_session_advance(struct wn_session *s, const uint32_t *ids, size_t n, struct wn_err *err);
/* What the session really took, to be held against wn_session_need. */
void wn_session_taken(const struct wn_session *s, struct wn_session_memory *taken);

#endif
