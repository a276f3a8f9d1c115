/* One coherent shape: what config.json and GGUF keys must agree on before anything is computed from them. */
#include "model/config_read.h"

#include <math.h>
#include <stdlib.h>

/*
 * Limits far above any model, low enough that no product of two widths, and no sum of such products over all layers,
 * can overflow 64 bits; and that heads x dim fits 32. What also grows with tokens has no such limit: the cache and the
 * scratch of a session are added up with care (engine/state.c, wn_room).
 */
#define MAX_WIDTH (1u << 20)
#define MAX_INNER (1u << 24)
#define MAX_LONG  INT32_MAX
#define MAX_TAPS  8

struct dim {
    const char *name;
    uint64_t value, least, most;
};

static bool check_dims(const struct dim *d, size_t n, struct wn_err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (d[i].value < d[i].least || d[i].value > d[i].most)
            return wn_fail(err, WN_ERR_FORMAT, "config: '%s' is %llu, wanted %llu to %llu", d[i].name,
                           (unsigned long long)d[i].value, (unsigned long long)d[i].least,
                           (unsigned long long)d[i].most);
    }
    return true;
}

static bool check_widths(const struct wn_config *c, struct wn_err *err)
{
    const struct dim dims[] = {
        {"num_hidden_layers", c->layer_count, 1, WN_LAYERS_MAX},
        {"hidden_size", c->hidden_size, 1, MAX_WIDTH},
        {"vocab_size", c->vocab_size, 1, MAX_LONG},
        {"max_position_embeddings", c->context_length, 1, MAX_LONG},
        {"linear_attn_config.num_heads", c->kda_heads, 1, MAX_WIDTH},
        {"linear_attn_config.head_dim", c->kda_head_dim, 1, MAX_WIDTH},
        {"linear_attn_config.short_conv_kernel_size", c->conv_taps, 2, MAX_TAPS},
        {"num_attention_heads", c->heads, 1, MAX_WIDTH},
        {"q_lora_rank", c->q_lora_rank, 0, MAX_WIDTH},
        {"kv_lora_rank", c->kv_lora_rank, 1, MAX_WIDTH},
        {"qk_nope_head_dim", c->qk_nope_dim, 1, MAX_WIDTH},
        {"qk_rope_head_dim", c->qk_rope_dim, 1, MAX_WIDTH},
        {"v_head_dim", c->v_head_dim, 1, MAX_WIDTH},
        {"intermediate_size", c->intermediate_size, 1, MAX_WIDTH},
        {"moe_intermediate_size", c->moe_intermediate_size, 0, MAX_WIDTH},
        {"routed_expert_hidden_size", c->latent_size, 0, MAX_WIDTH},
        {"num_shared_experts", c->shared_experts, 0, MAX_WIDTH},
        {"num_experts", c->expert_count, 0, MAX_WIDTH},
        {"router_rows", c->router_rows, 0, MAX_WIDTH},
        {"num_experts_per_token", c->experts_per_token, 0, MAX_WIDTH},
        {"attn_res_block_size", c->attn_res_block, 0, WN_LAYERS_MAX},
    };
    const struct dim inner[] = {
        {"linear_attn_config: num_heads x head_dim", (uint64_t)c->kda_heads * c->kda_head_dim, 1, MAX_INNER},
        {"num_attention_heads x (qk_nope_head_dim + qk_rope_head_dim)",
         (uint64_t)c->heads * ((uint64_t)c->qk_nope_dim + c->qk_rope_dim), 1, MAX_INNER},
        {"num_attention_heads x (qk_nope_head_dim + v_head_dim)",
         (uint64_t)c->heads * ((uint64_t)c->qk_nope_dim + c->v_head_dim), 1, MAX_INNER},
        {"num_shared_experts x moe_intermediate_size", (uint64_t)c->shared_experts * c->moe_intermediate_size, 0,
         MAX_INNER},
    };

    return check_dims(dims, sizeof(dims) / sizeof(dims[0]), err) &&
           check_dims(inner, sizeof(inner) / sizeof(inner[0]), err);
}

static bool check_number(const char *name, float v, bool good, const char *wanted, struct wn_err *err)
{
    if (isfinite(v) && good)
        return true;
    return wn_fail(err, WN_ERR_FORMAT, "config: '%s' is %g, wanted %s", name, (double)v, wanted);
}

static bool check_numbers(const struct wn_config *c, struct wn_err *err)
{
    if (!check_number("rms_norm_eps", c->rms_norm_eps, c->rms_norm_eps > 0 && c->rms_norm_eps < 1,
                      "more than 0 and less than 1", err))
        return false;
    if (c->kda_lower_bound &&
        !check_number("gate_lower_bound", c->gate_lower_bound, c->gate_lower_bound < 0, "a negative number", err))
        return false;
    if (!check_number("routed_scaling_factor", c->routed_scaling_factor, true, "a finite number", err))
        return false;
    if (c->activation != WN_ACTIVATION_SITU)
        return true;
    return check_number("activation_situ_beta", c->situ_beta, c->situ_beta > 0, "more than 0", err) &&
           check_number("activation_situ_linear_beta", c->situ_linear_beta, c->situ_linear_beta >= 0,
                        "more than 0, or none", err);
}

static bool check_layer(const struct wn_config *c, uint32_t i, struct wn_err *err)
{
    const struct wn_layer_config *l = &c->layers[i];

    if (!l->moe) {
        if (l->expert_count != 0)
            return wn_fail(err, WN_ERR_FORMAT, "config: layer %u is dense but has %u experts", i, l->expert_count);
        if (l->low_count != 0)
            return wn_fail(err, WN_ERR_FORMAT, "config: layer %u is dense but has a bank of %u experts", i,
                           l->low_count);
        if (l->router_rows != 0)
            return wn_fail(err, WN_ERR_FORMAT, "config: layer %u is dense but has a router of %u rows", i,
                           l->router_rows);
        return true;
    }
    if (l->expert_count == 0)
        return wn_fail(err, WN_ERR_FORMAT, "config: layer %u is a mixture of experts but has none", i);
    if (l->router_rows < l->expert_count)
        return wn_fail(err, WN_ERR_FORMAT, "config: layer %u has %u experts, but its router %u rows", i,
                       l->expert_count, l->router_rows);
    if (l->expert_count > c->expert_count)
        return wn_fail(err, WN_ERR_FORMAT, "config: layer %u has %u experts, more than 'num_experts' %u", i,
                       l->expert_count, c->expert_count);
    if (l->low_count >= l->expert_count)
        return wn_fail(err, WN_ERR_FORMAT,
                       "config: layer %u has %u of its %u experts in the second bank: both banks must have some", i,
                       l->low_count, l->expert_count);
    if (c->experts_per_token > l->expert_count)
        return wn_fail(err, WN_ERR_FORMAT, "config: 'num_experts_per_token' is %u, but layer %u has %u experts",
                       c->experts_per_token, i, l->expert_count);
    return true;
}

static bool check_experts(const struct wn_config *c, struct wn_err *err)
{
    uint32_t widest = 0;
    bool any = false;

    for (uint32_t i = 0; i < c->layer_count; i++) {
        if (!check_layer(c, i, err))
            return false;
        any = any || c->layers[i].moe;
        if (c->layers[i].expert_count > widest)
            widest = c->layers[i].expert_count;
    }
    if (!any)
        return true;
    if (widest != c->expert_count)
        return wn_fail(err, WN_ERR_FORMAT, "config: 'num_experts' is %u, but the widest layer has %u", c->expert_count,
                       widest);
    if (c->experts_per_token == 0 || c->moe_intermediate_size == 0)
        return wn_fail(err, WN_ERR_FORMAT,
                       "config: 'num_experts_per_token' is %u and 'moe_intermediate_size' %u, wanted at least 1",
                       c->experts_per_token, c->moe_intermediate_size);
    if (c->latent_norm && c->latent_size == 0)
        return wn_fail(err, WN_ERR_FORMAT,
                       "config: 'latent_moe_use_norm' is set, but there is no 'routed_expert_hidden_size'");
    return true;
}

static bool check_token(const struct wn_config *c, const char *name, int64_t id, struct wn_err *err)
{
    if (id >= -1 && id < (int64_t)c->vocab_size)
        return true;
    return wn_fail(err, WN_ERR_FORMAT, "config: '%s' is %lld, but 'vocab_size' is %u", name, (long long)id,
                   c->vocab_size);
}

/* Where nothing says otherwise a router has a row for each expert. */
static void complete_routers(struct wn_config *c)
{
    for (uint32_t i = 0; i < c->layer_count; i++) {
        struct wn_layer_config *l = &c->layers[i];

        if (l->router_rows == 0)
            l->router_rows = l->expert_count;
        if (l->router_rows > c->router_rows)
            c->router_rows = l->router_rows;
    }
}

bool wn_config_check(struct wn_config *c, struct wn_err *err)
{
    complete_routers(c);
    return check_widths(c, err) && check_numbers(c, err) && check_experts(c, err) &&
           check_token(c, "bos_token_id", c->bos_id, err) && check_token(c, "eos_token_id", c->eos_id, err) &&
           check_token(c, "pad_token_id", c->pad_id, err);
}

void wn_config_release(struct wn_config *c)
{
    free(c->layers);
    c->layers = NULL;
}
