/* Criteria by numbers that can be added up by hand, modes, and experts that stay whatever their rank. */
#include "wn_test.h"
#include "jobs/calibrate/saliency.h"
#include <winnow/plan.h>

#include <string.h>

#define EXPERTS 4

/* Two layers of four experts, two sources of 10 and 40 tokens. The second layer is ten times as loud. */
static const double saliency[2][EXPERTS] = {{8, 6, 4, 2}, {8, 2, 4, 6}},
                    gate[2][EXPERTS] = {{1, 2, 3, 4}, {4, 3, 2, 1}}, norm[2][EXPERTS] = {{3, 30, 3, 3}, {3, 3, 3, 60}},
                    shares[2][EXPERTS] = {{1, 5, 1, 1}, {1, 1, 9, 1}},
                    absent[2][EXPERTS] = {{1, 1, 1, 3}, {2, 5, 1, 2}}, loud[2][EXPERTS] = {{1, 1, 1, 9}, {1, 1, 1, 7}};
static const uint64_t counts[2][EXPERTS] = {{8, 1, 1, 1}, {8, 1, 20, 6}};

static const char *archive(void)
{
    static const uint32_t experts[2] = {EXPERTS, EXPERTS};
    static const char *const labels[2] = {"a", "b"};
    const char *path = wn_test_path(wn_test_folder(), "s.npz");
    struct wn_saliency s;
    struct wn_err err;

    CHECK_OK(wn_saliency_init(&s, 2, experts, 1, 0, 2, labels, &err), &err);
    s.source_tokens[0] = 10;
    s.source_tokens[1] = 40;
    for (uint32_t source = 0; source < 2; source++)
        for (uint32_t layer = 0; layer < 2; layer++)
            for (uint32_t e = 0; e < EXPERTS; e++) {
                size_t at = wn_saliency_source_row(&s, source, layer) + e;
                double factor = layer ? 10 : 1;

                s.source_saliency[at] = factor * saliency[source][e];
                s.source_counts[at] = counts[source][e];
                s.sum_gate[at] = gate[source][e];
                s.sum_norm[at] = norm[source][e];
                s.sum_share[at] = shares[source][e];
                s.loo[at] = absent[source][e];
                s.max_norm[at] = loud[source][e];
            }
    wn_saliency_add_up(&s);
    CHECK_OK(wn_saliency_write(&s, path, false, &err), &err);
    wn_saliency_release(&s);
    return path;
}

/* The experts of layer 0, as digits. */
static const char *kept(const char *path, const struct wn_plan_options *o)
{
    static char text[16];
    struct wn_plan p;
    struct wn_err err;

    CHECK_OK(wn_plan_make(path, o, &p, NULL, &err), &err);
    for (uint32_t i = 0; i < p.layers[0].keep_count; i++)
        text[i] = (char)('0' + p.layers[0].keep[i]);
    text[p.layers[0].keep_count] = '\0';
    wn_plan_release(&p);
    return text;
}

static void each_criterion_has_its_own_best(void **state)
{
    static const struct wn_source_weight a[1] = {{"a", 1}}, both[2] = {{"a", 1}, {"b", 1}};
    const struct {
        const char *name;
        const struct wn_source_weight *weights;
        size_t n;
        const char *best;
    } cases[] = {
        {"reap", NULL, 0, "0"},      /* 16 8 8 8 */
        {"reap-mean", NULL, 0, "1"}, /* by counts of 16 2 21 7: 1, 4, 0.4, 1.1 */
        {"count", NULL, 0, "2"},     /* 16 2 21 7 */
        {"gate", a, 1, "3"},         /* 1 2 3 4 */
        {"gate", both, 2, "3"},      /* per token: 0.1 0.2 0.3 0.4 and 0.1 0.075 0.05 0.025 */
        {"norm-mean", NULL, 0, "1"}, /* 6/16 33/2 6/21 63/7 */
        {"share", NULL, 0, "2"},     /* 2 6 10 2 */
        {"share", both, 2, "1"},     /* 0.1 0.5 0.1 0.1 and 0.025 0.025 0.225 0.025 */
        {"loo", NULL, 0, "1"},       /* 3 6 2 5 */
        {NULL, NULL, 0, "1"},        /* that of loo, which is there */
        {"loo", both, 2, "3"},       /* 0.1 0.1 0.1 0.3 and 0.05 0.125 0.025 0.05 */
        {"reap-mean", both, 2, "1"}, /* sums per token: 1 0.65 0.5 0.35 by 1 0.125 0.6 0.25 */
    };
    const char *path = archive();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct wn_plan_options o = {.keep = 1,
                                          .min_experts = 1,
                                          .criterion = cases[i].name,
                                          .weights = cases[i].weights,
                                          .weight_count = cases[i].n};

        assert_string_equal(kept(path, &o), cases[i].best);
    }
}

/* What stays of a mean is told in gate x norm, which adds up. */
static void the_share_that_stays_of_a_mean_is_one_of_sums(void **state)
{
    const struct wn_plan_options o = {.keep = 2, .min_experts = 1, .criterion = "norm-mean"};
    struct wn_plan_kept k;
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_plan_make(archive(), &o, &p, &k, &err), &err);
    assert_string_equal(p.criterion, "norm-mean");
    assert_true(k.kept == 16.0 / 40); /* experts 1 and 3 have 8 each, of 16 + 8 + 8 + 8 */
    wn_plan_kept_release(&k);
    wn_plan_release(&p);
}

static void the_loudest_stay_whatever_their_rank(void **state)
{
    struct wn_plan_options o = {.keep = 2, .min_experts = 1, .criterion = "count", .protect = 1};
    const char *path = archive();
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    assert_string_equal(kept(path, &o), "23"); /* without: 0 and 2 */
    /* and keep their bytes */
    o.mode = WN_PLAN_GRADED;
    o.hi = 1;
    o.lo = 2;
    CHECK_OK(wn_plan_make(path, &o, &p, NULL, &err), &err);
    assert_int_equal(p.layers[0].hi_count, 1);
    assert_int_equal(p.layers[0].keep[0], 3);
    wn_plan_release(&p);
    o.protect = 3;
    CHECK_FAILS(wn_plan_make(path, &o, &p, NULL, &err), &err, "fewer than the 3 to protect");
    o.protect = 5;
    CHECK_FAILS(wn_plan_make(path, &o, &p, NULL, &err), &err, "5 experts to protect, but layer 0 has 4");
}

static void graded_plans_have_the_best_whole_and_the_next_in_fewer_bits(void **state)
{
    struct wn_plan_options o = {.mode = WN_PLAN_GRADED, .hi = 1, .lo = 2, .min_experts = 1, .criterion = "count"};
    const char *path = archive();
    struct wn_plan_kept k;
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_plan_make(path, &o, &p, &k, &err), &err);
    assert_string_equal(p.mode, "graded");
    assert_int_equal(p.layers[0].keep_count, 3);
    assert_int_equal(p.layers[0].hi_count, 1);
    assert_int_equal(p.layers[0].lo_bits, 2);
    assert_int_equal(p.layers[0].keep[0], 2);
    assert_int_equal(p.layers[0].keep[1], 0); /* rising within a bank */
    assert_int_equal(p.layers[0].keep[2], 3);
    assert_true(k.kept == 44.0 / 46 && k.kept_low == 23.0 / 46 && k.low_routed == 23.0 / 44);
    wn_plan_kept_release(&k);
    wn_plan_release(&p);
    o.lo_bits = 7;
    CHECK_FAILS(wn_plan_make(path, &o, &p, NULL, &err), &err, "experts of 7 bits are not known");
    o.lo_bits = 4;
    o.lo = 0;
    CHECK_FAILS(wn_plan_make(path, &o, &p, NULL, &err), &err, "needs both numbers");
    o.lo = 4;
    CHECK_FAILS(wn_plan_make(path, &o, &p, NULL, &err), &err, "5 experts to keep, but the model has 4");
}

/* Layer 0: shares 16 8 8 8 of 40; layer 1: the same, ten times as large. */
static void a_global_plan_compares_shares_and_only_if_asked_raw_sums(void **state)
{
    struct wn_plan_options o = {.mode = WN_PLAN_GLOBAL, .keep = 2, .min_experts = 1, .criterion = "reap"};
    const char *path = archive();
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_plan_make(path, &o, &p, NULL, &err), &err);
    assert_string_equal(p.mode, "global");
    assert_int_equal(p.layers[0].keep_count, 2);
    assert_int_equal(p.layers[1].keep_count, 2);
    wn_plan_release(&p);
    o.raw = true;
    CHECK_OK(wn_plan_make(path, &o, &p, NULL, &err), &err);
    assert_int_equal(p.layers[0].keep_count, 1);
    assert_int_equal(p.layers[1].keep_count, 3);
    wn_plan_release(&p);
    /* the floor holds in each layer */
    o.min_experts = 2;
    CHECK_OK(wn_plan_make(path, &o, &p, NULL, &err), &err);
    assert_int_equal(p.layers[0].keep_count, 2);
    wn_plan_release(&p);
    o.lo_bits = 2;
    CHECK_FAILS(wn_plan_make(path, &o, &p, NULL, &err), &err, "does not say how many of them get 2 bits");
}

/* Archives by others have saliency and counts. */
static void sums_that_an_archive_lacks_are_named(void **state)
{
    const char *path = wn_test_need_data("golden/text/tiny-a/ref/saliency.npz");
    struct wn_plan_options o = {.keep = 8, .criterion = "reap-mean"};
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_plan_make(path, &o, &p, NULL, &err), &err);
    wn_plan_release(&p);
    o.criterion = "share";
    CHECK_FAILS(wn_plan_make(path, &o, &p, NULL, &err), &err,
                "criterion 'share' needs 'sum_share', which the archive does not have");
    o.criterion = "reap";
    o.protect = 2;
    CHECK_FAILS(wn_plan_make(path, &o, &p, NULL, &err), &err, "needs 'max_norm', which the archive does not have");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_criterion_has_its_own_best),
        cmocka_unit_test(the_share_that_stays_of_a_mean_is_one_of_sums),
        cmocka_unit_test(the_loudest_stay_whatever_their_rank),
        cmocka_unit_test(graded_plans_have_the_best_whole_and_the_next_in_fewer_bits),
        cmocka_unit_test(a_global_plan_compares_shares_and_only_if_asked_raw_sums),
        cmocka_unit_test(sums_that_an_archive_lacks_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
