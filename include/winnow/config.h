/*
 * The shape of a model, read from config.json or GGUF keys and checked to be coherent. Names are those of the released
 * config; docs/formats/config.md maps both spellings.
 */
#ifndef WINNOW_CONFIG_H
#define WINNOW_CONFIG_H

#include <winnow/error.h>

/* No model is taken to have more: far above any, and few enough for a list entry each. */
#define WN_LAYERS_MAX  65536
#define WN_EXPERTS_MAX 65536 /* of one layer */

enum wn_attention { WN_ATTENTION_KDA, WN_ATTENTION_MLA };
enum wn_activation { WN_ACTIVATION_SITU, WN_ACTIVATION_SILU };

struct wn_layer_config {
    enum wn_attention attention;
    bool moe;
    uint32_t expert_count; /* routed experts of this layer; 0 when dense */
    uint32_t low_count; /* graded builds: how many of them, the last ones, lie in the bank of fewer bits; 0: one bank */
    uint32_t router_rows; /* experts and ghosts: dropped experts whose rows the router still has; 0 when dense */
};

struct wn_config {
    char architecture[32]; /* "kimi-k3", "kimi-linear" */
    uint32_t layer_count, hidden_size, vocab_size, context_length;
    float rms_norm_eps; /* everywhere but in MLA's two inner norms */
    float mla_norm_eps; /* q_a and kv_a norms: 1e-6, as the vendor's code has it */

    /* KDA */
    uint32_t kda_heads, kda_head_dim, conv_taps;
    bool kda_lower_bound; /* g = gate_lower_bound * sigmoid(exp(A) s); otherwise g = -exp(A) softplus(s) */
    float gate_lower_bound;
    bool kda_full_rank_gate; /* g_proj; otherwise g_a, g_b */

    /* MLA */
    uint32_t heads, q_lora_rank /* 0: none */, kv_lora_rank, qk_nope_dim, qk_rope_dim, v_head_dim;
    bool mla_output_gate;

    /* Feed-forward */
    uint32_t intermediate_size, moe_intermediate_size, latent_size /* 0: experts work at full width */, shared_experts;
    bool latent_norm;
    uint32_t experts_per_token;
    uint32_t expert_count; /* of the widest layer */
    uint32_t router_rows;  /* of the widest router */
    bool renormalize;
    float routed_scaling_factor;
    enum wn_activation activation;
    float situ_beta, situ_linear_beta; /* linear beta 0: the up branch is used unchanged */

    uint32_t attn_res_block; /* 0: plain residual connections */
    bool tied_embeddings;

    /* -1 where the model names none */
    int64_t bos_id, eos_id, pad_id;

    struct wn_layer_config *layers; /* [layer_count], owned by the model */
};

#endif
