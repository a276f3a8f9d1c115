/*
 * One timeline of tokens through a model: its recurrent state, its latent cache, its scratch. Everything is allocated
 * when the session is made, from sizes it can print beforehand; a step allocates nothing. One thread at a time.
 */
#ifndef WINNOW_SESSION_H
#define WINNOW_SESSION_H

#include <winnow/model.h>
#include <winnow/pool.h>

/*
 * All layers' weights, bound: where each part lies in the mapped files, small vectors widened to f32. Shared by
 * sessions.
 */
struct wn_weights;
WN_API WN_CHECKED struct wn_weights *wn_weights_load(const struct wn_model *m, struct wn_err *err);
WN_API void wn_weights_free(struct wn_weights *w);
/* Bytes that they own beside the mapped files: vectors in f32, MLA keys turned per head, tables of experts. */
WN_API uint64_t wn_weights_owned(const struct wn_weights *w);

struct wn_session_options {
    uint32_t context; /* tokens that fit; 0: the smaller of the model's and 4096 */
    uint32_t chunk;   /* prompt tokens computed at once; 0: 128. No result depends on it */
};

struct wn_session_memory {
    uint64_t state, cache, scratch; /* bytes */
};
/* What wn_session_new will take; UINT64_MAX where 64 bits do not count it, and wn_session_new then refuses. */
WN_API void wn_session_need(const struct wn_config *c, const struct wn_session_options *o, unsigned threads,
                            struct wn_session_memory *need);

struct wn_session;
/* The model, weights and pool are borrowed and must outlive the session. */
WN_API WN_CHECKED struct wn_session *wn_session_new(const struct wn_model *m, const struct wn_weights *w,
                                                    struct wn_pool *pool, const struct wn_session_options *o,
                                                    struct wn_err *err);
WN_API void wn_session_free(struct wn_session *s);

/*
 * Called with the logits [vocab_size] of one position, borrowed until it returns; false stops (WN_ERR_CANCELED). The
 * chunk that was being told is then appended as a whole: wn_session_position says how far the timeline came.
 */
typedef bool wn_logits_fn(void *arg, uint64_t position, const float *logits);

/*
 * Appends n ids. on_logits NULL: only the last position's logits are computed (wn_session_logits); otherwise it is
 * called for each of the n positions in order. An id outside the vocabulary or no room is WN_ERR_ARG, and nothing is
 * appended.
 */
WN_API WN_CHECKED bool wn_session_feed(struct wn_session *s, const uint32_t *ids, size_t n, wn_logits_fn *on_logits,
                                       void *arg, struct wn_err *err);
/*
 * Logits after the last token fed, [vocab_size], borrowed until the next call; NULL before the first and after a stop.
 */
WN_API const float *wn_session_logits(const struct wn_session *s);
WN_API uint64_t wn_session_position(const struct wn_session *s);
/*
 * Asked before each layer of each chunk that a feed computes: `position` tokens are appended, and of the chunk behind
 * them `layer` layers are done. False stops the feed there (WN_ERR_CANCELED). A recurrent state that some layers have
 * taken further cannot be wound back, so the session is then empty, as after a reset. fn NULL (as at first): nobody is
 * asked.
 */
typedef bool wn_watch_fn(void *arg, uint64_t position, uint32_t layer);
WN_API void wn_session_watch(struct wn_session *s, wn_watch_fn *fn, void *arg);
/* Back to the empty timeline. */
WN_API void wn_session_reset(struct wn_session *s);

/*
 * What the router chose since the session was made, resets notwithstanding: for one request, take it before and after.
 * lost / tokens is the misroute rate, the share of the router's mass that went to ghosts (model.h); the experts of
 * chosen - ghosts choices were read.
 */
struct wn_routing {
    uint64_t tokens; /* times layers with experts */
    uint64_t chosen, ghosts;
    double lost;
};
WN_API void wn_session_routing(const struct wn_session *s, struct wn_routing *r);

/*
 * A copy of the timeline at its present position. A recurrent state cannot be wound back to an earlier position, only
 * restored where it was saved; there is no trimming. restore: any session of the same weights with room for the
 * position takes it, the one saved need not exist any more; others are refused (WN_ERR_ARG) and stay as they were.
 */
struct wn_checkpoint;
WN_API WN_CHECKED struct wn_checkpoint *wn_session_save(const struct wn_session *s, struct wn_err *err);
WN_API WN_CHECKED bool wn_session_restore(struct wn_session *s, const struct wn_checkpoint *c, struct wn_err *err);
WN_API void wn_checkpoint_free(struct wn_checkpoint *c);
WN_API uint64_t wn_checkpoint_position(const struct wn_checkpoint *c);

/*
 * Choosing the next token. temperature 0: the largest logit, the lowest id on ties. Otherwise, in this order:
 * temperature, top-k, top-p (of what top-k left), min-p, then one draw. Logits that are not finite are never taken. The
 * same seed and logits give the same token on every machine.
 */
struct wn_sampling {
    float temperature; /* 0: greedy */
    uint32_t top_k;    /* 0: all */
    float top_p;       /* 1: all */
    float min_p;       /* 0: all; relative to the most probable token */
    uint64_t seed;
};
struct wn_sampler;
WN_API WN_CHECKED struct wn_sampler *wn_sampler_new(const struct wn_sampling *o, uint32_t vocab_size,
                                                    struct wn_err *err);
WN_API void wn_sampler_free(struct wn_sampler *s);
/* All non-finite logits: WN_ERR_FORMAT. */
WN_API WN_CHECKED bool wn_sampler_next(struct wn_sampler *s, const float *logits, uint32_t *id, struct wn_err *err);

/* Name of the kernels in use ("avx512"); NULL and *err when WINNOW_CPU asks for what is not there. */
WN_API const char *wn_kernels_name(struct wn_err *err);

#endif
