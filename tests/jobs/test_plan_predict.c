/* Plans from an archive with probes: what they are predicted to lose, by what, and that a plan's file keeps it. */
#include "wn_test.h"
#include "base/rng.h"
#include "jobs/calibrate/saliency.h"
#include "jobs/plan/plan_loss.h"
#include "sys/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 4, EXPERTS = 12, SOURCES = 2, TOP_K = 2, POINTS = 3 };

#define POWER 1.8

static double cost[SOURCES][LAYERS] = {{0, 0.08, 0.02, 0.01}, {0, 0.01, 0.02, 0.09}};
static const char *const labels[SOURCES] = {"a", "b"};
static struct wn_saliency base;            /* written by make, for what a test works out by hand */
static bool with_loo;                      /* whether archives that are made have its sums, other ones than reap's */
static double tiny;                        /* above 0: the sum of the first expert of layer 1, of source "a" */
static void (*spoil)(struct wn_probes *p); /* called with the probes that are written; NULL: they are sound */

/* Sums at random, the same for all who ask. */
static void make_sums(struct wn_saliency *s)
{
    static const uint32_t experts[LAYERS] = {0, EXPERTS, EXPERTS, EXPERTS};
    struct wn_rng rng = {41};
    struct wn_err err;

    CHECK_OK(wn_saliency_init(s, LAYERS, experts, TOP_K, 4, SOURCES, labels, &err), &err);
    free(s->loo_up_sq); /* an older archive's */
    free(s->low[WN_SUM_LOO_UP_SQ]);
    s->loo_up_sq = s->low[WN_SUM_LOO_UP_SQ] = NULL;
    for (uint32_t i = 0; i < SOURCES; i++) {
        s->source_tokens[i] = 300 - 200 * i;
        for (uint32_t l = 1; l < LAYERS; l++)
            for (uint32_t e = 0; e < EXPERTS; e++) {
                s->source_saliency[wn_saliency_source_row(s, i, l) + e] = (double)(1 + wn_rng_below(&rng, 1000)) / 64;
                s->source_counts[wn_saliency_source_row(s, i, l) + e] = 10;
                if (with_loo)
                    s->loo[wn_saliency_source_row(s, i, l) + e] = (double)(1 + wn_rng_below(&rng, 1000)) / 64;
            }
    }
    if (tiny > 0)
        s->source_saliency[wn_saliency_source_row(s, 0, 1)] = tiny;
    wn_saliency_add_up(s);
}

/* The share that losses are told by. */
static double dropped(const struct wn_saliency *s, const uint8_t *mask, uint32_t source, uint32_t layer)
{
    const double *v = (with_loo ? s->loo : s->source_saliency) + wn_saliency_source_row(s, source, layer);
    double whole = 0, gone = 0;

    for (uint32_t e = 0; e < EXPERTS; e++) {
        whole += v[e];
        gone += mask[e] ? v[e] : 0;
    }
    return gone / whole;
}

/* Losses are cost x dropped ^ POWER to the last digits. tokens: of source "b". */
static void make_probes(const struct wn_saliency *s, uint32_t points, uint64_t tokens, struct wn_probes *p)
{
    struct wn_err err;

    CHECK_OK(wn_probes_init(p, points, SOURCES, LAYERS, EXPERTS, &err), &err);
    p->ghosts = WN_GHOSTS_SKIP;
    p->tokens[0] = 100;
    p->tokens[1] = tokens;
    for (uint32_t i = 0; i < points; i++) {
        p->kept[i] = 1 - 0.25 * (i + 1);
        for (uint32_t l = 1; l < LAYERS; l++) {
            uint8_t *mask = p->mask + (i * LAYERS + l) * EXPERTS;

            for (uint32_t e = 0; e < 3 * (i + 1); e++)
                mask[e] = 1;
            for (uint32_t k = 0; k < SOURCES && p->tokens[k]; k++) {
                double d = dropped(s, mask, k, l);

                p->dropped[(i * SOURCES + k) * LAYERS + l] = d;
                p->kld[(i * SOURCES + k) * LAYERS + l] = cost[k][l] * pow(d, POWER);
            }
        }
    }
}

/* The path of an archive with so many points; 0: without probes. */
static const char *make(uint32_t points, uint64_t tokens)
{
    const char *folder = wn_test_folder(), *plain = wn_test_path(folder, "s.npz"), *out = wn_test_path(folder, "p.npz");
    struct wn_npz z = {0};
    struct wn_probes p;
    struct wn_err err;

    wn_saliency_release(&base);
    make_sums(&base);
    CHECK_OK(wn_saliency_write(&base, plain, false, &err), &err);
    if (points == 0)
        return plain;
    make_probes(&base, points, tokens, &p);
    if (spoil)
        spoil(&p);
    CHECK_OK(wn_probes_put(&p, &z, SOURCES, LAYERS, EXPERTS, &err), &err);
    CHECK_OK(wn_npz_extend(plain, &z, out, false, &err), &err);
    wn_npz_release(&z);
    wn_probes_release(&p);
    return out;
}

/* What a plan loses, by the formula. */
static double by_hand(const struct wn_plan *plan, uint32_t source, double power)
{
    double sum = 0;

    for (uint32_t i = 0; i < plan->layer_count; i++) {
        const struct wn_plan_layer *l = &plan->layers[i];
        uint8_t mask[EXPERTS];

        memset(mask, 1, sizeof mask);
        for (uint32_t k = 0; k < l->keep_count; k++)
            mask[l->keep[k]] = 0;
        sum += cost[source][l->layer] * pow(dropped(&base, mask, source, l->layer), power);
    }
    return sum;
}

static uint32_t experts_of(const struct wn_plan *p)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < p->layer_count; i++)
        sum += p->layers[i].keep_count;
    return sum;
}

static void check_near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-9 * fabs(want)))
        fail_msg("%.12g, wanted %.12g", got, want);
}

static void a_budget_by_probes_loses_what_the_formula_says_and_less_than_all_alike(void **state)
{
    const char *path = make(POINTS, 100);
    struct wn_plan_options o = {.mode = WN_PLAN_PROBE, .keep = 6, .min_experts = 2};
    struct wn_plan_kept k;
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_plan_make(path, &o, &p, &k, &err), &err);
    assert_int_equal(experts_of(&p), 18);
    assert_string_equal(p.mode, "global");
    assert_int_equal(k.basis, WN_BASIS_PROBE);
    assert_true(k.power_fitted);
    check_near(k.power, POWER);
    for (uint32_t s = 0; s < SOURCES; s++)
        check_near(k.loss_source[s], by_hand(&p, s, POWER));
    check_near(k.loss, 0.75 * k.loss_source[0] + 0.25 * k.loss_source[1]); /* tokens: 300 and 100 */
    assert_true(k.loss < k.loss_same && k.loss_bound <= 1 && k.loss_bound > 0.6);
    wn_plan_kept_release(&k);
    wn_plan_release(&p);
}

/* Or plans by one criterion could not be compared with those by another. */
static void losses_are_told_by_shares_of_loo_whatever_ranks(void **state)
{
    static const char *const criteria[] = {"reap", "count", "loo"};
    const char *path;

    (void)state;
    with_loo = true;
    path = make(POINTS, 100);
    for (size_t i = 0; i < sizeof criteria / sizeof *criteria; i++) {
        struct wn_plan_options o = {.criterion = criteria[i], .keep = 6, .min_experts = 2};
        struct wn_plan_kept k;
        struct wn_plan p;
        struct wn_err err;

        CHECK_OK(wn_plan_make(path, &o, &p, &k, &err), &err);
        for (uint32_t s = 0; s < SOURCES; s++)
            check_near(k.loss_source[s], by_hand(&p, s, POWER));
        wn_plan_kept_release(&k);
        wn_plan_release(&p);
    }
    with_loo = false;
}

static void the_same_number_in_each_layer_is_predicted_too(void **state)
{
    const char *path = make(POINTS, 100);
    struct wn_plan_options o = {.keep = 6, .min_experts = 2};
    struct wn_plan_kept k, best;
    struct wn_plan p, q;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_plan_make(path, &o, &p, &k, &err), &err);
    assert_string_equal(p.budget, "uniform");
    for (uint32_t s = 0; s < SOURCES; s++)
        check_near(k.loss_source[s], by_hand(&p, s, POWER));
    assert_true(k.loss == k.loss_same && k.loss_bound == 0);
    o.mode = WN_PLAN_PROBE;
    CHECK_OK(wn_plan_make(path, &o, &q, &best, &err), &err);
    check_near(best.loss_same, k.loss);
    check_near(best.loss_same_source[1], k.loss_source[1]);
    assert_true(k.loss_apart == best.loss && best.loss_apart == 0);
    wn_plan_kept_release(&best);
    wn_plan_kept_release(&k);
    wn_plan_release(&p);
    wn_plan_release(&q);
}

/* Layer 1 is a's, layer 3 b's. */
static void weights_say_whose_layers_keep_more(void **state)
{
    const char *path = make(POINTS, 100);
    uint32_t kept[2][2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct wn_source_weight w = {labels[i], 1};
        struct wn_plan_options o = {
            .mode = WN_PLAN_PROBE, .keep = 6, .min_experts = 2, .weights = &w, .weight_count = 1};
        struct wn_plan_kept k;
        struct wn_plan p;
        struct wn_err err;

        CHECK_OK(wn_plan_make(path, &o, &p, &k, &err), &err);
        kept[i][0] = p.layers[0].keep_count;
        kept[i][1] = p.layers[2].keep_count;
        assert_true(k.loss == k.loss_source[i]);
        wn_plan_kept_release(&k);
        wn_plan_release(&p);
    }
    assert_true(kept[0][0] > kept[1][0] && kept[0][1] < kept[1][1]);
}

static void the_power_may_be_told(void **state)
{
    const char *path = make(1, 100); /* one point fits none */
    struct wn_plan_options o = {.mode = WN_PLAN_PROBE, .keep = 6, .min_experts = 2};
    struct wn_plan_kept k;
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_plan_make(path, &o, &p, &k, &err), &err);
    assert_true(k.power == WN_POWER_USUAL && !k.power_fitted);
    wn_plan_kept_release(&k);
    wn_plan_release(&p);
    o.power = POWER;
    CHECK_OK(wn_plan_make(path, &o, &p, &k, &err), &err);
    assert_true(k.power == POWER && !k.power_fitted);
    check_near(k.loss_source[0], by_hand(&p, 0, POWER));
    wn_plan_kept_release(&k);
    wn_plan_release(&p);
    o.power = 0.5;
    CHECK_FAILS(wn_plan_make(path, &o, &p, &k, &err), &err, "a power of 0.5 is not within 1 .. 4");
}

/* The archive at `path` with changes of the residual stream that are costs, times tokens. */
static const char *with_proxy(const char *path)
{
    const char *out = wn_test_path(wn_test_folder(), "proxy.npz");
    const uint64_t shape[2] = {SOURCES, LAYERS};
    struct wn_npz z = {0};
    struct wn_npy a;
    struct wn_err err;

    CHECK_OK(wn_npy_init(&a, WN_NPY_F64, 0, 2, shape, &err), &err);
    for (uint32_t s = 0; s < SOURCES; s++)
        for (uint32_t l = 0; l < LAYERS; l++)
            ((double *)a.data)[s * LAYERS + l] = cost[s][l] * (double)base.source_tokens[s];
    CHECK_OK(wn_npz_add(&z, "loo_up_sq", &a, &err), &err);
    CHECK_OK(wn_npz_extend(path, &z, out, false, &err), &err);
    wn_npz_release(&z);
    return out;
}

/* The same plan as by probes, and the same losses. */
static void the_proxy_plans_by_what_leaving_changes(void **state)
{
    const char *path = with_proxy(make(0, 0));
    struct wn_plan_options o = {.mode = WN_PLAN_PROXY, .keep = 6, .min_experts = 2, .power = POWER};
    struct wn_plan_kept k;
    struct wn_plan p, q;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_plan_make(path, &o, &p, &k, &err), &err);
    assert_int_equal(k.basis, WN_BASIS_PROXY);
    assert_string_equal(p.budget, "proxy");
    for (uint32_t s = 0; s < SOURCES; s++)
        check_near(k.loss_source[s], by_hand(&p, s, POWER));
    wn_plan_kept_release(&k);
    o.mode = WN_PLAN_PROBE;
    CHECK_OK(wn_plan_make(make(1, 100), &o, &q, NULL, &err), &err);
    for (uint32_t i = 0; i < p.layer_count; i++)
        assert_int_equal(p.layers[i].keep_count, q.layers[i].keep_count);
    wn_plan_release(&p);
    wn_plan_release(&q);
}

static void a_source_that_was_not_probed_is_told_by_the_proxy(void **state)
{
    const struct wn_source_weight w = {"b", 1};
    struct wn_plan_options o = {.keep = 6, .min_experts = 2, .weights = &w, .weight_count = 1, .power = POWER};
    struct wn_plan_kept k;
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_plan_make(with_proxy(make(POINTS, 0)), &o, &p, &k, &err), &err);
    assert_int_equal(k.basis, WN_BASIS_PROXY);
    check_near(k.loss, by_hand(&p, 1, POWER));
    wn_plan_kept_release(&k);
    wn_plan_release(&p);
}

static void a_weight_beyond_all_measure_is_refused(void **state)
{
    const struct wn_source_weight w[2] = {{"a", 1e308}, {"b", 1e308}};
    struct wn_plan_options o = {.keep = 6, .min_experts = 2, .weights = w, .weight_count = 2};
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    CHECK_FAILS(wn_plan_make(make(POINTS, 100), &o, &p, NULL, &err), &err,
                "the weight of source 'a' is 1e+308, not within 0 .. 1e+06");
}

static void what_the_archive_does_not_have_is_named(void **state)
{
    const char *path = make(0, 0);
    const struct wn_source_weight w = {"b", 1};
    struct wn_plan_options o = {.mode = WN_PLAN_PROBE, .keep = 6, .min_experts = 2};
    struct wn_plan_kept k;
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    CHECK_FAILS(wn_plan_make(path, &o, &p, &k, &err), &err, "the archive has no probes: winnow probe adds them");
    o.mode = WN_PLAN_PROXY;
    CHECK_FAILS(wn_plan_make(path, &o, &p, &k, &err), &err, "the archive has no 'loo_up_sq'");
    o.mode = WN_PLAN_UNIFORM;
    CHECK_OK(wn_plan_make(path, &o, &p, &k, &err), &err);
    assert_int_equal(k.basis, WN_BASIS_NONE);
    assert_string_equal(p.budget, "");
    wn_plan_kept_release(&k);
    wn_plan_release(&p);
    /* a source that was not probed: nothing is known of it, and it cannot be weighed */
    path = make(POINTS, 0);
    o.mode = WN_PLAN_PROBE;
    CHECK_OK(wn_plan_make(path, &o, &p, &k, &err), &err);
    assert_true(isnan(k.loss_source[1]) && k.loss == k.loss_source[0]);
    assert_int_equal(p.loss_count, 1);
    wn_plan_kept_release(&k);
    wn_plan_release(&p);
    o.weights = &w;
    o.weight_count = 1;
    CHECK_FAILS(wn_plan_make(path, &o, &p, &k, &err), &err, "source 'b' has a weight, but the archive has no probes");
    o.mode = WN_PLAN_UNIFORM; /* which needs no prediction */
    CHECK_OK(wn_plan_make(path, &o, &p, &k, &err), &err);
    assert_int_equal(k.basis, WN_BASIS_NONE);
    wn_plan_kept_release(&k);
    wn_plan_release(&p);
}

static void lose_nothing_in_layer_2(struct wn_probes *p)
{
    for (uint32_t i = 0; i < POINTS * SOURCES; i++)
        p->kld[i * LAYERS + 2] = 0;
}

static void drop_nobody_in_layer_2(struct wn_probes *p)
{
    lose_nothing_in_layer_2(p);
    for (uint32_t i = 0; i < POINTS; i++)
        memset(p->mask + (i * LAYERS + 2) * EXPERTS, 0, EXPERTS);
}

static void lose_nothing(struct wn_probes *p)
{
    memset(p->kld, 0, sizeof *p->kld * POINTS * SOURCES * LAYERS);
}

static void drop_the_first_of_layer_1(struct wn_probes *p)
{
    for (uint32_t i = 0; i < POINTS; i++)
        memset(p->mask + (i * LAYERS + 1) * EXPERTS + 1, 0, EXPERTS - 1);
}

/* It would be free otherwise, and be cut to its floor. */
static void a_layer_whose_probes_tell_nothing_costs_what_the_others_do(void **state)
{
    void (*const all[])(struct wn_probes *) = {lose_nothing_in_layer_2, drop_nobody_in_layer_2};
    struct wn_plan_options o = {.mode = WN_PLAN_PROBE, .keep = 6, .min_experts = 2, .power = POWER};
    struct wn_plan_kept k;
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const char *path;
        double before[SOURCES];

        spoil = all[i];
        path = make(POINTS, 100);
        spoil = NULL;
        CHECK_OK(wn_plan_make(path, &o, &p, &k, &err), &err);
        assert_int_equal(k.untold, 1);
        assert_int_equal(k.untold_layer, 2);
        for (uint32_t s = 0; s < SOURCES; s++) {
            before[s] = cost[s][2];
            cost[s][2] = (cost[s][1] + cost[s][3]) / 2;
            check_near(k.loss_source[s], by_hand(&p, s, POWER));
            cost[s][2] = before[s];
        }
        wn_plan_kept_release(&k);
        wn_plan_release(&p);
    }
}

static void probes_that_tell_no_cost_are_no_basis(void **state)
{
    struct wn_plan_options o = {.mode = WN_PLAN_PROBE, .keep = 6, .min_experts = 2, .power = POWER};
    struct wn_plan_kept k;
    struct wn_plan p;
    struct wn_err err;
    const char *path;

    (void)state;
    spoil = lose_nothing;
    path = make(POINTS, 100);
    CHECK_FAILS(wn_plan_make(path, &o, &p, &k, &err), &err, "no probe lost anything, so they do not tell");
    o.mode = WN_PLAN_UNIFORM; /* which needs no prediction */
    CHECK_OK(wn_plan_make(path, &o, &p, &k, &err), &err);
    assert_int_equal(k.basis, WN_BASIS_NONE);
    wn_plan_kept_release(&k);
    wn_plan_release(&p);
    o.mode = WN_PLAN_PROBE;
    spoil = drop_the_first_of_layer_1;
    tiny = 1e-60;
    path = make(POINTS, 100);
    tiny = 0;
    spoil = NULL;
    CHECK_FAILS(wn_plan_make(path, &o, &p, &k, &err), &err, "layer 1: what source 'a' lost there is out of proportion");
}

static void a_plan_s_file_keeps_what_was_predicted(void **state)
{
    const char *path = make(POINTS, 100), *file = wn_test_path(wn_test_folder(), "plan.json");
    struct wn_plan_options o = {.mode = WN_PLAN_PROBE, .keep = 6, .min_experts = 2};
    struct wn_plan p, q;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_plan_make(path, &o, &p, NULL, &err), &err);
    assert_true(p.asked_memory == 0 && p.asked_size == 0);
    p.asked_memory = 480000000000;
    CHECK_OK(wn_plan_write(&p, file, false, &err), &err);
    CHECK_OK(wn_plan_read(&q, file, &err), &err);
    assert_true(q.asked_memory == p.asked_memory && q.asked_size == 0);
    assert_string_equal(q.budget, "probe");
    assert_int_equal(q.basis, WN_BASIS_PROBE);
    assert_int_equal(q.probed, WN_GHOSTS_SKIP);
    assert_false(wn_plan_probed_otherwise(&q, WN_GHOSTS_SKIP));
    assert_true(wn_plan_probed_otherwise(&q, WN_GHOSTS_MEAN) && wn_plan_probed_otherwise(&q, WN_GHOSTS_BUILT));
    assert_true(q.power == p.power && q.loss == p.loss);
    assert_int_equal(q.loss_count, 2);
    assert_string_equal(q.losses[1].source, "b");
    assert_true(q.losses[1].loss == p.losses[1].loss);
    assert_true(p.loss_same > p.loss && q.loss_same == p.loss_same);
    assert_true(p.losses[1].same > 0 && q.losses[1].same == p.losses[1].same && q.losses[0].same == p.losses[0].same);
    wn_plan_release(&p);
    wn_plan_release(&q);
    /* of a plan that keeps the same number it would say the same twice */
    o.mode = WN_PLAN_UNIFORM;
    CHECK_OK(wn_plan_make(path, &o, &p, NULL, &err), &err);
    CHECK_OK(wn_plan_write(&p, file, true, &err), &err);
    CHECK_OK(wn_plan_read(&q, file, &err), &err);
    assert_true(q.loss > 0 && q.loss_same == 0 && q.losses[1].same == 0);
    wn_plan_release(&p);
    wn_plan_release(&q);
}

static void a_prediction_that_is_none_is_refused(void **state)
{
    static const struct {
        const char *own, *why;
    } all[] = {
        {"\"power\": 1.2, \"predicted\": {\"by\": \"guess\", \"loss\": 1, \"sources\": {}}",
         "not 'by' 'probe' or 'proxy'"},
        {"\"power\": 1.2, \"predicted\": {\"by\": \"probe\", \"ghosts\": \"spirits\", \"loss\": 1}",
         "'ghosts' that are not"},
        {"\"predicted\": {\"by\": \"probe\", \"loss\": 1, \"sources\": {}}", "'power' is not a number above 0"},
        {"\"power\": 1.2, \"predicted\": {\"by\": \"probe\", \"loss\": -1, \"sources\": {}}",
         "of 'all sources' is not a number"},
        {"\"power\": 1.2, \"predicted\": {\"by\": \"probe\", \"loss\": 1}", "have no object 'sources'"},
        {"\"power\": 1.2, \"predicted\": {\"by\": \"probe\", \"loss\": 1, \"sources\": {\"a\": \"x\"}}",
         "of 'a' is not a number"},
        {"\"power\": 1.2, \"predicted\": {\"by\": \"probe\", \"loss\": 1, \"sources\": {\"a\": 1}, \"same\": 2}",
         "losses of 'same' have no object 'sources'"},
        {"\"power\": 1.2, \"predicted\": {\"by\": \"probe\", \"loss\": 1, \"sources\": {\"a\": 1}, \"same\": "
         "{\"sources\": "
         "{}}}",
         "of 'same' is not a number"},
        {"\"power\": 1.2, \"predicted\": {\"by\": \"probe\", \"loss\": 1, \"sources\": {\"a\": 1}, \"same\": "
         "{\"loss\": 1, "
         "\"sources\": {\"a\": -1}}}",
         "of 'a' is not a number"},
        {"\"asked\": {\"size\": 0}", "'asked' is not 'fit' or 'size' with a number of bytes"},
        {"\"asked\": {\"size\": 1, \"fit\": 1}", "'asked' is not 'fit' or 'size'"},
        {"\"asked\": 7", "'asked' is not 'fit' or 'size'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char text[512];
        struct wn_plan p;
        struct wn_err err;
        int n = snprintf(text, sizeof text,
                         "{\"top_k\": 1, \"num_experts\": 2, \"layers\": {\"1\": {\"keep\": [0]}}, \"winnow\": {%s}}",
                         all[i].own);

        CHECK_FAILS(wn_plan_parse(&p, text, (size_t)n, &err), &err, all[i].why);
        assert_null(p.layers);
    }
}

static int let_go(void **state)
{
    (void)state;
    wn_saliency_release(&base);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_budget_by_probes_loses_what_the_formula_says_and_less_than_all_alike),
        cmocka_unit_test(losses_are_told_by_shares_of_loo_whatever_ranks),
        cmocka_unit_test(the_same_number_in_each_layer_is_predicted_too),
        cmocka_unit_test(weights_say_whose_layers_keep_more),
        cmocka_unit_test(the_power_may_be_told),
        cmocka_unit_test(the_proxy_plans_by_what_leaving_changes),
        cmocka_unit_test(a_source_that_was_not_probed_is_told_by_the_proxy),
        cmocka_unit_test(a_weight_beyond_all_measure_is_refused),
        cmocka_unit_test(what_the_archive_does_not_have_is_named),
        cmocka_unit_test(a_layer_whose_probes_tell_nothing_costs_what_the_others_do),
        cmocka_unit_test(probes_that_tell_no_cost_are_no_basis),
        cmocka_unit_test(a_plan_s_file_keeps_what_was_predicted),
        cmocka_unit_test(a_prediction_that_is_none_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, let_go);
}
