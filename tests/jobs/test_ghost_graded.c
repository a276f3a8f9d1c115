/* Ghosts of builds with two banks: made in an MLX folder, and copied out of two GGUFs. */
#include "ghost_help.h"
#include "two_parents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parents of the same numbers, F32 and IQ1_S: a build of both computes what the first does. */
static void a_build_out_of_two_parents_has_ghosts(void **state)
{
    char hi[600], lo[600], plain[600], mean[600], back[600], archive[600];
    const char *folder = wn_test_folder();
    struct wn_verify_result r;
    struct wn_plan plan;
    struct wn_err err;
    uint32_t ids[GHOST_IDS];
    size_t v;

    (void)state;
    ghost_ids(ids);
    twin_plan(&plan);
    snprintf(hi, sizeof hi, "%s", twin_parent(WN_F32));
    snprintf(lo, sizeof lo, "%s", wn_test_need_data(TWIN_LO));
    snprintf(plain, sizeof plain, "%s/plain.gguf", folder);
    snprintf(mean, sizeof mean, "%s/mean.gguf", folder);
    snprintf(back, sizeof back, "%s/back.gguf", folder);
    snprintf(archive, sizeof archive, "%s", ghost_archive(hi));
    ghost_prune_of_two(hi, lo, plain, &plan, WN_GHOSTS_BUILT, WN_FORMAT_AS_SOURCE);
    ghost_prune_of_two(hi, lo, mean, &plan, WN_GHOSTS_MEAN, WN_FORMAT_AS_SOURCE);
    ghost_expect_same(ghost_logits(mean, WN_GHOSTS_BUILT, ids, GHOST_IDS, &v),
                      ghost_logits_masked(hi, &plan, true, ids, GHOST_IDS, &v), &v);
    ghost_expect_same(ghost_logits(mean, WN_GHOSTS_SKIP, ids, GHOST_IDS, &v),
                      ghost_logits_masked(hi, &plan, false, ids, GHOST_IDS, &v), &v);
    ghost_expect_same(ghost_logits(mean, WN_GHOSTS_OFF, ids, GHOST_IDS, &v), logits_of(plain, ids, GHOST_IDS, &v), &v);
    CHECK_OK(wn_verify_all(&(struct wn_verify_options){mean, hi, lo, &plan, archive}, NULL, &r, &err), &err);
    ghost_prune(mean, back, NULL, WN_GHOSTS_OFF, WN_FORMAT_AS_SOURCE);
    wn_test_same_file(plain, back);
    CHECK_OK(wn_verify(back, mean, NULL, NULL, &r, &err), &err);
    CHECK_OK(wn_verify_all(&(struct wn_verify_options){back, hi, lo, &plan, NULL}, NULL, &r, &err), &err);
    wn_plan_release(&plan);
}

/* All but the first four of a layer in 2 bits. */
static void grade(struct wn_plan *plan)
{
    for (uint32_t i = 0; i < plan->layer_count; i++) {
        plan->layers[i].hi_count = 4;
        plan->layers[i].lo_bits = 2;
    }
}

static void so_has_one_whose_second_bank_is_made(void **state)
{
    char source[600], plain[600], mean[600], back[600], archive[600];
    const char *folder = wn_test_folder();
    struct wn_verify_result r;
    struct wn_plan plan;
    struct wn_err err;
    uint32_t ids[GHOST_IDS];
    size_t v;

    (void)state;
    ghost_ids(ids);
    ghost_plan(&plan, false);
    grade(&plan);
    snprintf(source, sizeof source, "%s", wn_test_need_data(GHOST_HF));
    snprintf(plain, sizeof plain, "%s/plain", folder);
    snprintf(mean, sizeof mean, "%s/mean", folder);
    snprintf(back, sizeof back, "%s/back", folder);
    snprintf(archive, sizeof archive, "%s", ghost_archive(source));
    ghost_prune(source, plain, &plan, WN_GHOSTS_BUILT, WN_FORMAT_MLX);
    ghost_prune(source, mean, &plan, WN_GHOSTS_MEAN, WN_FORMAT_MLX);
    ghost_expect_same(ghost_logits(mean, WN_GHOSTS_OFF, ids, GHOST_IDS, &v), logits_of(plain, ids, GHOST_IDS, &v), &v);
    CHECK_OK(wn_verify_all(&(struct wn_verify_options){mean, source, NULL, &plan, archive}, NULL, &r, &err), &err);
    ghost_prune(mean, back, NULL, WN_GHOSTS_OFF, WN_FORMAT_AS_SOURCE);
    CHECK_OK(wn_verify(back, mean, NULL, NULL, &r, &err), &err);
    CHECK_OK(wn_verify(back, source, &plan, NULL, &r, &err), &err);
    wn_plan_release(&plan);
}

/* Experts 0 .. 3 with their bits and `low` of the others in 2; so a plan of all has every expert in its place. */
static void plan_in_place(struct wn_plan *plan, uint32_t low)
{
    ghost_plan(plan, true);
    for (uint32_t i = 0; i < plan->layer_count; i++) {
        struct wn_plan_layer *l = &plan->layers[i];

        free(l->keep);
        l->keep = calloc(16, sizeof *l->keep);
        assert_non_null(l->keep);
        l->keep_count = 4 + low;
        for (uint32_t e = 0; e < l->keep_count; e++)
            l->keep[e] = e < 4 || low == 12 ? e : 4 + (e + i) % 3 + 3 * (e - 4);
    }
    grade(plan);
}

/* Its second bank has other numbers than the parent; so the whole model here is one with the same two banks. */
static void it_computes_what_all_experts_in_those_bits_would_with_ghosts(void **state)
{
    const char *source = wn_test_need_data(GHOST_HF), *folder = wn_test_folder();
    char whole[600], out[600];
    struct wn_plan all, plan;
    uint32_t ids[GHOST_IDS];
    size_t v;

    (void)state;
    ghost_ids(ids);
    plan_in_place(&all, 12);
    plan_in_place(&plan, 4);
    snprintf(whole, sizeof whole, "%s/whole", folder);
    ghost_prune(source, whole, &all, WN_GHOSTS_BUILT, WN_FORMAT_MLX);
    for (enum wn_ghosts g = WN_GHOSTS_SKIP; g <= WN_GHOSTS_MEAN; g++) {
        float *build, *parent;

        snprintf(out, sizeof out, "%s/%s", folder, wn_ghosts_name(g));
        ghost_prune(source, out, &plan, g, WN_FORMAT_MLX);
        build = ghost_logits(out, WN_GHOSTS_BUILT, ids, GHOST_IDS, &v);
        parent = ghost_logits_masked(source, &plan, g == WN_GHOSTS_MEAN, ids, GHOST_IDS, &v);
        assert_true(memcmp(build, parent, GHOST_IDS * v * sizeof *build) != 0);
        free(parent);
        ghost_expect_same(build, ghost_logits_masked(whole, &plan, g == WN_GHOSTS_MEAN, ids, GHOST_IDS, &v), &v);
    }
    wn_plan_release(&all);
    wn_plan_release(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_build_out_of_two_parents_has_ghosts),
        cmocka_unit_test(so_has_one_whose_second_bank_is_made),
        cmocka_unit_test(it_computes_what_all_experts_in_those_bits_would_with_ghosts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
