/* See names.h. */
#include "model/names.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define ROUTED    WN_CLASS_ROUTED
#define SHARED    WN_CLASS_SHARED
#define ATTENTION WN_CLASS_ATTENTION
#define LATENT    WN_CLASS_LATENT
#define EMBEDDING WN_CLASS_EMBEDDING
#define ROUTER    WN_CLASS_ROUTER

/* clang-format off: a table is read down its columns */
static const struct wn_role_names table[WN_ROLE_COUNT] = {
    [WN_ROLE_EMBEDDING] = {EMBEDDING, WN_RULE_SAME, false, {"token_embd.weight"}, {"model.embed_tokens.weight"}},
    [WN_ROLE_HEAD] = {EMBEDDING, WN_RULE_SAME, false, {"output.weight"}, {"lm_head.weight"}},
    [WN_ROLE_OUT_NORM] = {ROUTER, WN_RULE_SAME, false, {"output_norm.weight"}, {"model.norm.weight"}},
    [WN_ROLE_OUT_RES] = {ROUTER,
                         WN_RULE_PRODUCT,
                         false,
                         {"output_res_score.weight"},
                         {"model.output_attn_res_norm.weight", "model.output_attn_res_proj.weight"}},

    [WN_ROLE_ATTN_NORM] = {ROUTER, WN_RULE_SAME, true, {"attn_norm.weight"}, {"input_layernorm.weight"}},
    [WN_ROLE_FFN_NORM] = {ROUTER, WN_RULE_SAME, true, {"ffn_norm.weight"}, {"post_attention_layernorm.weight"}},
    [WN_ROLE_ATTN_RES] = {ROUTER,
                          WN_RULE_PRODUCT,
                          true,
                          {"attn_res_score.weight"},
                          {"self_attention_res_norm.weight", "self_attention_res_proj.weight"}},
    [WN_ROLE_FFN_RES] =
        {ROUTER, WN_RULE_PRODUCT, true, {"ffn_res_score.weight"}, {"mlp_res_norm.weight", "mlp_res_proj.weight"}},

    [WN_ROLE_Q] = {ATTENTION, WN_RULE_SAME, true, {"attn_q.weight"}, {"self_attn.q_proj.weight"}},
    [WN_ROLE_K] = {ATTENTION, WN_RULE_SAME, true, {"attn_k.weight"}, {"self_attn.k_proj.weight"}},
    [WN_ROLE_V] = {ATTENTION, WN_RULE_SAME, true, {"attn_v.weight"}, {"self_attn.v_proj.weight"}},
    [WN_ROLE_CONV_Q] = {ATTENTION, WN_RULE_SAME, true, {"ssm_conv1d_q.weight"}, {"self_attn.q_conv1d.weight"}},
    [WN_ROLE_CONV_K] = {ATTENTION, WN_RULE_SAME, true, {"ssm_conv1d_k.weight"}, {"self_attn.k_conv1d.weight"}},
    [WN_ROLE_CONV_V] = {ATTENTION, WN_RULE_SAME, true, {"ssm_conv1d_v.weight"}, {"self_attn.v_conv1d.weight"}},
    [WN_ROLE_A] = {ATTENTION, WN_RULE_DECAY, true, {"ssm_a"}, {"self_attn.A_log"}},
    [WN_ROLE_DT_BIAS] = {ATTENTION, WN_RULE_SAME, true, {"ssm_dt.bias"}, {"self_attn.dt_bias"}},
    [WN_ROLE_F_A] = {ATTENTION, WN_RULE_SAME, true, {"ssm_f_a.weight"}, {"self_attn.f_a_proj.weight"}},
    [WN_ROLE_F_B] = {ATTENTION, WN_RULE_SAME, true, {"ssm_f_b.weight"}, {"self_attn.f_b_proj.weight"}},
    [WN_ROLE_BETA] = {ATTENTION, WN_RULE_SAME, true, {"ssm_beta.weight"}, {"self_attn.b_proj.weight"}},
    [WN_ROLE_KDA_G] = {ATTENTION, WN_RULE_SAME, true, {"ssm_g.weight"}, {"self_attn.g_proj.weight"}},
    [WN_ROLE_G_A] = {ATTENTION, WN_RULE_SAME, true, {"ssm_g_a.weight"}, {"self_attn.g_a_proj.weight"}},
    [WN_ROLE_G_B] = {ATTENTION, WN_RULE_SAME, true, {"ssm_g_b.weight"}, {"self_attn.g_b_proj.weight"}},
    [WN_ROLE_O_NORM] = {ATTENTION, WN_RULE_SAME, true, {"ssm_norm.weight"}, {"self_attn.o_norm.weight"}},
    [WN_ROLE_ATTN_OUT] = {ATTENTION, WN_RULE_SAME, true, {"attn_output.weight"}, {"self_attn.o_proj.weight"}},
    [WN_ROLE_Q_A] = {ATTENTION, WN_RULE_SAME, true, {"attn_q_a.weight"}, {"self_attn.q_a_proj.weight"}},
    [WN_ROLE_Q_A_NORM] = {ATTENTION, WN_RULE_SAME, true, {"attn_q_a_norm.weight"}, {"self_attn.q_a_layernorm.weight"}},
    [WN_ROLE_Q_B] = {ATTENTION, WN_RULE_SAME, true, {"attn_q_b.weight"}, {"self_attn.q_b_proj.weight"}},
    [WN_ROLE_KV_A] = {ATTENTION, WN_RULE_SAME, true, {"attn_kv_a_mqa.weight"}, {"self_attn.kv_a_proj_with_mqa.weight"}},
    [WN_ROLE_KV_A_NORM] =
        {ATTENTION, WN_RULE_SAME, true, {"attn_kv_a_norm.weight"}, {"self_attn.kv_a_layernorm.weight"}},
    [WN_ROLE_KV_B] =
        {ATTENTION, WN_RULE_SPLIT, true, {"attn_k_b.weight", "attn_v_b.weight"}, {"self_attn.kv_b_proj.weight"}},
    [WN_ROLE_MLA_G] = {ATTENTION, WN_RULE_SAME, true, {"attn_gate.weight"}, {"self_attn.g_proj.weight"}},

    [WN_ROLE_DENSE_GATE] = {SHARED, WN_RULE_SAME, true, {"ffn_gate.weight"}, {"mlp.gate_proj.weight"}},
    [WN_ROLE_DENSE_UP] = {SHARED, WN_RULE_SAME, true, {"ffn_up.weight"}, {"mlp.up_proj.weight"}},
    [WN_ROLE_DENSE_DOWN] = {SHARED, WN_RULE_SAME, true, {"ffn_down.weight"}, {"mlp.down_proj.weight"}},
    [WN_ROLE_ROUTER] = {ROUTER, WN_RULE_SAME, true, {"ffn_gate_inp.weight"}, {"block_sparse_moe.gate.weight"}},
    [WN_ROLE_ROUTER_BIAS] =
        {ROUTER, WN_RULE_SAME, true, {"exp_probs_b.bias"}, {"block_sparse_moe.gate.e_score_correction_bias"}},
    [WN_ROLE_LATENT_DOWN] =
        {LATENT, WN_RULE_SAME, true, {"ffn_routed_down.weight"}, {"block_sparse_moe.routed_expert_down_proj.weight"}},
    [WN_ROLE_LATENT_NORM] =
        {LATENT, WN_RULE_SAME, true, {"ffn_routed_norm.weight"}, {"block_sparse_moe.routed_expert_norm.weight"}},
    [WN_ROLE_LATENT_UP] =
        {LATENT, WN_RULE_SAME, true, {"ffn_routed_up.weight"}, {"block_sparse_moe.routed_expert_up_proj.weight"}},
    [WN_ROLE_SHARED_GATE] =
        {SHARED, WN_RULE_SAME, true, {"ffn_gate_shexp.weight"}, {"block_sparse_moe.shared_experts.gate_proj.weight"}},
    [WN_ROLE_SHARED_UP] =
        {SHARED, WN_RULE_SAME, true, {"ffn_up_shexp.weight"}, {"block_sparse_moe.shared_experts.up_proj.weight"}},
    [WN_ROLE_SHARED_DOWN] =
        {SHARED, WN_RULE_SAME, true, {"ffn_down_shexp.weight"}, {"block_sparse_moe.shared_experts.down_proj.weight"}},
    [WN_ROLE_EXPERT_GATE] = {ROUTED,
                             WN_RULE_EXPERTS,
                             true,
                             {"ffn_gate_exps.weight"},
                             {"block_sparse_moe.experts.*.w1.weight_packed",
                              "block_sparse_moe.experts.*.w1.weight_scale"}},
    [WN_ROLE_EXPERT_UP] = {ROUTED,
                           WN_RULE_EXPERTS,
                           true,
                           {"ffn_up_exps.weight"},
                           {"block_sparse_moe.experts.*.w3.weight_packed",
                            "block_sparse_moe.experts.*.w3.weight_scale"}},
    [WN_ROLE_EXPERT_DOWN] = {ROUTED,
                             WN_RULE_EXPERTS,
                             true,
                             {"ffn_down_exps.weight"},
                             {"block_sparse_moe.experts.*.w2.weight_packed",
                              "block_sparse_moe.experts.*.w2.weight_scale"}},
};
/* clang-format on */

const struct wn_role_names *wn_role_names(enum wn_role role)
{
    assert((unsigned)role < WN_ROLE_COUNT);
    return &table[role];
}

bool wn_name_write(enum wn_container container, const char *prefix, enum wn_role role, unsigned which, uint32_t layer,
                   uint32_t expert, char out[WN_NAME_BYTES])
{
    const struct wn_role_names *row = wn_role_names(role);
    bool gguf = container == WN_CONTAINER_GGUF;
    const char *stem = gguf ? row->gguf[which] : row->hf[which];
    const char *star;
    int n = 0;

    assert(which < 2);
    if (!stem)
        return false;
    if (!gguf)
        n = snprintf(out, WN_NAME_BYTES, "%s", prefix);
    if (row->in_layer)
        n += snprintf(out + n, (size_t)(WN_NAME_BYTES - n), gguf ? "blk.%u." : "model.layers.%u.", layer);
    star = strchr(stem, '*');
    if (star)
        n += snprintf(out + n, (size_t)(WN_NAME_BYTES - n), "%.*s%u%s", (int)(star - stem), stem, expert, star + 1);
    else
        n += snprintf(out + n, (size_t)(WN_NAME_BYTES - n), "%s", stem);
    assert(n < WN_NAME_BYTES);
    return true;
}

void wn_name_unpacked(char name[WN_NAME_BYTES])
{
    char *tail = strstr(name, "_packed");

    assert(tail);
    *tail = '\0';
}
