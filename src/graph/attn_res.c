/*
 * Attention Residuals: before attention, before the feed-forward part and before the head, each token mixes its banked
 * streams and its running stream by a softmax over scored, normalised sources; the sum takes them raw.
 *
 *   score_j = sum_d v_j[d] * r_j * w[d],  r_j = 1 / sqrt(mean(v_j^2) + eps),  w = norm * proj
 *   h = sum_j softmax(score)_j * v_j,     j over the banks, oldest first, then the running stream
 *
 * Tokens are independent of each other. r_j does not depend on d, so it multiplies the sum instead of each term.
 */
#include "graph/blocks.h"

#include <math.h>
#include <string.h>

static float source_score(const struct wn_kernels *k, const float *v, const float *w, float eps, size_t n)
{
    float r = 1.0f / sqrtf(k->sum_squares(v, n) / (float)n + eps);

    return k->dot_f32(w, v, n) * r;
}

struct mixing {
    const struct wn_ctx *ctx;
    const struct wn_stream *stream;
    const struct wn_mix *m;
    uint32_t banks; /* to mix now; 0: the stream as it is */
};

static const float *source_at(const struct mixing *a, size_t token, uint32_t j)
{
    const struct wn_stream *s = a->stream;
    size_t hidden = a->ctx->config->hidden_size;

    return (j < a->banks ? s->banks + j * s->bank_stride : s->p) + token * hidden;
}

static void mix_piece(void *arg, size_t token, unsigned worker)
{
    const struct mixing *a = arg;
    const struct wn_kernels *k = a->ctx->kernels;
    const struct wn_config *c = a->ctx->config;
    size_t hidden = c->hidden_size, sources = a->banks + 1;
    float *probs = a->m->probs + token * (wn_bank_count(c) + 1);
    float *mix = a->m->mix + token * hidden;
    const float *h = source_at(a, token, a->banks);

    (void)worker;
    if (a->banks) {
        for (uint32_t j = 0; j < sources; j++)
            probs[j] = source_score(k, source_at(a, token, j), a->m->score, c->rms_norm_eps, hidden);
        k->softmax(probs, sources);
        memset(probs + sources, 0, (wn_bank_count(c) + 1 - sources) * sizeof *probs);
        memset(mix, 0, hidden * sizeof *mix);
        for (uint32_t j = 0; j < sources; j++)
            k->axpy(probs[j], source_at(a, token, j), mix, hidden);
        h = mix;
    }
    k->rms_norm(h, a->m->norm, c->rms_norm_eps, a->m->x + token * hidden, hidden);
}

void wn_mix_forward(const struct wn_ctx *ctx, const struct wn_stream *stream, const struct wn_mix *m)
{
    struct mixing a = {ctx, stream, m, m->score ? stream->bank_count : 0};
    size_t hidden = ctx->config->hidden_size;

    wn_pool_run(ctx->pool, mix_piece, &a, stream->tokens);
    wn_show(ctx, m->names[0], m->layer, a.banks ? m->mix : stream->p, stream->tokens, hidden);
    wn_show(ctx, m->names[1], m->layer, m->x, stream->tokens, hidden);
    if (a.banks)
        wn_show(ctx, m->names[2], m->layer, m->probs, stream->tokens, wn_bank_count(ctx->config) + 1);
}

struct norming {
    const struct wn_kernels *kernels;
    const float *x, *w;
    float *y;
    size_t x_stride, y_stride, width;
    float eps;
};

static void norm_piece(void *arg, size_t token, unsigned worker)
{
    const struct norming *n = arg;

    (void)worker;
    n->kernels->rms_norm(n->x + token * n->x_stride, n->w, n->eps, n->y + token * n->y_stride, n->width);
}

void wn_norm_rows(const struct wn_ctx *ctx, const float *x, size_t x_stride, const float *w, float eps, float *y,
                  size_t y_stride, size_t tokens, size_t width)
{
    struct norming n = {ctx->kernels, x, w, y, x_stride, y_stride, width, eps};

    wn_pool_run(ctx->pool, norm_piece, &n, tokens);
}
