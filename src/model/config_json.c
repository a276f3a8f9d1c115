/*
 * config.json. Three lists decide about each key of the text config: what is read, what must have one certain value
 * because nothing else is computed, and what is known to mean nothing here. A key in none of them is refused by name.
 */
#include "base/alloc.h"
#include "model/config_json.h"
#include "model/config_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { COUNT, NUMBER, FLAG };

struct field {
    const char *key;
    enum kind kind;
    bool required;
    size_t at; /* in struct wn_config */
};

#define FIELD(key, kind, required, member)                                                                             \
    {                                                                                                                  \
        key, kind, required, offsetof(struct wn_config, member)                                                        \
    }

static const struct field text_fields[] = {
    FIELD("num_hidden_layers", COUNT, true, layer_count),
    FIELD("hidden_size", COUNT, true, hidden_size),
    FIELD("vocab_size", COUNT, true, vocab_size),
    FIELD("max_position_embeddings", COUNT, false, context_length),
    FIELD("model_max_length", COUNT, false, context_length), /* Kimi-Linear's word for the same */
    FIELD("rms_norm_eps", NUMBER, true, rms_norm_eps),
    FIELD("num_attention_heads", COUNT, true, heads),
    FIELD("q_lora_rank", COUNT, false, q_lora_rank),
    FIELD("kv_lora_rank", COUNT, true, kv_lora_rank),
    FIELD("qk_nope_head_dim", COUNT, true, qk_nope_dim),
    FIELD("qk_rope_head_dim", COUNT, true, qk_rope_dim),
    FIELD("v_head_dim", COUNT, true, v_head_dim),
    FIELD("mla_use_output_gate", FLAG, false, mla_output_gate),
    FIELD("intermediate_size", COUNT, true, intermediate_size),
    FIELD("moe_intermediate_size", COUNT, false, moe_intermediate_size),
    FIELD("routed_expert_hidden_size", COUNT, false, latent_size),
    FIELD("latent_moe_use_norm", FLAG, false, latent_norm),
    FIELD("num_shared_experts", COUNT, false, shared_experts),
    FIELD("num_experts", COUNT, false, expert_count),
    FIELD("num_experts_per_token", COUNT, false, experts_per_token),
    FIELD("moe_renormalize", FLAG, false, renormalize),
    FIELD("routed_scaling_factor", NUMBER, false, routed_scaling_factor),
    FIELD("activation_situ_beta", NUMBER, false, situ_beta),
    FIELD("activation_situ_linear_beta", NUMBER, false, situ_linear_beta),
    FIELD("attn_res_block_size", COUNT, false, attn_res_block),
    FIELD("tie_word_embeddings", FLAG, false, tied_embeddings),
};

static const struct field linear_fields[] = {
    FIELD("num_heads", COUNT, true, kda_heads),
    FIELD("head_dim", COUNT, true, kda_head_dim),
    FIELD("short_conv_kernel_size", COUNT, true, conv_taps),
    FIELD("gate_lower_bound", NUMBER, false, gate_lower_bound),
    FIELD("use_full_rank_gate", FLAG, false, kda_full_rank_gate),
};

#define N_TEXT   (sizeof(text_fields) / sizeof(text_fields[0]))
#define N_LINEAR (sizeof(linear_fields) / sizeof(linear_fields[0]))

/* Read by functions of their own. */
static const char *const handled[] = {
    "model_type",   "architectures", "linear_attn_config",  "first_k_dense_replace", "moe_layer_freq",
    "hidden_act",   "expert_counts", "quantization_config", "expert_bank_split",     "num_key_value_heads",
    "bos_token_id", "eos_token_id",  "pad_token_id",        "router_rows",
};

static bool read_fields(const json_t *o, const struct field *fields, size_t n, struct wn_config *c, struct wn_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct field *f = &fields[i];
        const json_t *v = wn_json_get(o, f->key);
        char *at = (char *)c + f->at;
        bool ok = true;

        if (!v && f->required)
            return wn_fail(err, WN_ERR_FORMAT, "config: '%s' is missing", f->key);
        if (!v)
            continue;
        if (f->kind == COUNT)
            ok = wn_json_count(f->key, v, (uint32_t *)(void *)at, err);
        else if (f->kind == NUMBER)
            ok = wn_json_number(f->key, v, (float *)(void *)at, err);
        else
            ok = wn_json_flag(f->key, v, (bool *)at, err);
        if (!ok)
            return false;
    }
    return true;
}

static bool is_field(const char *key, const struct field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(key, fields[i].key) == 0)
            return true;
    return false;
}

static bool is_handled(const char *key)
{
    for (size_t i = 0; i < sizeof(handled) / sizeof(handled[0]); i++)
        if (strcmp(key, handled[i]) == 0)
            return true;
    return false;
}

static bool check_text_keys(const json_t *text, struct wn_err *err)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)text, key, v) {
        if (is_field(key, text_fields, N_TEXT) || is_handled(key) || wn_json_is_demanded(key) ||
            wn_json_is_harmless(key))
            continue;
        return wn_fail(err, WN_ERR_FORMAT, "config: the key '%.100s' is unknown, and ignoring it could be wrong", key);
    }
    return true;
}

static bool check_linear_keys(const json_t *linear, struct wn_err *err)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)linear, key, v) {
        if (!is_field(key, linear_fields, N_LINEAR) && strcmp(key, "kda_layers") != 0 &&
            strcmp(key, "full_attn_layers") != 0)
            return wn_fail(err, WN_ERR_FORMAT,
                           "config: the key 'linear_attn_config.%.100s' is unknown, and ignoring it could be wrong",
                           key);
    }
    return true;
}

static bool read_activation(const json_t *text, struct wn_config *c, struct wn_err *err)
{
    const json_t *v = wn_json_get(text, "hidden_act");
    const char *name = json_string_value(v);

    if (!v)
        return wn_fail(err, WN_ERR_FORMAT, "config: 'hidden_act' is missing");
    if (name && strcmp(name, "situ") == 0)
        c->activation = WN_ACTIVATION_SITU;
    else if (name && strcmp(name, "silu") == 0)
        c->activation = WN_ACTIVATION_SILU;
    else
        return wn_json_wrong("hidden_act", v, "\"situ\" or \"silu\"", err);
    return true;
}

static bool read_token(const json_t *root, const json_t *text, const char *key, int64_t *id, struct wn_err *err)
{
    const json_t *v = wn_json_get(root, key);

    *id = -1;
    if (!v)
        v = wn_json_get(text, key);
    if (!v)
        return true;
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return wn_json_wrong(key, v, "a token id", err);
    *id = json_integer_value(v);
    return true;
}

/* Marks the layers of one of the two lists, which count from 1. */
static bool read_layer_list(const json_t *list, const char *key, enum wn_attention kind, struct wn_config *c,
                            bool *seen, struct wn_err *err)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t layer = json_integer_value(v);

        if (!json_is_integer(v) || layer < 1 || layer > c->layer_count) {
            char text[64];

            wn_json_show(v, text);
            return wn_fail(err, WN_ERR_FORMAT, "config: '%s' names layer %s, wanted 1 to %u", key, text,
                           c->layer_count);
        }
        if (seen[layer - 1])
            return wn_fail(err, WN_ERR_FORMAT, "config: layer %lld stands twice in 'kda_layers' and 'full_attn_layers'",
                           (long long)layer);
        seen[layer - 1] = true;
        c->layers[layer - 1].attention = kind;
    }
    return true;
}

/* Each layer must stand in exactly one list. Checks the lengths before anything is allocated by layer_count. */
static bool read_layer_kinds(const json_t *linear, struct wn_config *c, struct wn_err *err)
{
    const json_t *kda = json_object_get(linear, "kda_layers"), *full = json_object_get(linear, "full_attn_layers");
    size_t named = json_array_size(kda) + json_array_size(full);
    bool *seen, ok;

    if (!json_is_array(kda) || !json_is_array(full))
        return wn_fail(err, WN_ERR_FORMAT,
                       "config: 'linear_attn_config' lacks the list 'kda_layers' or 'full_attn_layers'");
    if (named != c->layer_count || named == 0)
        return wn_fail(
            err, WN_ERR_FORMAT,
            "config: 'kda_layers' (%zu) and 'full_attn_layers' (%zu) name %zu layers, but 'num_hidden_layers' "
            "is %u",
            json_array_size(kda), json_array_size(full), named, c->layer_count);
    c->layers = wn_alloc(c->layer_count, sizeof(c->layers[0]), err);
    seen = c->layers ? wn_alloc(c->layer_count, sizeof(*seen), err) : NULL;
    ok = seen && read_layer_list(kda, "kda_layers", WN_ATTENTION_KDA, c, seen, err) &&
         read_layer_list(full, "full_attn_layers", WN_ATTENTION_MLA, c, seen, err);
    free(seen);
    return ok;
}

static bool read_linear(const json_t *text, struct wn_config *c, struct wn_err *err)
{
    const json_t *linear = wn_json_get(text, "linear_attn_config");

    if (!json_is_object(linear))
        return wn_fail(err, WN_ERR_FORMAT, "config: 'linear_attn_config' is missing");
    if (!check_linear_keys(linear, err) || !read_fields(linear, linear_fields, N_LINEAR, c, err))
        return false;
    c->kda_lower_bound = wn_json_get(linear, "gate_lower_bound") != NULL;
    return read_layer_kinds(linear, c, err);
}

/* A list with a count for each layer, 0 for dense ones, entry i of which goes to `at` bytes into layer i. */
static bool read_layer_counts(const json_t *text, const char *key, size_t at, struct wn_config *c, struct wn_err *err)
{
    const json_t *counts = wn_json_get(text, key);

    if (!counts)
        return true;
    if (!json_is_array(counts) || json_array_size(counts) != c->layer_count)
        return wn_fail(err, WN_ERR_FORMAT, "config: '%s' has %zu entries, but 'num_hidden_layers' is %u", key,
                       json_array_size(counts), c->layer_count);
    for (uint32_t i = 0; i < c->layer_count; i++)
        if (!wn_json_count(key, json_array_get(counts, i), (uint32_t *)(void *)((char *)&c->layers[i] + at), err))
            return false;
    return true;
}

/* Per layer how many experts lie in the first of two banks; 0: the layer has one. */
static bool read_bank_split(const json_t *split, struct wn_config *c, struct wn_err *err)
{
    if (!json_is_array(split) || json_array_size(split) != c->layer_count)
        return wn_fail(err, WN_ERR_FORMAT, "config: 'expert_bank_split' has %zu entries, but 'num_hidden_layers' is %u",
                       json_array_size(split), c->layer_count);
    for (uint32_t i = 0; i < c->layer_count; i++) {
        uint32_t all = c->layers[i].expert_count, first;

        if (!wn_json_count("expert_bank_split", json_array_get(split, i), &first, err))
            return false;
        if (first != 0 && first >= all)
            return wn_fail(
                err, WN_ERR_FORMAT,
                "config: 'expert_bank_split' of layer %u is %u, but the layer has %u experts: both banks must "
                "have some",
                i, first, all);
        c->layers[i].low_count = first ? all - first : 0;
    }
    return true;
}

static bool read_moe_layers(const json_t *text, struct wn_config *c, struct wn_err *err)
{
    const json_t *dense = wn_json_get(text, "first_k_dense_replace"), *every = wn_json_get(text, "moe_layer_freq");
    const json_t *split = wn_json_get(text, "expert_bank_split");
    uint32_t first = 0, step = 1;

    if (dense && !wn_json_count("first_k_dense_replace", dense, &first, err))
        return false;
    if (every && !wn_json_count("moe_layer_freq", every, &step, err))
        return false;
    if (step == 0)
        return wn_fail(err, WN_ERR_FORMAT, "config: 'moe_layer_freq' is 0, wanted at least 1");
    for (uint32_t i = 0; i < c->layer_count; i++) {
        c->layers[i].moe = c->expert_count > 0 && i >= first && i % step == 0;
        c->layers[i].expert_count = c->layers[i].moe ? c->expert_count : 0;
    }
    return read_layer_counts(text, "expert_counts", offsetof(struct wn_layer_config, expert_count), c, err) &&
           read_layer_counts(text, "router_rows", offsetof(struct wn_layer_config, router_rows), c, err) &&
           (!split || read_bank_split(split, c, err));
}

static bool check_kv_heads(const json_t *text, const struct wn_config *c, struct wn_err *err)
{
    const json_t *v = wn_json_get(text, "num_key_value_heads");
    uint32_t n;

    if (!v)
        return true;
    if (!wn_json_count("num_key_value_heads", v, &n, err))
        return false;
    if (n != c->heads)
        return wn_fail(err, WN_ERR_FORMAT, "config: 'num_key_value_heads' is %u, but 'num_attention_heads' is %u", n,
                       c->heads);
    return true;
}

/* What the wrapper repeats of its text config must be the same there. */
static bool check_wrapper(const json_t *root, const json_t *text, struct wn_err *err)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)root, key, v) {
        const json_t *inner = wn_json_get(text, key);

        if ((!is_field(key, text_fields, N_TEXT) && !wn_json_is_demanded(key)) || json_is_null(v) || !inner)
            continue;
        if (!json_equal(v, inner)) {
            char a[64], b[64];

            wn_json_show(v, a);
            wn_json_show(inner, b);
            return wn_fail(err, WN_ERR_FORMAT, "config: '%s' is %s, but 'text_config.%s' is %s", key, a, key, b);
        }
    }
    return true;
}

/*
 * MLX's "quantization" is looked into where the tensors are known (mlx.c). Its tools may repeat it as
 * "quantization_config", which otherwise is HF's.
 */
static bool check_quantization(const json_t *root, const json_t *o, struct wn_err *err)
{
    const json_t *mlx = wn_json_get(root, "quantization"), *hf = wn_json_get(o, "quantization_config");

    if (!mlx)
        return wn_json_check_quantization(o, err);
    if (hf && !json_equal(mlx, hf))
        return wn_fail(err, WN_ERR_FORMAT,
                       "config: 'quantization' and 'quantization_config' are both there and say different things");
    return true;
}

static bool read_text(const json_t *root, const json_t *text, struct wn_config *c, struct wn_err *err)
{
    if (!check_text_keys(text, err) || !wn_json_check_demands(text, err) ||
        !read_fields(text, text_fields, N_TEXT, c, err) || !read_activation(text, c, err) ||
        !check_kv_heads(text, c, err) || !check_quantization(root, text, err) || !read_linear(text, c, err) ||
        !read_moe_layers(text, c, err))
        return false;
    (void)snprintf(c->architecture, sizeof(c->architecture), c->attn_res_block ? "kimi-k3" : "kimi-linear");
    return read_token(root, text, "bos_token_id", &c->bos_id, err) &&
           read_token(root, text, "eos_token_id", &c->eos_id, err) &&
           read_token(root, text, "pad_token_id", &c->pad_id, err);
}

static bool read_root(const json_t *root, struct wn_config *c, struct wn_err *err)
{
    const json_t *text = wn_json_get(root, "text_config");

    if (!json_is_object(root))
        return wn_fail(err, WN_ERR_FORMAT, "config: not a JSON object");
    if (!wn_json_check_family(root, "", true, err))
        return false;
    if (!text)
        return read_text(root, root, c, err);
    if (!json_is_object(text))
        return wn_json_wrong("text_config", text, "an object", err);
    return wn_json_check_family(text, "text_config: ", false, err) && check_wrapper(root, text, err) &&
           check_quantization(root, root, err) && read_text(root, text, c, err);
}

bool wn_config_parse_json(const char *json, size_t n, struct wn_config *c, struct wn_err *err)
{
    json_error_t where;
    json_t *root = json_loadb(json, n, JSON_REJECT_DUPLICATES, &where);
    bool ok;

    *c = (struct wn_config){.mla_norm_eps = 1e-6f, .renormalize = true, .routed_scaling_factor = 1.0f};
    if (!root)
        return wn_fail(err, WN_ERR_FORMAT, "config: line %d, column %d: %s", where.line, where.column, where.text);
    ok = read_root(root, c, err) && wn_config_check(c, err);
    json_decref(root);
    if (!ok)
        wn_config_release(c);
    return ok;
}
