/* The numbers of experts per layer: against all that there are, where they can be counted, and against the bound. */
#include "wn_test.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "jobs/plan/plan_budget.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS  3
#define EXPERTS 5

/* Falling values per layer, as a ranking has them, of a sum of 1. */
static void fill(struct wn_choice *c, struct wn_rng *rng, uint32_t layers, uint32_t experts, uint64_t hi, uint64_t lo)
{
    struct wn_err err;

    c->layers = wn_alloc(layers, sizeof *c->layers, &err);
    c->n = layers;
    c->fidelity = 0.9;
    for (uint32_t i = 0; i < layers; i++) {
        struct wn_choice_layer *l = &c->layers[i];
        double sum = 0;

        l->layer = i;
        l->experts = experts;
        l->hi_bytes = hi;
        l->lo_bytes = lo;
        l->rank = wn_alloc(experts, sizeof *l->rank, &err);
        l->before = wn_alloc((size_t)experts + 1, sizeof *l->before, &err);
        for (uint32_t e = 0; e < experts; e++) {
            l->rank[e] = (struct wn_ranked){(double)(wn_rng_below(rng, 1000) + 1), e};
            sum += l->rank[e].score;
        }
        wn_rank(l->rank, experts);
        l->scale = 1 / sum;
        for (uint32_t e = 0; e < experts; e++)
            l->before[e + 1] = l->before[e] + l->rank[e].score * l->scale;
    }
}

/* The best value that any numbers have which the room allows; layer by layer, all pairs. */
static double best_of_all(struct wn_choice *c, uint32_t layer, uint32_t least_hi)
{
    double best = -1;

    if (layer == c->n)
        return wn_choice_bytes(c) <= c->room ? wn_choice_value(c) : -1;
    for (uint32_t kept = c->floor; kept <= c->layers[layer].experts; kept++)
        for (uint32_t hi = c->lo_bits ? least_hi : kept; hi <= kept; hi++) {
            c->layers[layer].hi = hi;
            c->layers[layer].kept = kept;
            best = fmax(best, best_of_all(c, layer + 1, least_hi));
        }
    return best;
}

/* No step is larger than the largest: so far the whole steps may stay behind, and no choice is above the bound. */
static void numbers_per_layer_are_as_good_as_all_that_there_are(void **state)
{
    struct wn_rng rng;
    double lost = 0;

    (void)state;
    rng = (struct wn_rng){7};
    for (int i = 0; i < 200; i++) {
        struct wn_choice c = {.floor = 1 + i % 3, .lo_bits = i % 2 ? 2 : 0};
        struct wn_err err;
        double value, best;

        fill(&c, &rng, LAYERS, EXPERTS, 17, 9);
        c.room = 153 + wn_rng_below(&rng, 110);
        CHECK_OK(wn_solve_apart(&c, &err), &err);
        assert_true(wn_choice_bytes(&c) <= c.room);
        for (uint32_t l = 0; l < c.n; l++) {
            assert_true(c.layers[l].kept >= c.floor);
            assert_true(c.layers[l].hi >= 1 && c.layers[l].hi <= c.layers[l].kept);
        }
        value = wn_choice_value(&c);
        best = best_of_all(&c, 0, 1);
        assert_true(value <= best + 1e-12 && best <= c.bound + 1e-12);
        lost = fmax(lost, best - value);
        wn_choice_release(&c);
    }
    /* of 15 experts: one step is a fifteenth */
    assert_true(lost < 0.15);
}

static void the_pair_for_all_layers_is_the_best_pair(void **state)
{
    struct wn_rng rng;

    (void)state;
    rng = (struct wn_rng){8};
    for (int i = 0; i < 100; i++) {
        struct wn_choice c = {.floor = 2, .lo_bits = 2};
        struct wn_err err;
        double best = -1, value;

        fill(&c, &rng, 4, 9, 17, 9);
        c.room = 150 + wn_rng_below(&rng, 400);
        CHECK_OK(wn_solve_same(&c, 0, 0, &err), &err);
        value = wn_choice_value(&c);
        assert_true(wn_choice_bytes(&c) <= c.room && value <= c.bound + 1e-12);
        for (uint32_t hi = 1; hi <= 9; hi++)
            for (uint32_t lo = 0; hi + lo <= 9; lo++) {
                wn_choose_same(&c, hi, lo);
                if (hi + lo >= 2 && wn_choice_bytes(&c) <= c.room)
                    best = fmax(best, wn_choice_value(&c));
            }
        assert_true(fabs(best - value) < 1e-12);
        wn_choice_release(&c);
    }
}

static void one_number_that_is_given_stays(void **state)
{
    struct wn_choice c = {.floor = 2, .lo_bits = 2, .room = 4 * (3 * 17 + 2 * 9) + 30};
    struct wn_rng rng;
    struct wn_err err;

    (void)state;
    rng = (struct wn_rng){9};
    fill(&c, &rng, 4, 9, 17, 9);
    CHECK_OK(wn_solve_same(&c, 3, 0, &err), &err);
    assert_int_equal(c.layers[2].hi, 3);
    assert_int_equal(c.layers[2].kept, 5);
    CHECK_OK(wn_solve_same(&c, 0, 2, &err), &err);
    assert_int_equal(c.layers[0].hi, 3);
    assert_int_equal(c.layers[0].kept, 5);
    CHECK_FAILS(wn_solve_same(&c, 6, 1, &err), &err, "no pair with 6 whole ones and 1 of 2 bits");
    wn_choice_release(&c);
}

static void a_uniform_number_is_the_largest_that_fits(void **state)
{
    struct wn_choice c = {.floor = 2, .room = 4 * 17 * 5 + 67};
    struct wn_rng rng;
    struct wn_err err;

    (void)state;
    rng = (struct wn_rng){10};
    fill(&c, &rng, 4, 9, 17, 0);
    CHECK_OK(wn_solve_same(&c, 0, 0, &err), &err);
    assert_int_equal(c.layers[3].kept, 5);
    assert_int_equal(c.layers[3].hi, 5);
    c.room = 4 * 17 * 2 - 1;
    CHECK_FAILS(wn_solve_same(&c, 0, 0, &err), &err,
                "135 bytes are left for experts, the floor of 2 in each of 4 layers takes 136");
    wn_choice_release(&c);
}

/* Where few bits leave less than they save, an expert comes in whole or not at all. */
static void few_bits_that_are_a_bad_trade_are_not_taken(void **state)
{
    struct wn_choice c = {.floor = 1, .lo_bits = 2, .room = 3 * 17 * 3};
    struct wn_rng rng;
    struct wn_err err;

    (void)state;
    rng = (struct wn_rng){11};
    fill(&c, &rng, LAYERS, EXPERTS, 17, 16);
    c.fidelity = 0.5;
    CHECK_OK(wn_solve_apart(&c, &err), &err);
    for (uint32_t l = 0; l < c.n; l++)
        assert_int_equal(c.layers[l].hi, c.layers[l].kept);
    wn_choice_release(&c);
}

/* At K3's size, 82,432 experts: the bound is near, and it is quick. */
static void at_full_size_the_bound_is_all_but_reached(void **state)
{
    struct wn_choice c = {.floor = 64, .lo_bits = 2, .room = UINT64_C(390007554048)};
    struct wn_rng rng;
    struct wn_err err;

    (void)state;
    rng = (struct wn_rng){12};
    fill(&c, &rng, 92, 896, 17547264, 10321920);
    CHECK_OK(wn_solve_apart(&c, &err), &err);
    assert_true(c.room - wn_choice_bytes(&c) < 17547264);
    assert_true(wn_choice_value(&c) > c.bound * 0.99999);
    wn_choice_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_per_layer_are_as_good_as_all_that_there_are),
        cmocka_unit_test(the_pair_for_all_layers_is_the_best_pair),
        cmocka_unit_test(one_number_that_is_given_stays),
        cmocka_unit_test(a_uniform_number_is_the_largest_that_fits),
        cmocka_unit_test(few_bits_that_are_a_bad_trade_are_not_taken),
        cmocka_unit_test(at_full_size_the_bound_is_all_but_reached),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
