/*
 * Sizes that a session prints before it takes them: the deepest path through a layer decides the arena, a head of KDA
 * the scratch of a worker.
 */
#include "graph/blocks.h"
#include "base/checked.h"

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

bool wn_layer_banks(const struct wn_config *c, uint32_t layer)
{
    return c->attn_res_block && layer % c->attn_res_block == 0;
}

static bool has_attention(const struct wn_config *c, enum wn_attention kind)
{
    for (uint32_t i = 0; i < c->layer_count; i++)
        if (c->layers[i].attention == kind)
            return true;
    return false;
}

uint64_t wn_graph_scratch(const struct wn_config *c, uint64_t tokens, uint64_t context, bool runner_up)
{
    uint64_t deepest = wn_dense_scratch(c, tokens);
    struct wn_room r = {0};

    if (has_attention(c, WN_ATTENTION_KDA))
        deepest = wn_max_u64(deepest, wn_kda_scratch(c, tokens));
    if (has_attention(c, WN_ATTENTION_MLA))
        deepest = wn_max_u64(deepest, wn_mla_scratch(c, tokens, context));
    if (c->expert_count)
        deepest = wn_max_u64(deepest, wn_moe_scratch(c, tokens, runner_up));
    for (int i = 0; i < 3; i++) /* mix, normed rows and the block's output live while the block runs */
        (void)wn_room_f32(&r, tokens, c->hidden_size);
    (void)wn_room_f32(&r, tokens, (uint64_t)wn_bank_count(c) + 1);
    return wn_add_capped(deepest, r.bytes);
}

size_t wn_graph_worker_floats(const struct wn_config *c)
{
    size_t floats = has_attention(c, WN_ATTENTION_KDA) ? wn_kda_worker_floats(c) : 0;

    return (floats + 15) / 16 * 16; /* workers' scratch begins on cache lines of its own */
}
