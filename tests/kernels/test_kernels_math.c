/*
 * exp and what is made of it, of every table, against the C library in double precision; the known values at the edges;
 * and that the tables' own arguments over the whole line of floats agree to the bit.
 */
#include "support.h"

#include "wn_test.h"

#include <math.h>
#include <string.h>

static float situ_beta_4(float g)
{
    float y, u = 1.5f;

    scalar.situ(&g, &u, 4, 25, &y, 1);
    return y;
}

static float exp_by_table(float x)
{
    scalar.exp(&x, &x, 1);
    return x;
}

static float sigmoid_by_table(float x)
{
    scalar.sigmoid(&x, &x, 1);
    return x;
}

static float silu_by_table(float x)
{
    scalar.silu(&x, &x, 1);
    return x;
}

static float softplus_by_table(float x)
{
    scalar.softplus(&x, &x, 1);
    return x;
}

/* SiTU with a gate of tanh(64) sigmoid(64) = 1 and linear beta 1 is the tanh of its other input. */
static float tanh_by_table(float x)
{
    const float gate = 64;
    float y;

    scalar.situ(&gate, &x, 1, 1, &y, 1);
    return y;
}

static double exp_double(double x)
{
    return exp(x);
}

static double sigmoid_double(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

static double silu_double(double x)
{
    return x * sigmoid_double(x);
}

static double softplus_double(double x)
{
    return x > 20 ? x : (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static double tanh_double(double x)
{
    return tanh(x);
}

static double situ_double(double g)
{
    return 4 * tanh(g / 4) * sigmoid_double(g) * (25 * tanh(1.5 / 25));
}

/* How far got is from want, in units of got's last place (of the smallest normal's below that). */
static double units_off(float got, double want)
{
    int exponent;

    frexp(want, &exponent);
    if (exponent < -125)
        exponent = -125;
    return fabs((double)got - want) / ldexp(1, exponent - 24);
}

/* The largest error over all floats of both signs, every `step`-th. */
static double units_off_most(float f(float), double reference(double), uint32_t step, float least, float most)
{
    double worst = 0;

    for (uint64_t bits = wn_rng_below(&rng, step); bits < 0x100000000u; bits += step) {
        uint32_t low = (uint32_t)bits;
        float x;
        double off;

        memcpy(&x, &low, sizeof(x));
        if (!(x >= least && x <= most))
            continue;
        off = units_off(f(x), reference((double)x));
        worst = off > worst ? off : worst;
    }
    return worst;
}

static void exp_tanh_and_softplus_are_right_to_two_units_in_the_last_place(void **state)
{
    (void)state;
    assert_true(units_off_most(exp_by_table, exp_double, 9973, -200, 88.7f) < 2);
    assert_true(units_off_most(tanh_by_table, tanh_double, 9973, -200, 200) < 2);
    assert_true(units_off_most(softplus_by_table, softplus_double, 9973, -87, 100) < 3);
}

/* Where sigmoid is denormal its product with x cannot have more digits: hence the left ends. */
static void sigmoid_silu_and_situ_are_right_to_a_few_units_in_the_last_place(void **state)
{
    (void)state;
    assert_true(units_off_most(sigmoid_by_table, sigmoid_double, 9973, -87, 200) < 2.5);
    assert_true(units_off_most(silu_by_table, silu_double, 9973, -87, 200) < 3.5);
    assert_true(units_off_most(situ_beta_4, situ_double, 9973, -87, 200) < 6);
}

/* A poorer polynomial is noticed: exp with its last coefficient left out is off by tens of units. */
static float exp_poorer(float x)
{
    double n = rint((double)x * 1.4426950408889634), r = (double)x - n * 0.6931471805599453;

    return (float)ldexp(1 + r + r * r * (0.5 + r * (1.0 / 6 + r * (1.0 / 24))), (int)n);
}

static void a_shorter_polynomial_is_noticed(void **state)
{
    (void)state;
    assert_true(units_off_most(exp_poorer, exp_double, 99991, -80, 80) > 10);
}

static void the_edges_have_their_values(void **state)
{
    (void)state;
    assert_true(wn_expf(0) == 1 && wn_expf(-0.0f) == 1);
    assert_true(wn_expf(-INFINITY) == 0 && wn_expf(INFINITY) == INFINITY && isnan(wn_expf(NAN)));
    assert_true(wn_expf(-104) == 0 && wn_expf(-103.9f) == 0x1p-149f);
    assert_true(wn_expf(88.7f) < INFINITY && wn_expf(88.8f) == INFINITY);
    assert_true(wn_sigmoidf(0) == 0.5f && wn_sigmoidf(INFINITY) == 1 && wn_sigmoidf(-INFINITY) == 0);
    assert_true(isnan(wn_sigmoidf(NAN)));
    assert_true(wn_sigmoidf(-100) > 0); /* denormal, not lost */
    assert_true(tanh_by_table(0x1p-140f) == 0x1p-140f && tanh_by_table(1e-6f) == 1e-6f);
    assert_true(tanh_by_table(INFINITY) == 1 && tanh_by_table(-INFINITY) == -1 && isnan(tanh_by_table(NAN)));
    assert_true(signbit(tanh_by_table(-0.0f)));
    assert_true(softplus_by_table(-INFINITY) == 0 && softplus_by_table(INFINITY) == INFINITY);
    assert_true(softplus_by_table(21) == 21 && isnan(softplus_by_table(NAN)));
}

/* Every 5003rd float of the whole line, through every table. */
static void all_tables_agree_over_the_whole_line(void **state)
{
    enum { BATCH = 4096 };
    static float x[BATCH], want[BATCH], got[BATCH];
    uint64_t bits = 0;

    (void)state;
    while (bits < 0x100000000u) {
        size_t n = 0;

        for (; n < BATCH && bits < 0x100000000u; n++, bits += 5003) {
            uint32_t low = (uint32_t)bits;

            memcpy(x + n, &low, sizeof(*x));
        }
        for (size_t v = 0; v < variant_count; v++) {
            scalar.exp(x, want, n);
            variants[v].exp(x, got, n);
            check_same("exp", variants[v].name, n, want, got, n);
            scalar.situ(x, x, 4, 25, want, n);
            variants[v].situ(x, x, 4, 25, got, n);
            check_same("situ", variants[v].name, n, want, got, n);
            scalar.softplus(x, want, n);
            variants[v].softplus(x, got, n);
            check_same("softplus", variants[v].name, n, want, got, n);
        }
    }
}

static void a_softmax_adds_up_to_one_and_is_right(void **state)
{
    float x[300], y[300];
    double total = 0, sum = 0, most = -INFINITY;

    (void)state;
    floats_fill(x, 300, TAME);
    memcpy(y, x, sizeof(y));
    scalar.softmax(y, 300);
    for (size_t i = 0; i < 300; i++)
        most = x[i] > most ? x[i] : most;
    for (size_t i = 0; i < 300; i++)
        total += exp(x[i] - most);
    for (size_t i = 0; i < 300; i++) {
        assert_true(fabs(y[i] - exp(x[i] - most) / total) < 1e-6);
        sum += y[i];
    }
    assert_true(fabs(sum - 1) < 1e-5);
}

static void norms_are_right(void **state)
{
    float x[77], w[77], y[77], r;
    double squares = 0;

    (void)state;
    floats_fill(x, 77, TAME);
    floats_fill(w, 77, TAME);
    for (size_t i = 0; i < 77; i++)
        squares += (double)x[i] * x[i];
    r = scalar.rms_norm(x, w, 1e-5f, y, 77);
    assert_true(fabs(r * sqrt(squares / 77 + 1e-5) - 1) < 1e-6);
    for (size_t i = 0; i < 77; i++)
        assert_true(fabs(y[i] - w[i] * x[i] / sqrt(squares / 77 + 1e-5)) < 1e-5 * fabs((double)w[i] * x[i]) + 1e-9);
    scalar.l2_norm(x, 1e-6f, 0.125f, y, 77);
    for (size_t i = 0; i < 77; i++)
        assert_true(fabs(y[i] - 0.125 * x[i] / sqrt(squares + 1e-6)) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_edges_have_their_values),
        cmocka_unit_test(exp_tanh_and_softplus_are_right_to_two_units_in_the_last_place),
        cmocka_unit_test(sigmoid_silu_and_situ_are_right_to_a_few_units_in_the_last_place),
        cmocka_unit_test(a_shorter_polynomial_is_noticed),
        cmocka_unit_test(all_tables_agree_over_the_whole_line),
        cmocka_unit_test(a_softmax_adds_up_to_one_and_is_right),
        cmocka_unit_test(norms_are_right),
    };

    return cmocka_run_group_tests(tests, kernels_set_up, kernels_tear_down);
}
