/*
 * The ends of the tower: embedding rows become the first stream, and the last mix of banks and stream becomes logits.
 */
#include "graph/blocks.h"

void wn_embed(const struct wn_ctx *ctx, const struct wn_ends *ends, const uint32_t *ids, struct wn_stream *stream)
{
    stream->bank_count = 0;
    for (size_t t = 0; t < stream->tokens; t++)
        ctx->kernels->decode_row(&ends->embedding, ids[t], stream->p + t * ctx->config->hidden_size);
}

void wn_logits(const struct wn_ctx *ctx, const struct wn_ends *ends, const struct wn_stream *stream, size_t first,
               size_t n, float *logits)
{
    const struct wn_config *c = ctx->config;
    size_t mark = wn_arena_mark(ctx->arena), skip = first * c->hidden_size;
    struct wn_stream part = *stream;
    float *mix = wn_arena_f32(ctx->arena, n * c->hidden_size), *x = wn_arena_f32(ctx->arena, n * c->hidden_size);
    float *probs = wn_arena_f32(ctx->arena, n * (wn_bank_count(c) + 1));

    part.tokens = n;
    part.p += skip;
    if (part.bank_count)
        part.banks += skip;
    wn_mix_forward(
        ctx, &part,
        &(struct wn_mix){
            ends->out_res_score, ends->norm, mix, x, probs, -1, {"final_mix", "final_norm", "res_probs_out"}});
    wn_linear(ctx, &ends->head, x, n, logits);
    wn_arena_rewind(ctx->arena, mark);
}
