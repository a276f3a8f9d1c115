/*
 * Kimi Delta Attention: linear attention with a decay per key channel and a delta rule. The history of a head is one
 * matrix S [k_dim][v_dim], moved on token by token:
 *
 *   q, k, v = silu(conv(W x));  q, k = l2norm per head, q also * dim^-0.5
 *   beta = sigmoid(W_beta x);  s = f_b (f_a x) + dt_bias
 *   g = lower_bound * sigmoid(a[head] * s), or -a[head] * softplus(s) for models without a bound
 *   S = diag(exp g) S;  S += k (beta (v - S^T k))^T;  o = S^T q
 *   out = W_o (RMSNorm(o; o_norm) * sigmoid(gate))
 *
 * One piece is one head with all tokens of the call in order, which is also how the head's state and convolution tails
 * lie together in memory: the same steps for a chunk as for one token at a time.
 */
#include "graph/blocks.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* As in the reference: inside the square root of a sum, not of a mean. */
#define L2_EPS 1e-6f

struct buffers {
    float *q, *k, *v;   /* [token][head][dim]; convolved in place */
    float *decay;       /* [token][head][dim]: s, then g */
    float *gate;        /* [token][head][dim]: output gate before sigmoid, then the gated output */
    float *low, *low_g; /* [token][dim]: f_a x and g_a x */
    float *beta;        /* [token][head] */
};

static void lay(struct wn_room *r, const struct wn_config *c, uint64_t tokens, struct buffers *b)
{
    uint64_t wide = (uint64_t)c->kda_heads * c->kda_head_dim;

    b->q = wn_room_f32(r, tokens, wide);
    b->k = wn_room_f32(r, tokens, wide);
    b->v = wn_room_f32(r, tokens, wide);
    b->decay = wn_room_f32(r, tokens, wide);
    b->gate = wn_room_f32(r, tokens, wide);
    b->low = wn_room_f32(r, tokens, c->kda_head_dim);
    b->low_g = wn_room_f32(r, tokens, c->kda_head_dim);
    b->beta = wn_room_f32(r, tokens, c->kda_heads);
}

uint64_t wn_kda_scratch(const struct wn_config *c, uint64_t tokens)
{
    struct wn_room r = {0};
    struct buffers b;

    lay(&r, c, tokens, &b);
    return r.bytes;
}

/* What one head of one token needs beside its state. */
struct head_scratch {
    float *q, *k, *decay, *o, *d; /* [dim] each */
};

size_t wn_kda_worker_floats(const struct wn_config *c)
{
    return 5 * (size_t)c->kda_head_dim;
}

static struct head_scratch head_scratch(float *at, size_t dim)
{
    return (struct head_scratch){at, at + dim, at + 2 * dim, at + 3 * dim, at + 4 * dim};
}

struct kda {
    const struct wn_ctx *ctx;
    const struct wn_kda_weights *w;
    struct wn_layer_state *state;
    struct buffers b;
    size_t tokens, dim, wide; /* wide = heads * dim */
};

/* Convolution and SiLU of one head's channels, in place. */
static void convolve(const struct kda *a, float *tail, const float *taps, float *x, size_t head, float *y)
{
    size_t n = a->ctx->config->conv_taps;

    tail += head * (n - 1) * a->dim;
    taps += head * a->dim * n;
    x += head * a->dim;
    for (size_t t = 0; t < a->tokens; t++, x += a->wide) {
        a->ctx->kernels->conv_step(tail, x, taps, y, a->dim, n);
        memcpy(x, y, a->dim * sizeof *x);
    }
}

/* s becomes g, the decay in log space. */
static void log_decay(const struct kda *a, size_t head)
{
    const struct wn_config *c = a->ctx->config;
    const struct wn_kernels *k = a->ctx->kernels;
    const float *bias = a->w->dt_bias + head * a->dim;
    float rate = a->w->a[head]; /* per head, whatever the length it is stored with */
    float *s = a->b.decay + head * a->dim;

    for (size_t t = 0; t < a->tokens; t++, s += a->wide) {
        k->add(s, bias, s, a->dim);
        if (c->kda_lower_bound) {
            k->scale(rate, s, s, a->dim);
            k->sigmoid(s, s, a->dim);
            k->scale(c->gate_lower_bound, s, s, a->dim);
        } else {
            k->softplus(s, s, a->dim);
            k->scale(-rate, s, s, a->dim);
        }
    }
}

static void prepare_piece(void *arg, size_t head, unsigned worker)
{
    const struct kda *a = arg;
    float *y = wn_worker_scratch(a->ctx, worker);

    convolve(a, a->state->tail_q, a->w->conv_q, a->b.q, head, y);
    convolve(a, a->state->tail_k, a->w->conv_k, a->b.k, head, y);
    convolve(a, a->state->tail_v, a->w->conv_v, a->b.v, head, y);
    log_decay(a, head);
}

static void recur_piece(void *arg, size_t head, unsigned worker)
{
    const struct kda *a = arg;
    const struct wn_kernels *k = a->ctx->kernels;
    const struct wn_config *c = a->ctx->config;
    struct head_scratch h = head_scratch(wn_worker_scratch(a->ctx, worker), a->dim);
    float *state = a->state->kda + head * a->dim * a->dim;
    float q_scale = 1.0f / sqrtf((float)a->dim);

    for (size_t t = 0; t < a->tokens; t++) {
        size_t at = t * a->wide + head * a->dim;
        float *gate = a->b.gate + at;

        k->l2_norm(a->b.q + at, L2_EPS, q_scale, h.q, a->dim);
        k->l2_norm(a->b.k + at, L2_EPS, 1.0f, h.k, a->dim);
        k->exp(a->b.decay + at, h.decay, a->dim);
        k->kda_step(state, h.q, h.k, a->b.v + at, h.decay, a->b.beta[t * c->kda_heads + head], h.o, h.d, a->dim,
                    a->dim);
        k->rms_norm(h.o, a->w->o_norm, c->rms_norm_eps, h.o, a->dim);
        k->sigmoid(gate, gate, a->dim);
        k->mul(h.o, gate, gate, a->dim);
    }
}

/* All products of x that the recurrence needs. */
static void project(const struct kda *a, const float *x)
{
    const struct wn_kda_weights *w = a->w;
    const struct buffers *b = &a->b;
    bool full = a->ctx->config->kda_full_rank_gate;
    const struct wn_linear_job wide[] = {
        {&w->q, x, b->q},     {&w->k, x, b->k},       {&w->v, x, b->v},
        {&w->f_a, x, b->low}, {&w->beta, x, b->beta}, {full ? &w->g : &w->g_a, x, full ? b->gate : b->low_g}};
    const struct wn_linear_job ranks[] = {{&w->f_b, b->low, b->decay}, {&w->g_b, b->low_g, b->gate}};

    assert(w->f_a.rows <= a->dim && (full || w->g_a.rows <= a->dim));
    wn_linear_group(a->ctx, wide, 6, a->tokens);
    wn_linear_group(a->ctx, ranks, full ? 1 : 2, a->tokens);
    a->ctx->kernels->sigmoid(b->beta, b->beta, a->tokens * a->ctx->config->kda_heads);
}

static void show(const struct kda *a, int32_t layer)
{
    const struct wn_ctx *ctx = a->ctx;

    wn_show(ctx, "kda_conv_q", layer, a->b.q, a->tokens, a->wide);
    wn_show(ctx, "kda_conv_k", layer, a->b.k, a->tokens, a->wide);
    wn_show(ctx, "kda_conv_v", layer, a->b.v, a->tokens, a->wide);
    wn_show(ctx, "kda_g", layer, a->b.decay, a->tokens, a->wide);
    wn_show(ctx, "kda_beta", layer, a->b.beta, a->tokens, ctx->config->kda_heads);
}

void wn_kda_forward(const struct wn_ctx *ctx, const struct wn_layer *layer, const float *x, size_t tokens,
                    struct wn_layer_state *state, float *out)
{
    const struct wn_config *c = ctx->config;
    size_t mark = wn_arena_mark(ctx->arena), dim = c->kda_head_dim;
    struct kda a = {
        .ctx = ctx, .w = &layer->kda, .state = state, .tokens = tokens, .dim = dim, .wide = c->kda_heads * dim};

    lay(&(struct wn_room){ctx->arena, 0}, c, tokens, &a.b);
    project(&a, x);
    wn_pool_run(ctx->pool, prepare_piece, &a, c->kda_heads);
    show(&a, (int32_t)layer->index);
    wn_pool_run(ctx->pool, recur_piece, &a, c->kda_heads);
    wn_show(ctx, "kda_o_gated", (int32_t)layer->index, a.b.gate, tokens, a.wide);
    wn_linear(ctx, &a.w->out, a.b.gate, tokens, out);
    wn_arena_rewind(ctx->arena, mark);
}
