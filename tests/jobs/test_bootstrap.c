/* Resampled means and their quantiles, held against what is known of them. */
#include "wn_test.h"

#include "base/rng.h"
#include "jobs/eval/bootstrap.h"

#include <math.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_lie_on_the_line_between_neighbours),
        cmocka_unit_test(draws_spread_as_the_standard_error_says),
        cmocka_unit_test(all_figures_of_a_document_are_drawn_together),
        cmocka_unit_test(a_seed_repeats_its_draws),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
