/* Resampled means and quantiles, held against what is known of them. */
#include "wn_test.h"

#include "jobs/eval/bootstrap.h"

#include <math.h>
#include <string.h>

#define DRAWS 20000

static double draws[2 * DRAWS];

static void quantiles_lie_on_the_line_between_neighbours(void **state)
{
    double x[5] = {4, 0, 3, 1, 2}, one = 7;

    (void)state;
    wn_sort_f64(x, 5);
    for (int i = 0; i < 5; i++)
        assert_true(x[i] == i);
    assert_true(wn_quantile(x, 5, 0) == 0 && wn_quantile(x, 5, 1) == 4 && wn_quantile(x, 5, 0.5) == 2);
    assert_true(fabs(wn_quantile(x, 5, 0.9) - 3.6) < 1e-15);
    assert_true(wn_quantile(&one, 1, 0.5) == 7);
}

static void draws_spread_as_the_standard_error_says(void **state)
{
    struct wn_rng rng = {5};
    double x[50], mean = 0, var = 0, drawn = 0, spread = 0;

    (void)state;
    for (int i = 0; i < 50; i++)
        mean += (x[i] = wn_rng_unit(&rng)) / 50;
    for (int i = 0; i < 50; i++)
        var += (x[i] - mean) * (x[i] - mean) / 50;
    wn_bootstrap_means(x, 50, 1, 1, DRAWS, draws);
    for (int r = 0; r < DRAWS; r++)
        drawn += draws[r] / DRAWS;
    for (int r = 0; r < DRAWS; r++)
        spread += (draws[r] - drawn) * (draws[r] - drawn) / DRAWS;
    assert_true(fabs(drawn - mean) < 4 * sqrt(var / 50 / DRAWS));
    assert_true(fabs(spread / (var / 50) - 1) < 0.05);
}

static void all_figures_of_a_document_are_drawn_together(void **state)
{
    double x[8][2];

    (void)state;
    for (int i = 0; i < 8; i++) {
        x[i][0] = i * i;
        x[i][1] = 2 * x[i][0];
    }
    wn_bootstrap_means(&x[0][0], 8, 2, 3, DRAWS, draws);
    for (int r = 0; r < DRAWS; r++)
        assert_true(draws[DRAWS + r] == 2 * draws[r]);
}

static void a_seed_repeats_its_draws(void **state)
{
    static double again[DRAWS];
    double x[4] = {1, 2, 3, 4};

    (void)state;
    wn_bootstrap_means(x, 4, 1, 9, DRAWS, draws);
    wn_bootstrap_means(x, 4, 1, 9, DRAWS, again);
    assert_memory_equal(draws, again, sizeof again);
    wn_bootstrap_means(x, 4, 1, 10, DRAWS, again);
    assert_memory_not_equal(draws, again, sizeof again);
}

static void a_draw_is_the_means_draw(void **state)
{
    struct wn_rng rng = {9};
    double x[4] = {1, 2, 4, 8};
    uint32_t drawn[4];

    (void)state;
    wn_bootstrap_means(x, 4, 1, 9, DRAWS, draws);
    for (int r = 0; r < DRAWS; r++) {
        wn_bootstrap_draw(&rng, drawn, 4);
        assert_int_equal(drawn[0] + drawn[1] + drawn[2] + drawn[3], 4);
        assert_true(draws[r] == (drawn[0] + 2.0 * drawn[1] + 4.0 * drawn[2] + 8.0 * drawn[3]) / 4);
    }
}

/* The pool's quantile of a draw, and the same of the draw's values put down one by one. */
static void check_quantile(const struct wn_bootstrap_pool *p, const double *x, size_t each, const uint32_t *drawn,
                           double q)
{
    static double all[4096];
    size_t n = 0;

    for (size_t d = 0; d < p->documents; d++)
        for (uint32_t k = 0; k < drawn[d]; k++, n += each)
            memcpy(all + n, x + d * each, each * sizeof *x);
    wn_sort_f64(all, n);
    assert_true(wn_bootstrap_quantile(p, drawn, q) == wn_quantile(all, n, q));
}

static void a_draws_quantile_is_that_of_its_values(void **state)
{
    static const double q[] = {0, 0.01, 0.5, 0.9, 0.99, 0.999, 1};
    struct wn_rng rng = {11};
    double x[900];
    uint32_t drawn[30];
    struct wn_bootstrap_pool p;
    struct wn_err err;

    (void)state;
    for (size_t documents = 1; documents <= 30; documents += documents < 4 ? 1 : 13)
        for (size_t each = 1; each <= 30; each += each < 4 ? 1 : 13) {
            for (size_t i = 0; i < documents * each; i++)
                x[i] = (double)wn_rng_below(&rng, 40); /* many are equal */
            CHECK_OK(wn_bootstrap_pool_init(&p, x, documents, each, &err), &err);
            for (size_t r = 0; r < 50; r++) {
                wn_bootstrap_draw(&rng, drawn, documents);
                for (size_t k = 0; k < sizeof q / sizeof *q; k++)
                    check_quantile(&p, x, each, drawn, q[k]);
            }
            wn_bootstrap_pool_release(&p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_lie_on_the_line_between_neighbours),
        cmocka_unit_test(draws_spread_as_the_standard_error_says),
        cmocka_unit_test(all_figures_of_a_document_are_drawn_together),
        cmocka_unit_test(a_seed_repeats_its_draws),
        cmocka_unit_test(a_draw_is_the_means_draw),
        cmocka_unit_test(a_draws_quantile_is_that_of_its_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
