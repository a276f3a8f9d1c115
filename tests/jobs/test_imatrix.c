/* Routing counts of an imatrix: read, planned from, and what is refused. */
#include "wn_test.h"
#include "formats/sink.h"
#include "jobs/plan/imatrix.h"
#include <winnow/plan.h>

#include <stdio.h>
#include <string.h>

struct counted {
    const char *name;
    uint64_t n;
    float counts[4];
};

/* As llama-imatrix writes it: sums and counts of each, counts [matrix][1]. */
static const char *write(const char *type, const struct counted *all, size_t n)
{
    const char *path = wn_test_path(wn_test_folder(), "imatrix.gguf");
    char value[32] = {(char)strlen(type)};
    struct wn_gguf_kv kv = {.key = wn_bytes_of("general.type"), .type = WN_GGUF_STRING, .count = 1};
    struct wn_sink_options o = {.kv = &kv, .kv_count = 1};
    static const float sums[8];
    struct wn_sink *s;
    struct wn_err err;
    char name[96];

    memcpy(value + 8, type, strlen(type));
    kv.value = (struct wn_bytes){value, 8 + strlen(type)};
    s = wn_sink_new(WN_CONTAINER_GGUF, path, &o, &err);
    CHECK_OK(s, &err);
    for (size_t i = 0; i < n; i++) {
        const uint64_t shape[2] = {all[i].n, 1}, values[2] = {all[i].n, 2};

        snprintf(name, sizeof name, "%s.in_sum2", all[i].name);
        CHECK_OK(wn_sink_declare(s, name, WN_F32, 2, values, 0, &err), &err);
        snprintf(name, sizeof name, "%s.counts", all[i].name);
        CHECK_OK(wn_sink_declare(s, name, WN_F32, 2, shape, 0, &err), &err);
    }
    CHECK_OK(wn_sink_begin(s, &err), &err);
    for (size_t i = 0; i < n; i++) {
        CHECK_OK(wn_sink_write(s, sums, (size_t)all[i].n * 8, &err), &err);
        CHECK_OK(wn_sink_write(s, all[i].counts, (size_t)all[i].n * 4, &err), &err);
    }
    CHECK_OK(wn_sink_commit(s, &err), &err);
    wn_sink_free(s);
    return path;
}

/* Ten tokens, two experts each. */
static const struct counted usual[] = {
    {"blk.0.ffn_down.weight", 1, {10}},
    {"blk.1.ffn_gate_inp.weight", 1, {10}},
    {"blk.1.ffn_gate_exps.weight", 4, {9, 1, 3, 7}},
    {"blk.1.ffn_down_exps.weight", 4, {9, 1, 3, 7}},
    {"blk.2.ffn_gate_exps.weight", 4, {0, 6, 10, 4}},
};

static void the_experts_that_were_chosen_most_stay(void **state)
{
    const char *path = write("imatrix", usual, 5);
    const struct wn_plan_options o = {.keep = 2, .min_experts = 2, .criterion = "count"};
    struct wn_plan_kept kept;
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_plan_make(path, &o, &p, &kept, &err), &err);
    assert_int_equal(p.top_k, 2);
    assert_int_equal(p.num_experts, 4);
    assert_int_equal(p.layer_count, 2);
    assert_int_equal(p.layers[0].layer, 1);
    assert_int_equal(p.layers[0].keep[0], 0);
    assert_int_equal(p.layers[0].keep[1], 3);
    assert_int_equal(p.layers[1].keep[0], 1);
    assert_int_equal(p.layers[1].keep[1], 2);
    assert_string_equal(p.criterion, "count");
    assert_true(kept.kept == 0.8);
    assert_string_equal(kept.source[0], "imatrix");
    wn_plan_kept_release(&kept);
    /* the same figures of the plan that is there */
    CHECK_OK(wn_plan_measure(path, &p, &kept, &err), &err);
    assert_true(kept.kept == 0.8);
    wn_plan_kept_release(&kept);
    wn_plan_release(&p);
}

static void there_is_nothing_but_counts_in_it(void **state)
{
    const char *path = write("imatrix", usual, 5);
    struct wn_plan_options o = {.keep = 2, .min_experts = 2};
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    CHECK_FAILS(wn_plan_make(path, &o, &p, NULL, &err), &err, "the criterion can be 'count' only, not 'reap'");
    o.criterion = "count";
    o.protect = 1;
    CHECK_FAILS(wn_plan_make(path, &o, &p, NULL, &err), &err, "needs 'max_norm'");
}

static void experts_per_token_that_the_counts_do_not_tell_must_be_said(void **state)
{
    static const struct counted odd[] = {{"blk.1.ffn_gate_exps.weight", 4, {9, 1, 3, 7}}};
    const char *path = write("imatrix", odd, 1);
    struct wn_saliency s;
    struct wn_err err;

    (void)state;
    CHECK_FAILS(wn_imatrix_read(&s, path, 0, &err), &err, "--top-k says the experts per token");
    CHECK_OK(wn_imatrix_read(&s, path, 2, &err), &err);
    assert_int_equal(s.top_k, 2);
    assert_int_equal(s.token_count, 10);
    wn_saliency_release(&s);
}

static void what_is_no_imatrix_or_no_count_is_refused(void **state)
{
    static const struct counted half[] = {{"blk.1.ffn_gate_exps.weight", 4, {9, 1, 2.5f, 7}}},
                                huge[] = {{"blk.1.ffn_gate_exps.weight", 4, {9, 1, 3e7f, 7}}},
                                dense[] = {{"blk.1.ffn_gate.weight", 1, {10}}},
                                two[] = {{"blk.1.ffn_gate_exps.weight", 4, {9, 1, 3, 7}},
                                         {"blk.1.ffn_up_exps.weight", 3, {9, 1, 3}}},
                                far[] = {{"blk.9000000.ffn_gate_exps.weight", 4, {9, 1, 3, 7}}};
    const struct {
        const char *type;
        const struct counted *all;
        size_t n;
        const char *part;
    } cases[] = {
        {"model", usual, 5, "'general.type' is not 'imatrix'"},
        {"imatrix", half, 1, "'blk.1.ffn_gate_exps.weight.counts' entry 2: 2.5 is no count"},
        {"imatrix", huge, 1, "is no count"},
        {"imatrix", dense, 1, "the model has no experts"},
        {"imatrix", far, 1, "the model has no experts"}, /* such a layer is none */
        {"imatrix", two, 2, "'blk.1.ffn_up_exps.weight.counts' counts 3 experts, others of layer 1 4"},
    };
    struct wn_saliency s;
    struct wn_err err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = write(cases[i].type, cases[i].all, cases[i].n);

        CHECK_FAILS(wn_imatrix_read(&s, path, 2, &err), &err, cases[i].part);
        assert_null(s.counts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_experts_that_were_chosen_most_stay),
        cmocka_unit_test(there_is_nothing_but_counts_in_it),
        cmocka_unit_test(experts_per_token_that_the_counts_do_not_tell_must_be_said),
        cmocka_unit_test(what_is_no_imatrix_or_no_count_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
