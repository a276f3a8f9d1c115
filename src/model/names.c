/* See names.h and parts.h. */
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
static const struct wn_name_row table[WN_NAME_COUNT] = {
    [WN_NAME_EMBEDDING] = {EMBEDDING, WN_RULE_SAME, false, {"token_embd.weight"}, {"model.embed_tokens.weight"}},
    [WN_NAME_HEAD] = {EMBEDDING, WN_RULE_SAME, false, {"output.weight"}, {"lm_head.weight"}},
    [WN_NAME_OUT_NORM] = {ROUTER, WN_RULE_SAME, false, {"output_norm.weight"}, {"model.norm.weight"}},
    [WN_NAME_OUT_RES] = {ROUTER,
                         WN_RULE_PRODUCT,
                         false,
                         {"output_res_score.weight"},
                         {"model.output_attn_res_norm.weight", "model.output_attn_res_proj.weight"}},

    [WN_NAME_ATTN_NORM] = {ROUTER, WN_RULE_SAME, true, {"attn_norm.weight"}, {"input_layernorm.weight"}},
    [WN_NAME_FFN_NORM] = {ROUTER, WN_RULE_SAME, true, {"ffn_norm.weight"}, {"post_attention_layernorm.weight"}},
    [WN_NAME_ATTN_RES] = {ROUTER,
                          WN_RULE_PRODUCT,
                          true,
                          {"attn_res_score.weight"},
                          {"self_attention_res_norm.weight", "self_attention_res_proj.weight"}},
    [WN_NAME_FFN_RES] =
        {ROUTER, WN_RULE_PRODUCT, true, {"ffn_res_score.weight"}, {"mlp_res_norm.weight", "mlp_res_proj.weight"}},

    [WN_NAME_Q] = {ATTENTION, WN_RULE_SAME, true, {"attn_q.weight"}, {"self_attn.q_proj.weight"}},
    [WN_NAME_K] = {ATTENTION, WN_RULE_SAME, true, {"attn_k.weight"}, {"self_attn.k_proj.weight"}},
    [WN_NAME_V] = {ATTENTION, WN_RULE_SAME, true, {"attn_v.weight"}, {"self_attn.v_proj.weight"}},
    [WN_NAME_CONV_Q] = {ATTENTION, WN_RULE_SAME, true, {"ssm_conv1d_q.weight"}, {"self_attn.q_conv1d.weight"}},
    [WN_NAME_CONV_K] = {ATTENTION, WN_RULE_SAME, true, {"ssm_conv1d_k.weight"}, {"self_attn.k_conv1d.weight"}},
    [WN_NAME_CONV_V] = {ATTENTION, WN_RULE_SAME, true, {"ssm_conv1d_v.weight"}, {"self_attn.v_conv1d.weight"}},
    [WN_NAME_A] = {ATTENTION, WN_RULE_DECAY, true, {"ssm_a"}, {"self_attn.A_log"}},
    [WN_NAME_DT_BIAS] = {ATTENTION, WN_RULE_SAME, true, {"ssm_dt.bias"}, {"self_attn.dt_bias"}},
    [WN_NAME_F_A] = {ATTENTION, WN_RULE_SAME, true, {"ssm_f_a.weight"}, {"self_attn.f_a_proj.weight"}},
    [WN_NAME_F_B] = {ATTENTION, WN_RULE_SAME, true, {"ssm_f_b.weight"}, {"self_attn.f_b_proj.weight"}},
    [WN_NAME_BETA] = {ATTENTION, WN_RULE_SAME, true, {"ssm_beta.weight"}, {"self_attn.b_proj.weight"}},
    [WN_NAME_KDA_G] = {ATTENTION, WN_RULE_SAME, true, {"ssm_g.weight"}, {"self_attn.g_proj.weight"}},
    [WN_NAME_G_A] = {ATTENTION, WN_RULE_SAME, true, {"ssm_g_a.weight"}, {"self_attn.g_a_proj.weight"}},
    [WN_NAME_G_B] = {ATTENTION, WN_RULE_SAME, true, {"ssm_g_b.weight"}, {"self_attn.g_b_proj.weight"}},
    [WN_NAME_O_NORM] = {ATTENTION, WN_RULE_SAME, true, {"ssm_norm.weight"}, {"self_attn.o_norm.weight"}},
    [WN_NAME_ATTN_OUT] = {ATTENTION, WN_RULE_SAME, true, {"attn_output.weight"}, {"self_attn.o_proj.weight"}},
    [WN_NAME_Q_A] = {ATTENTION, WN_RULE_SAME, true, {"attn_q_a.weight"}, {"self_attn.q_a_proj.weight"}},
    [WN_NAME_Q_A_NORM] = {ATTENTION, WN_RULE_SAME, true, {"attn_q_a_norm.weight"}, {"self_attn.q_a_layernorm.weight"}},
    [WN_NAME_Q_B] = {ATTENTION, WN_RULE_SAME, true, {"attn_q_b.weight"}, {"self_attn.q_b_proj.weight"}},
    [WN_NAME_KV_A] = {ATTENTION, WN_RULE_SAME, true, {"attn_kv_a_mqa.weight"}, {"self_attn.kv_a_proj_with_mqa.weight"}},
    [WN_NAME_KV_A_NORM] =
        {ATTENTION, WN_RULE_SAME, true, {"attn_kv_a_norm.weight"}, {"self_attn.kv_a_layernorm.weight"}},
    [WN_NAME_KV_B] =
        {ATTENTION, WN_RULE_SPLIT, true, {"attn_k_b.weight", "attn_v_b.weight"}, {"self_attn.kv_b_proj.weight"}},
    [WN_NAME_MLA_G] = {ATTENTION, WN_RULE_SAME, true, {"attn_gate.weight"}, {"self_attn.g_proj.weight"}},

    [WN_NAME_DENSE_GATE] = {SHARED, WN_RULE_SAME, true, {"ffn_gate.weight"}, {"mlp.gate_proj.weight"}},
    [WN_NAME_DENSE_UP] = {SHARED, WN_RULE_SAME, true, {"ffn_up.weight"}, {"mlp.up_proj.weight"}},
    [WN_NAME_DENSE_DOWN] = {SHARED, WN_RULE_SAME, true, {"ffn_down.weight"}, {"mlp.down_proj.weight"}},
    [WN_NAME_ROUTER] = {ROUTER, WN_RULE_SAME, true, {"ffn_gate_inp.weight"}, {"block_sparse_moe.gate.weight"}},
    [WN_NAME_ROUTER_BIAS] =
        {ROUTER, WN_RULE_SAME, true, {"exp_probs_b.bias"}, {"block_sparse_moe.gate.e_score_correction_bias"}},
    [WN_NAME_LATENT_DOWN] =
        {LATENT, WN_RULE_SAME, true, {"ffn_routed_down.weight"}, {"block_sparse_moe.routed_expert_down_proj.weight"}},
    [WN_NAME_LATENT_NORM] =
        {LATENT, WN_RULE_SAME, true, {"ffn_routed_norm.weight"}, {"block_sparse_moe.routed_expert_norm.weight"}},
    [WN_NAME_LATENT_UP] =
        {LATENT, WN_RULE_SAME, true, {"ffn_routed_up.weight"}, {"block_sparse_moe.routed_expert_up_proj.weight"}},
    [WN_NAME_SHARED_GATE] =
        {SHARED, WN_RULE_SAME, true, {"ffn_gate_shexp.weight"}, {"block_sparse_moe.shared_experts.gate_proj.weight"}},
    [WN_NAME_SHARED_UP] =
        {SHARED, WN_RULE_SAME, true, {"ffn_up_shexp.weight"}, {"block_sparse_moe.shared_experts.up_proj.weight"}},
    [WN_NAME_SHARED_DOWN] =
        {SHARED, WN_RULE_SAME, true, {"ffn_down_shexp.weight"}, {"block_sparse_moe.shared_experts.down_proj.weight"}},
    [WN_NAME_EXPERT_GATE] = {ROUTED,
                             WN_RULE_EXPERTS,
                             true,
                             {"ffn_gate_exps.weight"},
                             {"block_sparse_moe.experts.*.w1.weight_packed",
                              "block_sparse_moe.experts.*.w1.weight_scale"}},
    [WN_NAME_EXPERT_UP] = {ROUTED,
                           WN_RULE_EXPERTS,
                           true,
                           {"ffn_up_exps.weight"},
                           {"block_sparse_moe.experts.*.w3.weight_packed",
                            "block_sparse_moe.experts.*.w3.weight_scale"}},
    [WN_NAME_EXPERT_DOWN] = {ROUTED,
                             WN_RULE_EXPERTS,
                             true,
                             {"ffn_down_exps.weight"},
                             {"block_sparse_moe.experts.*.w2.weight_packed",
                              "block_sparse_moe.experts.*.w2.weight_scale"}},
};
/* clang-format on */

const struct wn_name_row *wn_name_row(enum wn_name name)
{
    assert((unsigned)name < WN_NAME_COUNT);
    return &table[name];
}

bool wn_name_write(enum wn_container container, const char *prefix, enum wn_name name, unsigned which, uint32_t layer,
                   uint32_t expert, char out[WN_NAME_BYTES])
{
    const struct wn_name_row *row = wn_name_row(name);
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

/* ---- what a name means: wn_part_of ---- */

/* If s starts with `start`, what follows; otherwise NULL. */
static const char *after(const char *s, const char *start)
{
    size_t n = strlen(start);

    return strncmp(s, start, n) == 0 ? s + n : NULL;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && strcmp(s + n - m, end) == 0;
}

/* Reads "123." and returns what follows the dot; NULL when it is not a number that fits (or has leading zeros). */
static const char *number_dot(const char *s, uint32_t *v, size_t *digits)
{
    uint64_t n = 0;
    size_t i = 0;

    while (s[i] >= '0' && s[i] <= '9' && i < 10)
        n = n * 10 + (uint64_t)(s[i++] - '0');
    if (i == 0 || s[i] != '.' || n > INT32_MAX || (i > 1 && s[0] == '0'))
        return NULL;
    *v = (uint32_t)n;
    *digits = i;
    return s + i + 1;
}

/* The class of a name in the table, given without what stands before it. */
static bool look_up(enum wn_container container, const char *stem, bool in_layer, struct wn_part *part)
{
    for (int i = 0; i < WN_NAME_COUNT; i++) {
        const char *const *names = container == WN_CONTAINER_GGUF ? table[i].gguf : table[i].hf;

        for (int k = 0; k < 2 && names[k]; k++) {
            if (table[i].in_layer == in_layer && strcmp(stem, names[k]) == 0) {
                part->class = table[i].class;
                return true;
            }
        }
    }
    return false;
}

static void set_router(struct wn_part *part)
{
    part->class = WN_CLASS_ROUTER;
    part->axis = WN_AXIS_OUTER;
    part->router = true;
}

/* Conventions that all GGUF architectures share, for models whose other names are not in the table. */
static enum wn_class gguf_class_by_habit(const char *stem)
{
    const char *dot = strchr(stem, '.');
    size_t n = dot ? (size_t)(dot - stem) : strlen(stem);
    char head[64];

    if (n >= sizeof(head))
        return WN_CLASS_OTHER;
    memcpy(head, stem, n);
    head[n] = '\0';
    if (ends_with(head, "_shexp") || strcmp(head, "ffn_gate") == 0 || strcmp(head, "ffn_up") == 0 ||
        strcmp(head, "ffn_down") == 0)
        return WN_CLASS_SHARED;
    if (after(head, "attn_") || after(head, "ssm_"))
        return strcmp(head, "attn_norm") == 0 || strcmp(head, "attn_post_norm") == 0 ? WN_CLASS_ROUTER
                                                                                     : WN_CLASS_ATTENTION;
    return ends_with(head, "_norm") ? WN_CLASS_ROUTER : WN_CLASS_OTHER;
}

/* "ffn_up_exps.weight", ".bias", ".scale" ...: whatever hangs on a stack of experts counts experts outermost. */
static bool gguf_is_expert_stack(const char *stem)
{
    static const char *const stacks[] = {"ffn_gate_exps.", "ffn_up_exps.", "ffn_down_exps.", "ffn_gate_up_exps."};

    for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++)
        if (after(stem, stacks[i]))
            return true;
    return false;
}

static void gguf_part(const char *name, struct wn_part *part)
{
    const char *stem = after(name, "blk.");
    uint32_t layer;
    size_t digits;

    if (stem)
        stem = number_dot(stem, &layer, &digits);
    if (!stem) {
        if (after(name, "v.") || after(name, "mm."))
            part->class = WN_CLASS_VISION;
        else if (!look_up(WN_CONTAINER_GGUF, name, false, part) && strcmp(name, "output.bias") == 0)
            part->class = WN_CLASS_EMBEDDING;
        return;
    }
    part->layer = (int32_t)layer;
    if (gguf_is_expert_stack(stem)) {
        part->class = WN_CLASS_ROUTED;
        part->axis = WN_AXIS_OUTER;
    } else if (after(stem, "ffn_gate_inp.") || strcmp(stem, "exp_probs_b.bias") == 0 ||
               strcmp(stem, "exp_probs_b") == 0 || strcmp(stem, "exp_probs_b.weight") == 0) {
        set_router(part);
    } else if (!look_up(WN_CONTAINER_GGUF, stem, true, part)) {
        part->class = gguf_class_by_habit(stem);
    }
}

/*
 * rest: behind "...layers.N."; moe: the block's name with its dot. True when the name is one of its router or
 * experts.
 */
static bool hf_moe_part(const char *name, const char *rest, const char *moe, struct wn_part *part)
{
    const char *in = after(rest, moe), *number;

    if (!in)
        return false;
    if (strcmp(in, "gate.weight") == 0 || strcmp(in, "gate.e_score_correction_bias") == 0) {
        set_router(part);
        return true;
    }
    number = after(in, "experts.");
    if (!number || !number_dot(number, &part->expert, &part->expert_digits))
        return false;
    part->class = WN_CLASS_ROUTED;
    part->axis = WN_AXIS_NAME;
    part->expert_at = (size_t)(number - name);
    return true;
}

static void hf_part(const char *name, struct wn_part *part)
{
    const char *text = after(name, "language_model.");
    const char *rest;
    uint32_t layer;
    size_t digits;

    if (!text)
        text = name;
    rest = after(text, "model.layers.");
    if (rest)
        rest = number_dot(rest, &layer, &digits);
    if (!rest) {
        if (after(name, "vision_tower.") || after(name, "mm_projector."))
            part->class = WN_CLASS_VISION;
        else
            (void)look_up(WN_CONTAINER_SAFETENSORS, text, false, part);
        return;
    }
    part->layer = (int32_t)layer;
    if (!hf_moe_part(name, rest, "block_sparse_moe.", part) && !hf_moe_part(name, rest, "mlp.", part))
        (void)look_up(WN_CONTAINER_SAFETENSORS, rest, true, part);
}

void wn_part_of(enum wn_container container, const char *name, struct wn_part *part)
{
    *part = (struct wn_part){.class = WN_CLASS_OTHER, .layer = -1, .axis = WN_AXIS_NONE};
    if (container == WN_CONTAINER_GGUF)
        gguf_part(name, part);
    else
        hf_part(name, part);
}

const char *wn_class_name(enum wn_class c)
{
    static const char *const names[WN_CLASS_COUNT] = {
        [WN_CLASS_ROUTED] = "routed experts",
        [WN_CLASS_SHARED] = "shared experts and dense layers",
        [WN_CLASS_ATTENTION] = "attention",
        [WN_CLASS_LATENT] = "latent projections",
        [WN_CLASS_EMBEDDING] = "embeddings and head",
        [WN_CLASS_ROUTER] = "routers and norms",
        [WN_CLASS_VISION] = "vision",
        [WN_CLASS_OTHER] = "other",
    };

    assert((unsigned)c < WN_CLASS_COUNT);
    return names[c];
}
