/* Sums that do not depend on their order. */
#include "wn_test.h"
#include "base/rng.h"
#include "jobs/exact_sum.h"

#include <math.h>
#include <string.h>

#define MANY 20000

static double values[MANY];

/* Sizes over many powers of ten, as gates, norms and their squares are. */
static void make_values(void)
{
    struct wn_rng rng = {4};

    for (size_t i = 0; i < MANY; i++)
        values[i] = ldexp(1 + (double)wn_rng_below(&rng, 1u << 30) / (1u << 30), (int)wn_rng_below(&rng, 60) - 30);
}

static void add_some(double sum[2], size_t first, size_t step)
{
    for (size_t i = first; i < MANY; i += step)
        wn_exact_add(&sum[0], &sum[1], values[i]);
}

static void any_order_and_any_parts_give_the_same_bits(void **state)
{
    double forward[2] = {0}, backward[2] = {0}, parts[2] = {0}, plain[2] = {0};

    (void)state;
    make_values();
    add_some(forward, 0, 1);
    wn_exact_settle(&forward[0], &forward[1]);
    for (size_t i = MANY; i-- > 0;)
        wn_exact_add(&backward[0], &backward[1], values[i]);
    wn_exact_settle(&backward[0], &backward[1]);
    assert_memory_equal(forward, backward, sizeof forward);
    for (size_t i = 0; i < 7; i++) {
        double part[2] = {0};

        add_some(part, i, 7);
        wn_exact_settle(&part[0], &part[1]);
        wn_exact_add(&parts[0], &parts[1], part[0]);
        wn_exact_add(&parts[0], &parts[1], part[1]);
    }
    wn_exact_settle(&parts[0], &parts[1]);
    assert_memory_equal(forward, parts, sizeof forward);
    assert_true(forward[1] != 0);
    /* which a plain sum does not do */
    for (size_t i = 0; i < MANY; i++) {
        plain[0] += values[i];
        plain[1] += values[MANY - 1 - i];
    }
    assert_true(plain[0] != plain[1]);
    assert_true(fabs(plain[0] - forward[0]) < 1e-11 * forward[0]);
}

static void no_addend_is_lost_beside_a_large_one(void **state)
{
    double sum[2] = {0};

    (void)state;
    wn_exact_add(&sum[0], &sum[1], 0x1p40);
    for (int i = 0; i < 1024; i++)
        wn_exact_add(&sum[0], &sum[1], 0x1p-50);
    wn_exact_settle(&sum[0], &sum[1]);
    assert_true(sum[0] == 0x1p40 && sum[1] == 0x1p-40);
}

static void what_is_too_large_is_summed_as_doubles_are(void **state)
{
    double sum[2] = {0};

    (void)state;
    wn_exact_add(&sum[0], &sum[1], 1e300);
    wn_exact_add(&sum[0], &sum[1], 3e300);
    wn_exact_settle(&sum[0], &sum[1]);
    assert_true(sum[0] == 1e300 + 3e300);
    wn_exact_add(&sum[0], &sum[1], NAN);
    wn_exact_settle(&sum[0], &sum[1]);
    assert_true(isnan(sum[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_and_any_parts_give_the_same_bits),
        cmocka_unit_test(no_addend_is_lost_beside_a_large_one),
        cmocka_unit_test(what_is_too_large_is_summed_as_doubles_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
