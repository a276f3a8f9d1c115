/* See memory.h. Widths are bounded by config_check.c: nothing here, and no sum over all layers, leaves 64 bits. */
#include "model/memory.h"

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
