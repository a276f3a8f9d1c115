/* Other shapes than K3's: Kimi-Linear from both containers, tied embeddings, plain experts, one expert. */
#include "binding.h"
#include "edited_json.h"
#include "rewrite.h"
#include "wn_test.h"

#include <stdlib.h>
#include <string.h>

static const char kimi_linear[] =
    "{\"model_type\":\"kimi_linear\",\"hidden_act\":\"silu\",\"hidden_size\":64,\"intermediate_size\":96,"
    "\"kv_lora_rank\":32,\"linear_attn_config\":{\"full_attn_layers\":[2],\"kda_layers\":[1],\"head_dim\":16,"
    "\"num_heads\":2,\"short_conv_kernel_size\":4},\"mla_use_nope\":true,\"model_max_length\":1024,"
    "\"moe_intermediate_size\":32,\"first_k_dense_replace\":1,\"num_attention_heads\":2,\"num_experts\":1,"
    "\"num_experts_per_token\":1,\"num_hidden_layers\":2,\"num_shared_experts\":1,\"q_lora_rank\":null,"
    "\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":8,\"rms_norm_eps\":1e-05,\"v_head_dim\":16,\"vocab_size\":64}";

#define M(tensor, rows, cols)                                                                                          \
    {                                                                                                                  \
        .name = tensor, .type = WN_BF16, .dims = 2, .shape = { rows, cols }                                            \
    }
#define V(tensor, n)                                                                                                   \
    {                                                                                                                  \
        .name = tensor, .type = WN_F32, .dims = 1, .shape = { n }                                                      \
    }
#define CONV(tensor)                                                                                                   \
    {                                                                                                                  \
        .name = tensor, .type = WN_BF16, .dims = 3, .shape = { 32, 1, 4 }                                              \
    }
#define K0 "model.layers.0."
#define K1 "model.layers.1."

/* One KDA layer with a dense part, one MLA layer with a single expert, all in plain weights. */
static const struct edit kimi_linear_tensors[] = {
    M("model.embed_tokens.weight", 64, 64),
    M("lm_head.weight", 64, 64),
    V("model.norm.weight", 64),
    V(K0 "input_layernorm.weight", 64),
    V(K0 "post_attention_layernorm.weight", 64),
    M(K0 "self_attn.q_proj.weight", 32, 64),
    M(K0 "self_attn.k_proj.weight", 32, 64),
    M(K0 "self_attn.v_proj.weight", 32, 64),
    CONV(K0 "self_attn.q_conv1d.weight"),
    CONV(K0 "self_attn.k_conv1d.weight"),
    CONV(K0 "self_attn.v_conv1d.weight"),
    {.name = K0 "self_attn.A_log", .type = WN_F32, .dims = 4, .shape = {1, 1, 2, 1}},
    V(K0 "self_attn.dt_bias", 32),
    M(K0 "self_attn.f_a_proj.weight", 16, 64),
    M(K0 "self_attn.f_b_proj.weight", 32, 16),
    M(K0 "self_attn.b_proj.weight", 2, 64),
    M(K0 "self_attn.g_a_proj.weight", 16, 64),
    M(K0 "self_attn.g_b_proj.weight", 32, 16),
    V(K0 "self_attn.o_norm.weight", 16),
    M(K0 "self_attn.o_proj.weight", 64, 32),
    M(K0 "mlp.gate_proj.weight", 96, 64),
    M(K0 "mlp.up_proj.weight", 96, 64),
    M(K0 "mlp.down_proj.weight", 64, 96),
    V(K1 "input_layernorm.weight", 64),
    V(K1 "post_attention_layernorm.weight", 64),
    M(K1 "self_attn.q_proj.weight", 48, 64),
    M(K1 "self_attn.kv_a_proj_with_mqa.weight", 40, 64),
    V(K1 "self_attn.kv_a_layernorm.weight", 32),
    M(K1 "self_attn.kv_b_proj.weight", 64, 32),
    M(K1 "self_attn.o_proj.weight", 64, 32),
    M(K1 "block_sparse_moe.gate.weight", 1, 64),
    V(K1 "block_sparse_moe.gate.e_score_correction_bias", 1),
    M(K1 "block_sparse_moe.experts.0.w1.weight", 32, 64),
    M(K1 "block_sparse_moe.experts.0.w3.weight", 32, 64),
    M(K1 "block_sparse_moe.experts.0.w2.weight", 64, 32),
    M(K1 "block_sparse_moe.shared_experts.gate_proj.weight", 32, 64),
    M(K1 "block_sparse_moe.shared_experts.up_proj.weight", 32, 64),
    M(K1 "block_sparse_moe.shared_experts.down_proj.weight", 64, 32),
};

#define N_LINEAR (sizeof(kimi_linear_tensors) / sizeof(kimi_linear_tensors[0]))

static void kimi_linear_binds_with_one_plain_expert(void **state)
{
    const char *folder = rewritten_hf(NULL, kimi_linear_tensors, N_LINEAR, kimi_linear);
    struct wn_model *m = opened(folder);
    struct wn_layer kda, mla;
    struct wn_ends ends;
    struct wn_err err;

    (void)state;
    assert_string_equal(wn_model_config(m)->architecture, "kimi-linear");
    CHECK_OK(wn_layer_bind(m, 0, &kda, &err), &err);
    assert_null(kda.attn_res_score);
    assert_int_equal(kda.kda.g.rows, 0);
    assert_int_equal(kda.kda.g_b.rows, 32);
    assert_true(kda.kda.a[1] == 1.0f);
    CHECK_OK(wn_layer_bind(m, 1, &mla, &err), &err);
    assert_int_equal(mla.mla.q.rows, 48);
    assert_int_equal(mla.mla.q_a.rows, 0);
    assert_int_equal(mla.mla.g.rows, 0);
    assert_int_equal(mla.mixture.expert_count, 1);
    assert_int_equal(mla.mixture.experts[0].down.type, WN_BF16);
    assert_int_equal(mla.mixture.experts[0].gate.cols, 64);
    assert_int_equal(mla.mixture.latent_down.rows, 0);
    CHECK_OK(wn_ends_bind(m, &ends, &err), &err);
    assert_null(ends.out_res_score);
    wn_ends_release(&ends);
    wn_layer_release(&kda);
    wn_layer_release(&mla);
    wn_model_close(m);
}

/* The same model as llama.cpp's kimi-linear has it: A and conv with a dimension of one more, k_b and v_b apart. */
#define B0 "blk.0."
#define B1 "blk.1."

static const float decay[2] = {-1.0f, -0.5f};
static const struct edit kimi_linear_gguf[] = {
    M("token_embd.weight", 64, 64),
    M("output.weight", 64, 64),
    V("output_norm.weight", 64),
    V(B0 "attn_norm.weight", 64),
    V(B0 "ffn_norm.weight", 64),
    M(B0 "attn_q.weight", 32, 64),
    M(B0 "attn_k.weight", 32, 64),
    M(B0 "attn_v.weight", 32, 64),
    CONV(B0 "ssm_conv1d_q.weight"),
    CONV(B0 "ssm_conv1d_k.weight"),
    CONV(B0 "ssm_conv1d_v.weight"),
    {.name = B0 "ssm_a", .type = WN_F32, .dims = 2, .shape = {2, 1}, .bytes = decay},
    V(B0 "ssm_dt.bias", 32),
    M(B0 "ssm_f_a.weight", 16, 64),
    M(B0 "ssm_f_b.weight", 32, 16),
    M(B0 "ssm_beta.weight", 2, 64),
    M(B0 "ssm_g_a.weight", 16, 64),
    M(B0 "ssm_g_b.weight", 32, 16),
    V(B0 "ssm_norm.weight", 16),
    M(B0 "attn_output.weight", 64, 32),
    M(B0 "ffn_gate.weight", 96, 64),
    M(B0 "ffn_up.weight", 96, 64),
    M(B0 "ffn_down.weight", 64, 96),
    V(B1 "attn_norm.weight", 64),
    V(B1 "ffn_norm.weight", 64),
    M(B1 "attn_q.weight", 48, 64),
    M(B1 "attn_kv_a_mqa.weight", 40, 64),
    V(B1 "attn_kv_a_norm.weight", 32),
    {.name = B1 "attn_k_b.weight", .type = WN_BF16, .dims = 3, .shape = {2, 32, 16}},
    {.name = B1 "attn_v_b.weight", .type = WN_BF16, .dims = 3, .shape = {2, 16, 32}},
    M(B1 "attn_output.weight", 64, 32),
    M(B1 "ffn_gate_inp.weight", 3, 64),
    V(B1 "exp_probs_b.bias", 3),
    {.name = B1 "ffn_gate_exps.weight", .type = WN_Q8_0, .dims = 3, .shape = {3, 32, 64}},
    {.name = B1 "ffn_up_exps.weight", .type = WN_Q4_0, .dims = 3, .shape = {3, 32, 64}},
    {.name = B1 "ffn_down_exps.weight", .type = WN_BF16, .dims = 3, .shape = {3, 64, 32}},
    M(B1 "ffn_gate_shexp.weight", 32, 64),
    M(B1 "ffn_up_shexp.weight", 32, 64),
    M(B1 "ffn_down_shexp.weight", 64, 32),
};

#define RECORD(name, kind, bytes)                                                                                      \
    {                                                                                                                  \
        .key = {name, sizeof(name) - 1}, .type = kind, .count = 1, .value = { bytes, sizeof(bytes) - 1 }               \
    }
#define U32(name, byte) RECORD("kimi-linear." name, WN_GGUF_U32, byte "\0\0\0")

static const struct wn_gguf_kv kimi_linear_keys[] = {
    RECORD("general.architecture", WN_GGUF_STRING, "\x0b\0\0\0\0\0\0\0kimi-linear"),
    U32("block_count", "\x02"),
    RECORD("kimi-linear.context_length", WN_GGUF_U32, "\0\x04\0\0"),
    U32("embedding_length", "\x40"),
    U32("feed_forward_length", "\x60"),
    U32("vocab_size", "\x40"),
    U32("attention.head_count", "\x02"),
    {.key = {"kimi-linear.attention.head_count_kv", 35},
     .type = WN_GGUF_ARRAY,
     .element = WN_GGUF_I32,
     .count = 2,
     .value = {"\0\0\0\0\1\0\0", 8}},
    RECORD("kimi-linear.attention.layer_norm_rms_epsilon", WN_GGUF_F32, "\xac\xc5\x27\x37"),
    U32("attention.kv_lora_rank", "\x20"),
    U32("attention.key_length_mla", "\x18"),
    U32("attention.value_length_mla", "\x10"),
    U32("rope.dimension_count", "\x08"),
    U32("ssm.conv_kernel", "\x04"),
    U32("kda.head_dim", "\x10"),
    U32("expert_count", "\x03"),
    U32("expert_used_count", "\x02"),
    U32("expert_shared_count", "\x01"),
    U32("expert_feed_forward_length", "\x20"),
    U32("expert_gating_func", "\x02"),
    U32("leading_dense_block_count", "\x01"),
    RECORD("kimi-linear.expert_weights_norm", WN_GGUF_BOOL, "\1"),
};

#define N_GGUF (sizeof(kimi_linear_gguf) / sizeof(kimi_linear_gguf[0]))
#define N_KEYS (sizeof(kimi_linear_keys) / sizeof(kimi_linear_keys[0]))

static void kimi_linear_binds_from_gguf_with_experts_of_three_types(void **state)
{
    struct wn_model *m = opened(written_gguf(kimi_linear_gguf, N_GGUF, kimi_linear_keys, N_KEYS));
    const struct wn_config *c = wn_model_config(m);
    struct wn_layer layer;
    struct wn_err err;

    (void)state;
    assert_string_equal(c->architecture, "kimi-linear");
    assert_int_equal(c->activation, WN_ACTIVATION_SILU);
    assert_false(c->kda_lower_bound || c->kda_full_rank_gate || c->mla_output_gate || c->latent_norm);
    assert_true(c->renormalize && c->rms_norm_eps == 1e-5f && c->eos_id == -1);
    CHECK_OK(wn_layer_bind(m, 0, &layer, &err), &err);
    assert_true(layer.kda.a[0] == 1.0f && layer.kda.a[1] == 0.5f);
    assert_int_equal(layer.kda.g_a.rows, 16);
    wn_layer_release(&layer);
    CHECK_OK(wn_layer_bind(m, 1, &layer, &err), &err);
    assert_int_equal(layer.mixture.experts[2].gate.type, WN_Q8_0);
    assert_int_equal(layer.mixture.experts[2].up.type, WN_Q4_0);
    assert_int_equal(layer.mixture.experts[2].down.type, WN_BF16);
    assert_int_equal(layer.mixture.experts[2].up.data - layer.mixture.experts[1].up.data, 32 * 64 / 32 * 18);
    wn_layer_release(&layer);
    wn_model_close(m);
}

static void an_unknown_gguf_key_of_the_architecture_is_refused(void **state)
{
    struct wn_gguf_kv keys[N_KEYS + 1];

    (void)state;
    memcpy(keys, kimi_linear_keys, sizeof(kimi_linear_keys));
    keys[N_KEYS] = (struct wn_gguf_kv)U32("attention.sliding_window", "\x80");
    bind_refused(written_gguf(kimi_linear_gguf, N_GGUF, keys, N_KEYS + 1),
                 "'kimi-linear.attention.sliding_window' is unknown");
    for (size_t i = 0; i < N_KEYS; i++)
        if (wn_bytes_is(keys[i].key, "kimi-linear.expert_used_count"))
            keys[i] = (struct wn_gguf_kv)U32("expert_used_count", "\x04");
    bind_refused(written_gguf(kimi_linear_gguf, N_GGUF, keys, N_KEYS),
                 "'num_experts_per_token' is 4, but layer 1 has 3 experts");
    bind_refused(written_gguf(kimi_linear_gguf, N_GGUF, keys, 4), "'kimi-linear.feed_forward_length' is missing");
}

static void tied_embeddings_make_the_head(void **state)
{
    char *config = edited_json(kimi_linear, "tie_word_embeddings", "true");
    struct edit edits[N_LINEAR];
    struct wn_model *m;
    struct wn_ends ends;
    struct wn_err err;

    (void)state;
    memcpy(edits, kimi_linear_tensors, sizeof(edits));
    edits[1] = edits[N_LINEAR - 1]; /* no lm_head */
    m = opened(rewritten_hf(NULL, edits, N_LINEAR - 1, config));
    CHECK_OK(wn_ends_bind(m, &ends, &err), &err);
    assert_ptr_equal(ends.head.data, ends.embedding.data);
    wn_ends_release(&ends);
    wn_model_close(m);
    bind_refused(rewritten_hf(NULL, kimi_linear_tensors, N_LINEAR, config), "tensor 'lm_head.weight' has no place");
    free(config);
}

static void a_model_without_vocabulary_says_so(void **state)
{
    struct wn_model *m = opened(rewritten_hf(NULL, kimi_linear_tensors, N_LINEAR, kimi_linear));
    struct wn_err err;

    (void)state;
    CHECK_FAILS(wn_model_vocab(m, &err) != NULL, &err, "tiktoken.model");
    wn_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kimi_linear_binds_with_one_plain_expert),
        cmocka_unit_test(kimi_linear_binds_from_gguf_with_experts_of_three_types),
        cmocka_unit_test(an_unknown_gguf_key_of_the_architecture_is_refused),
        cmocka_unit_test(tied_embeddings_make_the_head),
        cmocka_unit_test(a_model_without_vocabulary_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
