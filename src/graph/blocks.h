/*
 * What the files of this folder share and nobody else needs: how scratch is laid out, how work is cut, and the blocks
 * that layer.c strings together. All tensors of tokens are [token][width], rows without gaps unless said otherwise.
 *
 * Every block comes as a pair: wn_X_forward computes, wn_X_scratch tells the arena bytes that it takes for `tokens`
 * tokens, UINT64_MAX when 64 bits do not count them. Both run the same lay-out function of that file, once with an
 * arena and once without (struct wn_room), so they cannot disagree.
 */
#ifndef WN_GRAPH_BLOCKS_H
#define WN_GRAPH_BLOCKS_H

#include "base/checked.h"
#include "graph/graph.h"

/* Rows of a matrix that one piece of work takes. Small enough to feed many threads with one token of one expert. */
#define WN_PIECE_ROWS 64

static inline float *wn_worker_scratch(const struct wn_ctx *ctx, unsigned worker)
{
    return ctx->worker_scratch + worker * ctx->worker_floats;
}

static inline void wn_show(const struct wn_ctx *ctx, const char *name, int32_t layer, const float *data, size_t tokens,
                           size_t width)
{
    if (ctx->probe && ctx->probe->value)
        ctx->probe->value(ctx->probe->arg, name, layer, data, tokens, width);
}

static inline size_t wn_pieces(size_t n, size_t each)
{
    return (n + each - 1) / each;
}

/*
 * Several jobs with different numbers of pieces run as one: first[j] is the first piece of job j, first[n] their sum.
 * Returns the job that `piece` belongs to; jobs without pieces are passed over.
 */
size_t wn_job_of_piece(const size_t *first, size_t n, size_t piece);

/* Products of the same tokens with several matrices, run as one: y [tokens][m->rows] = x [tokens][m->cols] m^T. */
#define WN_LINEAR_GROUP 8
struct wn_linear_job {
    const struct wn_matrix *m;
    const float *x;
    float *y;
};
void wn_linear_group(const struct wn_ctx *ctx, const struct wn_linear_job *jobs, size_t n, size_t tokens);

/*
 * AttnRes mix of the banks and the running stream, then RMSNorm. score NULL (or no bank): the stream itself is normed.
 *   mix    [tokens][hidden] scratch for the mix; x [tokens][hidden] gets the normed rows
 *   probs  [tokens][banks + 1], banks = wn_bank_count: the weights of the mix, banked streams first; unused entries 0
 * names are the probe's for mix, norm and probs, in that order.
 */
struct wn_mix {
    const float *score, *norm;
    float *mix, *x, *probs;
    int32_t layer;
    const char *names[3];
};
void wn_mix_forward(const struct wn_ctx *ctx, const struct wn_stream *stream, const struct wn_mix *m);

/* y [tokens][width] = RMSNorm of each row of x with w; y may be x. */
void wn_norm_rows(const struct wn_ctx *ctx, const float *x, size_t x_stride, const float *w, float eps, float *y,
                  size_t y_stride, size_t tokens, size_t width);

/* Attention of x [tokens][hidden] into out [tokens][hidden]; state moves on by `tokens`. */
void wn_kda_forward(const struct wn_ctx *ctx, const struct wn_layer *layer, const float *x, size_t tokens,
                    struct wn_layer_state *state, float *out);
uint64_t wn_kda_scratch(const struct wn_config *c, uint64_t tokens);
size_t wn_kda_worker_floats(const struct wn_config *c);
/* The first token is token `position` of its sequence; the cache holds all before it. */
void wn_mla_forward(const struct wn_ctx *ctx, const struct wn_layer *layer, const float *x, size_t tokens,
                    struct wn_layer_state *state, uint64_t position, float *out);
uint64_t wn_mla_scratch(const struct wn_config *c, uint64_t tokens, uint64_t context);

/*
 * Gated MLPs, all their matrices in two runs of the pool: y = down (act(gate x, up x)).
 *   x [tokens][gate->cols]; g, u [tokens][gate->rows] scratch; y [tokens][down->rows]
 * first: scratch for n + 1 numbers. A job of no tokens costs nothing; its matrices are not read.
 */
struct wn_mlp_job {
    const struct wn_matrix *gate, *up, *down;
    const float *x;
    size_t tokens;
    float *g, *u, *y;
};
void wn_mlp_run(const struct wn_ctx *ctx, const struct wn_mlp_job *jobs, size_t n, size_t *first);

/* The dense layer's MLP: out [tokens][hidden]. */
void wn_dense_forward(const struct wn_ctx *ctx, const struct wn_layer *layer, const float *x, size_t tokens,
                      float *out);
uint64_t wn_dense_scratch(const struct wn_config *c, uint64_t tokens);

/*
 * Top-k experts of each token. On entry scores [tokens][experts] holds x . gate; it becomes sigmoid of that.
 *   choice   [tokens][experts]: score + bias
 *   ids, weights [tokens][listed]: by falling choice, on a tie by falling score, then by index; weights as they
 *   multiply the outputs, all by the sum of the first k scores
 *   listed   k or more; at most as many as there are experts
 * An expert whose bias is -inf is never chosen while `listed` others are left, whatever the scores (NaN included).
 */
void wn_router_choose(const struct wn_ctx *ctx, const float *bias, size_t experts, size_t tokens, size_t listed,
                      float *scores, float *choice, uint32_t *ids, float *weights);

/* Routed and shared experts: out [tokens][hidden]. */
void wn_moe_forward(const struct wn_ctx *ctx, const struct wn_layer *layer, const float *x, size_t tokens, float *out);
uint64_t wn_moe_scratch(const struct wn_config *c, uint64_t tokens, bool runner_up);

#endif
