/* config.json: what is read, and that everything else is refused in one sentence that names the key. */
#include "edited_json.h"
#include "model/config_read.h"
#include "wn_test.h"

#include <stdlib.h>
#include <string.h>

#define TINY "golden/text/tiny-a/hf/config.json"

/* Parses tiny-a's config after one edit. */
static bool parse_edited(const char *path, const char *value, struct wn_config *c, struct wn_err *err)
{
    size_t n;
    char *text = file_text(wn_test_need_data(TINY), &n);
    char *edited = edited_json(text, path, value);
    bool ok = wn_config_parse_json(edited, strlen(edited), c, err);

    free(edited);
    free(text);
    return ok;
}

static void refused(const char *path, const char *value, const char *part)
{
    struct wn_config c;
    struct wn_err err;

    CHECK_FAILS(parse_edited(path, value, &c, &err), &err, part);
    assert_int_equal(err.code, WN_ERR_FORMAT);
    assert_null(c.layers);
}

static void accepted(const char *path, const char *value, struct wn_config *c)
{
    struct wn_err err;

    CHECK_OK(parse_edited(path, value, c, &err), &err);
}

static void the_wrapped_form_is_read(void **state)
{
    size_t n;
    char *text = file_text(wn_test_need_data(TINY), &n);
    struct wn_config c;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_config_parse_json(text, n, &c, &err), &err);
    assert_string_equal(c.architecture, "kimi-k3");
    assert_int_equal(c.layer_count, 13);
    assert_int_equal(c.hidden_size, 128);
    assert_int_equal(c.vocab_size, 512);
    assert_int_equal(c.context_length, 4096);
    assert_true(c.rms_norm_eps == 1e-5f && c.mla_norm_eps == 1e-6f);
    assert_int_equal(c.kda_heads, 3);
    assert_int_equal(c.kda_head_dim, 32);
    assert_int_equal(c.conv_taps, 4);
    assert_true(c.kda_lower_bound && c.gate_lower_bound == -5.0f && c.kda_full_rank_gate);
    assert_int_equal(c.heads, 3);
    assert_int_equal(c.q_lora_rank, 48);
    assert_int_equal(c.kv_lora_rank, 64);
    assert_int_equal(c.qk_nope_dim, 32);
    assert_int_equal(c.qk_rope_dim, 16);
    assert_int_equal(c.v_head_dim, 24);
    assert_true(c.mla_output_gate && c.latent_norm && c.renormalize && !c.tied_embeddings);
    assert_int_equal(c.intermediate_size, 224);
    assert_int_equal(c.moe_intermediate_size, 64);
    assert_int_equal(c.latent_size, 96);
    assert_int_equal(c.shared_experts, 2);
    assert_int_equal(c.experts_per_token, 4);
    assert_int_equal(c.expert_count, 16);
    assert_int_equal(c.activation, WN_ACTIVATION_SITU);
    assert_true(c.situ_beta == 4.0f && c.situ_linear_beta == 25.0f && c.routed_scaling_factor == 1.0f);
    assert_int_equal(c.attn_res_block, 4);
    assert_int_equal(c.bos_id, 480);
    assert_int_equal(c.eos_id, 482);
    assert_int_equal(c.pad_id, 511);
    wn_config_release(&c);
    free(text);
}

static void layer_lists_count_from_one(void **state)
{
    static const char kinds[] = "KKKMKKKMKKKMM"; /* full_attn_layers 4, 8, 12, 13 */
    struct wn_config c;

    (void)state;
    accepted("text_config.use_cache", "true", &c);
    for (uint32_t i = 0; i < 13; i++) {
        assert_int_equal(c.layers[i].attention, kinds[i] == 'K' ? WN_ATTENTION_KDA : WN_ATTENTION_MLA);
        assert_int_equal(c.layers[i].moe, i != 0);
        assert_int_equal(c.layers[i].expert_count, i == 0 ? 0 : 16);
    }
    wn_config_release(&c);
}

static void all_configs_at_hand_are_read(void **state)
{
    static const char *const paths[] = {TINY, "golden/text/tiny-b/hf/config.json", "models/k3-mini/config.json"};

    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        const char *path = wn_test_data(paths[i]);
        struct wn_config c;
        struct wn_err err;
        size_t n;
        char *text;

        if (!path)
            continue;
        text = file_text(path, &n);
        CHECK_OK(wn_config_parse_json(text, n, &c, &err), &err);
        wn_config_release(&c);
        free(text);
    }
}

/* The released Kimi-Linear's keys: flat, no bound, SiLU, no q-LoRA, model_max_length. */
static const char kimi_linear[] =
    "{\"architectures\":[\"KimiLinearForCausalLM\"],\"auto_map\":{},\"bos_token_id\":1,\"dtype\":\"bfloat16\","
    "\"eos_token_id\":2,\"first_k_dense_replace\":1,\"head_dim\":72,\"hidden_act\":\"silu\",\"hidden_size\":64,"
    "\"initializer_range\":0.02,\"intermediate_size\":96,\"kv_lora_rank\":32,\"linear_attn_config\":{"
    "\"full_attn_layers\":[3],\"head_dim\":16,\"kda_layers\":[1,2],\"num_heads\":2,\"short_conv_kernel_size\":4},"
    "\"mla_use_nope\":true,\"model_max_length\":1024,\"model_type\":\"kimi_linear\",\"moe_intermediate_size\":32,"
    "\"moe_layer_freq\":1,\"moe_renormalize\":true,\"moe_router_activation_func\":\"sigmoid\","
    "\"num_attention_heads\":2,\"num_expert_group\":1,\"num_experts\":4,\"num_experts_per_token\":2,"
    "\"num_hidden_layers\":3,\"num_key_value_heads\":2,\"num_nextn_predict_layers\":0,\"num_shared_experts\":1,"
    "\"pad_token_id\":3,\"q_lora_rank\":null,\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":8,\"rms_norm_eps\":1e-05,"
    "\"rope_scaling\":null,\"rope_theta\":10000.0,\"routed_scaling_factor\":2.446,\"tie_word_embeddings\":false,"
    "\"topk_group\":1,\"transformers_version\":\"4.56.2\",\"use_cache\":true,\"use_grouped_topk\":true,"
    "\"v_head_dim\":16,\"vocab_size\":64}";

static void the_flat_form_is_kimi_linear(void **state)
{
    struct wn_config c;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_config_parse_json(kimi_linear, strlen(kimi_linear), &c, &err), &err);
    assert_string_equal(c.architecture, "kimi-linear");
    assert_int_equal(c.context_length, 1024);
    assert_int_equal(c.q_lora_rank, 0);
    assert_int_equal(c.latent_size, 0);
    assert_int_equal(c.attn_res_block, 0);
    assert_int_equal(c.activation, WN_ACTIVATION_SILU);
    assert_false(c.kda_lower_bound || c.kda_full_rank_gate || c.mla_output_gate || c.latent_norm);
    assert_true(c.routed_scaling_factor == 2.446f);
    wn_config_release(&c);
}

static void values_that_are_not_computed_are_refused(void **state)
{
    (void)state;
    refused("text_config.hidden_act", "\"gelu\"", "'hidden_act' is \"gelu\"");
    refused("text_config.moe_router_activation_func", "\"softmax\"", "'moe_router_activation_func' is \"softmax\"");
    refused("text_config.num_expert_group", "8", "'num_expert_group' is 8, wanted 1");
    refused("text_config.topk_group", "4", "'topk_group' is 4, wanted 1");
    refused("text_config.topk_method", "\"greedy\"", "'topk_method'");
    refused("text_config.mla_use_nope", "false", "'mla_use_nope' is false");
    refused("text_config.mla_use_nope", NULL, "'mla_use_nope' is missing");
    refused("text_config.rope_scaling", "{\"type\":\"yarn\"}", "'rope_scaling'");
    refused("text_config.num_nextn_predict_layers", "1", "'num_nextn_predict_layers' is 1");
    refused("text_config.quantization_config.format", "\"nvfp4-pack-quantized\"", "quantization_config.format");
    refused("text_config.quantization_config.config_groups.group_0.weights.group_size", "16", "group_size' is 16");
    refused("text_config.quantization_config.config_groups.group_0.weights.num_bits", "8", "num_bits' is 8");
    refused("quantization", "{\"bits\":4,\"group_size\":32}", "say different things"); /* quantization_config is HF's */
    refused("quantization_config", "{\"quant_method\":\"fp8\"}", "'quantization_config.quant_method' is \"fp8\"");
}

static void one_group_may_be_left_out_or_null(void **state)
{
    struct wn_config c;

    (void)state;
    accepted("text_config.num_expert_group", "null", &c);
    wn_config_release(&c);
    accepted("text_config.topk_group", NULL, &c);
    wn_config_release(&c);
    accepted("text_config.quantization_config", NULL, &c);
    wn_config_release(&c);
}

static void unknown_keys_are_refused_by_name(void **state)
{
    (void)state;
    refused("text_config.sliding_window", "4096", "'sliding_window'");
    refused("text_config.linear_attn_config.gate_type", "\"x\"", "'linear_attn_config.gate_type'");
}

static void unknown_models_are_refused(void **state)
{
    (void)state;
    refused("model_type", "\"qwen3_moe\"", "'model_type' is 'qwen3_moe'");
    refused("text_config.model_type", "\"deepseek_v3\"", "'model_type' is 'deepseek_v3'");
    refused("architectures", "[\"LlamaForCausalLM\"]", "'architectures' is 'LlamaForCausalLM'");
}

static void every_layer_stands_in_exactly_one_list(void **state)
{
    (void)state;
    refused("text_config.linear_attn_config.kda_layers", "[1,2,3,5,6,7,9,10]",
            "name 12 layers, but 'num_hidden_layers' is 13");
    refused("text_config.linear_attn_config.kda_layers", "[1,2,3,5,6,7,9,10,12]", "layer 12 stands twice");
    refused("text_config.linear_attn_config.kda_layers", "[0,2,3,5,6,7,9,10,11]", "names layer 0, wanted 1 to 13");
    refused("text_config.linear_attn_config.full_attn_layers", "[4,8,12,14]", "names layer 14");
    refused("text_config.linear_attn_config.full_attn_layers", "[4,8,12,\"13\"]", "names layer \"13\"");
    refused("text_config.linear_attn_config.full_attn_layers", NULL, "'full_attn_layers'");
    refused("text_config.num_hidden_layers", "4294967295", "'num_hidden_layers' is 4294967295");
    refused("text_config.num_hidden_layers", "0", "'num_hidden_layers' is 0");
}

static void contradictions_are_refused_with_numbers(void **state)
{
    (void)state;
    refused("text_config.num_experts_per_token", "17", "'num_experts_per_token' is 17, but layer 1 has 16 experts");
    refused("text_config.num_experts_per_token", "0", "'num_experts_per_token' is 0");
    refused("text_config.num_key_value_heads", "1", "'num_key_value_heads' is 1, but 'num_attention_heads' is 3");
    refused("text_config.routed_expert_hidden_size", "null", "'latent_moe_use_norm'");
    refused("text_config.moe_layer_freq", "0", "'moe_layer_freq' is 0");
    refused("text_config.hidden_size", "0", "'hidden_size' is 0");
    refused("text_config.hidden_size", "-128", "'hidden_size' is -128");
    refused("text_config.hidden_size", "128.0", "'hidden_size' is 128.0");
    refused("text_config.hidden_size", "4000000000", "'hidden_size' is 4000000000");
    refused("text_config.num_attention_heads", "1000000", "1000000");
    refused("text_config.rms_norm_eps", "0", "'rms_norm_eps' is 0");
    refused("text_config.rms_norm_eps", "\"1e-5\"", "'rms_norm_eps'");
    refused("text_config.activation_situ_beta", "null", "'activation_situ_beta' is 0");
    refused("text_config.routed_scaling_factor", "1e300", "'routed_scaling_factor'");
    refused("text_config.linear_attn_config.gate_lower_bound", "5", "'gate_lower_bound' is 5");
    refused("text_config.linear_attn_config.short_conv_kernel_size", "9",
            "'linear_attn_config.short_conv_kernel_size' is 9");
    refused("text_config.vocab_size", "500", "'pad_token_id' is 511, but 'vocab_size' is 500");
    refused("tie_word_embeddings", "true",
            "'tie_word_embeddings' is true, but 'text_config.tie_word_embeddings' is false");
}

static void expert_counts_may_differ_by_layer(void **state)
{
    struct wn_config c;

    (void)state;
    accepted("text_config.expert_counts", "[0,16,4,5,6,7,8,9,10,11,12,13,14]", &c);
    assert_int_equal(c.layers[0].expert_count, 0);
    assert_int_equal(c.layers[2].expert_count, 4);
    assert_int_equal(c.layers[12].expert_count, 14);
    wn_config_release(&c);
    refused("text_config.expert_counts", "[0,16]", "'expert_counts' has 2 entries, but 'num_hidden_layers' is 13");
    refused("text_config.expert_counts", "[0,15,4,5,6,7,8,9,10,11,12,13,14]",
            "'num_experts' is 16, but the widest layer has 15");
    refused("text_config.expert_counts", "[0,17,4,5,6,7,8,9,10,11,12,13,14]", "layer 1 has 17 experts");
    refused("text_config.expert_counts", "[0,16,3,5,6,7,8,9,10,11,12,13,14]", "layer 2 has 3 experts");
    refused("text_config.expert_counts", "[16,16,4,5,6,7,8,9,10,11,12,13,14]", "layer 0 is dense but has 16");
    refused("text_config.expert_counts", "[0,0,16,5,6,7,8,9,10,11,12,13,14]",
            "layer 1 is a mixture of experts but has none");
}

static void both_banks_of_a_graded_layer_have_experts(void **state)
{
    struct wn_config c;

    (void)state;
    accepted("text_config.expert_bank_split", "[0,4,15,1,0,0,0,0,0,0,0,0,0]", &c);
    assert_int_equal(c.layers[1].low_count, 12);
    assert_int_equal(c.layers[2].low_count, 1);
    assert_int_equal(c.layers[3].low_count, 15);
    assert_int_equal(c.layers[4].low_count, 0);
    wn_config_release(&c);
    refused("text_config.expert_bank_split", "[0,4]",
            "'expert_bank_split' has 2 entries, but 'num_hidden_layers' is 13");
    refused("text_config.expert_bank_split", "[0,16,0,0,0,0,0,0,0,0,0,0,0]",
            "'expert_bank_split' of layer 1 is 16, but the layer has 16 experts");
    refused("text_config.expert_bank_split", "[2,4,0,0,0,0,0,0,0,0,0,0,0]",
            "'expert_bank_split' of layer 0 is 2, but the layer has 0 experts");
    refused("text_config.expert_bank_split", "[0,-1,0,0,0,0,0,0,0,0,0,0,0]", "'expert_bank_split' is -1");
}

static void what_is_no_json_is_refused_with_its_place(void **state)
{
    struct wn_config c;
    struct wn_err err;

    (void)state;
    CHECK_FAILS(wn_config_parse_json("{\n \"a\": }", 9, &c, &err), &err, "line 2");
    CHECK_FAILS(wn_config_parse_json("{\"a\":1,\"a\":2}", 13, &c, &err), &err, "duplicate");
    CHECK_FAILS(wn_config_parse_json("[]", 2, &c, &err), &err, "not a JSON object");
    CHECK_FAILS(wn_config_parse_json("", 0, &c, &err), &err, "config:");
    CHECK_FAILS(wn_config_parse_json("{}", 2, &c, &err), &err, "'model_type'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_wrapped_form_is_read),
        cmocka_unit_test(layer_lists_count_from_one),
        cmocka_unit_test(all_configs_at_hand_are_read),
        cmocka_unit_test(the_flat_form_is_kimi_linear),
        cmocka_unit_test(values_that_are_not_computed_are_refused),
        cmocka_unit_test(one_group_may_be_left_out_or_null),
        cmocka_unit_test(unknown_keys_are_refused_by_name),
        cmocka_unit_test(unknown_models_are_refused),
        cmocka_unit_test(every_layer_stands_in_exactly_one_list),
        cmocka_unit_test(contradictions_are_refused_with_numbers),
        cmocka_unit_test(expert_counts_may_differ_by_layer),
        cmocka_unit_test(both_banks_of_a_graded_layer_have_experts),
        cmocka_unit_test(what_is_no_json_is_refused_with_its_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
