/* See names.h. */
#include "model/names.h"
#include "base/bytes.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define ROUTED    WN_CLASS_ROUTED
#define SHARED    WN_CLASS_SHARED
#define ATTENTION WN_CLASS_ATTENTION
#define LATENT    WN_CLASS_LATENT
#define EMBEDDING WN_CLASS_EMBEDDING
#define ROUTER    WN_CLASS_ROUTER

/* Three namings a row: GGUF's, HF's, MLX's. BOTH is for the many that MLX took over from HF. */
/* clang-format off */
#define BOTH(name)                                                                                                     \
    {name},                                                                                                            \
    {                                                                                                                  \
        name                                                                                                           \
    }
static const struct wn_role_names table[WN_ROLE_COUNT] = {
    [WN_ROLE_EMBEDDING] = {EMBEDDING, WN_RULE_SAME, false, {{"token_embd.weight"}, BOTH("model.embed_tokens.weight")}},
    [WN_ROLE_HEAD] = {EMBEDDING, WN_RULE_SAME, false, {{"output.weight"}, BOTH("lm_head.weight")}},
    [WN_ROLE_OUT_NORM] = {ROUTER, WN_RULE_SAME, false, {{"output_norm.weight"}, BOTH("model.norm.weight")}},
    [WN_ROLE_OUT_RES] = {ROUTER, WN_RULE_PRODUCT, false,
        {{"output_res_score.weight"},
         {"model.output_attn_res_norm.weight", "model.output_attn_res_proj.weight"},
         {"model.output_attn_res.norm_weight", "model.output_attn_res.proj_weight"}}},
    [WN_ROLE_ATTN_NORM] = {ROUTER, WN_RULE_SAME, true, {{"attn_norm.weight"}, BOTH("input_layernorm.weight")}},
    [WN_ROLE_FFN_NORM] = {ROUTER, WN_RULE_SAME, true, {{"ffn_norm.weight"}, BOTH("post_attention_layernorm.weight")}},
    [WN_ROLE_ATTN_RES] = {ROUTER, WN_RULE_PRODUCT, true,
        {{"attn_res_score.weight"},
         {"self_attention_res_norm.weight", "self_attention_res_proj.weight"},
         {"self_attention_res.norm_weight", "self_attention_res.proj_weight"}}},
    [WN_ROLE_FFN_RES] = {ROUTER, WN_RULE_PRODUCT, true,
        {{"ffn_res_score.weight"},
         {"mlp_res_norm.weight", "mlp_res_proj.weight"},
         {"mlp_res.norm_weight", "mlp_res.proj_weight"}}},
    [WN_ROLE_Q] = {ATTENTION, WN_RULE_SAME, true, {{"attn_q.weight"}, BOTH("self_attn.q_proj.weight")}},
    [WN_ROLE_K] = {ATTENTION, WN_RULE_SAME, true, {{"attn_k.weight"}, BOTH("self_attn.k_proj.weight")}},
    [WN_ROLE_V] = {ATTENTION, WN_RULE_SAME, true, {{"attn_v.weight"}, BOTH("self_attn.v_proj.weight")}},
    [WN_ROLE_CONV_Q] = {ATTENTION, WN_RULE_SAME, true,
        {{"ssm_conv1d_q.weight"},
         {"self_attn.q_conv1d.weight"},
         {"self_attn.q_conv.conv.weight"}}},
    [WN_ROLE_CONV_K] = {ATTENTION, WN_RULE_SAME, true,
        {{"ssm_conv1d_k.weight"},
         {"self_attn.k_conv1d.weight"},
         {"self_attn.k_conv.conv.weight"}}},
    [WN_ROLE_CONV_V] = {ATTENTION, WN_RULE_SAME, true,
        {{"ssm_conv1d_v.weight"},
         {"self_attn.v_conv1d.weight"},
         {"self_attn.v_conv.conv.weight"}}},
    [WN_ROLE_A] = {ATTENTION, WN_RULE_DECAY, true, {{"ssm_a"}, BOTH("self_attn.A_log")}},
    [WN_ROLE_DT_BIAS] = {ATTENTION, WN_RULE_SAME, true, {{"ssm_dt.bias"}, BOTH("self_attn.dt_bias")}},
    [WN_ROLE_F_A] = {ATTENTION, WN_RULE_SAME, true, {{"ssm_f_a.weight"}, BOTH("self_attn.f_a_proj.weight")}},
    [WN_ROLE_F_B] = {ATTENTION, WN_RULE_SAME, true, {{"ssm_f_b.weight"}, BOTH("self_attn.f_b_proj.weight")}},
    [WN_ROLE_BETA] = {ATTENTION, WN_RULE_SAME, true, {{"ssm_beta.weight"}, BOTH("self_attn.b_proj.weight")}},
    [WN_ROLE_KDA_G] = {ATTENTION, WN_RULE_SAME, true, {{"ssm_g.weight"}, BOTH("self_attn.g_proj.weight")}},
    [WN_ROLE_G_A] = {ATTENTION, WN_RULE_SAME, true, {{"ssm_g_a.weight"}, BOTH("self_attn.g_a_proj.weight")}},
    [WN_ROLE_G_B] = {ATTENTION, WN_RULE_SAME, true, {{"ssm_g_b.weight"}, BOTH("self_attn.g_b_proj.weight")}},
    [WN_ROLE_O_NORM] = {ATTENTION, WN_RULE_SAME, true, {{"ssm_norm.weight"}, BOTH("self_attn.o_norm.weight")}},
    [WN_ROLE_ATTN_OUT] = {ATTENTION, WN_RULE_SAME, true, {{"attn_output.weight"}, BOTH("self_attn.o_proj.weight")}},
    [WN_ROLE_Q_A] = {ATTENTION, WN_RULE_SAME, true, {{"attn_q_a.weight"}, BOTH("self_attn.q_a_proj.weight")}},
    [WN_ROLE_Q_A_NORM] = {ATTENTION, WN_RULE_SAME, true,
        {{"attn_q_a_norm.weight"}, BOTH("self_attn.q_a_layernorm.weight")}},
    [WN_ROLE_Q_B] = {ATTENTION, WN_RULE_SAME, true, {{"attn_q_b.weight"}, BOTH("self_attn.q_b_proj.weight")}},
    [WN_ROLE_KV_A] = {ATTENTION, WN_RULE_SAME, true,
        {{"attn_kv_a_mqa.weight"}, BOTH("self_attn.kv_a_proj_with_mqa.weight")}},
    [WN_ROLE_KV_A_NORM] = {ATTENTION, WN_RULE_SAME, true,
        {{"attn_kv_a_norm.weight"}, BOTH("self_attn.kv_a_layernorm.weight")}},
    [WN_ROLE_KV_B] = {ATTENTION, WN_RULE_SPLIT, true,
        {{"attn_k_b.weight", "attn_v_b.weight"},
         {"self_attn.kv_b_proj.weight"},
         {"self_attn.embed_q.weight", "self_attn.unembed_out.weight"}}},
    [WN_ROLE_MLA_G] = {ATTENTION, WN_RULE_SAME, true, {{"attn_gate.weight"}, BOTH("self_attn.g_proj.weight")}},
    [WN_ROLE_DENSE_GATE] = {SHARED, WN_RULE_SAME, true, {{"ffn_gate.weight"}, BOTH("mlp.gate_proj.weight")}},
    [WN_ROLE_DENSE_UP] = {SHARED, WN_RULE_SAME, true, {{"ffn_up.weight"}, BOTH("mlp.up_proj.weight")}},
    [WN_ROLE_DENSE_DOWN] = {SHARED, WN_RULE_SAME, true, {{"ffn_down.weight"}, BOTH("mlp.down_proj.weight")}},
    [WN_ROLE_ROUTER] = {ROUTER, WN_RULE_SAME, true, {{"ffn_gate_inp.weight"}, BOTH("block_sparse_moe.gate.weight")}},
    [WN_ROLE_ROUTER_BIAS] = {ROUTER, WN_RULE_SAME, true,
        {{"exp_probs_b.bias"},
         {"block_sparse_moe.gate.e_score_correction_bias"},
         {"block_sparse_moe.e_score_correction_bias"}}},
    [WN_ROLE_EXPERT_ROWS] = {ROUTER, WN_RULE_SAME, true,
        {{"ffn_expert_rows.weight"}, BOTH("block_sparse_moe.expert_rows")}},
    [WN_ROLE_GHOST_MEAN] = {ROUTER, WN_RULE_SAME, true,
        {{"ffn_ghost_mean.weight"}, BOTH("block_sparse_moe.ghost_mean")}},
    [WN_ROLE_LATENT_DOWN] = {LATENT, WN_RULE_SAME, true,
        {{"ffn_routed_down.weight"}, BOTH("block_sparse_moe.routed_expert_down_proj.weight")}},
    [WN_ROLE_LATENT_NORM] = {LATENT, WN_RULE_SAME, true,
        {{"ffn_routed_norm.weight"}, BOTH("block_sparse_moe.routed_expert_norm.weight")}},
    [WN_ROLE_LATENT_UP] = {LATENT, WN_RULE_SAME, true,
        {{"ffn_routed_up.weight"}, BOTH("block_sparse_moe.routed_expert_up_proj.weight")}},
    [WN_ROLE_SHARED_GATE] = {SHARED, WN_RULE_SAME, true,
        {{"ffn_gate_shexp.weight"}, BOTH("block_sparse_moe.shared_experts.gate_proj.weight")}},
    [WN_ROLE_SHARED_UP] = {SHARED, WN_RULE_SAME, true,
        {{"ffn_up_shexp.weight"}, BOTH("block_sparse_moe.shared_experts.up_proj.weight")}},
    [WN_ROLE_SHARED_DOWN] = {SHARED, WN_RULE_SAME, true,
        {{"ffn_down_shexp.weight"}, BOTH("block_sparse_moe.shared_experts.down_proj.weight")}},
    [WN_ROLE_EXPERT_GATE] = {ROUTED, WN_RULE_EXPERTS, true,
        {{"ffn_gate_exps*.weight"},
         {"block_sparse_moe.experts.*.w1.weight_packed", "block_sparse_moe.experts.*.w1.weight_scale"},
         {"block_sparse_moe.switch_mlp.*gate_proj.weight"}}},
    [WN_ROLE_EXPERT_UP] = {ROUTED, WN_RULE_EXPERTS, true,
        {{"ffn_up_exps*.weight"},
         {"block_sparse_moe.experts.*.w3.weight_packed", "block_sparse_moe.experts.*.w3.weight_scale"},
         {"block_sparse_moe.switch_mlp.*up_proj.weight"}}},
    [WN_ROLE_EXPERT_DOWN] = {ROUTED, WN_RULE_EXPERTS, true,
        {{"ffn_down_exps*.weight"},
         {"block_sparse_moe.experts.*.w2.weight_packed", "block_sparse_moe.experts.*.w2.weight_scale"},
         {"block_sparse_moe.switch_mlp.*down_proj.weight"}}},
};
#undef BOTH
/* clang-format on */

const struct wn_role_names *wn_role_names(enum wn_role role)
{
    assert((unsigned)role < WN_ROLE_COUNT);
    return &table[role];
}

bool wn_role_is_matrix(enum wn_role role)
{
    switch (role) {
    case WN_ROLE_OUT_NORM:
    case WN_ROLE_OUT_RES:
    case WN_ROLE_ATTN_NORM:
    case WN_ROLE_FFN_NORM:
    case WN_ROLE_ATTN_RES:
    case WN_ROLE_FFN_RES:
    case WN_ROLE_CONV_Q:
    case WN_ROLE_CONV_K:
    case WN_ROLE_CONV_V:
    case WN_ROLE_A:
    case WN_ROLE_DT_BIAS:
    case WN_ROLE_O_NORM:
    case WN_ROLE_Q_A_NORM:
    case WN_ROLE_KV_A_NORM:
    case WN_ROLE_ROUTER_BIAS:
    case WN_ROLE_EXPERT_ROWS:
    case WN_ROLE_GHOST_MEAN:
    case WN_ROLE_LATENT_NORM:
        return false;
    default:
        return true;
    }
}

/* What stands in a name for '*': an expert's number, or the word for its bank. */
static void write_star(enum wn_naming naming, uint32_t expert, char out[16])
{
    static const char *const banks[][3] = {
        [WN_NAMING_GGUF] = {[WN_BANK_ONLY] = "", [WN_BANK_HI] = "", [WN_BANK_LO] = "_lo"},
        [WN_NAMING_MLX] = {[WN_BANK_ONLY] = "", [WN_BANK_HI] = "bank_hi.", [WN_BANK_LO] = "bank_lo."},
    };

    if (naming == WN_NAMING_HF) {
        (void)snprintf(out, 16, "%u", expert);
        return;
    }
    assert(expert <= WN_BANK_LO);
    (void)snprintf(out, 16, "%s", banks[naming][expert]);
}

bool wn_name_write(enum wn_naming naming, const char *prefix, enum wn_role role, unsigned which, uint32_t layer,
                   uint32_t expert, char out[WN_NAME_BYTES])
{
    const struct wn_role_names *row = wn_role_names(role);
    const char *stem, *star;
    char instead[16];
    int n = 0;

    assert(naming < WN_NAMING_COUNT && which < 2);
    stem = row->name[naming][which];
    if (!stem)
        return false;
    if (naming == WN_NAMING_HF)
        n = snprintf(out, WN_NAME_BYTES, "%s", prefix);
    if (row->in_layer)
        n += snprintf(out + n, (size_t)(WN_NAME_BYTES - n), naming == WN_NAMING_GGUF ? "blk.%u." : "model.layers.%u.",
                      layer);
    star = strchr(stem, '*');
    if (star) {
        write_star(naming, expert, instead);
        n += snprintf(out + n, (size_t)(WN_NAME_BYTES - n), "%.*s%s%s", (int)(star - stem), stem, instead, star + 1);
    } else {
        n += snprintf(out + n, (size_t)(WN_NAME_BYTES - n), "%s", stem);
    }
    assert(n < WN_NAME_BYTES);
    return true;
}

bool wn_name_beside(const char *weight, const char *what, char out[WN_NAME_BYTES])
{
    size_t n = strlen(weight), tail = strlen(".weight");
    int written;

    if (!wn_ends_with(weight, ".weight"))
        return false;
    written = snprintf(out, WN_NAME_BYTES, what ? "%.*s.%s" : "%.*s", (int)(n - tail), weight, what);
    return written >= 0 && written < WN_NAME_BYTES;
}

bool wn_name_write_low(const char *name, char *out, size_t *n)
{
    const char *stack = strstr(name, "_exps.");
    size_t head;
    struct wn_part part;

    wn_part_of(WN_CONTAINER_GGUF, name, &part);
    if (!stack || part.axis != WN_AXIS_OUTER || part.router)
        return false;
    head = (size_t)(stack - name) + strlen("_exps");
    *n = (size_t)sprintf(out, "%.*s_lo%s", (int)head, name, name + head);
    return true;
}

bool wn_name_is_embedding(const char *name)
{
    const struct wn_role_names *row = wn_role_names(WN_ROLE_EMBEDDING);
    char weight[WN_NAME_BYTES], beside[WN_NAME_BYTES];

    if (strncmp(name, "language_model.", 15) == 0)
        name += 15;
    for (int naming = 0; naming < WN_NAMING_COUNT; naming++)
        if (strcmp(name, row->name[naming][0]) == 0)
            return true;
    return wn_name_write(WN_NAMING_MLX, "", WN_ROLE_EMBEDDING, 0, 0, 0, weight) &&
           ((wn_name_beside(weight, "scales", beside) && strcmp(name, beside) == 0) ||
            (wn_name_beside(weight, "biases", beside) && strcmp(name, beside) == 0));
}

void wn_name_unpacked(char name[WN_NAME_BYTES])
{
    char *tail = strstr(name, "_packed");

    assert(tail);
    *tail = '\0';
}

enum wn_naming wn_naming_of_source(const struct wn_source *s)
{
    struct wn_part part;

    if (wn_source_container(s) == WN_CONTAINER_GGUF)
        return WN_NAMING_GGUF;
    for (size_t i = 0; i < wn_source_tensor_count(s); i++) {
        wn_part_of(WN_CONTAINER_SAFETENSORS, wn_source_tensor_at(s, i)->name, &part);
        if (part.naming != WN_NAMING_COUNT)
            return part.naming;
    }
    return WN_NAMING_HF;
}
