/*
 * One layer: two blocks around the running stream p.
 *
 *   h = mix(banks, p; attn_res)                  layer 0, or a model without AttnRes: p itself
 *   every attn_res_block layers: push p, the RAW incoming stream, onto the banks; the stream restarts
 *   p = a or p + a,  a = attention(RMSNorm(h))
 *   h = mix(banks, p; ffn_res)                   sees the stream just pushed
 *   p = p + ffn(RMSNorm(h))
 */
#include "graph/blocks.h"

#include <assert.h>
#include <string.h>

static void push_bank(const struct wn_config *c, struct wn_stream *s)
{
    assert(s->bank_count < wn_bank_count(c));
    memcpy(s->banks + s->bank_count++ * s->bank_stride, s->p, s->tokens * c->hidden_size * sizeof *s->p);
}

static void attention(const struct wn_ctx *ctx, const struct wn_layer *layer, const float *x, size_t tokens,
                      struct wn_layer_state *state, uint64_t position, float *out)
{
    if (layer->attention == WN_ATTENTION_KDA)
        wn_kda_forward(ctx, layer, x, tokens, state, out);
    else
        wn_mla_forward(ctx, layer, x, tokens, state, position, out);
    wn_show(ctx, "attn_out", (int32_t)layer->index, out, tokens, ctx->config->hidden_size);
}

static void feed_forward(const struct wn_ctx *ctx, const struct wn_layer *layer, const float *x, size_t tokens,
                         float *out)
{
    if (layer->moe)
        wn_moe_forward(ctx, layer, x, tokens, out);
    else
        wn_dense_forward(ctx, layer, x, tokens, out);
    wn_show(ctx, "mlp_out", (int32_t)layer->index, out, tokens, ctx->config->hidden_size);
}

void wn_layer_forward(const struct wn_ctx *ctx, const struct wn_layer *layer, struct wn_stream *stream,
                      struct wn_layer_state *state, uint64_t position)
{
    const struct wn_config *c = ctx->config;
    size_t mark = wn_arena_mark(ctx->arena), n = stream->tokens * c->hidden_size;
    float *mix = wn_arena_f32(ctx->arena, n), *x = wn_arena_f32(ctx->arena, n), *out = wn_arena_f32(ctx->arena, n);
    float *probs = wn_arena_f32(ctx->arena, stream->tokens * (wn_bank_count(c) + 1));
    int32_t i = (int32_t)layer->index;

    wn_mix_forward(
        ctx, stream,
        &(struct wn_mix){
            layer->attn_res_score, layer->attn_norm, mix, x, probs, i, {"attn_mix", "attn_norm", "res_probs_attn"}});
    if (wn_layer_banks(c, layer->index)) {
        push_bank(c, stream);
        attention(ctx, layer, x, stream->tokens, state, position, stream->p);
    } else {
        attention(ctx, layer, x, stream->tokens, state, position, out);
        ctx->kernels->add(stream->p, out, stream->p, n);
    }
    wn_mix_forward(
        ctx, stream,
        &(struct wn_mix){
            layer->ffn_res_score, layer->ffn_norm, mix, x, probs, i, {"mlp_mix", "mlp_norm", "res_probs_mlp"}});
    feed_forward(ctx, layer, x, stream->tokens, out);
    ctx->kernels->add(stream->p, out, stream->p, n);
    wn_show(ctx, "layer_out_prefix_sum", i, stream->p, stream->tokens, c->hidden_size);
    wn_arena_rewind(ctx->arena, mark);
}
