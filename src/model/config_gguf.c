/*
 * The shape from GGUF keys (docs/formats/config.md). What the keys do not say is read off the tensors: how many experts
 * each layer has, whether there is an output gate, of which rank KDA's gate is, and whether the latent is normed.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "model/config_read.h"
#include "model/names.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads keys that start with "ARCHITECTURE.". */
struct reader {
    const struct wn_source *source;
    const struct wn_gguf_meta *meta;
    struct wn_config *c;
    struct wn_err *err;
};

enum kind { COUNT, NUMBER, FLAG, NOTHING };

/* NOTHING: read by a function of its own, or without meaning for the arithmetic. */
static const struct field {
    const char *key;
    enum kind kind;
    bool required;
    size_t at; /* in struct wn_config */
} fields[] = {
#define FIELD(key, kind, required, member)                                                                             \
    {                                                                                                                  \
        key, kind, required, offsetof(struct wn_config, member)                                                        \
    }
    FIELD("block_count", COUNT, true, layer_count),
    FIELD("context_length", COUNT, true, context_length),
    FIELD("embedding_length", COUNT, true, hidden_size),
    FIELD("feed_forward_length", COUNT, true, intermediate_size),
    FIELD("vocab_size", COUNT, false, vocab_size),
    FIELD("attention.head_count", COUNT, true, heads),
    FIELD("attention.layer_norm_rms_epsilon", NUMBER, true, rms_norm_eps),
    FIELD("attention.q_lora_rank", COUNT, false, q_lora_rank),
    FIELD("attention.kv_lora_rank", COUNT, true, kv_lora_rank),
    FIELD("attention.value_length_mla", COUNT, true, v_head_dim),
    FIELD("rope.dimension_count", COUNT, true, qk_rope_dim),
    FIELD("ssm.conv_kernel", COUNT, true, conv_taps),
    FIELD("kda.head_dim", COUNT, true, kda_head_dim),
    FIELD("kda.gate_lower_bound", NUMBER, false, gate_lower_bound),
    FIELD("expert_count", COUNT, false, expert_count),
    FIELD("expert_used_count", COUNT, false, experts_per_token),
    FIELD("expert_shared_count", COUNT, false, shared_experts),
    FIELD("expert_feed_forward_length", COUNT, false, moe_intermediate_size),
    FIELD("expert_latent_length", COUNT, false, latent_size),
    FIELD("expert_weights_scale", NUMBER, false, routed_scaling_factor),
    FIELD("expert_weights_norm", FLAG, false, renormalize),
    FIELD("activation.situ_beta", NUMBER, false, situ_beta),
    FIELD("activation.situ_linear_beta", NUMBER, false, situ_linear_beta),
    FIELD("attn_res.block_size", COUNT, false, attn_res_block),
#undef FIELD
    {"attention.head_count_kv", NOTHING, true, 0},
    {"attention.key_length_mla", NOTHING, true, 0},
    {"attention.key_length", NOTHING, false, 0},
    {"attention.value_length", NOTHING, false, 0},
    {"expert_counts", NOTHING, false, 0},
    {"expert_lo_count", NOTHING, false, 0},
    {"router_rows", NOTHING, false, 0},
    {"expert_group_count", NOTHING, false, 0},
    {"expert_group_used_count", NOTHING, false, 0},
    {"expert_gating_func", NOTHING, false, 0},
    {"expert_shared_feed_forward_length", NOTHING, false, 0},
    {"leading_dense_block_count", NOTHING, false, 0},
    {"nextn_predict_layers", NOTHING, false, 0},
    {"rope.freq_base", NOTHING, false, 0}, /* nothing is rotated */
};

#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

static const struct wn_gguf_kv *find(const struct reader *r, const char *key)
{
    char full[128];

    (void)snprintf(full, sizeof(full), "%s.%s", r->c->architecture, key);
    return wn_gguf_find(r->meta, full);
}

static bool missing(const struct reader *r, const char *key)
{
    return wn_fail(r->err, WN_ERR_FORMAT, "key '%s.%s' is missing", r->c->architecture, key);
}

static bool mistyped(const struct reader *r, const char *key, const struct wn_gguf_kv *kv, const char *wanted)
{
    return wn_fail(r->err, WN_ERR_FORMAT, "key '%s.%s' is a %s that is no %s", r->c->architecture, key,
                   wn_gguf_value_name(kv->type), wanted);
}

/* *v stays as it is when the key is absent. */
static bool read_count(const struct reader *r, const char *key, uint32_t *v)
{
    const struct wn_gguf_kv *kv = find(r, key);
    uint64_t n;

    if (!kv)
        return true;
    if (!wn_gguf_as_u64(kv, &n) || n > UINT32_MAX)
        return mistyped(r, key, kv, "whole number of 32 bits");
    *v = (uint32_t)n;
    return true;
}

static bool read_field(const struct reader *r, const struct field *f)
{
    const struct wn_gguf_kv *kv = find(r, f->key);
    char *at = (char *)r->c + f->at;
    double d;

    if (!kv)
        return !f->required || missing(r, f->key);
    switch (f->kind) {
    case COUNT:
        return read_count(r, f->key, (uint32_t *)(void *)at);
    case NUMBER:
        if (!wn_gguf_as_f64(kv, &d) || !isfinite((float)d))
            return mistyped(r, f->key, kv, "number");
        *(float *)(void *)at = (float)d;
        return true;
    case FLAG:
        return wn_gguf_as_bool(kv, (bool *)at) || mistyped(r, f->key, kv, "yes or no");
    case NOTHING:
        break;
    }
    return true;
}

/* A key of the architecture that stands in no list could change the arithmetic. */
static bool check_keys(const struct reader *r)
{
    size_t n = strlen(r->c->architecture);

    for (size_t i = 0; i < r->meta->n; i++) {
        struct wn_bytes key = r->meta->kv[i].key, tail;
        bool known = false;

        if (key.n <= n || memcmp(key.at, r->c->architecture, n) != 0 || key.at[n] != '.')
            continue;
        tail = (struct wn_bytes){key.at + n + 1, key.n - n - 1};
        for (size_t k = 0; k < N_FIELDS && !known; k++)
            known = wn_bytes_is(tail, fields[k].key);
        if (!known)
            return wn_fail(r->err, WN_ERR_FORMAT, "the key '%.*s' is unknown, and ignoring it could be wrong",
                           (int)wn_min_size(key.n, 100), key.at);
    }
    return true;
}

/* A key that may only have one value, or be absent. A sum or product of others may be more than any key can say. */
static bool demand(const struct reader *r, const char *key, uint64_t only)
{
    uint32_t v = 0;

    if (!find(r, key))
        return true;
    if (!read_count(r, key, &v))
        return false;
    if (v != only)
        return wn_fail(r->err, WN_ERR_FORMAT, "key '%s.%s' is %u, wanted %" PRIu64, r->c->architecture, key, v, only);
    return true;
}

static bool check_demands(const struct reader *r)
{
    const struct wn_config *c = r->c;

    if (c->expert_count > 0 && !find(r, "expert_gating_func"))
        return missing(r, "expert_gating_func");
    return demand(r, "expert_gating_func", 2) && demand(r, "expert_group_count", 1) &&
           demand(r, "expert_group_used_count", 1) && demand(r, "nextn_predict_layers", 0) &&
           demand(r, "attention.key_length", (uint64_t)c->kv_lora_rank + c->qk_rope_dim) &&
           demand(r, "attention.value_length", c->kv_lora_rank) &&
           demand(r, "expert_shared_feed_forward_length", (uint64_t)c->shared_experts * c->moe_intermediate_size);
}

static bool read_head_dim(const struct reader *r)
{
    uint32_t both = 0;

    if (!read_count(r, "attention.key_length_mla", &both))
        return false;
    if (both <= r->c->qk_rope_dim)
        return wn_fail(r->err, WN_ERR_FORMAT,
                       "key '%s.attention.key_length_mla' is %u, wanted more than 'rope.dimension_count' %u",
                       r->c->architecture, both, r->c->qk_rope_dim);
    r->c->qk_nope_dim = both - r->c->qk_rope_dim;
    return true;
}

/* One entry per layer: 0 marks KDA. The array bounds block_count before anything is allocated by it. */
static bool read_layer_kinds(const struct reader *r)
{
    const struct wn_gguf_kv *kv = find(r, "attention.head_count_kv");
    struct wn_config *c = r->c;

    if (kv->type != WN_GGUF_ARRAY || kv->count != c->layer_count || kv->count == 0)
        return wn_fail(r->err, WN_ERR_FORMAT,
                       "key '%s.attention.head_count_kv' has %llu entries, but 'block_count' is %u", c->architecture,
                       (unsigned long long)kv->count, c->layer_count);
    c->layers = wn_alloc(c->layer_count, sizeof(c->layers[0]), r->err);
    if (!c->layers)
        return false;
    for (uint32_t i = 0; i < c->layer_count; i++) {
        int64_t heads;

        if (!wn_gguf_array_i64(kv, i, &heads) || heads < 0)
            return mistyped(r, "attention.head_count_kv", kv, "list of counts");
        c->layers[i].attention = heads == 0 ? WN_ATTENTION_KDA : WN_ATTENTION_MLA;
    }
    return true;
}

static const struct wn_tensor *tensor_of(const struct reader *r, enum wn_role role, uint32_t layer)
{
    char full[WN_NAME_BYTES];

    return wn_name_write(WN_NAMING_GGUF, "", role, 0, layer, 0, full) ? wn_source_find(r->source, full) : NULL;
}

static bool any_layer_has(const struct reader *r, enum wn_role role)
{
    for (uint32_t i = 0; i < r->c->layer_count; i++)
        if (tensor_of(r, role, i))
            return true;
    return false;
}

/* An array with a count for each layer, entry i of which goes to `at` bytes into layer i; absent is fine. */
static bool read_layer_counts(const struct reader *r, const char *key, size_t at)
{
    const struct wn_gguf_kv *kv = find(r, key);

    if (!kv)
        return true;
    if (kv->type != WN_GGUF_ARRAY || kv->count != r->c->layer_count)
        return wn_fail(r->err, WN_ERR_FORMAT, "key '%s.%s' has %llu entries, but 'block_count' is %u",
                       r->c->architecture, key, (unsigned long long)kv->count, r->c->layer_count);
    for (uint32_t i = 0; i < r->c->layer_count; i++) {
        int64_t n;

        if (!wn_gguf_array_i64(kv, i, &n) || n < 0 || n > UINT32_MAX)
            return mistyped(r, key, kv, "list of counts");
        *(uint32_t *)(void *)((char *)&r->c->layers[i] + at) = (uint32_t)n;
    }
    return true;
}

/*
 * The router's rows, where there are fewer than the one key for all layers says: other programs' builds that keep
 * different numbers have no more to tell it.
 */
static bool read_router_rows(const struct reader *r, uint32_t i)
{
    const struct wn_tensor *router = tensor_of(r, WN_ROLE_ROUTER, i);
    struct wn_config *c = r->c;
    uint64_t rows;

    if (!router || router->dims < 1 || router->dims > 2)
        return true;
    rows = router->dims == 2 ? router->shape[0] : 1; /* a router of one row may have lost its outer dimension */
    if (find(r, "router_rows")) /* ghosts: rows are not experts, and the binding compares them with the key */
        return true;
    if (rows > c->expert_count)
        return wn_fail(r->err, WN_ERR_FORMAT, "'%s' has %llu rows, but '%s.expert_count' is %u", router->name,
                       (unsigned long long)rows, c->architecture, c->expert_count);
    if (find(r, "expert_counts") && rows != c->layers[i].expert_count)
        return wn_fail(r->err, WN_ERR_FORMAT, "'%s' has %llu rows, but '%s.expert_counts' says %u of layer %u",
                       router->name, (unsigned long long)rows, c->architecture, c->layers[i].expert_count, i);
    c->layers[i].expert_count = (uint32_t)rows;
    return true;
}

/* How many experts each layer has, and how many of them lie in the second bank of a graded build. */
static bool read_moe_layers(const struct reader *r)
{
    struct wn_config *c = r->c;
    uint32_t dense = 0;

    if (!read_count(r, "leading_dense_block_count", &dense))
        return false;
    for (uint32_t i = 0; i < c->layer_count; i++) {
        c->layers[i].moe = c->expert_count > 0 && i >= dense;
        c->layers[i].expert_count = c->layers[i].moe ? c->expert_count : 0;
    }
    if (!read_layer_counts(r, "expert_counts", offsetof(struct wn_layer_config, expert_count)) ||
        !read_layer_counts(r, "expert_lo_count", offsetof(struct wn_layer_config, low_count)) ||
        !read_layer_counts(r, "router_rows", offsetof(struct wn_layer_config, router_rows)))
        return false;
    for (uint32_t i = 0; i < c->layer_count; i++)
        if (c->layers[i].moe && !read_router_rows(r, i))
            return false;
    return true;
}

static bool read_vocab_size(const struct reader *r)
{
    const struct wn_gguf_kv *tokens = wn_gguf_find(r->meta, "tokenizer.ggml.tokens");
    const struct wn_tensor *embedding = tensor_of(r, WN_ROLE_EMBEDDING, 0);

    if (r->c->vocab_size != 0)
        return true;
    if (tokens && tokens->type == WN_GGUF_ARRAY && tokens->count <= UINT32_MAX)
        r->c->vocab_size = (uint32_t)tokens->count;
    else if (embedding && embedding->dims == 2 && embedding->shape[0] <= UINT32_MAX)
        r->c->vocab_size = (uint32_t)embedding->shape[0];
    return true; /* a vocabulary of none is refused by the check */
}

static bool read_token(const struct reader *r, const char *key, int64_t *id)
{
    const struct wn_gguf_kv *kv = wn_gguf_find(r->meta, key);
    uint64_t v;

    *id = -1;
    if (!kv)
        return true;
    if (!wn_gguf_as_u64(kv, &v) || v > UINT32_MAX)
        return wn_fail(r->err, WN_ERR_FORMAT, "key '%s' is no token id", key);
    *id = (int64_t)v;
    return true;
}

static bool read_all(const struct reader *r)
{
    struct wn_config *c = r->c;

    if (!check_keys(r))
        return false;
    for (size_t i = 0; i < N_FIELDS; i++)
        if (!read_field(r, &fields[i]))
            return false;
    c->kda_heads = c->heads;
    c->kda_lower_bound = find(r, "kda.gate_lower_bound") != NULL;
    c->activation = find(r, "activation.situ_beta") ? WN_ACTIVATION_SITU : WN_ACTIVATION_SILU;
    if (!read_head_dim(r) || !check_demands(r) || !read_layer_kinds(r) || !read_moe_layers(r) || !read_vocab_size(r))
        return false;
    c->kda_full_rank_gate = any_layer_has(r, WN_ROLE_KDA_G);
    c->mla_output_gate = any_layer_has(r, WN_ROLE_MLA_G);
    c->latent_norm = any_layer_has(r, WN_ROLE_LATENT_NORM);
    return read_token(r, "tokenizer.ggml.bos_token_id", &c->bos_id) &&
           read_token(r, "tokenizer.ggml.eos_token_id", &c->eos_id) &&
           read_token(r, "tokenizer.ggml.padding_token_id", &c->pad_id);
}

bool wn_config_read_gguf(const struct wn_source *s, struct wn_config *c, struct wn_err *err)
{
    const struct wn_gguf_meta *meta = wn_source_gguf(s);
    const struct wn_gguf_kv *kv = wn_gguf_find(meta, "general.architecture");
    struct reader r = {s, meta, c, err};
    struct wn_bytes name;

    *c = (struct wn_config){.mla_norm_eps = 1e-6f, .routed_scaling_factor = 1.0f};
    if (!kv || !wn_gguf_as_string(kv, &name))
        return wn_fail(err, WN_ERR_FORMAT, "key 'general.architecture' is missing");
    if (!wn_bytes_is(name, "kimi-k3") && !wn_bytes_is(name, "kimi-linear"))
        return wn_fail(err, WN_ERR_FORMAT, "architecture '%.*s' is not computed, wanted 'kimi-k3' or 'kimi-linear'",
                       (int)wn_min_size(name.n, 60), name.at);
    memcpy(c->architecture, name.at, name.n);
    if (read_all(&r) && wn_config_check(c, err))
        return true;
    wn_config_release(c);
    return false;
}
