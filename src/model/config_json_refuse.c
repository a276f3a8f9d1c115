/*
 * What in a config.json is refused because it is not computed: keys with one possible value, other quantisations, other
 * families. And the list of keys that say nothing about the arithmetic.
 */
#include "model/config_json.h"

#include <stdio.h>
#include <string.h>

/* Keys that change the arithmetic, with the one value that is computed; null counts as absent. */
static const struct demand {
    const char *key, *json;
    bool required;
} demands[] = {
    {"moe_router_activation_func", "\"sigmoid\"", false},
    {"topk_method", "\"noaux_tc\"", false},
    {"num_expert_group", "1", false},
    {"topk_group", "1", false},
    {"mla_use_nope", "true", true},
    {"rope_scaling", "null", false},
    {"num_nextn_predict_layers", "0", false},
    {"attention_bias", "false", false},
    {"mlp_bias", "false", false},
    {"tie_encoder_decoder", "false", false},
    {"pruned_heads", "{}", false},
};

/* What transformers writes into every config, and what says nothing about the arithmetic of inference. */
static const char *const harmless[] = {
    "add_cross_attention",
    "attention_dropout",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "chunk_size_feed_forward",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "head_dim", /* of attention that neither KDA nor MLA has */
    "id2label",
    "initializer_range",
    "is_decoder",
    "is_encoder_decoder",
    "label2id",
    "length_penalty",
    "max_length",
    "min_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "reap",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "rope_theta", /* nothing is rotated */
    "router_aux_loss_coef",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "use_bfloat16",
    "use_cache",
    "use_grouped_topk", /* one group */
};

static bool is_listed(const char *key, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(key, list[i]) == 0)
            return true;
    return false;
}

bool wn_json_is_demanded(const char *key)
{
    for (size_t i = 0; i < sizeof(demands) / sizeof(demands[0]); i++)
        if (strcmp(key, demands[i].key) == 0)
            return true;
    return false;
}

bool wn_json_is_harmless(const char *key)
{
    return key[0] == '_' || is_listed(key, harmless, sizeof(harmless) / sizeof(harmless[0]));
}

bool wn_json_check_demands(const json_t *text, struct wn_err *err)
{
    for (size_t i = 0; i < sizeof(demands) / sizeof(demands[0]); i++) {
        const struct demand *d = &demands[i];
        const json_t *v = wn_json_get(text, d->key);

        if (!v && d->required)
            return wn_fail(err, WN_ERR_FORMAT, "config: '%s' is missing, wanted %s", d->key, d->json);
        if (!v)
            continue;
        if (!wn_json_is(v, d->json))
            return wn_json_wrong(d->key, v, d->json, err);
    }
    return true;
}

static bool expect(const json_t *o, const char *where, const char *key, const char *json, struct wn_err *err)
{
    const json_t *v = wn_json_get(o, key);
    char name[128];

    (void)snprintf(name, sizeof(name), "%s.%s", where, key);
    if (!v)
        return wn_fail(err, WN_ERR_FORMAT, "config: '%s' is missing, wanted %s", name, json);
    return wn_json_is(v, json) || wn_json_wrong(name, v, json, err);
}

bool wn_json_check_quantization(const json_t *o, struct wn_err *err)
{
    const json_t *q = wn_json_get(o, "quantization_config");
    json_t *groups, *group;
    const char *key;

    if (!q)
        return true;
    if (!expect(q, "quantization_config", "quant_method", "\"compressed-tensors\"", err) ||
        !expect(q, "quantization_config", "format", "\"mxfp4-pack-quantized\"", err))
        return false;
    groups = json_object_get(q, "config_groups");
    json_object_foreach(groups, key, group) {
        const json_t *w = wn_json_get(group, "weights");
        char where[64];

        (void)snprintf(where, sizeof(where), "config_groups.%.20s.weights", key);
        if (!expect(w, where, "num_bits", "4", err) || !expect(w, where, "group_size", "32", err) ||
            !expect(w, where, "type", "\"float\"", err) || !expect(w, where, "symmetric", "true", err))
            return false;
        if (wn_json_get(group, "input_activations"))
            return wn_json_wrong("quantization_config: input_activations", wn_json_get(group, "input_activations"),
                                 "null", err);
    }
    return true;
}

static bool known_model(const char *name)
{
    static const char *const known[] = {"kimi_k3", "kimi_linear", "KimiK3ForConditionalGeneration",
                                        "KimiLinearForCausalLM"};

    return name && is_listed(name, known, sizeof(known) / sizeof(known[0]));
}

bool wn_json_check_family(const json_t *o, const char *where, bool required, struct wn_err *err)
{
    const char *type = json_string_value(wn_json_get(o, "model_type"));
    const char *class = json_string_value(json_array_get(wn_json_get(o, "architectures"), 0));

    if (!type && !class && !required)
        return true;
    if (!type && !class)
        return wn_fail(err, WN_ERR_FORMAT, "config: neither 'model_type' nor 'architectures' says what model this is");
    if (type && !known_model(type))
        return wn_fail(err, WN_ERR_FORMAT, "config: %s'model_type' is '%.60s', wanted 'kimi_k3' or 'kimi_linear'",
                       where, type);
    if (class && !known_model(class))
        return wn_fail(err, WN_ERR_FORMAT,
                       "config: %s'architectures' is '%.60s', wanted 'KimiK3ForConditionalGeneration' or "
                       "'KimiLinearForCausalLM'",
                       where, class);
    return true;
}
