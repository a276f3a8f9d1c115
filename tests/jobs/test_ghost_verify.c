/* Builds with ghosts held against what they were made from: what verify finds in them, and what is refused. */
#include "ghost_help.h"
#include "formats/npz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct built {
    const char *source, *out, *saliency; /* saliency: of mean builds */
    struct wn_plan plan;
};

static void build_as(struct built *b, const char *model, enum wn_ghosts ghosts, enum wn_format format)
{
    b->source = wn_test_need_data(model);
    b->out = wn_test_path(wn_test_folder(), "out");
    b->saliency = ghosts == WN_GHOSTS_MEAN ? ghost_archive(b->source) : NULL;
    ghost_plan(&b->plan, true);
    ghost_prune(b->source, b->out, &b->plan, ghosts, format);
}

static void build(struct built *b, const char *model, enum wn_ghosts ghosts)
{
    build_as(b, model, ghosts, WN_FORMAT_AS_SOURCE);
}

/* 7 ghosts in each of 12 layers, all of them. */
static bool proved(const struct built *b, struct wn_err *err)
{
    struct wn_verify_result r;
    bool ok = wn_verify_all(&(struct wn_verify_options){b->out, b->source, NULL, &b->plan, b->saliency}, NULL, &r, err);

    assert_true(!ok || (r.ghosts == 84 && r.experts == 108));
    return ok;
}

/* One bit of a tensor turned: found with the source, with `part` in the sentence, and without it. Turned back again. */
static void expect_found(const struct built *b, const char *tensor, uint64_t at, const char *part)
{
    struct wn_verify_result r;
    struct wn_err err;
    struct place p;

    find_tensor(b->out, tensor, &p);
    assert_true(at < p.bytes);
    flip_byte(p.path, p.at + at, 1);
    CHECK_FAILS(proved(b, &err), &err, part);
    assert_int_equal(err.code, WN_ERR_DIFFERENT);
    assert_false(wn_verify(b->out, NULL, NULL, NULL, &r, &err));
    flip_byte(p.path, p.at + at, 1);
    CHECK_OK(proved(b, &err), &err);
    CHECK_OK(wn_verify(b->out, NULL, NULL, NULL, &r, &err), &err);
}

/* Layer 2 keeps 6, 11, 0, 5, 10, 15, 4, 9, 14; its third ghost is expert 3, its last expert 13. */
static void rows_means_and_all_of_the_router_are_proved(void **state)
{
    struct built b;

    (void)state;
    build(&b, GHOST_HF, WN_GHOSTS_MEAN);
    expect_found(&b, "language_model.model.layers.2.block_sparse_moe.expert_rows", 4,
                 "layer 2, new expert 1 (old expert 11)");
    expect_found(&b, "language_model.model.layers.2.block_sparse_moe.ghost_mean", 2 * GHOST_WIDTH * 2 + 5,
                 "layer 2, ghost 2 (old expert 3), "
                 "'language_model.model.layers.2.block_sparse_moe.ghost_mean': byte 5 of its mean");
    expect_found(&b, "language_model.model.layers.2.block_sparse_moe.gate.weight", 13 * 128 * 2, "gate.weight");
    expect_found(&b, "language_model.model.layers.2.block_sparse_moe.gate.e_score_correction_bias", 4 * 13,
                 "e_score_correction_bias");
    wn_plan_release(&b.plan);
    build(&b, GHOST_GGUF, WN_GHOSTS_MEAN);
    expect_found(&b, "blk.2.ffn_expert_rows.weight", 4 * 8, "layer 2, new expert 8 (old expert 14)");
    expect_found(&b, "blk.12.ffn_ghost_mean.weight", 7 * GHOST_WIDTH * 2 - 1, "layer 12, ghost 6");
    wn_plan_release(&b.plan);
}

static void so_they_are_where_a_container_is_made(void **state)
{
    struct built b;

    (void)state;
    build_as(&b, GHOST_HF, WN_GHOSTS_MEAN, WN_FORMAT_GGUF);
    expect_found(&b, "blk.2.ffn_expert_rows.weight", 4, "layer 2, new expert 1 (old expert 11)");
    expect_found(&b, "blk.2.ffn_ghost_mean.weight", 2 * GHOST_WIDTH * 2 + 5, "layer 2, ghost 2 (old expert 3)");
    expect_found(&b, "blk.2.ffn_gate_inp.weight", 13 * 128 * 4, "'blk.2.ffn_gate_inp.weight': byte 6656");
    wn_plan_release(&b.plan);
    build_as(&b, GHOST_HF, WN_GHOSTS_MEAN, WN_FORMAT_MLX);
    expect_found(&b, "model.layers.2.block_sparse_moe.expert_rows", 4, "layer 2, new expert 1 (old expert 11)");
    expect_found(&b, "model.layers.12.block_sparse_moe.ghost_mean", 7 * GHOST_WIDTH * 2 - 1, "layer 12, ghost 6");
    wn_plan_release(&b.plan);
}

static void exchanged_rows_are_found(void **state)
{
    struct wn_verify_result r;
    struct wn_err err;
    struct built b;
    struct place p;

    (void)state;
    build(&b, GHOST_GGUF, WN_GHOSTS_SKIP);
    find_tensor(b.out, "blk.7.ffn_expert_rows.weight", &p);
    swap_bytes(p.path, p.at + 8, p.at + 20, 4);
    CHECK_FAILS(proved(&b, &err), &err, "layer 7, new expert 2 (old expert 15), 'blk.7.ffn_expert_rows.weight'");
    CHECK_FAILS(wn_verify(b.out, NULL, NULL, NULL, &r, &err), &err, "is not as its record says");
    wn_plan_release(&b.plan);
}

/* Rows that no expert can have are found by whoever opens the build. */
static void rows_that_cannot_be_are_refused(void **state)
{
    struct wn_verify_result r;
    struct wn_err err;
    struct built b;
    struct place p;

    (void)state;
    build(&b, GHOST_HF, WN_GHOSTS_SKIP);
    find_tensor(b.out, "language_model.model.layers.4.block_sparse_moe.expert_rows", &p);
    flip_byte(p.path, p.at + 3, 0x80);
    CHECK_FAILS(wn_verify(b.out, NULL, NULL, NULL, &r, &err), &err, "expert 0 has row -");
    flip_byte(p.path, p.at + 3, 0x80);
    flip_byte(p.path, p.at + 1, 1);
    CHECK_FAILS(wn_verify(b.out, NULL, NULL, NULL, &r, &err), &err, "none of the router's 16");
    wn_plan_release(&b.plan);
}

static bool prune(const char *source, const char *out, struct wn_prune_options o, struct wn_err *err)
{
    struct wn_model *m = wn_model_open(source, err);
    struct wn_prune_result r;
    bool ok;

    o.source = source;
    o.out = out;
    o.model = m;
    ok = wn_prune(&o, NULL, &r, err);
    if (m)
        wn_model_close(m);
    assert_true(ok || count_entries(out) == -1);
    return ok;
}

static void what_ghosts_cannot_be_made_of_is_refused(void **state)
{
    const char *out = wn_test_path(wn_test_folder(), "again"), *folder = wn_test_need_data(GHOST_HF);
    const char *gguf = wn_test_need_data(GHOST_GGUF);
    struct wn_verify_result r;
    struct wn_err err;
    struct built b;

    (void)state;
    build(&b, GHOST_HF, WN_GHOSTS_MEAN);
    CHECK_FAILS(prune(b.out, out, (struct wn_prune_options){.plan = &b.plan}, &err), &err,
                "this is a build with ghosts");
    CHECK_FAILS(prune(folder, out, (struct wn_prune_options){.ghosts = WN_GHOSTS_SKIP}, &err), &err,
                "there is no plan");
    CHECK_FAILS(prune(folder, out, (struct wn_prune_options){.plan = &b.plan, .ghosts = WN_GHOSTS_MEAN}, &err), &err,
                "none was named");
    CHECK_FAILS(prune(gguf, out,
                      (struct wn_prune_options){.plan = &b.plan, .ghosts = WN_GHOSTS_MEAN, .saliency = b.saliency},
                      &err),
                &err, "its means are of a model with the fingerprint");
    CHECK_FAILS(prune(folder, out,
                      (struct wn_prune_options){.plan = &b.plan,
                                                .ghosts = WN_GHOSTS_MEAN,
                                                .saliency = wn_test_need_data("golden/text/tiny-a/ref/saliency.npz")},
                      &err),
                &err, "has no means of outputs");
    /* proofs that something is missing for */
    CHECK_FAILS(wn_verify(b.out, b.source, &b.plan, NULL, &r, &err), &err, "--saliency");
    CHECK_FAILS(wn_verify(b.out, b.source, NULL, NULL, &r, &err), &err, "num_experts");
    wn_plan_release(&b.plan);
}

static void expect_trouble(const char *model, const char *why)
{
    struct wn_inspection in;
    struct wn_err err;

    CHECK_OK(wn_inspect(model, &in, &err), &err);
    if (!(*why ? wn_test_contains(in.ghost_trouble, why) : !*in.ghost_trouble))
        fail_msg("'%s', wanted '%s'", in.ghost_trouble, why);
    wn_inspection_release(&in);
}

static void inspect_tells_ghosts_that_do_not_go_together(void **state)
{
    struct built b;
    char config[600];

    (void)state;
    expect_trouble(wn_test_need_data(GHOST_HF), "");
    build(&b, GHOST_GGUF, WN_GHOSTS_MEAN);
    expect_trouble(b.out, "");
    assert_true(replace_text(b.out, "blk.4.ffn_expert_rows.weight", "blk.4.ffn_expert_rowz.weight"));
    expect_trouble(b.out, "11 of 12 layers with experts say whose their router's rows are");
    wn_plan_release(&b.plan);
    build(&b, GHOST_HF, WN_GHOSTS_MEAN);
    expect_trouble(b.out, "");
    snprintf(config, sizeof config, "%s/config.json", b.out);
    assert_true(replace_text(config, "\"router_rows\"", "\"torch_dtype\""));
    expect_trouble(b.out, "layer 1: the router's rows are 16, but by the config they are 9 ('router_rows'");
    assert_true(replace_text(config, "\"torch_dtype\"", "\"router_rows\""));
    wn_plan_release(&b.plan);
}

/* The archive with one mean that is no number, or a layer less. */
static const char *spoilt_means(const char *saliency, bool shorter)
{
    const uint64_t shape[] = {shorter ? 12 : 13, 16, GHOST_WIDTH};
    const char *path = wn_test_path(wn_test_folder(), "spoilt.npz");
    struct wn_npy means;
    struct wn_npz z;
    struct wn_err err;

    CHECK_OK(wn_npz_read_but(&z, saliency, "mean_out", &err), &err);
    CHECK_OK(wn_npy_init(&means, WN_NPY_F16, 0, 3, shape, &err), &err);
    for (uint32_t i = 0; i < shape[0] * 16; i++)
        ghost_mean(i / 16, i % 16, (uint16_t *)means.data + (size_t)i * GHOST_WIDTH, GHOST_WIDTH);
    if (!shorter)
        ((uint16_t *)means.data)[means.elements - 2] = 0x7e00;
    for (size_t i = 0; i < z.n; i++)
        if (strcmp(z.entry[i].name, "mean_out") == 0) {
            wn_npy_release(&z.entry[i].array);
            z.entry[i].array = means;
        }
    CHECK_OK(wn_npz_write(&z, path, false, &err), &err);
    wn_npz_release(&z);
    return path;
}

/* Before a byte of the build, which would take hours of a large model. */
static void means_that_cannot_be_used_are_found_before_anything_is_written(void **state)
{
    const char *out = wn_test_path(wn_test_folder(), "again"), *folder = wn_test_need_data(GHOST_HF);
    static const enum wn_format formats[] = {WN_FORMAT_AS_SOURCE, WN_FORMAT_MLX};
    struct wn_err err;
    struct built b;

    (void)state;
    build(&b, GHOST_HF, WN_GHOSTS_MEAN);
    for (size_t i = 0; i < 2; i++) {
        struct wn_prune_options o = {.plan = &b.plan, .ghosts = WN_GHOSTS_MEAN, .format = formats[i], .rest_bits = 16};

        o.saliency = spoilt_means(b.saliency, false);
        for (int dry = 0; dry < 2; dry++) {
            o.dry_run = dry; /* which reads no weights */
            CHECK_FAILS(prune(folder, out, o, &err), &err,
                        "spoilt.npz': the mean output of expert 15 in layer 12 is not finite (channel 94)");
        }
        o.saliency = spoilt_means(b.saliency, true);
        CHECK_FAILS(prune(folder, out, o, &err), &err,
                    "spoilt.npz': its means are of 12 layers, 16 experts and 96 channels, the model has 13, 16 and 96");
    }
    wn_plan_release(&b.plan);
}

static void a_copy_of_a_build_has_its_ghosts(void **state)
{
    const char *out = wn_test_path(wn_test_folder(), "copy");
    struct wn_verify_result r;
    struct wn_err err;
    struct built b;

    (void)state;
    build(&b, GHOST_HF, WN_GHOSTS_MEAN);
    CHECK_OK(prune(b.out, out, (struct wn_prune_options){0}, &err), &err);
    CHECK_OK(wn_verify(out, b.out, NULL, NULL, &r, &err), &err);
    assert_true(r.identical_files);
    b.out = out;
    CHECK_OK(proved(&b, &err), &err);
    wn_plan_release(&b.plan);
}

/* Its routers and means as they are, its experts in the other container's way. */
static void a_build_becomes_another_container_with_its_ghosts(void **state)
{
    static const enum wn_format formats[] = {WN_FORMAT_GGUF, WN_FORMAT_MLX};
    struct wn_verify_result r;
    struct wn_err err;
    struct built b;
    uint32_t ids[30];

    (void)state;
    for (uint32_t i = 0; i < 30; i++)
        ids[i] = i * 13 % 400;
    build(&b, GHOST_HF, WN_GHOSTS_MEAN);
    for (size_t i = 0; i < 2; i++) {
        const char *out = wn_test_path(wn_test_folder(), "made"), *plain = wn_test_path(wn_test_folder(), "plain");
        float *x, *y;
        size_t v;

        ghost_prune(b.out, out, NULL, WN_GHOSTS_BUILT, formats[i]);
        x = ghost_logits(b.out, WN_GHOSTS_MEAN, ids, 30, &v);
        y = ghost_logits(out, WN_GHOSTS_MEAN, ids, 30, &v);
        assert_memory_equal(x, y, 30 * v * sizeof *x);
        free(y);
        CHECK_OK(wn_verify(out, b.out, NULL, NULL, &r, &err), &err);
        /* and as a GGUF is the build that the parent itself would have become */
        CHECK_OK(
            formats[i] != WN_FORMAT_GGUF ||
                wn_verify_all(&(struct wn_verify_options){out, b.source, NULL, &b.plan, b.saliency}, NULL, &r, &err),
            &err);
        ghost_prune(b.out, plain, NULL, WN_GHOSTS_OFF, formats[i]);
        CHECK_OK(wn_verify(plain, b.out, NULL, NULL, &r, &err), &err);
        free(x);
    }
    wn_plan_release(&b.plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_means_and_all_of_the_router_are_proved),
        cmocka_unit_test(so_they_are_where_a_container_is_made),
        cmocka_unit_test(exchanged_rows_are_found),
        cmocka_unit_test(rows_that_cannot_be_are_refused),
        cmocka_unit_test(what_ghosts_cannot_be_made_of_is_refused),
        cmocka_unit_test(inspect_tells_ghosts_that_do_not_go_together),
        cmocka_unit_test(means_that_cannot_be_used_are_found_before_anything_is_written),
        cmocka_unit_test(a_copy_of_a_build_has_its_ghosts),
        cmocka_unit_test(a_build_becomes_another_container_with_its_ghosts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
