/*
 * Binding: the HF and the GGUF form of the same weights become the same numbers, and a file that is wrong in one place is
 * refused in one sentence.
 */
#include "base/alloc.h"
#include "edited_json.h"
#include "model/weights.h"
#include "quant/quant.h"
#include "rewrite.h"
#include "wn_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TINY_HF   "golden/text/tiny-a/hf"
#define TINY_GGUF "golden/text/tiny-a/gguf/tiny-a-BF16-MXFP4.gguf"
#define L1        "language_model.model.layers.1."

static struct wn_model *opened(const char *path)
{
    struct wn_err err;
    struct wn_model *m = wn_model_open(path, &err);

    if (!m)
        fail_msg("%s", err.msg);
    return m;
}

/* ---- the two forms of one model ---- */

static void same_floats(const char *what, const float *a, const float *b, size_t n)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a && memcmp(a, b, n * sizeof(*a)) != 0)
        fail_msg("'%s' differs", what);
}

/* Every row, decoded; types may differ. */
static void same_matrix(const char *what, const struct wn_matrix *a, const struct wn_matrix *b)
{
    float *x, *y;

    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->cols, b->cols);
    x = calloc(a->cols + 1, sizeof(*x));
    y = calloc(a->cols + 1, sizeof(*y));
    for (uint64_t r = 0; r < a->rows; r++) {
        wn_quant_decode_row(a, r, x);
        wn_quant_decode_row(b, r, y);
        if (memcmp(x, y, a->cols * sizeof(*x)) != 0)
            fail_msg("'%s', row %d differs", what, (int)r);
    }
    free(x);
    free(y);
}

static void same_kda(const struct wn_kda_weights *a, const struct wn_kda_weights *b, const struct wn_config *c)
{
    size_t inner = (size_t)c->kda_heads * c->kda_head_dim;

    same_matrix("q", &a->q, &b->q);
    same_matrix("k", &a->k, &b->k);
    same_matrix("v", &a->v, &b->v);
    same_floats("conv_q", a->conv_q, b->conv_q, inner * c->conv_taps);
    same_floats("conv_k", a->conv_k, b->conv_k, inner * c->conv_taps);
    same_floats("conv_v", a->conv_v, b->conv_v, inner * c->conv_taps);
    same_floats("a", a->a, b->a, c->kda_heads);
    same_floats("dt_bias", a->dt_bias, b->dt_bias, inner);
    same_matrix("f_a", &a->f_a, &b->f_a);
    same_matrix("f_b", &a->f_b, &b->f_b);
    same_matrix("beta", &a->beta, &b->beta);
    same_matrix("g", &a->g, &b->g);
    same_floats("o_norm", a->o_norm, b->o_norm, c->kda_head_dim);
    same_matrix("out", &a->out, &b->out);
}

static void same_mla(const struct wn_mla_weights *a, const struct wn_mla_weights *b, const struct wn_config *c)
{
    same_matrix("q_a", &a->q_a, &b->q_a);
    same_floats("q_a_norm", a->q_a_norm, b->q_a_norm, c->q_lora_rank);
    same_matrix("q_b", &a->q_b, &b->q_b);
    same_matrix("kv_a", &a->kv_a, &b->kv_a);
    same_floats("kv_a_norm", a->kv_a_norm, b->kv_a_norm, c->kv_lora_rank);
    for (uint32_t h = 0; h < c->heads; h++) {
        same_matrix("k_b", &a->k_b[h], &b->k_b[h]);
        same_matrix("v_b", &a->v_b[h], &b->v_b[h]);
        assert_int_equal(a->k_b[h].rows, c->kv_lora_rank);
        assert_int_equal(a->k_b[h].cols, c->qk_nope_dim);
        /* stored alike, not only decoded alike */
        assert_memory_equal(a->k_b[h].data, b->k_b[h].data, a->k_b[h].rows * a->k_b[h].row_bytes);
        assert_memory_equal(a->v_b[h].data, b->v_b[h].data, a->v_b[h].rows * a->v_b[h].row_bytes);
    }
    same_matrix("g", &a->g, &b->g);
    same_matrix("out", &a->out, &b->out);
}

static void same_moe(const struct wn_moe_weights *a, const struct wn_moe_weights *b, const struct wn_config *c)
{
    same_matrix("router", &a->router, &b->router);
    assert_int_equal(a->expert_count, b->expert_count);
    same_floats("router_bias", a->router_bias, b->router_bias, a->expert_count);
    same_matrix("latent_down", &a->latent_down, &b->latent_down);
    same_matrix("latent_up", &a->latent_up, &b->latent_up);
    same_floats("latent_norm", a->latent_norm, b->latent_norm, c->latent_size);
    for (uint32_t e = 0; e < a->expert_count; e++) {
        assert_int_equal(a->experts[e].gate.type, WN_MXFP4_SPLIT);
        assert_int_equal(b->experts[e].gate.type, WN_MXFP4);
        same_matrix("expert gate", &a->experts[e].gate, &b->experts[e].gate);
        same_matrix("expert up", &a->experts[e].up, &b->experts[e].up);
        same_matrix("expert down", &a->experts[e].down, &b->experts[e].down);
    }
    same_matrix("shared gate", &a->shared.gate, &b->shared.gate);
    same_matrix("shared up", &a->shared.up, &b->shared.up);
    same_matrix("shared down", &a->shared.down, &b->shared.down);
}

static void same_layer(const struct wn_layer *a, const struct wn_layer *b, const struct wn_config *c)
{
    assert_int_equal(a->attention, b->attention);
    assert_int_equal(a->moe, b->moe);
    same_floats("attn_norm", a->attn_norm, b->attn_norm, c->hidden_size);
    same_floats("ffn_norm", a->ffn_norm, b->ffn_norm, c->hidden_size);
    same_floats("attn_res_score", a->attn_res_score, b->attn_res_score, c->hidden_size);
    same_floats("ffn_res_score", a->ffn_res_score, b->ffn_res_score, c->hidden_size);
    if (a->attention == WN_ATTENTION_KDA)
        same_kda(&a->kda, &b->kda, c);
    else
        same_mla(&a->mla, &b->mla, c);
    if (a->moe) {
        same_moe(&a->mlp, &b->mlp, c);
        return;
    }
    same_matrix("dense gate", &a->dense.gate, &b->dense.gate);
    same_matrix("dense up", &a->dense.up, &b->dense.up);
    same_matrix("dense down", &a->dense.down, &b->dense.down);
}

static void same_config(const struct wn_config *a, const struct wn_config *b)
{
    struct wn_config x = *a, y = *b;

    assert_memory_equal(a->layers, b->layers, a->layer_count * sizeof(a->layers[0]));
    x.layers = y.layers = NULL;
    /* both start from all zero, so padding is equal too */
    assert_memory_equal(&x, &y, sizeof(x));
}

static void both_forms_bind_to_the_same_numbers(void **state)
{
    struct wn_model *hf = opened(wn_test_need_data(TINY_HF)), *gguf = opened(wn_test_need_data(TINY_GGUF));
    const struct wn_config *c = wn_model_config(hf);
    struct wn_ends a, b;
    struct wn_err err;

    (void)state;
    same_config(c, wn_model_config(gguf));
    for (uint32_t i = 0; i < c->layer_count; i++) {
        struct wn_layer x, y;

        CHECK_OK(wn_layer_bind(hf, i, &x, &err), &err);
        CHECK_OK(wn_layer_bind(gguf, i, &y, &err), &err);
        same_layer(&x, &y, c);
        wn_layer_release(&x);
        wn_layer_release(&y);
    }
    CHECK_OK(wn_ends_bind(hf, &a, &err), &err);
    CHECK_OK(wn_ends_bind(gguf, &b, &err), &err);
    same_matrix("embedding", &a.embedding, &b.embedding);
    same_matrix("head", &a.head, &b.head);
    same_floats("norm", a.norm, b.norm, c->hidden_size);
    same_floats("out_res_score", a.out_res_score, b.out_res_score, c->hidden_size);
    wn_ends_release(&a);
    wn_ends_release(&b);
    wn_model_close(hf);
    wn_model_close(gguf);
}

/* ---- models that bind ---- */

static void binds_whole(const char *path)
{
    struct wn_model *m = opened(path);
    const struct wn_config *c = wn_model_config(m);
    struct wn_ends ends;
    struct wn_err err;

    for (uint32_t i = 0; i < c->layer_count; i++) {
        struct wn_layer layer;

        CHECK_OK(wn_layer_bind(m, i, &layer, &err), &err);
        assert_true(wn_layer_bytes(m, &layer) > 0);
        wn_layer_will_need(m, &layer);
        wn_layer_dont_need(m, &layer);
        wn_layer_release(&layer);
    }
    CHECK_OK(wn_ends_bind(m, &ends, &err), &err);
    wn_ends_release(&ends);
    wn_model_close(m);
}

static void all_models_at_hand_bind(void **state)
{
    static const char *const names[] = {
        "models/k3-mini",
        "golden/text/tiny-b/hf",
        "golden/text/tiny-b/gguf/tiny-b-IQ1_S.gguf",
        "golden/text/tiny-b/gguf/split/tiny-b-IQ1_S-00001-of-00003.gguf",
        "golden/text/tiny-b/gguf/tiny-b-MXFP4_MOE.gguf",
        "golden/text/tiny-b/gguf/tiny-b-Q4_K_M.gguf",
        "golden/text/tiny-b/gguf/tiny-b-Q2_K.gguf",
        "golden/text/tiny-b/gguf/tiny-b-Q8_0.gguf",
        "golden/text/tiny-b/gguf/tiny-b-IQ2_XXS.gguf",
        "golden/text/tiny-b/gguf/tiny-b-BF16-MXFP4.gguf",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *path = wn_test_data(names[i]);

        if (path)
            binds_whole(path);
    }
}

static void a_quantised_k_b_binds_in_its_own_type(void **state)
{
    struct wn_model *m = opened(wn_test_need_data("golden/text/tiny-b/gguf/tiny-b-IQ1_S.gguf"));
    const struct wn_tensor *t = wn_source_find(wn_model_source(m), "blk.2.attn_k_b.weight");
    struct wn_layer layer;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_layer_bind(m, 2, &layer, &err), &err);
    assert_int_equal(layer.mla.k_b[0].type, WN_IQ4_NL);
    assert_int_equal(layer.mla.k_b[0].cols, 128);
    assert_int_equal(layer.mla.k_b[0].rows, 256);
    assert_ptr_equal(layer.mla.k_b[1].data, wn_source_view(wn_model_source(m), t, &err) + t->bytes / 2);
    wn_layer_release(&layer);
    wn_model_close(m);
}

static void layer_bytes_are_mapped_and_owned_together(void **state)
{
    struct wn_model *m = opened(wn_test_need_data(TINY_HF));
    const struct wn_source *s = wn_model_source(m);
    struct wn_layer layer;
    struct wn_err err;
    uint64_t mapped = 0;

    (void)state;
    CHECK_OK(wn_layer_bind(m, 1, &layer, &err), &err);
    for (size_t i = 0; i < wn_source_tensor_count(s); i++)
        if (strncmp(wn_source_tensor_at(s, i)->name, L1, strlen(L1)) == 0)
            mapped += wn_source_tensor_at(s, i)->bytes;
    assert_true(wn_layer_bytes(m, &layer) > mapped);
    assert_true(wn_layer_bytes(m, &layer) < mapped + 65536);
    wn_layer_release(&layer);
    wn_model_close(m);
}

/* ---- files that are wrong in one place ---- */

static char *tiny_config(void)
{
    size_t n;

    return file_text(wn_test_path(wn_test_need_data(TINY_HF), "config.json"), &n);
}

/* Opening or binding some layer must fail with that sentence. */
static void bind_refused(const char *path, const char *part)
{
    struct wn_err err = {0};
    struct wn_model *m = wn_model_open(path, &err);
    bool ok = m != NULL;

    for (uint32_t i = 0; ok && i < wn_model_config(m)->layer_count; i++) {
        struct wn_layer layer;

        ok = wn_layer_bind(m, i, &layer, &err);
        if (ok)
            wn_layer_release(&layer);
        else
            assert_null(layer.owned);
    }
    if (ok) {
        struct wn_ends ends;

        ok = wn_ends_bind(m, &ends, &err);
        if (ok)
            wn_ends_release(&ends);
    }
    wn_model_close(m);
    CHECK_FAILS(ok, &err, part);
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

/* ---- other shapes than K3's ---- */

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
    assert_int_equal(mla.mlp.expert_count, 1);
    assert_int_equal(mla.mlp.experts[0].down.type, WN_BF16);
    assert_int_equal(mla.mlp.experts[0].gate.cols, 64);
    assert_int_equal(mla.mlp.latent_down.rows, 0);
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
    assert_int_equal(layer.mlp.experts[2].gate.type, WN_Q8_0);
    assert_int_equal(layer.mlp.experts[2].up.type, WN_Q4_0);
    assert_int_equal(layer.mlp.experts[2].down.type, WN_BF16);
    assert_int_equal(layer.mlp.experts[2].up.data - layer.mlp.experts[1].up.data, 32 * 64 / 32 * 18);
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
    /* of a key that is there twice the later one counts */
    keys[N_KEYS] = (struct wn_gguf_kv)U32("expert_used_count", "\x04");
    bind_refused(written_gguf(kimi_linear_gguf, N_GGUF, keys, N_KEYS + 1),
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

/* ---- memory and full size ---- */

static void every_refused_allocation_is_an_error_and_leaks_nothing(void **state)
{
    static const char *const names[] = {TINY_HF, "golden/text/tiny-b/gguf/tiny-b-IQ1_S.gguf"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const char *path = wn_test_need_data(names[i]);
        bool ok = false;

        /* steps widen, as most allocations are alike; jansson's are its own */
        for (long n = 0; !ok; n += 1 + n / 16) {
            struct wn_layer layer;
            struct wn_err err = {0};
            struct wn_model *m;

            wn_alloc_fail_after(n);
            m = wn_model_open(path, &err);
            ok = m && wn_layer_bind(m, 2, &layer, &err);
            wn_alloc_fail_after(-1);
            if (!ok)
                assert_int_equal(err.code, WN_ERR_NOMEM);
            else
                wn_layer_release(&layer);
            wn_model_close(m);
        }
    }
}

static void full_size_models_bind(void **state)
{
    static const char *const names[] = {"hf", "gguf/Kimi-K3-UD-IQ1_S-00001-of-00014.gguf"};
    static const uint32_t layers[] = {0, 1, 3, 92};
    const char *root = getenv("WINNOW_SPARSE");

    (void)state;
    if (!root) {
        print_message("skipped: WINNOW_SPARSE names no folder with full-size sparse models\n");
        skip();
    }
    for (size_t k = 0; k < 2; k++) {
        struct wn_model *m = opened(wn_test_path(root, names[k]));
        struct wn_ends ends;
        struct wn_err err;

        for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {
            struct wn_layer layer;

            CHECK_OK(wn_layer_bind(m, layers[i], &layer, &err), &err);
            assert_int_equal(layer.mlp.expert_count, layers[i] ? 896 : 0);
            wn_layer_release(&layer);
        }
        CHECK_OK(wn_ends_bind(m, &ends, &err), &err);
        wn_ends_release(&ends);
        wn_model_close(m);
    }
}

/* ---- the vocabulary ---- */

static void both_forms_bring_the_same_vocabulary(void **state)
{
    static const char text[] = "def f(x): return x + 1  # h\xc3\xa9";
    struct wn_model *hf = opened(wn_test_need_data(TINY_HF)), *gguf = opened(wn_test_need_data(TINY_GGUF));
    struct wn_err err;
    const struct wn_vocab *a = wn_model_vocab(hf, &err), *b;
    uint32_t *x, *y;
    size_t n, k;

    (void)state;
    CHECK_OK(a != NULL, &err);
    b = wn_model_vocab(gguf, &err);
    CHECK_OK(b != NULL, &err);
    assert_int_equal(wn_vocab_count(a), wn_vocab_count(b));
    CHECK_OK(wn_vocab_encode(a, text, sizeof(text) - 1, false, &x, &n, &err), &err);
    CHECK_OK(wn_vocab_encode(b, text, sizeof(text) - 1, false, &y, &k, &err), &err);
    assert_int_equal(n, k);
    assert_memory_equal(x, y, n * sizeof(*x));
    assert_null(wn_model_warning(hf));
    assert_null(wn_model_warning(gguf));
    free(x);
    free(y);
    wn_model_close(hf);
    wn_model_close(gguf);
}

static void an_end_token_that_ends_no_message_is_reported(void **state)
{
    const char *path =
        rewritten_gguf(wn_test_need_data(TINY_GGUF), NULL, 0, "tokenizer.ggml.eos_token_id", "\xe1\x01\0\0");
    struct wn_model *m = opened(path);
    struct wn_err err;
    uint32_t id;

    (void)state;
    assert_int_equal(wn_model_config(m)->eos_id, 481);
    assert_non_null(wn_model_vocab(m, &err));
    if (wn_vocab_special(wn_model_vocab(m, &err), "<|end_of_msg|>", &id))
        assert_true(wn_test_contains(wn_model_warning(m), "token 481, but '<|end_of_msg|>' is 482"));
    wn_model_close(m);
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
        cmocka_unit_test(both_forms_bind_to_the_same_numbers),
        cmocka_unit_test(all_models_at_hand_bind),
        cmocka_unit_test(a_quantised_k_b_binds_in_its_own_type),
        cmocka_unit_test(layer_bytes_are_mapped_and_owned_together),
        cmocka_unit_test(an_untouched_copy_binds),
        cmocka_unit_test(a_missing_tensor_is_named),
        cmocka_unit_test(a_wrong_shape_is_named_with_both),
        cmocka_unit_test(a_wrong_type_is_named),
        cmocka_unit_test(a_tensor_without_a_place_is_refused),
        cmocka_unit_test(padding_of_a_log_is_ignored_and_must_be_zero),
        cmocka_unit_test(a_decay_of_the_wrong_sign_is_refused),
        cmocka_unit_test(gguf_keys_that_contradict_the_tensors_are_refused),
        cmocka_unit_test(gguf_layers_may_keep_different_numbers_of_experts),
        cmocka_unit_test(kimi_linear_binds_with_one_plain_expert),
        cmocka_unit_test(kimi_linear_binds_from_gguf_with_experts_of_three_types),
        cmocka_unit_test(an_unknown_gguf_key_of_the_architecture_is_refused),
        cmocka_unit_test(tied_embeddings_make_the_head),
        cmocka_unit_test(every_refused_allocation_is_an_error_and_leaks_nothing),
        cmocka_unit_test(full_size_models_bind),
        cmocka_unit_test(both_forms_bring_the_same_vocabulary),
        cmocka_unit_test(an_end_token_that_ends_no_message_is_reported),
        cmocka_unit_test(a_model_without_vocabulary_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
