/*
 * Sizes that a session prints before it takes them: state, cache and scratch of one sequence. The deepest path through
 * a layer decides the arena, a head of KDA the scratch of a worker.
 */
#include "graph/blocks.h"

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void *wn_layout_take(struct wn_layout *l, size_t n, size_t size)
{
    l->bytes += wn_arena_need(n * size);
    return l->arena ? wn_arena_take(l->arena, n * size) : NULL;
}

size_t wn_job_of_piece(const size_t *first, size_t n, size_t piece)
{
    size_t low = 0, high = n;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (first[middle] <= piece)
            low = middle;
        else
            high = middle;
    }
    return low;
}

uint32_t wn_bank_count(const struct wn_config *c)
{
    return c->attn_res_block ? (c->layer_count + c->attn_res_block - 1) / c->attn_res_block : 0;
}

uint64_t wn_layer_state_bytes(const struct wn_config *c, uint32_t layer)
{
    uint64_t width = (uint64_t)c->kda_heads * c->kda_head_dim;

    if (c->layers[layer].attention != WN_ATTENTION_KDA)
        return 0;
    /* the matrix of each head, and the inputs that the next token's convolutions of q, k and v still need */
    return (width * c->kda_head_dim + 3 * (c->conv_taps - 1) * width) * sizeof(float);
}

uint64_t wn_layer_cache_bytes_per_token(const struct wn_config *c, uint32_t layer)
{
    if (c->layers[layer].attention != WN_ATTENTION_MLA)
        return 0;
    return ((uint64_t)c->kv_lora_rank + c->qk_rope_dim) * sizeof(float);
}

static bool has_attention(const struct wn_config *c, enum wn_attention kind)
{
    for (uint32_t i = 0; i < c->layer_count; i++)
        if (c->layers[i].attention == kind)
            return true;
    return false;
}

size_t wn_graph_scratch(const struct wn_config *c, size_t tokens, size_t context, unsigned threads)
{
    size_t deepest = wn_dense_scratch(c, tokens);
    size_t rows = wn_arena_need(tokens * c->hidden_size * sizeof(float));
    size_t probs = wn_arena_need(tokens * (wn_bank_count(c) + 1) * sizeof(float));

    (void)threads; /* a worker's scratch is counted by wn_graph_worker_floats */
    if (has_attention(c, WN_ATTENTION_KDA))
        deepest = max_u64(deepest, wn_kda_scratch(c, tokens));
    if (has_attention(c, WN_ATTENTION_MLA))
        deepest = max_u64(deepest, wn_mla_scratch(c, tokens, context));
    if (c->expert_count)
        deepest = max_u64(deepest, wn_moe_scratch(c, tokens));
    return deepest + 3 * rows + probs; /* mix, normed rows and the block's output live while the block runs */
}

size_t wn_graph_worker_floats(const struct wn_config *c, size_t context)
{
    size_t floats = has_attention(c, WN_ATTENTION_KDA) ? wn_kda_worker_floats(c) : 0;

    (void)context;                  /* attention scores lie in the arena: wn_mla_scratch */
    return (floats + 15) / 16 * 16; /* workers' scratch begins on cache lines of its own */
}
