/*
 * Binding: the HF and the GGUF form of the same weights become the same numbers and bring the same vocabulary; models
 * of all types at hand, and of full size, bind.
 */
#include "base/alloc.h"
#include "binding.h"
#include "quant/quant.h"
#include "rewrite.h"
#include "wn_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define L1 "language_model.model.layers.1."

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
        same_moe(&a->mixture, &b->mixture, c);
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

static void one_changed_bit_shows(void **state)
{
    struct wn_model *hf = opened(wn_test_need_data(TINY_HF)), *changed;
    struct wn_layer x, y;
    struct wn_err err;
    float decay[3];
    struct edit e = {.name = "blk.1.ssm_a", .replace = true, .type = WN_F32, .dims = 1, .shape = {3}, .bytes = decay};

    (void)state;
    CHECK_OK(wn_layer_bind(hf, 1, &x, &err), &err);
    for (int h = 0; h < 3; h++)
        decay[h] = -x.kda.a[h];
    decay[2] = nextafterf(decay[2], 0);
    changed = opened(rewritten_gguf(wn_test_need_data(TINY_GGUF), &e, 1, NULL, NULL));
    CHECK_OK(wn_layer_bind(changed, 1, &y, &err), &err);
    assert_memory_equal(x.kda.a, y.kda.a, 2 * sizeof(float));
    assert_memory_not_equal(x.kda.a, y.kda.a, 3 * sizeof(float));
    wn_layer_release(&x);
    wn_layer_release(&y);
    wn_model_close(hf);
    wn_model_close(changed);
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

/* Whatever the matrices were made of, what steers the recurrence is the full-precision file's, bit by bit, and f32. */
static void convolutions_and_decay_of_kda_stay_in_f32_in_quantised_files(void **state)
{
    static const char *const kinds[] = {"IQ1_S", "IQ2_XXS", "MXFP4_MOE", "Q2_K", "Q4_K_M", "Q8_0"};
    struct wn_model *full = opened(wn_test_need_data("golden/text/tiny-b/gguf/tiny-b-BF16-MXFP4.gguf"));
    const struct wn_config *c = wn_model_config(full);
    size_t inner = (size_t)c->kda_heads * c->kda_head_dim;
    unsigned compared = 0;

    (void)state;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        char name[96];
        struct wn_model *m;

        snprintf(name, sizeof(name), "golden/text/tiny-b/gguf/tiny-b-%s.gguf", kinds[k]);
        m = opened(wn_test_need_data(name));
        for (uint32_t i = 0; i < c->layer_count; i++) {
            struct wn_layer a, b;
            struct wn_err err;

            if (c->layers[i].attention != WN_ATTENTION_KDA)
                continue;
            CHECK_OK(wn_layer_bind(full, i, &a, &err), &err);
            CHECK_OK(wn_layer_bind(m, i, &b, &err), &err);
            same_floats("conv_q", a.kda.conv_q, b.kda.conv_q, inner * c->conv_taps);
            same_floats("conv_k", a.kda.conv_k, b.kda.conv_k, inner * c->conv_taps);
            same_floats("conv_v", a.kda.conv_v, b.kda.conv_v, inner * c->conv_taps);
            same_floats("a", a.kda.a, b.kda.a, c->kda_heads);
            same_floats("dt_bias", a.kda.dt_bias, b.kda.dt_bias, inner);
            same_floats("o_norm", a.kda.o_norm, b.kda.o_norm, c->kda_head_dim);
            /* and q, which was quantised in all of them, shows that the files are not the same */
            assert_true(a.kda.q.type != b.kda.q.type || k == 2);
            wn_layer_release(&a);
            wn_layer_release(&b);
            compared++;
        }
        wn_model_close(m);
    }
    assert_true(compared >= 6);
    wn_model_close(full);
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
    static const char *const names[] = {"hf", "gguf-r2/Kimi-K3-UD-IQ1_S-00001-of-00014.gguf"};
    static const uint32_t layers[] = {0, 1, 3, 92};

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct wn_model *m = opened(wn_test_need_sparse(names[k]));
        struct wn_ends ends;
        struct wn_err err;

        for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {
            struct wn_layer layer;

            CHECK_OK(wn_layer_bind(m, layers[i], &layer, &err), &err);
            assert_int_equal(layer.mixture.expert_count, layers[i] ? 896 : 0);
            wn_layer_release(&layer);
        }
        CHECK_OK(wn_ends_bind(m, &ends, &err), &err);
        wn_ends_release(&ends);
        wn_model_close(m);
    }
}

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
    assert_true(wn_vocab_special(wn_model_vocab(m, &err), "<|end_of_msg|>", &id));
    assert_true(wn_test_contains(wn_model_warning(m), "token 481, but '<|end_of_msg|>' is 482"));
    wn_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_bind_to_the_same_numbers),
        cmocka_unit_test(one_changed_bit_shows),
        cmocka_unit_test(all_models_at_hand_bind),
        cmocka_unit_test(a_quantised_k_b_binds_in_its_own_type),
        cmocka_unit_test(convolutions_and_decay_of_kda_stay_in_f32_in_quantised_files),
        cmocka_unit_test(layer_bytes_are_mapped_and_owned_together),
        cmocka_unit_test(every_refused_allocation_is_an_error_and_leaks_nothing),
        cmocka_unit_test(full_size_models_bind),
        cmocka_unit_test(both_forms_bring_the_same_vocabulary),
        cmocka_unit_test(an_end_token_that_ends_no_message_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
