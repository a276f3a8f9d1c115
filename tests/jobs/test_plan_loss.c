/* Choosing by predicted loss: against all choices that there are, where they can be counted, and against the bound. */
#include "wn_test.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "jobs/plan/plan_loss.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS 3

/* Experts in the order of their ranking; shares of each source in them, of a sum of 1. */
struct made {
    struct wn_choice c;
    struct wn_loss l;
};

static double part(struct wn_rng *rng)
{
    return (double)(wn_rng_below(rng, 1000) + 1);
}

/* A source's shares: falling along the ranking, or as they come. */
static void make_tail(struct wn_loss *l, uint32_t i, uint32_t s, uint32_t experts, bool falling, struct wn_rng *rng)
{
    struct wn_ranked *r = calloc(experts, sizeof *r);
    double sum = 0;

    assert_non_null(r);
    for (uint32_t e = 0; e < experts; e++) {
        r[e] = (struct wn_ranked){part(rng), e};
        sum += r[e].score;
    }
    if (falling)
        wn_rank(r, experts);
    for (uint32_t e = experts; e-- > 0;)
        l->layers[i].tail[e * l->source_count + s] =
            l->layers[i].tail[(e + 1) * l->source_count + s] + r[e].score / sum;
    free(r);
}

static void make(struct made *m, struct wn_rng *rng, uint32_t layers, uint32_t experts, uint32_t sources, bool falling,
                 double power)
{
    struct wn_err err;

    m->c.layers = wn_alloc(layers, sizeof *m->c.layers, &err);
    m->c.n = layers;
    m->c.fidelity = 0.9;
    m->l = (struct wn_loss){.basis = WN_BASIS_PROBE, .source_count = sources, .n = layers, .power = power};
    m->l.omega = wn_alloc(sources, sizeof *m->l.omega, &err);
    m->l.layers = wn_alloc(layers, sizeof *m->l.layers, &err);
    assert_true(m->c.layers && m->l.omega && m->l.layers);
    for (uint32_t s = 0; s < sources; s++)
        m->l.omega[s] = 1.0 / sources;
    for (uint32_t i = 0; i < layers; i++) {
        m->c.layers[i] = (struct wn_choice_layer){.layer = i, .experts = experts, .hi_bytes = 1};
        m->l.layers[i].cost = wn_alloc(sources, sizeof(double), &err);
        m->l.layers[i].tail = wn_alloc((experts + 1) * (size_t)sources, sizeof(double), &err);
        assert_true(m->l.layers[i].cost && m->l.layers[i].tail);
        for (uint32_t s = 0; s < sources; s++) {
            m->l.layers[i].cost[s] = part(rng) / 1000;
            make_tail(&m->l, i, s, experts, falling, rng);
        }
    }
}

static void release(struct made *m)
{
    wn_choice_release(&m->c);
    wn_loss_release(&m->l);
}

/* The least loss of all numbers that the room allows; layer by layer, all pairs. */
static double best_of_all(struct made *m, uint32_t layer)
{
    struct wn_choice_layer floor;
    double best = INFINITY;

    if (layer == m->c.n)
        return wn_choice_bytes(&m->c) <= m->c.room ? wn_loss_all(&m->l, &m->c) : INFINITY;
    floor = m->c.layers[layer];
    wn_choice_floor(&m->c, &floor);
    for (uint32_t kept = floor.kept; kept <= m->c.layers[layer].experts; kept++)
        for (uint32_t hi = m->c.lo_bits ? floor.hi : kept; hi <= kept; hi++) {
            m->c.layers[layer].hi = hi;
            m->c.layers[layer].kept = kept;
            best = fmin(best, best_of_all(m, layer + 1));
        }
    return best;
}

/* One source, experts of equal bytes: there is no better choice. */
static void equal_experts_of_one_source_are_chosen_best(void **state)
{
    static const double powers[] = {1, 1.2, 2, 3.5};
    struct wn_rng rng = {31};

    (void)state;
    for (int i = 0; i < 200; i++) {
        struct made m = {.c = {.floor = 1 + (uint32_t)i % 3}};
        double loss, best, bound;
        struct wn_err err;

        make(&m, &rng, LAYERS, 7, 1, true, powers[i % 4]);
        m.c.room = 9 + wn_rng_below(&rng, 12);
        CHECK_OK(wn_solve_loss(&m.c, &m.l, &bound, &err), &err);
        loss = wn_loss_all(&m.l, &m.c);
        assert_true(wn_choice_bytes(&m.c) == m.c.room || m.c.layers[0].kept == 7);
        best = best_of_all(&m, 0);
        assert_true(fabs(loss - best) <= 1e-12 && bound <= best + 1e-12);
        release(&m);
    }
}

/* Several sources in one ranking, two banks, bytes that differ: near the best, never below the bound. */
static void mixed_sources_and_two_banks_are_near_the_best(void **state)
{
    struct wn_rng rng = {32};
    double worst = 0, all = 0;

    (void)state;
    for (int i = 0; i < 300; i++) {
        struct made m = {.c = {.floor = 1 + (uint32_t)i % 2, .lo_bits = i % 3 ? 2 : 0}};
        double loss, best, bound;
        struct wn_err err;

        make(&m, &rng, LAYERS, 5, 1 + (uint32_t)i % 3, i % 2, 1 + (i % 5) * 0.4);
        for (uint32_t l = 0; l < LAYERS; l++) {
            m.c.layers[l].hi_bytes = 17 + l;
            m.c.layers[l].lo_bytes = 9 + l;
        }
        m.c.room = 120 + wn_rng_below(&rng, 120);
        CHECK_OK(wn_solve_loss(&m.c, &m.l, &bound, &err), &err);
        assert_true(wn_choice_bytes(&m.c) <= m.c.room);
        for (uint32_t l = 0; l < LAYERS; l++)
            assert_true(m.c.layers[l].kept >= m.c.floor && m.c.layers[l].hi <= m.c.layers[l].kept);
        loss = wn_loss_all(&m.l, &m.c);
        best = best_of_all(&m, 0);
        assert_true(best <= loss + 1e-12 && bound <= best + 1e-12);
        worst = fmax(worst, loss - best);
        all += loss - best;
        release(&m);
    }
    /* losses of up to 1.5; of 15 experts one is a fifteenth */
    assert_true(worst < 0.1 && all / 300 < 0.01);
}

static void check_at(const struct wn_curve *c, double dropped, double want)
{
    double got = wn_curve_at(c, dropped, 1.5);

    if (!(fabs(got - want) <= 1e-12 * want))
        fail_msg("%g dropped: %.15g, wanted %.15g", dropped, got, want);
}

/* 0.1, 0.2, 0.4 dropped cost 1, 4, 6: powers of 2 and of log2 1.5 = 0.58 between them. */
static void a_curve_goes_through_its_points_and_on_as_beside_them(void **state)
{
    const struct wn_curve c = {3, {log(0.1), log(0.2), log(0.4)}, {log(1), log(4), log(6)}};
    const struct wn_curve flat = {2, {log(0.1), log(0.2)}, {log(1), log(1.1)}};
    const struct wn_curve one = {1, {log(0.25)}, {log(3)}};

    (void)state;
    check_at(&c, 0.1, 1);
    check_at(&c, 0.2, 4);
    check_at(&c, 0.4, 6);
    check_at(&c, 0.1 * sqrt(2), 2);
    check_at(&c, 0.05, 0.25);
    check_at(&c, 0.8, 9);
    check_at(&flat, 0.05, sqrt(0.5)); /* no flatter than a power of 0.5 */
    check_at(&one, 0.5, 3 * pow(2, 1.5));
    assert_true(wn_curve_at(&c, 0, 1.5) == 0);
}

/* Then one of the floor's is raised first, and what that frees is spent. */
static void experts_of_fewer_bits_may_take_more_bytes(void **state)
{
    struct made m = {.c = {.floor = 2, .room = 45, .lo_bits = 8}};
    struct wn_rng rng = {35};
    struct wn_err err;
    uint32_t kept = 0;
    double bound;

    (void)state;
    make(&m, &rng, LAYERS, 7, 1, true, 1.2);
    for (uint32_t l = 0; l < LAYERS; l++) {
        m.c.layers[l].hi_bytes = 5;
        m.c.layers[l].lo_bytes = 9;
    }
    CHECK_OK(wn_solve_loss(&m.c, &m.l, &bound, &err), &err);
    for (uint32_t l = 0; l < LAYERS; l++) {
        assert_int_equal(m.c.layers[l].hi, m.c.layers[l].kept);
        kept += m.c.layers[l].kept;
    }
    assert_int_equal(kept, 45 / 5);
    release(&m);
}

static void a_layer_that_costs_nothing_gets_its_floor(void **state)
{
    struct made m = {.c = {.floor = 2, .room = 12}};
    struct wn_rng rng = {33};
    struct wn_err err;
    double bound;

    (void)state;
    make(&m, &rng, LAYERS, 7, 1, true, 1.2);
    m.l.layers[1].cost[0] = 0;
    CHECK_OK(wn_solve_loss(&m.c, &m.l, &bound, &err), &err);
    assert_int_equal(m.c.layers[1].kept, 2);
    assert_int_equal(m.c.layers[0].kept + m.c.layers[2].kept, 10);
    release(&m);
}

static void a_room_below_the_floor_is_refused(void **state)
{
    struct made m = {.c = {.floor = 4, .room = 11}};
    struct wn_rng rng = {34};
    struct wn_err err;
    double bound;

    (void)state;
    make(&m, &rng, LAYERS, 7, 1, true, 1.2);
    CHECK_FAILS(wn_solve_loss(&m.c, &m.l, &bound, &err), &err,
                "11 bytes are left for experts, the floor of 4 in each of 3 layers takes 12");
    release(&m);
}

/* Of a source that weighs nothing the cost need not be known. */
static void a_source_without_weight_changes_nothing(void **state)
{
    struct made m = {.c = {.floor = 1, .room = 11}};
    struct wn_rng rng = {35};
    uint32_t kept[LAYERS];
    struct wn_err err;
    double bound;

    (void)state;
    make(&m, &rng, LAYERS, 7, 2, true, 1.5);
    m.l.omega[0] = 1;
    m.l.omega[1] = 0;
    CHECK_OK(wn_solve_loss(&m.c, &m.l, &bound, &err), &err);
    for (uint32_t i = 0; i < LAYERS; i++) {
        kept[i] = m.c.layers[i].kept;
        m.l.layers[i].cost[1] = (double)NAN;
    }
    CHECK_OK(wn_solve_loss(&m.c, &m.l, &bound, &err), &err);
    for (uint32_t i = 0; i < LAYERS; i++)
        assert_int_equal(m.c.layers[i].kept, kept[i]);
    assert_true(isfinite(wn_loss_all(&m.l, &m.c)) && isnan(wn_loss_source(&m.l, &m.c, 1)));
    release(&m);
}

/* At K3's size, 82,432 experts of four sources in two banks: the bound is near, and it is quick. */
static void at_full_size_the_bound_is_all_but_reached(void **state)
{
    struct made m = {.c = {.floor = 64, .lo_bits = 2, .room = UINT64_C(390007554048)}};
    struct wn_rng rng = {36};
    struct wn_err err;
    double bound;

    (void)state;
    make(&m, &rng, 92, 896, 4, true, 1.2);
    for (uint32_t i = 0; i < 92; i++) {
        m.c.layers[i].hi_bytes = 17547264;
        m.c.layers[i].lo_bytes = 10321920;
    }
    CHECK_OK(wn_solve_loss(&m.c, &m.l, &bound, &err), &err);
    assert_true(m.c.room - wn_choice_bytes(&m.c) < 17547264);
    assert_true(bound <= wn_loss_all(&m.l, &m.c) && bound > wn_loss_all(&m.l, &m.c) * 0.998);
    release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_experts_of_one_source_are_chosen_best),
        cmocka_unit_test(mixed_sources_and_two_banks_are_near_the_best),
        cmocka_unit_test(a_curve_goes_through_its_points_and_on_as_beside_them),
        cmocka_unit_test(experts_of_fewer_bits_may_take_more_bytes),
        cmocka_unit_test(a_layer_that_costs_nothing_gets_its_floor),
        cmocka_unit_test(a_room_below_the_floor_is_refused),
        cmocka_unit_test(a_source_without_weight_changes_nothing),
        cmocka_unit_test(at_full_size_the_bound_is_all_but_reached),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
