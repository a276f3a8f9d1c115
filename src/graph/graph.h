/*
 * The formulas of K3's text tower as functions over buffers: docs/architecture.md walks a token through them. Nothing
 * here keeps state of its own; nothing allocates; scratch comes from ctx->arena, sized by wn_graph_scratch.
 *
 * Tokens of one call are consecutive tokens of one sequence. Any cut of a prompt into calls gives the same bits,
 * because every matrix product sums each output by itself (kernels.h), the KDA recurrence and the convolution step
 * token by token, attention of each query runs over its keys in order, and expert outputs are summed by falling choice
 * score.
 */
#ifndef WN_GRAPH_GRAPH_H
#define WN_GRAPH_GRAPH_H

#include "base/arena.h"
#include "kernels/kernels.h"
#include "model/memory.h"
#include "model/weights.h"
#include <winnow/pool.h>

/*
 * Shown values inside the model, for calibration, comparison with reference numbers and debugging. Without a probe the
 * loop pays one test of a pointer. Names (the reference's): "attn_mix", "attn_norm", "attn_out", "mlp_mix", "mlp_norm",
 * "mlp_out", "layer_out_prefix_sum", "res_probs_attn", "res_probs_mlp", "latent_in", "latent_sum", "router_scores",
 * "router_choice_scores", "mla_kv_c", "mla_k_rot", "kda_conv_q", "kda_conv_k", "kda_conv_v", "kda_g", "kda_beta",
 * "kda_o_gated"; layer -1: "final_mix", "final_norm", "res_probs_out".
 */
struct wn_probe {
    void *arg;
    /* data [tokens][width], borrowed until it returns; may be NULL */
    void (*value)(void *arg, const char *name, int32_t layer, const float *data, size_t tokens, size_t width);
    /*
     * Routed experts of each token, by falling choice score: ids [tokens][k] (rows of the router), weights [tokens][k]
     * (renormalised and scaled), outputs [tokens][k][width] before weighting; a ghost's is its mean or 0. May be NULL.
     * k is the model's, and one more with runner_up in a layer that has one.
     */
    void (*routed)(void *arg, int32_t layer, const uint32_t *ids, const float *weights, const float *outputs,
                   size_t tokens, size_t k, size_t width);
    /*
     * routed is shown the next choice, too: who would enter if one of the k were gone. It is computed and not summed,
     * so streams keep their bits; its weight is what it would be beside the k, its score divided by the sum of theirs.
     * Layers with no more than k to choose from have none. Takes scratch: wn_graph_scratch.
     */
    bool runner_up;
};

/* Where the router's mass went. Summed on the calling thread, layer by layer in the order of tokens. */
struct wn_route_meter {
    uint64_t tokens; /* times layers with experts */
    uint64_t chosen; /* choices of those: top-k each ... */
    uint64_t ghosts; /* ... and how many were ghosts */
    double *lost;    /* [layer]: sum over tokens of the share of their weights that ghosts had */
};

struct wn_ctx {
    const struct wn_config *config;
    const struct wn_kernels *kernels;
    struct wn_pool *pool;
    struct wn_arena *arena; /* scratch of the calling thread */
    float *worker_scratch;  /* [threads][worker_floats] */
    size_t worker_floats;
    const struct wn_probe *probe; /* NULL ordinarily */
    struct wn_route_meter *meter; /* NULL: nobody asks */
};

/* State of one layer of one sequence. Zeroed at the start of a sequence. */
struct wn_layer_state {
    float *kda;                      /* [heads][k_dim][v_dim] or NULL */
    float *tail_q, *tail_k, *tail_v; /* [heads][taps-1][dim], oldest first: a head's channels lie together */
    float *cache;                    /* MLA: [context][kv_lora + rope]: latent after its norm, then k_rot; or NULL */
};

/* The residual stream of a call's tokens. */
struct wn_stream {
    float *p;           /* [tokens][hidden], the running stream */
    float *banks;       /* [bank][tokens][hidden], oldest first; room for wn_bank_count(config) */
    size_t bank_stride; /* floats from one bank to the next, >= tokens * hidden */
    uint32_t bank_count;
    size_t tokens;
};

/* True when a layer pushes the incoming stream; how many of all layers do. */
bool wn_layer_banks(const struct wn_config *c, uint32_t layer);
uint32_t wn_bank_count(const struct wn_config *c);

/*
 * Arena bytes that a call of up to `tokens` tokens with up to `context` tokens of cache takes at most, for
 * wn_layer_forward and wn_logits alike; UINT64_MAX when 64 bits do not count them. Both numbers are below 2^33.
 * runner_up: the probe's.
 */
uint64_t wn_graph_scratch(const struct wn_config *c, uint64_t tokens, uint64_t context, bool runner_up);
/* Floats of scratch per worker. */
size_t wn_graph_worker_floats(const struct wn_config *c);

/* y [tokens][m->rows] = x [tokens][m->cols] times m transposed. */
void wn_linear(const struct wn_ctx *ctx, const struct wn_matrix *m, const float *x, size_t tokens, float *y);

/* Stream of the ids' embedding rows. */
void wn_embed(const struct wn_ctx *ctx, const struct wn_ends *ends, const uint32_t *ids, struct wn_stream *stream);

/* One layer over stream->tokens tokens, the first of which is token `position` of its sequence. */
void wn_layer_forward(const struct wn_ctx *ctx, const struct wn_layer *layer, struct wn_stream *stream,
                      struct wn_layer_state *state, uint64_t position);

/* Final mix, norm and head for tokens first .. first + n - 1 of the stream: logits [n][vocab]. */
void wn_logits(const struct wn_ctx *ctx, const struct wn_ends *ends, const struct wn_stream *stream, size_t first,
               size_t n, float *logits);

#endif
