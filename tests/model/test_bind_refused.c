/* A file that is wrong in one place is refused in one sentence; its untouched copy binds. */
#include "binding.h"
#include "edited_json.h"
#include "rewrite.h"
#include "wn_test.h"

#include <math.h>
#include <stdlib.h>

#define L1 "language_model.model.layers.1."

static char *tiny_config(void)
{
    size_t n;

    return file_text(wn_test_path(wn_test_need_data(TINY_HF), "config.json"), &n);
}

static void hf_refused(struct edit e, const char *part)
{
    char *config = tiny_config();

    bind_refused(rewritten_hf(wn_test_need_data(TINY_HF), &e, 1, config), part);
    free(config);
}

static void an_untouched_copy_binds(void **state)
{
    char *config = tiny_config();

    (void)state;
    binds_whole(rewritten_hf(wn_test_need_data(TINY_HF), NULL, 0, config));
    binds_whole(rewritten_gguf(wn_test_need_data(TINY_GGUF), NULL, 0, NULL, NULL));
    free(config);
}

/* config: one key of the tiny one's changed. */
static void config_refused(const char *config, const char *path, const char *value, const char *part)
{
    char *edited = edited_json(config, path, value);

    bind_refused(rewritten_hf(wn_test_need_data(TINY_HF), NULL, 0, edited), part);
    free(edited);
}

static void mlx_keys_with_hf_names_are_refused(void **state)
{
    char *config = tiny_config(), *bare = edited_json(config, "text_config.quantization_config", NULL);

    (void)state;
    config_refused(bare, "quantization", "{\"bits\":4,\"group_size\":32,\"mode\":\"mxfp4\"}",
                   "'quantization' says that this is an MLX folder, but its tensors have HF's names");
    config_refused(config, "text_config.expert_bank_split", "[0,4,4,4,4,4,4,4,4,4,4,4,4]",
                   "'expert_bank_split' is for MLX folders, but the tensors have HF's names");
    free(bare);
    free(config);
}

static void a_missing_tensor_is_named(void **state)
{
    (void)state;
    hf_refused((struct edit){.name = L1 "self_attn.dt_bias", .drop = true},
               "tensor '" L1 "self_attn.dt_bias' is missing");
    hf_refused((struct edit){.name = L1 "block_sparse_moe.experts.15.w2.weight_scale", .drop = true},
               "experts.15.w2.weight_scale' is missing");
    hf_refused((struct edit){.name = L1 "block_sparse_moe.experts.0.w1.weight_packed", .drop = true},
               "experts.0.w1.weight_packed' is missing");
    hf_refused((struct edit){.name = L1 "mlp_res_proj.weight", .drop = true}, "mlp_res_proj.weight' is missing");
    hf_refused((struct edit){.name = "language_model.lm_head.weight", .drop = true}, "lm_head.weight' is missing");
    hf_refused((struct edit){.name = "language_model.model.embed_tokens.weight", .drop = true}, "embed_tokens.weight");
}

static void a_wrong_shape_is_named_with_both(void **state)
{
    (void)state;
    hf_refused(
        (struct edit){
            .name = L1 "self_attn.q_proj.weight", .replace = true, .type = WN_BF16, .dims = 2, .shape = {128, 96}},
        "self_attn.q_proj.weight' is [128, 96], wanted [96, 128]");
    hf_refused(
        (struct edit){
            .name = L1 "self_attn.k_conv1d.weight", .replace = true, .type = WN_F32, .dims = 3, .shape = {96, 1, 3}},
        "k_conv1d.weight' is [96, 1, 3], wanted [96, 4]");
    hf_refused(
        (struct edit){
            .name = L1 "block_sparse_moe.gate.weight", .replace = true, .type = WN_BF16, .dims = 2, .shape = {15, 128}},
        "gate.weight' is [15, 128], wanted [16, 128]");
    hf_refused((struct edit){.name = L1 "block_sparse_moe.experts.3.w1.weight_scale",
                             .replace = true,
                             .type = WN_U8,
                             .dims = 2,
                             .shape = {64, 2}},
               "experts.3.w1.weight_scale' is [64, 2], wanted [64, 3]");
}

static void a_wrong_type_is_named(void **state)
{
    (void)state;
    hf_refused(
        (struct edit){
            .name = L1 "self_attn.q_proj.weight", .replace = true, .type = WN_U8, .dims = 2, .shape = {96, 128}},
        "q_proj.weight' is of type U8");
    hf_refused((struct edit){.name = L1 "block_sparse_moe.experts.3.w1.weight_packed",
                             .replace = true,
                             .type = WN_BF16,
                             .dims = 2,
                             .shape = {64, 48}},
               "experts.3.w1.weight_packed' is of type BF16, wanted U8");
}

static void a_tensor_without_a_place_is_refused(void **state)
{
    (void)state;
    hf_refused((struct edit){.name = L1 "self_attn.q_bias", .type = WN_F32, .dims = 1, .shape = {96}},
               "q_bias' is none of this model's");
    /* known by name, but layer 1 is a KDA layer */
    hf_refused((struct edit){.name = L1 "self_attn.kv_b_proj.weight", .type = WN_F32, .dims = 2, .shape = {2, 2}},
               "kv_b_proj.weight' has no place in layer 1 (KDA, mixture of experts)");
    hf_refused(
        (struct edit){
            .name = "language_model.model.layers.13.input_layernorm.weight", .type = WN_F32, .dims = 1, .shape = {128}},
        "the config has 13 layers only");
    hf_refused(
        (struct edit){
            .name = L1 "block_sparse_moe.experts.16.w1.weight_packed", .type = WN_U8, .dims = 2, .shape = {64, 48}},
        "layer 1 should have 16 experts only");
}

/* Values are read per head; whatever padding says, a longer A_log never becomes a per-channel one. */
static void padding_of_a_log_is_ignored_and_must_be_zero(void **state)
{
    float log[128] = {-1.0f, 0.5f, 2.0f};
    struct edit e = {
        .name = L1 "self_attn.A_log", .replace = true, .type = WN_F32, .dims = 1, .shape = {128}, .bytes = log};
    char *config = tiny_config();
    struct wn_model *m = opened(rewritten_hf(wn_test_need_data(TINY_HF), &e, 1, config));
    struct wn_layer layer;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_layer_bind(m, 1, &layer, &err), &err);
    assert_true(layer.kda.a[0] == 0x1.78b564p-2f && layer.kda.a[1] == 0x1.a61298p+0f &&
                layer.kda.a[2] == 0x1.d8e64cp+2f);
    wn_layer_release(&layer);
    wn_model_close(m);
    free(config);

    log[3] = 0.25f;
    hf_refused(e, "entry 3 is 0.25 where padding must be 0");
    log[0] = NAN;
    hf_refused(e, "entry 3");
    log[3] = 0;
    hf_refused(e, "entry 0 is nan, wanted -100 to 88");
    e.shape[0] = 2;
    hf_refused(e, "has 2 entries, wanted one for each of 3 heads");
}

static void a_decay_of_the_wrong_sign_is_refused(void **state)
{
    const float positive[3] = {0.1f, 0.2f, 0.3f};
    struct edit e = {
        .name = "blk.1.ssm_a", .replace = true, .type = WN_F32, .dims = 1, .shape = {3}, .bytes = positive};

    (void)state;
    bind_refused(rewritten_gguf(wn_test_need_data(TINY_GGUF), &e, 1, NULL, NULL), "wanted -exp(A_log)");
}

static void gguf_keys_that_contradict_the_tensors_are_refused(void **state)
{
    const char *path = wn_test_need_data(TINY_GGUF);

    (void)state;
    bind_refused(rewritten_gguf(path, NULL, 0, "kimi-k3.expert_count", "\x11\0\0\0"), "'num_experts' is 17");
    bind_refused(rewritten_gguf(path, NULL, 0, "kimi-k3.expert_count", "\x0f\0\0\0"), "'kimi-k3.expert_count' is 15");
    bind_refused(rewritten_gguf(path, NULL, 0, "kimi-k3.block_count", "\x0c\0\0\0"),
                 "has 13 entries, but 'block_count' is 12");
    bind_refused(rewritten_gguf(path, NULL, 0, "kimi-k3.expert_gating_func", "\x01\0\0\0"),
                 "expert_gating_func' is 1, wanted 2");
    bind_refused(rewritten_gguf(path, NULL, 0, "kimi-k3.attention.key_length", "\x51\0\0\0"),
                 "key_length' is 81, wanted 80");
    /* a sum of 16 beyond 32 bits */
    bind_refused(rewritten_gguf(path, NULL, 0, "kimi-k3.attention.kv_lora_rank", "\xff\xff\xff\xff"),
                 "key_length' is 80, wanted 4294967311");
    bind_refused(rewritten_gguf(path, NULL, 0, "kimi-k3.kda.head_dim", "\x40\0\0\0"), "wanted [192, 128]");
    bind_refused(rewritten_gguf(path, NULL, 0, "general.architecture", "\x07\0\0\0\0\0\0\0qwen-k3"),
                 "architecture 'qwen-k3' is not computed");
}

static void gguf_layers_may_keep_different_numbers_of_experts(void **state)
{
    const struct edit fewer[] = {
        {.name = "blk.2.ffn_gate_inp.weight", .replace = true, .type = WN_F32, .dims = 2, .shape = {9, 128}},
        {.name = "blk.2.exp_probs_b.bias", .replace = true, .type = WN_F32, .dims = 1, .shape = {9}},
        {.name = "blk.2.ffn_gate_exps.weight", .replace = true, .type = WN_MXFP4, .dims = 3, .shape = {9, 64, 96}},
        {.name = "blk.2.ffn_up_exps.weight", .replace = true, .type = WN_MXFP4, .dims = 3, .shape = {9, 64, 96}},
        {.name = "blk.2.ffn_down_exps.weight", .replace = true, .type = WN_MXFP4, .dims = 3, .shape = {9, 96, 64}},
    };
    const char *path = rewritten_gguf(wn_test_need_data(TINY_GGUF), fewer, 5, NULL, NULL);
    struct wn_model *m = opened(path);

    (void)state;
    assert_int_equal(wn_model_config(m)->layers[2].expert_count, 9);
    assert_int_equal(wn_model_config(m)->layers[3].expert_count, 16);
    assert_int_equal(wn_model_config(m)->expert_count, 16);
    wn_model_close(m);
    binds_whole(path);
    /* a router cut without its experts */
    bind_refused(rewritten_gguf(wn_test_need_data(TINY_GGUF), fewer, 2, NULL, NULL),
                 "ffn_gate_exps.weight' is [16, 64, 96], wanted [9, 64, 96]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_untouched_copy_binds),
        cmocka_unit_test(mlx_keys_with_hf_names_are_refused),
        cmocka_unit_test(a_missing_tensor_is_named),
        cmocka_unit_test(a_wrong_shape_is_named_with_both),
        cmocka_unit_test(a_wrong_type_is_named),
        cmocka_unit_test(a_tensor_without_a_place_is_refused),
        cmocka_unit_test(padding_of_a_log_is_ignored_and_must_be_zero),
        cmocka_unit_test(a_decay_of_the_wrong_sign_is_refused),
        cmocka_unit_test(gguf_keys_that_contradict_the_tensors_are_refused),
        cmocka_unit_test(gguf_layers_may_keep_different_numbers_of_experts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
