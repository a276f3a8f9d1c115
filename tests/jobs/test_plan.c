/* Plans: made from saliency, read and written, and what they keep. */
#include "prune_help.h"
#include "jobs/calibrate/saliency.h"
#include "sys/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN "golden/text/tiny-a/ref/saliency.npz"

/* ---- making ---- */

/* One dense layer and one of eight experts, top-1, two sources of 10 and 40 tokens. */
static const double code[8] = {1, 9, 2, 8, 3, 7, 4, 6}, prose[8] = {40, 4, 36, 8, 32, 12, 28, 12};

static const char *archive(void)
{
    static const uint32_t experts[2] = {0, 8};
    static const char *const labels[2] = {"code", "prose"};
    const char *path = wn_test_path(wn_test_folder(), "s.npz");
    struct wn_saliency s;
    struct wn_err err;

    CHECK_OK(wn_saliency_init(&s, 2, experts, 1, 0, 2, labels, &err), &err);
    s.source_tokens[0] = 10;
    s.source_tokens[1] = 40;
    for (uint32_t e = 0; e < 8; e++) {
        s.source_saliency[wn_saliency_source_row(&s, 0, 1) + e] = code[e];
        s.source_saliency[wn_saliency_source_row(&s, 1, 1) + e] = prose[e];
        s.source_counts[wn_saliency_source_row(&s, 0, 1) + e] = e;
        s.source_counts[wn_saliency_source_row(&s, 1, 1) + e] = 5;
    }
    snprintf(s.model_fingerprint, sizeof(s.model_fingerprint), "00000000deadbeef");
    wn_saliency_add_up(&s);
    CHECK_OK(wn_saliency_write(&s, path, false, &err), &err);
    wn_saliency_release(&s);
    return path;
}

static void make(const char *path, const struct wn_plan_options *o, struct wn_plan *p, struct wn_plan_kept *kept)
{
    struct wn_err err;

    CHECK_OK(wn_plan_make(path, o, p, kept, &err), &err);
}

static void check_keep(const struct wn_plan *p, const uint32_t *want, uint32_t n)
{
    assert_int_equal(p->layer_count, 1);
    assert_int_equal(p->layers[0].layer, 1);
    assert_int_equal(p->layers[0].keep_count, n);
    assert_memory_equal(p->layers[0].keep, want, n * sizeof(*want));
}

static void the_most_salient_experts_stay_in_rising_order(void **state)
{
    /* sums of both: 41 13 38 16 35 19 32 18 */
    static const uint32_t want[4] = {0, 2, 4, 6};
    const struct wn_plan_options o = {.keep = 4};
    const char *path = archive();
    char fingerprint[17];
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    make(path, &o, &p, NULL);
    check_keep(&p, want, 4);
    assert_string_equal(p.mode, "uniform");
    assert_string_equal(p.criterion, "reap");
    assert_string_equal(p.model_fingerprint, "00000000deadbeef");
    CHECK_OK(wn_saliency_fingerprint(path, fingerprint, &err), &err);
    assert_string_equal(p.saliency_fingerprint, fingerprint);
    assert_int_equal(p.top_k, 1);
    assert_int_equal(p.num_experts, 8);
    assert_int_equal(p.min_experts, 4);
    wn_plan_release(&p);
}

static void weights_turn_the_choice(void **state)
{
    /* per token: code 0.1 0.9 0.2 0.8 0.3 0.7 0.4 0.6, prose 1.0 0.1 0.9 0.2 0.8 0.3 0.7 0.3 */
    static const struct wn_source_weight code_only[1] = {{"code", 1}}, both[2] = {{"prose", 1}, {"code", 2}},
                                         exact[1] = {{"code", 1.0000001}};
    static const uint32_t want_code[4] = {1, 3, 5, 7}, want_both[3] = {1, 3, 5}, want_five[5] = {1, 3, 5, 6, 7};
    struct wn_plan_options o = {.keep = 4, .weights = code_only, .weight_count = 1};
    const char *path = archive();
    struct wn_plan p;

    (void)state;
    make(path, &o, &p, NULL);
    check_keep(&p, want_code, 4);
    assert_string_equal(p.weights, "code=1");
    wn_plan_release(&p);
    /* together 1.2 1.9 1.3 1.8 1.4 1.7 1.5 1.5 */
    o.weights = both;
    o.weight_count = 2;
    make(path, &o, &p, NULL);
    assert_string_equal(p.weights, "prose=1,code=2");
    assert_memory_equal(p.layers[0].keep, want_both, sizeof(want_both));
    wn_plan_release(&p);
    o.keep = 5;
    make(path, &o, &p, NULL);
    check_keep(&p, want_five, 5);
    wn_plan_release(&p);
    o.weights = exact;
    o.weight_count = 1;
    make(path, &o, &p, NULL);
    assert_string_equal(p.weights, "code=1.0000001"); /* told as it was given, not rounded */
    wn_plan_release(&p);
}

/* Each entry is a number, their sum is none: no share of it is told. */
static void sums_that_no_number_holds_are_refused(void **state)
{
    static const uint32_t experts[1] = {4};
    static const char *const labels[1] = {"a"};
    const char *path = wn_test_path(wn_test_folder(), "s.npz");
    const struct wn_plan_options o = {.keep = 2};
    struct wn_plan_kept kept;
    struct wn_saliency s;
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_saliency_init(&s, 1, experts, 1, 0, 1, labels, &err), &err);
    s.source_tokens[0] = 10;
    for (uint32_t e = 0; e < 4; e++)
        s.source_saliency[e] = 1e308;
    wn_saliency_add_up(&s);
    CHECK_OK(wn_saliency_write(&s, path, false, &err), &err);
    wn_saliency_release(&s);
    CHECK_FAILS(wn_plan_make(path, &o, &p, &kept, &err), &err, "more than a number can hold");
}

static void sums_of_nothing_but_zeros_are_nothing_to_choose_by(void **state)
{
    static const uint32_t experts[2] = {0, 4};
    static const char *const labels[2] = {"a", "b"};
    const struct wn_source_weight only_b = {"b", 1};
    const struct wn_plan_options all = {.keep = 2, .min_experts = 1},
                                 b = {.keep = 2, .min_experts = 1, .weights = &only_b, .weight_count = 1};
    struct wn_saliency s;
    struct wn_plan_kept kept;
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    for (int full = 0; full < 2; full++) {
        const char *path = wn_test_path(wn_test_folder(), "s.npz");

        CHECK_OK(wn_saliency_init(&s, 2, experts, 1, 0, 2, labels, &err), &err);
        s.source_tokens[0] = s.source_tokens[1] = 10;
        if (full)
            s.source_saliency[wn_saliency_source_row(&s, 0, 1) + 3] = 1;
        wn_saliency_add_up(&s);
        CHECK_OK(wn_saliency_write(&s, path, false, &err), &err);
        wn_saliency_release(&s);
        CHECK_FAILS(wn_plan_make(path, &b, &p, &kept, &err), &err, "layer 1: the sums of all its experts are zero");
        if (full) {
            CHECK_OK(wn_plan_make(path, &all, &p, &kept, &err), &err);
            wn_plan_release(&p);
            wn_plan_kept_release(&kept);
        } else {
            CHECK_FAILS(wn_plan_make(path, &all, &p, &kept, &err), &err, "layer 1: the sums of all its experts");
        }
    }
}

static void the_lower_id_stays_on_a_tie(void **state)
{
    /* counts over both sources: 5 6 7 8 9 10 11 12; prose alone: all 5 */
    static const struct wn_source_weight prose_only[1] = {{"prose", 3}};
    static const uint32_t want_tie[4] = {0, 1, 2, 3}, want[4] = {4, 5, 6, 7};
    struct wn_plan_options o = {.keep = 4, .criterion = "count"};
    const char *path = archive();
    struct wn_plan p;

    (void)state;
    make(path, &o, &p, NULL);
    check_keep(&p, want, 4);
    assert_string_equal(p.criterion, "count");
    wn_plan_release(&p);
    o.weights = prose_only;
    o.weight_count = 1;
    make(path, &o, &p, NULL);
    check_keep(&p, want_tie, 4);
    wn_plan_release(&p);
}

static void a_share_is_rounded_to_the_nearest_number(void **state)
{
    static const struct {
        double share;
        uint32_t keep;
    } cases[] = {{0.5, 4}, {0.56, 4}, {0.57, 5}, {1, 8}};
    const char *path = archive();
    struct wn_plan p;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct wn_plan_options o = {.keep_share = cases[i].share};

        make(path, &o, &p, NULL);
        assert_int_equal(p.layers[0].keep_count, cases[i].keep);
        wn_plan_release(&p);
    }
}

/* No constant of the program limits how many experts a layer has. */
static void layers_of_896_experts_and_of_one_are_planned(void **state)
{
    static const uint32_t counts[] = {896, 1}, keeps[] = {640, 1}, top_ks[] = {16, 1};
    static const char *const label[] = {"text"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const struct wn_plan_options o = {.keep = keeps[i]};
        const char *folder = wn_test_folder(), *path = wn_test_path(folder, "s.npz");
        const char *out = wn_test_path(folder, "plan.json");
        struct wn_saliency s;
        struct wn_plan p, again;
        struct wn_err err;

        CHECK_OK(wn_saliency_init(&s, 1, &counts[i], top_ks[i], 0, 1, label, &err), &err);
        s.source_tokens[0] = 1000;
        for (uint32_t e = 0; e < counts[i]; e++) {
            s.source_saliency[e] = 1 + e;
            s.source_counts[e] = top_ks[i];
        }
        wn_saliency_add_up(&s);
        CHECK_OK(wn_saliency_write(&s, path, false, &err), &err);
        wn_saliency_release(&s);
        make(path, &o, &p, NULL);
        assert_int_equal(p.num_experts, counts[i]);
        assert_int_equal(p.layers[0].keep_count, keeps[i]);
        for (uint32_t e = 0; e < keeps[i]; e++)
            assert_int_equal(p.layers[0].keep[e], counts[i] - keeps[i] + e);
        CHECK_OK(wn_plan_write(&p, out, false, &err), &err);
        CHECK_OK(wn_plan_read(&again, out, &err), &err);
        assert_memory_equal(again.layers[0].keep, p.layers[0].keep, keeps[i] * sizeof(*p.layers[0].keep));
        wn_plan_release(&p);
        wn_plan_release(&again);
    }
}

static void impossible_wishes_are_refused_with_numbers(void **state)
{
    static const struct wn_source_weight missing[1] = {{"japanese", 1}}, zero[1] = {{"code", 0}},
                                         twice[2] = {{"code", 1}, {"code", 2}}, negative[1] = {{"code", -1}};
    static const struct {
        struct wn_plan_options o;
        const char *part;
    } cases[] = {
        {{.keep = 3}, "3 experts to keep is below the floor of 4 (top-k is 1 of 8)"},
        {{.keep = 9}, "9 experts to keep, but the model has 8"},
        {{.keep_share = 0}, "a share of 0"},
        {{.keep_share = 1.5}, "a share of 1.5"},
        {{.keep = 5, .min_experts = 9}, "a floor of 9"},
        {{.keep = 5, .criterion = "best"}, "no criterion 'best'"},
        {{.keep = 5, .weights = missing, .weight_count = 1}, "no source 'japanese'; it has 'code', 'prose'"},
        {{.keep = 5, .weights = zero, .weight_count = 1}, "all sources are zero"},
        {{.keep = 5, .weights = twice, .weight_count = 2}, "'code' is given a weight twice"},
        {{.keep = 5, .weights = negative, .weight_count = 1}, "source 'code' is -1, not within 0 .. 1e+06"},
    };
    const char *path = archive();
    struct wn_plan_kept kept;
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CHECK_FAILS(wn_plan_make(path, &cases[i].o, &p, &kept, &err), &err, cases[i].part);
        assert_null(p.layers);
        assert_null(kept.source);
    }
}

static void the_floor_can_be_lowered_to_top_k_but_not_below(void **state)
{
    struct wn_plan_options o = {.keep = 4, .min_experts = 4};
    const char *path = wn_test_need_data(GOLDEN);
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    make(path, &o, &p, NULL);
    assert_int_equal(p.layer_count, 12);
    wn_plan_release(&p);
    o.min_experts = 3;
    o.keep = 3;
    CHECK_FAILS(wn_plan_make(path, &o, &p, NULL, &err), &err, "top-k 4");
    /* 4 x top-k is all sixteen experts of this model: its floor is top-k */
    o.min_experts = 0;
    CHECK_FAILS(wn_plan_make(path, &o, &p, NULL, &err), &err, "below the floor of 4");
}

/* ---- measuring ---- */

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-12;
}

static void a_top_k_that_is_not_the_archives_is_refused(void **state)
{
    struct wn_plan_options o = {.keep = 4, .top_k = 1};
    const char *path = archive();
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    make(path, &o, &p, NULL);
    wn_plan_release(&p);
    o.top_k = 2;
    CHECK_FAILS(wn_plan_make(path, &o, &p, NULL, &err), &err, "the archive has a top-k of 1, asked for is 2");
}

static void the_kept_shares_are_those_of_the_sums(void **state)
{
    const struct wn_plan_options o = {.keep = 4};
    struct wn_plan_kept k, again;
    const char *path = archive();
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    make(path, &o, &p, &k); /* experts 0 2 4 6 */
    assert_int_equal(k.source_count, 2);
    assert_int_equal(k.layer_count, 1);
    assert_string_equal(k.source[1], "prose");
    assert_true(near(k.kept_source[0], 10.0 / 40));
    assert_true(near(k.kept_source[1], 136.0 / 172));
    assert_true(near(k.kept_source_layer[1], 136.0 / 172));
    assert_true(near(k.kept, 146.0 / 212));
    assert_true(near(k.kept_layer[0], k.kept));
    assert_true(near(p.kept, k.kept));
    /* code likes 1 3 5 7, prose 0 2 4 6: nothing in common where chance gives one half */
    assert_true(near(k.overlap[0], 1) && near(k.overlap[3], 1));
    assert_true(near(k.overlap[1], 0) && near(k.overlap[2], 0));
    assert_true(near(k.chance, 0.5));
    CHECK_OK(wn_plan_measure(path, &p, &again, &err), &err);
    assert_true(near(again.kept, k.kept));
    wn_plan_kept_release(&again);
    p.num_experts = 9;
    CHECK_FAILS(wn_plan_measure(path, &p, &again, &err), &err, "for 9 experts, the archive has 8");
    wn_plan_kept_release(&k);
    wn_plan_release(&p);
}

static void keeping_more_keeps_at_least_as_much(void **state)
{
    const char *path = wn_test_need_data(GOLDEN);
    double before = 0;

    (void)state;
    for (uint32_t keep = 4; keep <= 16; keep++) {
        const struct wn_plan_options o = {.keep = keep};
        struct wn_plan_kept k;
        struct wn_plan p;

        make(path, &o, &p, &k);
        assert_true(k.kept > before && k.kept <= 1);
        assert_true(k.kept >= keep / 16.0); /* the best are better than any */
        assert_true(near(k.chance, keep / 16.0));
        for (size_t a = 0; a < 3; a++) {
            for (size_t b = 0; b < 3; b++) {
                double overlap = k.overlap[a * 3 + b];

                assert_true(a == b || keep == 16 ? near(overlap, 1) : overlap > 0 && overlap < 1);
                assert_true(near(overlap, k.overlap[b * 3 + a]));
            }
        }
        before = k.kept;
        wn_plan_kept_release(&k);
        wn_plan_release(&p);
    }
    assert_true(near(before, 1));
}

/* ---- reading and writing ---- */

static void published_plans_are_read_as_they_are(void **state)
{
    static const char *const names[] = {"catalog/plans/reap_plan_640.json", "catalog/plans/reap_plan_576.json",
                                        "catalog/plans/reap_plan_640ja.json"};
    struct wn_plan p[3];
    struct wn_err err;
    uint64_t common = 0;

    (void)state;
    for (int i = 0; i < 3; i++) {
        CHECK_OK(wn_plan_read(&p[i], wn_test_need_data(names[i]), &err), &err);
        assert_int_equal(p[i].layer_count, 92);
        assert_int_equal(p[i].num_experts, 896);
        assert_int_equal(p[i].top_k, 16);
        assert_int_equal(p[i].min_experts, 64);
        assert_true(wn_plan_is_uniform(&p[i]));
        assert_int_equal(p[i].layers[0].keep_count, i == 1 ? 576 : 640);
        assert_string_equal(p[i].model_fingerprint, "");
        assert_null(wn_plan_find(&p[i], 0));
        assert_null(wn_plan_find(&p[i], 93));
        assert_ptr_equal(wn_plan_find(&p[i], 92), &p[i].layers[91]);
    }
    /* facts of the catalog: the 576 lie within the 640, and the two of 640 share 472.8 a layer */
    for (uint32_t l = 1; l <= 92; l++) {
        uint8_t in[896] = {0};
        const struct wn_plan_layer *large = wn_plan_find(&p[0], l), *small = wn_plan_find(&p[1], l),
                                   *ja = wn_plan_find(&p[2], l);

        for (uint32_t e = 0; e < large->keep_count; e++)
            in[large->keep[e]] = 1;
        for (uint32_t e = 0; e < small->keep_count; e++)
            assert_int_equal(in[small->keep[e]], 1);
        for (uint32_t e = 0; e < ja->keep_count; e++)
            common += in[ja->keep[e]];
    }
    assert_true(fabs((double)common / 92 - 472.8) < 0.05);
    for (int i = 0; i < 3; i++)
        wn_plan_release(&p[i]);
}

static void a_plan_comes_back_as_it_was_written(void **state)
{
    const struct wn_plan_options o = {.keep = 5, .criterion = "count"};
    const char *folder = wn_test_folder();
    const char *a = wn_test_path(folder, "a.json"), *b = wn_test_path(folder, "b.json");
    struct wn_plan p, q;
    struct wn_err err;

    (void)state;
    make(archive(), &o, &p, NULL);
    p.layers[0].keep[0] = 7; /* an order of its own stays */
    p.layers[0].keep[4] = 3;
    p.bytes = UINT64_C(451415080160);
    CHECK_OK(wn_plan_write(&p, a, false, &err), &err);
    CHECK_OK(wn_plan_read(&q, a, &err), &err);
    check_keep(&q, p.layers[0].keep, 5);
    assert_string_equal(q.mode, p.mode);
    assert_string_equal(q.criterion, "count");
    assert_string_equal(q.saliency_fingerprint, p.saliency_fingerprint);
    assert_string_equal(q.model_fingerprint, p.model_fingerprint);
    assert_int_equal(q.min_experts, p.min_experts);
    assert_true(q.kept == p.kept);
    assert_int_equal(q.bytes, UINT64_C(451415080160));
    CHECK_OK(wn_plan_write(&q, b, false, &err), &err);
    wn_test_same_file(a, b);
    CHECK_FAILS(wn_plan_write(&q, b, false, &err), &err, "exists already");
    wn_plan_release(&q);
    wn_plan_release(&p);
}

#define HEAD   "{\"top_k\":2,\"num_experts\":4,"
#define LAYERS "\"layers\":{\"1\":{\"keep\":[0,1]}}"

static void wrong_plans_are_refused_by_name(void **state)
{
    static const struct {
        const char *json, *part;
    } cases[] = {
        {"[]", "a plan is a JSON object"},
        {"{\"top_k\":2", "not JSON: line 1"},
        {HEAD "\"mode\":\"foo\"," LAYERS "}", "'mode' is 'foo', known are 'uniform', 'global' and 'graded'"},
        {"{\"top_k\":2," LAYERS "}", "no 'num_experts'"},
        {"{\"num_experts\":4," LAYERS "}", "no 'top_k'"},
        {"{\"top_k\":5,\"num_experts\":4," LAYERS "}", "do not go with 4 experts"},
        {"{\"top_k\":2,\"num_experts\":-4," LAYERS "}", "'num_experts' is not"},
        {"{\"top_k\":2,\"num_experts\":4.0," LAYERS "}", "'num_experts' is not"},
        {"{\"top_k\":2,\"num_experts\":99999999," LAYERS "}", "'num_experts' is not"},
        {HEAD "\"layers\":{}}", "no object 'layers'"},
        {HEAD "\"layers\":{\"1\":[0,1]}}", "layer 1 is not an object"},
        {HEAD "\"layers\":{\"x\":{\"keep\":[0,1]}}}", "'x' in 'layers'"},
        {HEAD "\"layers\":{\"01\":{\"keep\":[0,1]}}}", "'01' in 'layers'"},
        {HEAD "\"layers\":{\"99999999999\":{\"keep\":[0,1]}}}", "is not a layer number"},
        {HEAD "\"layers\":{\"1\":{\"keep\":[0,1]},\"1\":{\"keep\":[2,3]}}}", "duplicate object key"},
        {HEAD "\"layers\":{\"1\":{}}}", "layer 1: 'keep' is not a list"},
        {HEAD "\"layers\":{\"7\":{\"keep\":[0]}}}", "layer 7: 1 experts kept, wanted at least top-k 2"},
        {HEAD "\"layers\":{\"7\":{\"keep\":[0,4]}}}", "entry 1 of 'keep' is not an expert of 0 .. 3"},
        {HEAD "\"layers\":{\"7\":{\"keep\":[0,-1]}}}", "entry 1 of 'keep'"},
        {HEAD "\"layers\":{\"7\":{\"keep\":[0,1.5]}}}", "entry 1 of 'keep'"},
        {HEAD "\"layers\":{\"7\":{\"keep\":[3,0,3]}}}", "layer 7: expert 3 is kept twice"},
        {HEAD "\"layers\":{\"7\":{\"keep\":[0,1,2,3,0]}}}", "5 experts kept"},
        {HEAD "\"min_experts\":3," LAYERS "}", "2 experts kept, but 'min_experts' is 3"},
        {HEAD "\"mode\":\"uniform\",\"layers\":{\"1\":{\"keep\":[0,1]},\"2\":{\"keep\":[0,1,2]}}}", "'uniform'"},
        {HEAD "\"layers\":{\"1\":{\"keep\":[0,1],\"bits\":{\"0\":\"mxfp4\",\"1\":\"7bit\"}}}}", "'7bit' for '1'"},
        {HEAD "\"layers\":{\"1\":{\"keep\":[0,1],\"bits\":{\"0\":\"mxfp4\"}}}}", "1 entries for 2 experts"},
        {HEAD "\"layers\":{\"1\":{\"keep\":[0,1],\"bits\":{\"0\":\"mxfp4\",\"2\":\"2bit\"}}}}", "nothing for expert 1"},
        {HEAD "\"layers\":{\"1\":{\"keep\":[0,1],\"bits\":{\"0\":\"2bit\",\"1\":\"2bit\"}}}}",
         "no expert keeps its bytes"},
        {HEAD "\"layers\":{\"1\":{\"keep\":[0,1],\"bits\":{\"all\":\"2bit\"}}}}", "no expert keeps its bytes"},
        {HEAD "\"layers\":{\"1\":{\"keep\":[0,1,2],\"bits\":{\"0\":\"mxfp4\",\"1\":\"2bit\",\"2\":\"3bit\"}}}}",
         "one such width"},
        {HEAD "\"layers\":{\"1\":{\"keep\":[0,1],\"bits\":\"mxfp4\"}}}", "'bits' is not an object"},
        {HEAD LAYERS ",\"winnow\":[]}", "'winnow' is not an object"},
        {HEAD LAYERS ",\"winnow\":{\"model\":\"too long for a fingerprint\"}}", "'model' is not a text"},
        {HEAD LAYERS ",\"winnow\":{\"kept\":2}}", "'kept'"},
        {HEAD LAYERS ",\"winnow\":{\"bytes\":-2}}", "'bytes'"},
    };
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CHECK_FAILS(wn_plan_parse(&p, cases[i].json, strlen(cases[i].json), &err), &err, cases[i].part);
        assert_null(p.layers);
    }
}

/* As some editors save a text. */
static void a_byte_order_mark_before_a_plan_is_passed_over(void **state)
{
    static const char json[] = "\xEF\xBB\xBF" HEAD LAYERS "}";
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_plan_parse(&p, json, sizeof json - 1, &err), &err);
    assert_int_equal(p.layer_count, 1);
    wn_plan_release(&p);
    CHECK_FAILS(wn_plan_parse(&p, json, 3, &err), &err, "not JSON");
}

static void layers_come_in_rising_order_and_may_be_uneven(void **state)
{
    const char *json =
        HEAD "\"layers\":{\"10\":{\"keep\":[3,0]},\"2\":{\"keep\":[2,1,0],\"bits\":{\"all\":\"mxfp4\"}}}}";
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_plan_parse(&p, json, strlen(json), &err), &err);
    assert_int_equal(p.layers[0].layer, 2);
    assert_int_equal(p.layers[1].layer, 10);
    assert_int_equal(p.layers[1].keep[0], 3);
    assert_false(wn_plan_is_uniform(&p));
    assert_string_equal(p.mode, "global");
    wn_plan_release(&p);
}

/* Those that keep their bytes come first, in the order they had; written and read again it is the same plan. */
static void a_graded_plan_has_two_banks(void **state)
{
    const char *json =
        HEAD "\"layers\":{\"1\":{\"keep\":[0,1,3],\"bits\":{\"3\":\"mxfp4\",\"0\":\"2bit\",\"1\":\"mxfp4\"}}}}";
    const char *path = wn_test_path(wn_test_folder(), "plan.json");
    struct wn_plan p, q;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_plan_parse(&p, json, strlen(json), &err), &err);
    assert_string_equal(p.mode, "graded");
    CHECK_OK(wn_plan_write(&p, path, false, &err), &err);
    CHECK_OK(wn_plan_read(&q, path, &err), &err);
    for (int i = 0; i < 2; i++) {
        const struct wn_plan_layer *l = i ? &q.layers[0] : &p.layers[0];

        assert_int_equal(l->hi_count, 2);
        assert_int_equal(l->lo_bits, 2);
        assert_int_equal(l->keep[0], 1);
        assert_int_equal(l->keep[1], 3);
        assert_int_equal(l->keep[2], 0);
    }
    wn_plan_release(&p);
    wn_plan_release(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_salient_experts_stay_in_rising_order),
        cmocka_unit_test(weights_turn_the_choice),
        cmocka_unit_test(sums_that_no_number_holds_are_refused),
        cmocka_unit_test(sums_of_nothing_but_zeros_are_nothing_to_choose_by),
        cmocka_unit_test(the_lower_id_stays_on_a_tie),
        cmocka_unit_test(a_share_is_rounded_to_the_nearest_number),
        cmocka_unit_test(layers_of_896_experts_and_of_one_are_planned),
        cmocka_unit_test(impossible_wishes_are_refused_with_numbers),
        cmocka_unit_test(the_floor_can_be_lowered_to_top_k_but_not_below),
        cmocka_unit_test(a_top_k_that_is_not_the_archives_is_refused),
        cmocka_unit_test(the_kept_shares_are_those_of_the_sums),
        cmocka_unit_test(keeping_more_keeps_at_least_as_much),
        cmocka_unit_test(published_plans_are_read_as_they_are),
        cmocka_unit_test(a_plan_comes_back_as_it_was_written),
        cmocka_unit_test(wrong_plans_are_refused_by_name),
        cmocka_unit_test(a_byte_order_mark_before_a_plan_is_passed_over),
        cmocka_unit_test(layers_come_in_rising_order_and_may_be_uneven),
        cmocka_unit_test(a_graded_plan_has_two_banks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
