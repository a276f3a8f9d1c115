/* The figures of a report, against sums done by hand (report_fixture.h has the archive). */
#include "jobs/report/report_measure.h"
#include "jobs/report/report_stats.h"
#include "report_fixture.h"
#include "wn_test.h"

#include <math.h>
#include <string.h>

#define CLOSE(a, b) assert_true(fabs((a) - (b)) < 1e-9)

static void measure(struct wn_saliency *s, const char *plan_text, struct wn_report_numbers *n)
{
    struct wn_plan p = {0};
    struct wn_err err;

    report_archive(s, report_labels);
    if (plan_text)
        CHECK_OK(wn_plan_parse(&p, plan_text, strlen(plan_text), &err), &err);
    CHECK_OK(wn_report_measure(n, s, plan_text ? &p : NULL, &err), &err);
    wn_plan_release(&p);
}

static void what_a_plan_keeps_and_could_keep_is_measured_by_layer_and_source(void **state)
{
    struct wn_saliency s;
    struct wn_report_numbers n;

    (void)state;
    measure(&s, report_plan, &n);
    assert_int_equal(n.layer_count, 2);
    assert_int_equal(n.layers[0].layer, 1);
    assert_int_equal(n.layers[0].keep, 3);
    assert_int_equal(n.layers[0].keep_best, 2); /* the best three are 9, 4, 2 */
    CLOSE(n.layers[0].kept, 0.8);
    CLOSE(n.layers[0].best, 0.9);
    CLOSE(n.layers[1].kept, 0.5);
    CLOSE(n.kept.kept, 90 / 120.0);
    CLOSE(n.sources[0].kept, 40 / 70.0);
    CLOSE(n.sources[1].kept, 50 / 50.0);
    CLOSE(n.share_kept, 5 / 14.0);
    wn_report_numbers_release(&n);
    wn_saliency_release(&s);
}

static void a_graded_plan_has_two_banks(void **state)
{
    struct wn_saliency s;
    struct wn_report_numbers n;

    (void)state;
    measure(&s, report_graded_plan, &n);
    assert_true(n.graded && n.lo_bits_least == 2 && n.lo_bits_most == 2);
    assert_int_equal(n.layers[0].keep, 3);
    assert_int_equal(n.layers[0].hi, 2);
    assert_int_equal(n.layers[0].hi_best, 1); /* the best two are 9 and 4 */
    assert_int_equal(n.layers[0].lo_bits, 2);
    assert_int_equal(n.layers[1].hi, 2);
    assert_int_equal(n.layers[1].lo_bits, 0);
    CLOSE(n.layers[0].kept, 0.8);
    CLOSE(n.layers[0].kept_hi, 0.5);
    CLOSE(n.layers[1].kept_hi, n.layers[1].kept);
    CLOSE(n.kept.kept, 90 / 120.0);
    CLOSE(n.kept_hi, 60 / 120.0);
    CLOSE(n.kept.kept - n.kept_hi, n.kept.kept_low);
    CLOSE(n.share_kept, 5 / 14.0);
    CLOSE(n.share_hi, 4 / 14.0);
    /* a has the 40, b the 30 in 2 bits and the 10 */
    CLOSE(n.sources[0].kept_hi, 40 / 70.0);
    CLOSE(n.sources[1].kept, 50 / 50.0);
    CLOSE(n.sources[1].kept_hi, 20 / 50.0);
    assert_int_equal(n.sources[0].low_best, 0);
    assert_int_equal(n.sources[1].low_best, 1);
    wn_report_numbers_release(&n);
    wn_saliency_release(&s);

    measure(&s, report_plan, &n);
    assert_true(!n.graded && n.layers[0].hi == 3);
    CLOSE(n.kept_hi, n.kept.kept);
    CLOSE(n.sources[1].kept_hi, n.sources[1].kept);
    wn_report_numbers_release(&n);
    wn_saliency_release(&s);
}

static void a_plan_by_counts_is_told_in_saliency(void **state)
{
    static const char text[] =
        "{\"mode\": \"global\", \"top_k\": 2, \"num_experts\": 10, \"layers\": {\"1\": {\"keep\": "
        "[9, 4, 0]}, \"2\": {\"keep\": [2, 3]}}, \"winnow\": {\"criterion\": \"count\"}}";
    struct wn_saliency s;
    struct wn_report_numbers n;

    (void)state;
    measure(&s, text, &n);
    CLOSE(n.kept.kept, 90 / 120.0); /* by counts it would be 5 of 8 */
    wn_report_numbers_release(&n);
    wn_saliency_release(&s);
}

static void concentration_counts_experts(void **state)
{
    struct wn_saliency s;
    struct wn_report_numbers n;

    (void)state;
    measure(&s, NULL, &n);
    /* layer 1: shares .4 .3 .2 .1 of ten; layer 2 is even */
    CLOSE(n.layers[0].effective, exp(-(0.4 * log(0.4) + 0.3 * log(0.3) + 0.2 * log(0.2) + 0.1 * log(0.1))));
    CLOSE(n.layers[0].gini, 0.7); /* 2 (7 x 10 + 8 x 20 + 9 x 30 + 10 x 40) / (10 x 100) - 11 / 10 */
    CLOSE(n.layers[0].never, 6);
    CLOSE(n.layers[1].effective, 4);
    CLOSE(n.layers[1].gini, 0);
    CLOSE(n.layers[1].never, 0);
    CLOSE(n.ratio[0], 4); /* 40 of 100 among ten */
    CLOSE(n.ratio[4], 0);
    CLOSE(n.ratio[10], 1);
    wn_report_numbers_release(&n);
    wn_saliency_release(&s);
}

static void curves_run_from_nothing_to_all(void **state)
{
    struct wn_saliency s;
    struct wn_report_numbers n;

    (void)state;
    measure(&s, NULL, &n);
    CLOSE(n.curve[0], 0);
    CLOSE(n.curve[64], 1);
    /* a quarter: two and a half experts of layer 1 (40 + 30 + 10), one of layer 2 (5) */
    CLOSE(n.curve[16], 85 / 120.0);
    CLOSE(n.low[16], 0.25);
    CLOSE(n.high[16], 0.8);
    CLOSE(n.middle[16], (0.25 + 0.8) / 2);
    /* "a" by the order of all: 40 and half of 20, and expert 0 of layer 2; by its own: 60, and 5 */
    CLOSE(n.sources[0].mixed[16], (40 + 10 + 5) / 70.0);
    CLOSE(n.sources[0].own[16], (60 + 5) / 70.0);
    /* without a plan half of each layer is looked at */
    assert_int_equal(n.layers[0].keep, 5);
    CLOSE(n.layers[0].kept, 1);
    CLOSE(n.layers[1].kept, 0.5);
    assert_true(isnan(n.sources[0].lost_best));
    wn_report_numbers_release(&n);
    wn_saliency_release(&s);
}

static void dropped_favourites_are_listed_by_what_they_carry(void **state)
{
    /* drops 9, the best of "a" in layer 1, and expert 0 of layer 2, its best there */
    static const char text[] =
        "{\"mode\": \"global\", \"top_k\": 2, \"num_experts\": 10, \"layers\": {\"1\": {\"keep\": "
        "[0, 2, 4]}, \"2\": {\"keep\": [1, 2, 3]}}}";
    struct wn_saliency s;
    struct wn_report_numbers n;

    (void)state;
    measure(&s, text, &n);
    assert_int_equal(n.lost_count, 2);
    assert_int_equal(n.worst_count, 2);
    assert_int_equal(n.worst[0].layer, 0);
    assert_int_equal(n.worst[0].expert, 9);
    assert_int_equal(n.worst[0].source, 0);
    assert_int_equal(n.worst[0].rank, 1);
    CLOSE(n.worst[0].share, 40 / 60.0);
    assert_int_equal(n.worst[1].expert, 0);
    CLOSE(n.sources[0].lost_best, 2);
    assert_int_equal(n.sources[0].best_count, 2); /* one of ten, one of four */
    CLOSE(n.sources[1].lost_best, 0);
    wn_report_numbers_release(&n);
    wn_saliency_release(&s);
}

static void halves_agree_by_rank_and_by_what_they_would_keep(void **state)
{
    struct wn_saliency s;
    struct wn_report_numbers n;
    double a[10], b[10], rho;
    struct wn_err err;

    (void)state;
    measure(&s, report_plan, &n);
    /* places 1 .. 4 with the last two turned, and six zeros that share the place 7.5 */
    for (uint32_t e = 0; e < 10; e++) {
        a[e] = s.half_saliency[wn_saliency_source_row(&s, 0, 1) + e];
        b[e] = s.half_saliency[wn_saliency_source_row(&s, 1, 1) + e];
    }
    CHECK_OK(wn_report_rank_correlation(a, b, 10, &rho, &err), &err);
    CLOSE(n.layers[0].half_rank, rho);
    CLOSE(rho, 64 / 65.0); /* both have a sum of squares of 65 about 5.5; the turn takes 1 off the product */
    /* the best three are 9 4 2 in one half, 9 4 0 in the other */
    CLOSE(n.layers[0].half_top, 2 / 3.0);
    assert_true(isnan(n.layers[1].half_rank)); /* all equal: no order */
    assert_true(isnan(n.layers[1].half_top));
    CLOSE(n.half_rank, rho);
    CLOSE(n.half_chance, (0.3 + 0.5) / 2);
    wn_report_numbers_release(&n);
    wn_saliency_release(&s);
}

static void medians_take_the_middle(void **state)
{
    double odd[3] = {3, 1, 2}, even[4] = {4, 1, 3, 2};

    (void)state;
    CLOSE(wn_report_median(odd, 3), 2);
    CLOSE(wn_report_median(even, 4), 2.5);
    assert_true(isnan(wn_report_median(odd, 0)));
}

static void an_archive_of_zeros_has_nothing_to_report(void **state)
{
    struct wn_report_numbers n;
    struct wn_saliency s;
    struct wn_err err;

    (void)state;
    report_archive(&s, report_labels);
    memset(s.saliency, 0, (size_t)s.layer_count * s.expert_count * sizeof(*s.saliency));
    CHECK_FAILS(wn_report_measure(&n, &s, NULL, &err), &err, "all saliency in the archive is zero");
    assert_null(n.layers);
    wn_saliency_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_plan_keeps_and_could_keep_is_measured_by_layer_and_source),
        cmocka_unit_test(a_graded_plan_has_two_banks),
        cmocka_unit_test(a_plan_by_counts_is_told_in_saliency),
        cmocka_unit_test(concentration_counts_experts),
        cmocka_unit_test(curves_run_from_nothing_to_all),
        cmocka_unit_test(dropped_favourites_are_listed_by_what_they_carry),
        cmocka_unit_test(halves_agree_by_rank_and_by_what_they_would_keep),
        cmocka_unit_test(medians_take_the_middle),
        cmocka_unit_test(an_archive_of_zeros_has_nothing_to_report),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
