/*
 * Multi-head latent attention in its absorbed form: the cache holds one latent and one shared key part per token, and
 * the heads' key and value matrices are applied to the query and to the weighted sum instead of to every cached token.
 *
 *   q = q_b RMSNorm(q_a x; 1e-6) (or q x), per head [nope | rope]; no rotary embedding is ever applied
 *   c = kv_a x;  cache row = [RMSNorm(c[..kv_lora]; 1e-6) | c[kv_lora..]]
 *   score[t] = [k_b q_nope | q_rope] . row[t] * (nope + rope)^-0.5;  p = softmax over tokens 0 .. own
 *   o = v_b (sum_t p_t latent_t);  out = W_o (o * sigmoid(g x))
 *
 * Scores are one dot product over kv_lora + rope. A weighted sum runs over its keys in rising order. Queries are taken
 * in tiles: for scores, one reading of a block of keys serves all heads of all queries of the tile; for sums, one of
 * some columns serves a few heads of one query. A score and a sum know nothing of the tile they were computed in.
 */
#include "graph/blocks.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define KEY_BLOCK    64 /* cache rows whose scores are one piece */
#define HEAD_BLOCK   8  /* heads and latent columns whose weighted sums are one piece */
#define COLUMN_BLOCK 256
#define SCORE_FLOATS ((size_t)4 * 1024 * 1024) /* scores of a tile, unless one query alone needs more */

struct buffers {
    float *q_low;    /* [token][q_lora] */
    float *q;        /* [token][head][nope + rope] */
    float *c;        /* [token][kv_lora + rope] */
    float *q_abs;    /* [token][head][kv_lora + rope] */
    float *latent;   /* [token][head][kv_lora]: weighted sums */
    float *o, *gate; /* [token][head][v_dim] */
    float *scores;   /* [query of the tile][head][key] */
};

/* Never falls as tokens or keys grow: the last chunk of a context takes the most. */
static uint64_t score_floats(const struct wn_config *c, uint64_t tokens, uint64_t keys)
{
    uint64_t one = c->heads * keys, tile = one > SCORE_FLOATS ? one : SCORE_FLOATS;

    return wn_min_u64(tile, wn_mul_capped(tokens, one));
}

static void lay(struct wn_room *r, const struct wn_config *c, uint64_t tokens, uint64_t keys, struct buffers *b)
{
    uint64_t row = (uint64_t)c->kv_lora_rank + c->qk_rope_dim, heads = tokens * c->heads;

    b->q_low = wn_room_f32(r, tokens, c->q_lora_rank);
    b->q = wn_room_f32(r, heads, (uint64_t)c->qk_nope_dim + c->qk_rope_dim);
    b->c = wn_room_f32(r, tokens, row);
    b->q_abs = wn_room_f32(r, heads, row);
    b->latent = wn_room_f32(r, heads, c->kv_lora_rank);
    b->o = wn_room_f32(r, heads, c->v_head_dim);
    b->gate = wn_room_f32(r, heads, c->v_head_dim);
    b->scores = wn_room_f32(r, score_floats(c, tokens, keys), 1);
}

uint64_t wn_mla_scratch(const struct wn_config *c, uint64_t tokens, uint64_t context)
{
    struct wn_room r = {0};
    struct buffers b;

    lay(&r, c, tokens, context, &b);
    return r.bytes;
}

struct mla {
    const struct wn_ctx *ctx;
    const struct wn_mla_weights *w;
    const float *cache;
    struct buffers b;
    size_t tokens, position;
    size_t row, lora, heads;     /* row = kv_lora + rope */
    size_t first, queries, keys; /* the tile: its first token, their count, and the keys that its last query sees */
};

/* Keys that query t of the call sees: all up to and with itself. */
static size_t keys_of(const struct mla *a, size_t t)
{
    return a->position + t + 1;
}

/* The query of one head, moved into the latent's coordinates, with its rope part beside it. */
static void absorb_piece(void *arg, size_t head, unsigned worker)
{
    const struct mla *a = arg;
    const struct wn_config *c = a->ctx->config;
    size_t width = c->qk_nope_dim + c->qk_rope_dim, q_stride = a->heads * width, abs_stride = a->heads * a->row;
    const float *q = a->b.q + head * width;
    float *q_abs = a->b.q_abs + head * a->row;

    (void)worker;
    wn_matrix_mul_rows(a->ctx->kernels, &a->w->k_b[head], 0, a->lora, q, q_stride, a->tokens, q_abs, abs_stride);
    for (size_t t = 0; t < a->tokens; t++)
        memcpy(q_abs + t * abs_stride + a->lora, q + t * q_stride + c->qk_nope_dim, c->qk_rope_dim * sizeof *q);
}

static void score_piece(void *arg, size_t piece, unsigned worker)
{
    const struct mla *a = arg;
    size_t key = piece * KEY_BLOCK, keys = wn_min_size(KEY_BLOCK, a->keys - key);
    /* queries before the first key see none of them; some others not all, whose scores for the rest nobody reads */
    size_t t = key < keys_of(a, a->first) ? 0 : key - a->position - a->first;
    const struct wn_matrix rows = {.type = WN_F32,
                                   .rows = a->keys,
                                   .cols = a->row,
                                   .data = (const uint8_t *)a->cache,
                                   .row_bytes = a->row * sizeof(float)};

    (void)worker;
    wn_matrix_mul_rows(a->ctx->kernels, &rows, key, keys, a->b.q_abs + (a->first + t) * a->heads * a->row, a->row,
                       (a->queries - t) * a->heads, a->b.scores + t * a->heads * a->keys + key, a->keys);
}

/* One query and head: scores become probabilities. */
static void softmax_piece(void *arg, size_t piece, unsigned worker)
{
    const struct mla *a = arg;
    const struct wn_config *c = a->ctx->config;
    size_t keys = keys_of(a, a->first + piece / a->heads);
    float *scores = a->b.scores + piece * a->keys;

    (void)worker;
    a->ctx->kernels->scale(1.0f / sqrtf((float)(c->qk_nope_dim + c->qk_rope_dim)), scores, scores, keys);
    a->ctx->kernels->softmax(scores, keys);
}

/* Weighted sums of some columns of the latents for some heads of one query. */
static void sum_piece(void *arg, size_t piece, unsigned worker)
{
    const struct mla *a = arg;
    size_t column_blocks = wn_pieces(a->lora, COLUMN_BLOCK), head_blocks = wn_pieces(a->heads, HEAD_BLOCK);
    size_t column = piece % column_blocks * COLUMN_BLOCK, columns = wn_min_size(COLUMN_BLOCK, a->lora - column);
    size_t head = piece / column_blocks % head_blocks * HEAD_BLOCK, heads = wn_min_size(HEAD_BLOCK, a->heads - head);
    size_t query = piece / column_blocks / head_blocks, keys = keys_of(a, a->first + query);
    const float *p = a->b.scores + (query * a->heads + head) * a->keys;
    float *sum = a->b.latent + ((a->first + query) * a->heads + head) * a->lora + column;

    (void)worker;
    for (size_t h = 0; h < heads; h++)
        memset(sum + h * a->lora, 0, columns * sizeof *sum);
    for (size_t key = 0; key < keys; key++)
        for (size_t h = 0; h < heads; h++)
            a->ctx->kernels->axpy(p[h * a->keys + key], a->cache + key * a->row + column, sum + h * a->lora, columns);
}

/* One head's outputs, made of its weighted latents, and their gate. */
static void value_piece(void *arg, size_t head, unsigned worker)
{
    const struct mla *a = arg;
    const struct wn_kernels *k = a->ctx->kernels;
    size_t v_dim = a->ctx->config->v_head_dim, stride = a->heads * v_dim;
    float *o = a->b.o + head * v_dim, *gate = a->b.gate + head * v_dim;

    (void)worker;
    wn_matrix_mul_rows(k, &a->w->v_b[head], 0, v_dim, a->b.latent + head * a->lora, a->heads * a->lora, a->tokens, o,
                       stride);
    if (!a->ctx->config->mla_output_gate)
        return;
    for (size_t t = 0; t < a->tokens; t++) {
        k->sigmoid(gate + t * stride, gate + t * stride, v_dim);
        k->mul(o + t * stride, gate + t * stride, o + t * stride, v_dim);
    }
}

/* Queries, latents and the output gate; the latents are appended to the cache. */
static void project(const struct mla *a, const float *x, float *cache)
{
    const struct wn_ctx *ctx = a->ctx;
    const struct wn_config *c = ctx->config;
    const struct buffers *b = &a->b;
    bool lora = c->q_lora_rank != 0;
    const struct wn_linear_job jobs[] = {
        {lora ? &a->w->q_a : &a->w->q, x, lora ? b->q_low : b->q}, {&a->w->kv_a, x, b->c}, {&a->w->g, x, b->gate}};

    wn_linear_group(ctx, jobs, c->mla_output_gate ? 3 : 2, a->tokens);
    if (lora) {
        wn_norm_rows(ctx, b->q_low, c->q_lora_rank, a->w->q_a_norm, c->mla_norm_eps, b->q_low, c->q_lora_rank,
                     a->tokens, c->q_lora_rank);
        wn_linear(ctx, &a->w->q_b, b->q_low, a->tokens, b->q);
    }
    wn_norm_rows(ctx, b->c, a->row, a->w->kv_a_norm, c->mla_norm_eps, cache, a->row, a->tokens, a->lora);
    for (size_t t = 0; t < a->tokens; t++)
        memcpy(cache + t * a->row + a->lora, b->c + t * a->row + a->lora, c->qk_rope_dim * sizeof *cache);
}

/* Queries whose scores fit into the buffer together; at least one. */
static size_t tile_queries(const struct mla *a)
{
    size_t keys = keys_of(a, a->tokens - 1), n = SCORE_FLOATS / (a->heads * keys);

    return n == 0 ? 1 : wn_min_size(n, a->tokens);
}

static void attend(struct mla *a)
{
    struct wn_pool *pool = a->ctx->pool;
    size_t tile = tile_queries(a);

    for (a->first = 0; a->first < a->tokens; a->first += a->queries) {
        a->queries = wn_min_size(tile, a->tokens - a->first);
        a->keys = keys_of(a, a->first + a->queries - 1);
        wn_pool_run(pool, score_piece, a, wn_pieces(a->keys, KEY_BLOCK));
        wn_pool_run(pool, softmax_piece, a, a->queries * a->heads);
        wn_pool_run(pool, sum_piece, a,
                    a->queries * wn_pieces(a->heads, HEAD_BLOCK) * wn_pieces(a->lora, COLUMN_BLOCK));
    }
}

static void show_cache(const struct mla *a, int32_t layer, const float *cache)
{
    const struct wn_ctx *ctx = a->ctx;
    const struct wn_config *c = ctx->config;
    float *part = a->b.latent; /* free until the sums; rows without the cache's gaps */

    if (!ctx->probe || !ctx->probe->value)
        return;
    for (size_t t = 0; t < a->tokens; t++)
        memcpy(part + t * a->lora, cache + t * a->row, a->lora * sizeof *part);
    wn_show(ctx, "mla_kv_c", layer, part, a->tokens, a->lora);
    part = a->b.q_abs; /* free until the queries are absorbed */
    for (size_t t = 0; t < a->tokens; t++)
        memcpy(part + t * c->qk_rope_dim, cache + t * a->row + a->lora, c->qk_rope_dim * sizeof *part);
    wn_show(ctx, "mla_k_rot", layer, part, a->tokens, c->qk_rope_dim);
}

void wn_mla_forward(const struct wn_ctx *ctx, const struct wn_layer *layer, const float *x, size_t tokens,
                    struct wn_layer_state *state, uint64_t position, float *out)
{
    const struct wn_config *c = ctx->config;
    size_t mark = wn_arena_mark(ctx->arena);
    struct mla a = {.ctx = ctx,
                    .w = &layer->mla,
                    .cache = state->cache,
                    .tokens = tokens,
                    .position = (size_t)position,
                    .row = c->kv_lora_rank + c->qk_rope_dim,
                    .lora = c->kv_lora_rank,
                    .heads = c->heads};
    float *cache = state->cache + a.position * a.row;

    lay(&(struct wn_room){ctx->arena, 0}, c, tokens, a.position + tokens, &a.b);
    project(&a, x, cache);
    show_cache(&a, (int32_t)layer->index, cache);
    wn_pool_run(ctx->pool, absorb_piece, &a, a.heads);
    attend(&a);
    wn_pool_run(ctx->pool, value_piece, &a, a.heads);
    wn_linear(ctx, &a.w->out, a.b.o, tokens, out);
    wn_arena_rewind(ctx->arena, mark);
}
