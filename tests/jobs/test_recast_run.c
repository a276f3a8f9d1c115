/*
 * A model in another container, written and run: the logits of a GGUF and of an MLX folder whose matrices stay as they
 * are have the bits of the HF folder's, pruned or not; a graded folder agrees with the reference.
 */
#include "prune_help.h"
#include "formats/source.h"
#include <winnow/session.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void some_ids(uint32_t *ids, size_t n, uint32_t below)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = (uint32_t)(i * 37 + i * i * 11) % below;
}

static struct wn_prune_result recast(const char *source, const char *out, const struct wn_plan *plan,
                                     enum wn_format format, unsigned rest_bits, uint64_t shard_bytes)
{
    struct wn_err err;
    struct wn_model *m = wn_model_open(source, &err);
    struct wn_prune_options o = {.source = source,
                                 .out = out,
                                 .model = m,
                                 .plan = plan,
                                 .format = format,
                                 .rest_bits = rest_bits,
                                 .layout = shard_bytes ? WN_LAYOUT_SPLIT : WN_LAYOUT_AS_SOURCE,
                                 .shard_bytes = shard_bytes,
                                 .plan_name = "plan.json"};
    struct wn_prune_result r;

    CHECK_OK(m, &err);
    o.pool = wn_pool_new(3, &err);
    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    wn_pool_free(o.pool);
    wn_model_close(m);
    return r;
}

static void check_same_logits(const char *a, const char *b)
{
    uint32_t ids[40];
    size_t va, vb;
    float *x, *y;

    some_ids(ids, 40, 480);
    x = logits_of(a, ids, 40, &va);
    y = logits_of(b, ids, 40, &vb);
    assert_int_equal(va, vb);
    assert_memory_equal(x, y, 40 * va * sizeof *x);
    free(x);
    free(y);
}

static void other_containers_have_the_bits_of_the_folder(void **state)
{
    const char *source = wn_test_need_data("golden/text/tiny-a/hf"), *folder = wn_test_folder();
    const char *gguf = wn_test_path(folder, "a.gguf"), *mlx = wn_test_path(folder, "mlx");
    const char *split = wn_test_path(folder, "s.gguf");
    struct wn_prune_result one, many;

    (void)state;
    one = recast(source, gguf, NULL, WN_FORMAT_GGUF, 0, 0);
    assert_int_equal(one.files, 1);
    check_same_logits(source, gguf);
    many = recast(source, split, NULL, WN_FORMAT_GGUF, 0, 2000000);
    assert_true(many.files > 2);
    assert_int_equal(many.out_tensor_bytes, one.out_tensor_bytes);
    recast(source, mlx, NULL, WN_FORMAT_MLX, 16, 0);
    check_same_logits(source, mlx);
}

static void a_prune_on_the_way_is_a_prune_before_it(void **state)
{
    const char *source = wn_test_need_data("golden/text/tiny-a/hf"), *folder = wn_test_folder();
    const char *pruned = wn_test_path(folder, "hf"), *gguf = wn_test_path(folder, "a.gguf"),
               *mlx = wn_test_path(folder, "mlx");
    struct wn_plan plan;

    (void)state;
    plan_from_reference(&plan, wn_test_need_data("golden/text/tiny-a/ref/prune_keep.json"), 4, 16);
    prune_ok(source, pruned, &plan, WN_LAYOUT_AS_SOURCE, 0);
    recast(source, gguf, &plan, WN_FORMAT_GGUF, 0, 0);
    recast(source, mlx, &plan, WN_FORMAT_MLX, 16, 0);
    check_same_logits(pruned, gguf);
    check_same_logits(pruned, mlx);
    wn_plan_release(&plan);
}

/* Eight bits where there were sixteen: near, and not the same. */
static void matrices_of_eight_bits_are_near(void **state)
{
    const char *source = wn_test_need_data("models/k3-mini"), *mlx = wn_test_path(wn_test_folder(), "mlx");
    uint32_t ids[64];
    size_t vocab;
    float *x, *y;
    double square = 0, wanted = 0;

    (void)state;
    recast(source, mlx, NULL, WN_FORMAT_MLX, 8, 0);
    some_ids(ids, 64, 4096);
    x = logits_of(source, ids, 64, &vocab);
    y = logits_of(mlx, ids, 64, &vocab);
    for (size_t i = 0; i < 64 * vocab; i++) {
        square += (double)(x[i] - y[i]) * (double)(x[i] - y[i]);
        wanted += (double)x[i] * (double)x[i];
    }
    assert_true(square > 0);
    assert_true(sqrt(square / wanted) < 0.05);
    free(x);
    free(y);
}

static void a_graded_plan_becomes_two_banks(void **state)
{
    const char *source = wn_test_need_data("models/k3-mini"), *folder = wn_test_folder();
    const char *graded = wn_test_path(folder, "graded"), *high = wn_test_path(folder, "high");
    uint32_t keep[12] = {40, 3, 9, 17, 21, 22, 30, 33, 41, 50, 60, 61};
    struct wn_plan_layer layers[7];
    struct wn_plan plan = {.mode = "graded", .top_k = 4, .num_experts = 64, .layer_count = 7, .layers = layers};
    struct wn_model *m;
    struct wn_err err;
    size_t vocab;
    uint32_t ids[16];
    float *x;

    (void)state;
    for (uint32_t l = 0; l < 7; l++)
        layers[l] = (struct wn_plan_layer){.layer = l + 1, .keep_count = 12, .keep = keep, .hi_count = 5, .lo_bits = 2};
    recast(source, graded, &plan, WN_FORMAT_MLX, 8, 0);
    for (uint32_t l = 0; l < 7; l++)
        layers[l].lo_bits = 0;
    recast(source, high, &plan, WN_FORMAT_MLX, 8, 0);
    m = wn_model_open(graded, &err);
    CHECK_OK(m, &err);
    assert_int_equal(wn_model_config(m)->layers[1].expert_count, 12);
    assert_int_equal(wn_model_config(m)->layers[1].low_count, 7);
    wn_model_close(m);
    some_ids(ids, 16, 4096);
    x = logits_of(graded, ids, 16, &vocab);
    for (size_t i = 0; i < 16 * vocab; i++)
        assert_true(isfinite(x[i]));
    free(x);
}

/* The bytes of tensor `name`; *n of them. */
static const uint8_t *bytes_of(const struct wn_source *s, const char *name, uint64_t *n)
{
    const struct wn_tensor *t = wn_source_find(s, name);
    struct wn_err err;
    const uint8_t *at;

    if (!t)
        fail_msg("no tensor '%s'", name);
    at = wn_source_view(s, t, &err);
    CHECK_OK(at, &err);
    *n = t->bytes;
    return at;
}

/* Expert i of n of the second bank against the reference's, for all three arrays of all three matrices. */
static void check_low_expert(const struct wn_source *made, const struct wn_source *wanted, uint32_t layer, uint32_t old,
                             uint32_t i, uint32_t n)
{
    static const char *const modules[] = {"gate_proj", "up_proj", "down_proj"}, *const weights[] = {"w1", "w3", "w2"};
    static const char *const faces[] = {"weight", "scales", "biases"}, *const arrays[] = {"q_packed", "scales",
                                                                                          "biases"};

    for (int m = 0; m < 3; m++)
        for (int f = 0; f < 3; f++) {
            char name[160];
            const uint8_t *have, *want;
            uint64_t have_n, want_n;

            snprintf(name, sizeof name, "model.layers.%u.block_sparse_moe.switch_mlp.bank_lo.%s.%s", layer, modules[m],
                     faces[f]);
            have = bytes_of(made, name, &have_n);
            snprintf(name, sizeof name, "layers.%u.experts.%u.%s.%s", layer, old, weights[m], arrays[f]);
            want = bytes_of(wanted, name, &want_n);
            assert_int_equal(have_n, n * want_n);
            assert_memory_equal(have + i * want_n, want, want_n);
        }
}

static void check_graded_logits(const char *model)
{
    static const char *const prompts[] = {"p17", "p65"};
    struct wn_err err;
    struct wn_source *s = wn_source_open(wn_test_need_data("golden/text/tiny-b/ref/graded_logits.safetensors"), &err);

    CHECK_OK(s, &err);
    for (int i = 0; i < 2; i++) {
        char name[32];
        uint64_t ids_n, want_n;
        const uint8_t *ids, *want;
        float *x, worst = 0;
        size_t vocab;

        snprintf(name, sizeof name, "%s.prompt", prompts[i]);
        ids = bytes_of(s, name, &ids_n);
        want = bytes_of(s, prompts[i], &want_n);
        x = logits_of(model, (const uint32_t *)(const void *)ids, (size_t)ids_n / 4, &vocab);
        assert_int_equal(want_n, ids_n * vocab);
        for (size_t k = 0; k < want_n / 4; k++)
            worst = fmaxf(worst, fabsf(x[k] - ((const float *)(const void *)want)[k]));
        printf("%s: largest difference %g\n", prompts[i], (double)worst);
        assert_true(worst < 3e-4f);
        free(x);
    }
    wn_source_close(s);
}

static void the_second_bank_is_the_references(void **state)
{
    const char *source = wn_test_need_data("golden/text/tiny-b/hf"), *out = wn_test_path(wn_test_folder(), "mlx");
    struct wn_prune_options o = {
        .source = source, .out = out, .format = WN_FORMAT_MLX, .rest_bits = 16, .encoder = WN_ENCODER_MINMAX};
    struct wn_source *made, *wanted;
    struct wn_prune_result r;
    struct wn_model *m;
    struct wn_plan plan;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_plan_read(&plan, wn_test_need_data("golden/text/tiny-b/ref/graded_plan.json"), &err), &err);
    m = wn_model_open(source, &err);
    CHECK_OK(m, &err);
    o.model = m;
    o.plan = &plan;
    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    wn_model_close(m);
    made = wn_source_open(out, &err);
    CHECK_OK(made, &err);
    wanted = wn_source_open(wn_test_need_data("golden/text/tiny-b/ref/graded_2bit.safetensors"), &err);
    CHECK_OK(wanted, &err);
    for (uint32_t l = 0; l < plan.layer_count; l++) {
        const struct wn_plan_layer *p = &plan.layers[l];

        for (uint32_t i = p->hi_count; i < p->keep_count; i++)
            check_low_expert(made, wanted, p->layer, p->keep[i], i - p->hi_count, p->keep_count - p->hi_count);
    }
    wn_source_close(made);
    wn_source_close(wanted);
    wn_plan_release(&plan);
    check_graded_logits(out);
}

/*
 * Verified as it was written; then one byte of an expert, of a router, of the config and of the tokenizer is changed.
 */
static void what_was_made_is_proved_and_a_changed_byte_is_found(void **state)
{
    const char *source = wn_test_need_data("models/k3-mini"), *folder = wn_test_folder();
    const char *gguf = wn_test_path(folder, "a.gguf"), *mlx = wn_test_path(folder, "mlx");
    uint32_t keep[12] = {40, 3, 9, 17, 21, 22, 30, 33, 41, 50, 60, 61};
    struct wn_plan_layer layers[7];
    struct wn_plan plan = {.mode = "graded", .top_k = 4, .num_experts = 64, .layer_count = 7, .layers = layers};
    struct wn_verify_result r;
    struct place p;
    struct wn_err err;

    (void)state;
    for (uint32_t l = 0; l < 7; l++)
        layers[l] = (struct wn_plan_layer){.layer = l + 1, .keep_count = 12, .keep = keep, .hi_count = 5, .lo_bits = 2};
    recast(source, mlx, &plan, WN_FORMAT_MLX, 8, 0);
    CHECK_OK(wn_verify(mlx, source, &plan, NULL, &r, &err), &err);
    assert_int_equal(r.experts, 7 * 12);
    find_tensor(mlx, "model.layers.3.block_sparse_moe.switch_mlp.bank_lo.up_proj.weight", &p);
    flip_byte(p.path, p.at + p.bytes / 7 + 5, 4);
    CHECK_FAILS(wn_verify(mlx, source, &plan, NULL, &r, &err), &err, "layer 3, new expert 6 (old expert 30)");
    flip_byte(p.path, p.at + p.bytes / 7 + 5, 4);
    find_tensor(mlx, "model.layers.3.block_sparse_moe.gate.scales", &p);
    flip_byte(p.path, p.at + 3, 1);
    CHECK_FAILS(wn_verify(mlx, source, &plan, NULL, &r, &err), &err, "gate.scales");
    flip_byte(p.path, p.at + 3, 1);
    assert_true(replace_text(wn_test_path(mlx, "config.json"), "\"num_experts\": 12", "\"num_experts\": 13"));
    CHECK_FAILS(wn_verify(mlx, source, &plan, NULL, &r, &err), &err, "num_experts");
    assert_true(replace_text(wn_test_path(mlx, "config.json"), "\"num_experts\": 13", "\"num_experts\": 12"));
    flip_byte(wn_test_path(mlx, "tiktoken.model"), 20, 1);
    CHECK_FAILS(wn_verify(mlx, source, &plan, NULL, &r, &err), &err, "tiktoken.model");
    for (uint32_t l = 0; l < 7; l++)
        layers[l].lo_bits = 0;
    recast(source, gguf, &plan, WN_FORMAT_GGUF, 0, 0);
    CHECK_OK(wn_verify(gguf, source, &plan, NULL, &r, &err), &err);
    find_tensor(gguf, "blk.5.ffn_down_exps.weight", &p);
    flip_byte(p.path, p.at + p.bytes - 1, 128);
    CHECK_FAILS(wn_verify(gguf, source, &plan, NULL, &r, &err), &err, "layer 5, new expert 11 (old expert 61)");
    flip_byte(p.path, p.at + p.bytes - 1, 128);
    keep[0] = 41;
    keep[8] = 40;
    CHECK_FAILS(wn_verify(gguf, source, &plan, NULL, &r, &err), &err, "blk.1.exp_probs_b.bias");
}

/* The same plan as MLX and as GGUF: the first bank is the same, the second near; both are proved. */
static void a_graded_gguf_has_a_tail(void **state)
{
    const char *source = wn_test_need_data("golden/text/tiny-b/hf"), *out = wn_test_path(wn_test_folder(), "g.gguf");
    struct wn_verify_result r;
    struct wn_plan plan;
    struct wn_source *s;
    struct wn_err err;
    size_t vocab;
    uint32_t ids[16];
    float *x;

    (void)state;
    CHECK_OK(wn_plan_read(&plan, wn_test_need_data("golden/text/tiny-b/ref/graded_plan.json"), &err), &err);
    recast(source, out, &plan, WN_FORMAT_GGUF, 0, 0);
    CHECK_OK(wn_verify(out, source, &plan, NULL, &r, &err), &err);
    s = wn_source_open(out, &err);
    CHECK_OK(s, &err);
    assert_int_equal(wn_source_find(s, "blk.1.ffn_up_exps_lo.weight")->type, WN_Q2_K);
    assert_int_equal(wn_source_find(s, "blk.1.ffn_up_exps.weight")->type, WN_MXFP4);
    wn_source_close(s);
    some_ids(ids, 16, 480);
    x = logits_of(out, ids, 16, &vocab);
    for (size_t i = 0; i < 16 * vocab; i++)
        assert_true(isfinite(x[i]));
    free(x);
    wn_plan_release(&plan);
}

static void what_cannot_be_made_is_refused(void **state)
{
    const char *hf = wn_test_need_data("golden/text/tiny-a/hf"), *out = wn_test_path(wn_test_folder(), "out");
    const char *gguf = wn_test_need_data("golden/text/tiny-a/gguf/tiny-a-BF16-MXFP4.gguf");
    struct wn_prune_options o = {.source = gguf, .out = out, .format = WN_FORMAT_MLX};
    uint32_t keep[5] = {0, 1, 2, 3, 4};
    struct wn_plan_layer layers[12];
    struct wn_plan plan = {.mode = "graded", .top_k = 4, .num_experts = 16, .layer_count = 12, .layers = layers};
    struct wn_prune_result r;
    struct wn_model *m;
    struct wn_err err;

    (void)state;
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "cannot become another container");
    o.format = WN_FORMAT_HF;
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "is no HF folder");
    for (uint32_t l = 0; l < 12; l++)
        layers[l] = (struct wn_plan_layer){.layer = l + 1, .keep_count = 5, .keep = keep, .hi_count = 2, .lo_bits = 2};
    o = (struct wn_prune_options){.source = hf, .out = out, .plan = &plan};
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "fewer bits");
    m = wn_model_open(hf, &err);
    CHECK_OK(m, &err);
    layers[3].keep_count = 4;
    for (uint32_t l = 0; l < 12; l++)
        layers[l].lo_bits = 0;
    o = (struct wn_prune_options){.source = hf, .out = out, .plan = &plan, .model = m, .format = WN_FORMAT_GGUF};
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "one expert count");
    wn_model_close(m);
    assert_int_equal(count_entries(out), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_containers_have_the_bits_of_the_folder),
        cmocka_unit_test(a_prune_on_the_way_is_a_prune_before_it),
        cmocka_unit_test(matrices_of_eight_bits_are_near),
        cmocka_unit_test(a_graded_plan_becomes_two_banks),
        cmocka_unit_test(the_second_bank_is_the_references),
        cmocka_unit_test(what_was_made_is_proved_and_a_changed_byte_is_found),
        cmocka_unit_test(a_graded_gguf_has_a_tail),
        cmocka_unit_test(what_cannot_be_made_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
