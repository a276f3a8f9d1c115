/*
 * Builds with ghosts, written and read: they compute what the whole model does in which the dropped experts are ghosts,
 * to the bit; without their ghosts, what the plain build does; and their plain export is the plain build, byte for
 * byte.
 */
#include "ghost_help.h"
#include "jobs/prune/keep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The build's own mode, the others that it can be run in, and its plain twin. */
static void check_law(const char *source, enum wn_format format, bool even)
{
    const char *folder = wn_test_folder(), *plain = wn_test_path(folder, "plain");
    struct wn_plan plan;
    uint32_t ids[GHOST_IDS];
    size_t v;

    ghost_ids(ids);
    ghost_plan(&plan, even);
    /* a GGUF has no plain build of an uneven plan, but the same numbers as the folder */
    ghost_prune(even ? source : wn_test_need_data(GHOST_HF), plain, &plan, WN_GHOSTS_BUILT,
                even ? format : WN_FORMAT_AS_SOURCE);
    for (enum wn_ghosts g = WN_GHOSTS_SKIP; g <= WN_GHOSTS_MEAN; g++) {
        const char *out = wn_test_path(folder, wn_ghosts_name(g));
        float *skip, *off;

        ghost_prune(source, out, &plan, g, format);
        ghost_expect_same(ghost_logits(out, WN_GHOSTS_BUILT, ids, GHOST_IDS, &v),
                          ghost_logits_masked(source, &plan, g == WN_GHOSTS_MEAN, ids, GHOST_IDS, &v), &v);
        skip = ghost_logits(out, WN_GHOSTS_SKIP, ids, GHOST_IDS, &v);
        off = ghost_logits(out, WN_GHOSTS_OFF, ids, GHOST_IDS, &v);
        assert_true(memcmp(skip, off, GHOST_IDS * v * sizeof *skip) != 0);
        ghost_expect_same(skip, ghost_logits_masked(source, &plan, false, ids, GHOST_IDS, &v), &v);
        ghost_expect_same(off, logits_of(plain, ids, GHOST_IDS, &v), &v);
    }
    wn_plan_release(&plan);
}

static void a_build_computes_what_the_model_with_ghosts_does(void **state)
{
    (void)state;
    check_law(wn_test_need_data(GHOST_HF), WN_FORMAT_AS_SOURCE, true);
    check_law(wn_test_need_data(GHOST_HF), WN_FORMAT_AS_SOURCE, false);
    check_law(wn_test_need_data(GHOST_GGUF), WN_FORMAT_AS_SOURCE, true);
    check_law(wn_test_need_data(GHOST_GGUF), WN_FORMAT_AS_SOURCE, false);
}

static void so_does_one_in_another_container(void **state)
{
    (void)state;
    check_law(wn_test_need_data(GHOST_HF), WN_FORMAT_GGUF, true);
    check_law(wn_test_need_data(GHOST_HF), WN_FORMAT_GGUF, false);
    check_law(wn_test_need_data(GHOST_HF), WN_FORMAT_MLX, true);
    check_law(wn_test_need_data(GHOST_HF), WN_FORMAT_MLX, false);
}

/* ---- what is in the files ---- */

static const uint8_t *bytes_of(struct wn_source *s, const char *name, enum wn_type type, uint64_t bytes)
{
    const struct wn_tensor *t = wn_source_find(s, name);
    const uint8_t *view;
    struct wn_err err;

    assert_non_null(t);
    assert_int_equal(t->type, type);
    assert_int_equal(t->bytes, bytes);
    view = wn_source_view(s, t, &err);
    CHECK_OK(view, &err);
    return view;
}

static void expect_copied(struct wn_source *a, struct wn_source *b, const char *name)
{
    const struct wn_tensor *t = wn_source_find(a, name);

    assert_non_null(t);
    assert_memory_equal(bytes_of(a, name, t->type, t->bytes), bytes_of(b, name, t->type, t->bytes), t->bytes);
}

/* Rows by the plan, means by the archive, the router as it was. */
static void check_layer(struct wn_source *source, struct wn_source *out, const char *stem, const char *const names[4],
                        const struct wn_plan_layer *p)
{
    char name[4][160];
    const uint8_t *rows, *means;
    uint32_t ghosts = 0;

    for (int i = 0; i < 4; i++)
        snprintf(name[i], sizeof name[i], "%s%u.%s", stem, p->layer, names[i]);
    expect_copied(source, out, name[0]);
    expect_copied(source, out, name[1]);
    rows = bytes_of(out, name[2], WN_I32, 4 * (uint64_t)p->keep_count);
    for (uint32_t i = 0; i < p->keep_count; i++)
        assert_memory_equal(rows + 4 * i, &p->keep[i], 4);
    if (p->keep_count == 16) {
        assert_null(wn_source_find(out, name[3]));
        return;
    }
    means = bytes_of(out, name[3], WN_F16, (16 - (uint64_t)p->keep_count) * GHOST_WIDTH * 2);
    for (uint32_t e = 0; e < 16; e++) {
        uint16_t want[GHOST_WIDTH];
        bool stays = false;

        for (uint32_t i = 0; i < p->keep_count; i++)
            stays = stays || p->keep[i] == e;
        if (stays)
            continue;
        ghost_mean(p->layer, e, want, GHOST_WIDTH);
        assert_memory_equal(means + sizeof want * ghosts++, want, sizeof want);
    }
}

static void check_contents(const char *model, bool even, const char *stem, const char *const names[4])
{
    const char *source = wn_test_need_data(model), *out = wn_test_path(wn_test_folder(), "out");
    struct wn_source *a, *b;
    struct wn_plan plan;
    struct wn_err err;

    ghost_plan(&plan, even);
    ghost_prune(source, out, &plan, WN_GHOSTS_MEAN, WN_FORMAT_AS_SOURCE);
    a = wn_source_open(source, &err);
    CHECK_OK(a, &err);
    b = wn_source_open(out, &err);
    CHECK_OK(b, &err);
    assert_int_equal(wn_keep_ghosts_of(a), WN_GHOSTS_OFF);
    assert_int_equal(wn_keep_ghosts_of(b), WN_GHOSTS_MEAN);
    for (uint32_t i = 0; i < plan.layer_count; i++)
        check_layer(a, b, stem, names, &plan.layers[i]);
    wn_source_close(b);
    wn_source_close(a);
    wn_plan_release(&plan);
}

#define HF_LAYER "language_model.model.layers."
static const char *const hf_names[] = {"block_sparse_moe.gate.weight", "block_sparse_moe.gate.e_score_correction_bias",
                                       "block_sparse_moe.expert_rows", "block_sparse_moe.ghost_mean"};
static const char *const gguf_names[] = {"ffn_gate_inp.weight", "exp_probs_b.bias", "ffn_expert_rows.weight",
                                         "ffn_ghost_mean.weight"};

static void routers_stay_whole_and_a_tensor_says_whose_their_rows_are(void **state)
{
    (void)state;
    check_contents(GHOST_HF, true, HF_LAYER, hf_names);
    check_contents(GHOST_HF, false, HF_LAYER, hf_names);
    check_contents(GHOST_GGUF, true, "blk.", gguf_names);
    check_contents(GHOST_GGUF, false, "blk.", gguf_names);
}

/* ---- the plain export ---- */

static void expect_same_folders(const char *a, const char *b)
{
    struct wn_err err;
    char **names;
    size_t n;

    assert_int_equal(count_entries(a), count_entries(b));
    CHECK_OK(wn_path_list(a, &names, &n, &err), &err);
    for (size_t i = 0; i < n; i++) {
        char x[700], y[700];

        snprintf(x, sizeof x, "%s/%s", a, names[i]);
        snprintf(y, sizeof y, "%s/%s", b, names[i]);
        if (strcmp(names[i], "winnow.json") != 0) /* its parent is another */
            wn_test_same_file(x, y);
    }
    wn_names_free(names, n);
}

static void check_export(const char *model, bool even, enum wn_format format)
{
    const char *source = wn_test_need_data(model), *folder = wn_test_folder();
    char plain[600], ghosts[600], out[600];
    struct wn_verify_result r;
    struct wn_plan plan;
    struct wn_err err;

    snprintf(plain, sizeof plain, "%s/plain", folder);
    ghost_plan(&plan, even);
    ghost_prune(source, plain, &plan, WN_GHOSTS_BUILT, format);
    for (enum wn_ghosts g = WN_GHOSTS_SKIP; g <= WN_GHOSTS_MEAN; g++) {
        snprintf(ghosts, sizeof ghosts, "%s/%s", folder, wn_ghosts_name(g));
        snprintf(out, sizeof out, "%s/plain", wn_test_folder());
        ghost_prune(source, ghosts, &plan, g, format);
        ghost_prune(ghosts, out, NULL, WN_GHOSTS_OFF, WN_FORMAT_AS_SOURCE);
        if (wn_path_is_folder(plain))
            expect_same_folders(plain, out);
        else
            wn_test_same_file(plain, out);
        CHECK_OK(wn_verify(out, ghosts, NULL, NULL, &r, &err), &err);
        CHECK_OK(wn_verify(out, source, &plan, NULL, &r, &err), &err);
        CHECK_OK(wn_verify(out, NULL, NULL, NULL, &r, &err), &err);
    }
    wn_plan_release(&plan);
}

static void the_plain_export_is_the_plain_build(void **state)
{
    (void)state;
    check_export(GHOST_HF, true, WN_FORMAT_AS_SOURCE);
    check_export(GHOST_HF, false, WN_FORMAT_AS_SOURCE);
    check_export(GHOST_GGUF, true, WN_FORMAT_AS_SOURCE);
    check_export(GHOST_HF, true, WN_FORMAT_GGUF);
    check_export(GHOST_HF, true, WN_FORMAT_MLX);
    check_export(GHOST_HF, false, WN_FORMAT_MLX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_build_computes_what_the_model_with_ghosts_does),
        cmocka_unit_test(so_does_one_in_another_container),
        cmocka_unit_test(routers_stay_whole_and_a_tensor_says_whose_their_rows_are),
        cmocka_unit_test(the_plain_export_is_the_plain_build),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
