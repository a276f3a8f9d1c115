/* What a build takes, told before it is made: against the prune that makes it, and against what is bound of it. */
#include "ghost_help.h"
#include "two_parents.h"
#include "jobs/plan/fit.h"
#include "model/weights.h"
#include <winnow/session.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HF      "golden/text/tiny-a/hf"
#define ARCHIVE "golden/text/tiny-a/ref/saliency.npz"

#define TINY_A "golden/text/tiny-a/gguf/tiny-a-BF16-MXFP4.gguf"

static struct wn_fit *open_fit(struct wn_model **m, const struct wn_fit_options *o)
{
    const char *path = wn_test_need_data(HF);
    struct wn_err err;
    struct wn_fit *f;

    *m = wn_model_open(path, &err);
    CHECK_OK(*m, &err);
    f = wn_fit_new(path, *m, o, &err);
    CHECK_OK(f, &err);
    return f;
}

static void make(const struct wn_plan_options *o, struct wn_plan *p, struct wn_plan_kept *kept)
{
    struct wn_err err;

    CHECK_OK(wn_plan_make(wn_test_need_data(ARCHIVE), o, p, kept, &err), &err);
}

/* What the tables hold, but for the program and the names of tensors. */
static uint64_t bound_bytes(const struct wn_fit *f, const struct wn_plan *p)
{
    size_t each = sizeof(struct wn_expert) + (wn_fit_has_ghosts(f) ? 0 : sizeof(float));
    uint64_t bytes = f->owned;

    for (uint32_t i = 0; i < p->layer_count; i++)
        bytes += p->layers[i].keep_count * each;
    return bytes;
}

static void check_build(const struct wn_fit *f, const struct wn_plan *p, const struct wn_fit_ledger *l,
                        enum wn_format format)
{
    bool gguf = format == WN_FORMAT_GGUF || wn_source_gguf(wn_model_source(f->model));
    const char *out = wn_test_path(wn_test_folder(), gguf ? "cut.gguf" : "cut");
    const struct wn_prune_options o = {.source = f->path,
                                       .lo_source = f->options.lo_source,
                                       .out = out,
                                       .model = f->model,
                                       .plan = p,
                                       .ghosts = f->options.ghosts,
                                       .saliency = f->options.ghosts == WN_GHOSTS_MEAN ? ghost_archive(f->path) : NULL,
                                       .force_plan = true,
                                       .format = format};
    const struct wn_session_options session = {.context = 64};
    struct wn_session_memory need;
    struct wn_inspection in;
    struct wn_prune_result r;
    struct wn_weights *w;
    struct wn_model *m;
    struct wn_err err;

    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    assert_int_equal(r.out_bytes, l->file_bytes);
    assert_int_equal(r.out_tensor_bytes, l->tensor_bytes);
    assert_int_equal(l->experts + l->rest + f->vision, l->tensor_bytes);
    m = wn_model_open(out, &err);
    CHECK_OK(m, &err);
    w = wn_weights_load(m, &err);
    CHECK_OK(w, &err);
    CHECK_OK(wn_model_inspect(m, &in, &err), &err);
    /* but for links of lists, and copies of some dozen numbers, that one container needs and another does not */
    assert_in_range(wn_weights_owned(w), bound_bytes(f, p) - 8192, bound_bytes(f, p) + 8192);
    assert_int_equal(in.tensor_bytes - in.class_bytes[WN_CLASS_VISION], l->experts + l->rest);
    if (!wn_plan_is_graded(p) && wn_plan_is_uniform(p))
        assert_int_equal(in.token_bytes, l->token_bytes);
    wn_session_need(wn_model_config(m), &session, 1, &need);
    assert_int_equal(need.state, l->state);
    assert_int_equal(need.cache, l->cache);
    assert_true(need.scratch <= l->scratch && need.scratch > l->scratch * 9 / 10);
    wn_inspection_release(&in);
    wn_weights_free(w);
    wn_model_close(m);
}

static void the_ledger_is_what_prune_writes_and_what_is_bound_of_it(void **state)
{
    static const struct {
        enum wn_plan_mode mode;
        enum wn_format format;
        uint32_t keep, hi, lo;
        enum wn_ghosts ghosts;
    } cases[] = {
        {WN_PLAN_UNIFORM, WN_FORMAT_AS_SOURCE, 9, 0, 0, WN_GHOSTS_BUILT},
        {WN_PLAN_UNIFORM, WN_FORMAT_GGUF, 9, 0, 0, WN_GHOSTS_BUILT},
        {WN_PLAN_UNIFORM, WN_FORMAT_MLX, 9, 0, 0, WN_GHOSTS_BUILT},
        {WN_PLAN_GLOBAL, WN_FORMAT_AS_SOURCE, 7, 0, 0, WN_GHOSTS_BUILT},
        {WN_PLAN_GRADED, WN_FORMAT_MLX, 0, 5, 6, WN_GHOSTS_BUILT},
        {WN_PLAN_UNIFORM, WN_FORMAT_AS_SOURCE, 9, 0, 0, WN_GHOSTS_SKIP},
        {WN_PLAN_UNIFORM, WN_FORMAT_GGUF, 9, 0, 0, WN_GHOSTS_MEAN},
        {WN_PLAN_UNIFORM, WN_FORMAT_MLX, 9, 0, 0, WN_GHOSTS_MEAN},
        {WN_PLAN_GLOBAL, WN_FORMAT_AS_SOURCE, 7, 0, 0, WN_GHOSTS_MEAN},
        {WN_PLAN_GLOBAL, WN_FORMAT_GGUF, 7, 0, 0, WN_GHOSTS_MEAN},
        {WN_PLAN_GRADED, WN_FORMAT_MLX, 0, 5, 6, WN_GHOSTS_MEAN},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wn_fit_options fit = {.format = cases[i].format,
                                     .context = 64,
                                     .lo_bits = cases[i].mode == WN_PLAN_GRADED ? 2 : 0,
                                     .ghosts = cases[i].ghosts};
        struct wn_plan_options o = {
            .mode = cases[i].mode, .keep = cases[i].keep, .hi = cases[i].hi, .lo = cases[i].lo, .min_experts = 4};
        struct wn_model *m;
        struct wn_fit *f = open_fit(&m, &fit);
        struct wn_plan_kept kept;
        struct wn_fit_ledger l;
        struct wn_plan p;
        struct wn_err err;

        o.fit = f;
        make(&o, &p, &kept);
        CHECK_OK(wn_fit_predict(f, &p, kept.low_routed, &l, &err), &err);
        assert_int_equal(l.budget, 0);
        check_build(f, &p, &l, cases[i].format);
        wn_plan_kept_release(&kept);
        wn_plan_release(&p);
        wn_fit_free(f);
        wn_model_close(m);
    }
}

/* Just enough for nine experts in each of twelve layers, whole routers and seven means; then a byte less. */
static void ghosts_are_priced_to_the_byte(void **state)
{
    (void)state;
    for (int less = 0; less < 2; less++) {
        struct wn_fit_options fit = {.ghosts = WN_GHOSTS_MEAN, .context = 64};
        struct wn_plan_options o = {.mode = WN_PLAN_UNIFORM, .keep = 9, .min_experts = 4};
        struct wn_plan_kept kept;
        struct wn_fit_ledger l;
        struct wn_model *m;
        struct wn_plan p;
        struct wn_err err;
        struct wn_fit *f = open_fit(&m, &fit);

        o.fit = f;
        make(&o, &p, &kept);
        CHECK_OK(wn_fit_predict(f, &p, 0, &l, &err), &err);
        assert_int_equal(l.ghosts, 12 * 7);
        assert_int_equal(p.asked_size, 0);
        assert_int_equal(l.ghost_bytes, 12 * (7 * (128 * 2 + 4 + 96 * 2) + 9 * 4));
        wn_plan_kept_release(&kept);
        wn_plan_release(&p);
        f->options.size = l.tensor_bytes - (unsigned)less;
        o.keep = 0;
        make(&o, &p, &kept);
        assert_int_equal(p.layers[0].keep_count, 9 - less);
        assert_int_equal(p.asked_size, f->options.size);
        wn_plan_kept_release(&kept);
        wn_plan_release(&p);
        wn_fit_free(f);
        wn_model_close(m);
    }
}

/* Its second bank is Q2_K; what is told is what is written, and all that is bound of it. */
static void a_graded_gguf_is_priced_to_the_byte(void **state)
{
    const char *hf = wn_test_need_data("golden/text/tiny-b/hf"),
               *archive = wn_test_need_data("golden/text/tiny-b/ref/saliency.npz");
    const struct wn_fit_options fit = {.format = WN_FORMAT_GGUF, .context = 64, .lo_bits = 2};
    struct wn_plan_options o = {.mode = WN_PLAN_GRADED, .hi = 4, .lo = 3, .min_experts = 4};
    struct wn_plan_kept kept;
    struct wn_fit_ledger l;
    struct wn_plan p;
    struct wn_err err;
    struct wn_model *m = wn_model_open(hf, &err);
    struct wn_fit *f;
    bool measured;

    (void)state;
    CHECK_OK(m, &err);
    f = wn_fit_new(hf, m, &fit, &err);
    CHECK_OK(f, &err);
    assert_true(wn_fit_fidelity(f, &measured) > 0.91 && measured);
    o.fit = f;
    CHECK_OK(wn_plan_make(archive, &o, &p, &kept, &err), &err);
    CHECK_OK(wn_fit_predict(f, &p, kept.low_routed, &l, &err), &err);
    check_build(f, &p, &l, WN_FORMAT_GGUF);
    wn_plan_kept_release(&kept);
    wn_plan_release(&p);
    wn_fit_free(f);
    wn_model_close(m);
}

struct twins {
    char hi[512], lo[512];
    struct wn_model *m;
    struct wn_fit *f;
};

static void open_twins(struct twins *t, enum wn_type hi, uint64_t size)
{
    struct wn_fit_options fit = {.context = 64, .size = size};
    struct wn_err err;

    (void)snprintf(t->hi, sizeof t->hi, "%s", twin_parent_of(wn_test_need_data(TINY_A), hi));
    (void)snprintf(t->lo, sizeof t->lo, "%s", wn_test_need_data(TINY_A));
    t->m = wn_model_open(t->hi, &err);
    CHECK_OK(t->m, &err);
    fit.lo_source = t->lo;
    t->f = wn_fit_new(t->hi, t->m, &fit, &err);
    CHECK_OK(t->f, &err);
}

static void close_twins(struct twins *t)
{
    wn_fit_free(t->f);
    wn_model_close(t->m);
}

/* What the second parent's experts weigh, what is left of them, and the build to the byte. */
static void experts_of_a_second_parent_are_priced_by_it(void **state)
{
    struct wn_plan_options o = {.mode = WN_PLAN_GRADED, .hi = 4, .lo = 3, .min_experts = 4};
    struct wn_plan_kept kept;
    struct wn_fit_ledger l;
    struct wn_plan p;
    struct wn_err err;
    struct twins t;
    bool measured;

    (void)state;
    open_twins(&t, WN_Q8_0, 0);
    assert_int_equal(t.f->layers[0].slab, 3 * 64 * 3 * 34);
    assert_int_equal(t.f->layers[11].low_slab, 3 * 64 * 3 * 17);
    /* these Q8_0 were made of the MXFP4, so that what is left of them is nearly all */
    assert_true(wn_fit_fidelity(t.f, &measured) > 0.999 && wn_fit_fidelity(t.f, &measured) < 1 && measured);
    o.fit = t.f;
    make(&o, &p, &kept);
    assert_int_equal(p.layers[0].lo_bits, 4);
    CHECK_OK(wn_fit_predict(t.f, &p, kept.low_routed, &l, &err), &err);
    assert_int_equal(l.lo_weights, 12 * 3 * 3 * 64 * 96);
    assert_int_equal(l.lo_bytes, 12 * 3 * t.f->layers[1].low_slab);
    check_build(t.f, &p, &l, WN_FORMAT_AS_SOURCE);
    wn_plan_kept_release(&kept);
    wn_plan_release(&p);
    close_twins(&t);
}

/* The budget is in exact bytes: the best pair fits, and neither one more of either kind would. */
static void a_budget_is_solved_with_both_parents_sizes(void **state)
{
    const uint64_t size = 5000000;
    struct wn_plan_options o = {.mode = WN_PLAN_GRADED, .min_experts = 4};
    uint64_t hi_row, lo_row;
    struct wn_plan_kept kept;
    struct wn_fit_ledger l;
    struct wn_plan p;
    struct wn_err err;
    struct twins t;

    (void)state;
    open_twins(&t, WN_Q8_0, size);
    o.fit = t.f;
    make(&o, &p, &kept);
    CHECK_OK(wn_fit_predict(t.f, &p, kept.low_routed, &l, &err), &err);
    hi_row = 12 * t.f->layers[0].slab;
    lo_row = 12 * t.f->layers[0].low_slab;
    assert_true(l.tensor_bytes <= size);
    assert_true(p.layers[0].keep_count == 16 ? l.tensor_bytes + hi_row - lo_row > size
                                             : l.tensor_bytes + lo_row > size);
    check_build(t.f, &p, &l, WN_FORMAT_AS_SOURCE);
    wn_plan_kept_release(&kept);
    wn_plan_release(&p);
    close_twins(&t);
}

static void refused_twins(const char *hi, const char *lo, const struct wn_fit_options *with, const char *part)
{
    struct wn_fit_options o = *with;
    struct wn_err err;
    struct wn_model *m = wn_model_open(hi, &err);

    CHECK_OK(m, &err);
    o.lo_source = lo;
    CHECK_FAILS(wn_fit_new(hi, m, &o, &err), &err, part);
    wn_model_close(m);
}

static void a_second_parent_that_is_none_is_refused(void **state)
{
    const struct wn_fit_options none = {0}, mlx = {.format = WN_FORMAT_MLX}, bits = {.lo_bits = 4};
    char hi[512], lo[512];

    (void)state;
    (void)snprintf(hi, sizeof hi, "%s", twin_parent(WN_Q8_0));
    (void)snprintf(lo, sizeof lo, "%s", wn_test_need_data(TWIN_LO));
    refused_twins(lo, hi, &none, "layer 1: an expert takes 208896 bytes in");
    refused_twins(hi, wn_test_need_data("golden/text/tiny-a/gguf/tiny-a-BF16-MXFP4.gguf"), &none, "in the first and ");
    refused_twins(hi, lo, &mlx, "not made into another container");
    refused_twins(hi, lo, &bits, "of 4 bits and a second model to take them from: one of them is enough");
    refused_twins(hi, "nowhere.gguf", &none, "'nowhere.gguf'");
}

/* Bytes of size and of memory; what is solved fits, and one expert more in each layer would not. */
static void a_budget_is_filled_and_not_exceeded(void **state)
{
    static const struct {
        enum wn_plan_mode mode;
        bool memory;
        uint32_t lo_bits;
    } cases[] = {{WN_PLAN_UNIFORM, false, 0},
                 {WN_PLAN_UNIFORM, true, 0},
                 {WN_PLAN_GRADED, true, 2},
                 {WN_PLAN_GLOBAL, true, 0},
                 {WN_PLAN_GLOBAL, false, 2}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wn_fit_options fit = {
            .format = WN_FORMAT_MLX, .context = 64, .lo_bits = cases[i].lo_bits, .sessions = 2, .checkpoints = 3};
        struct wn_plan_options o = {.mode = cases[i].mode, .lo_bits = cases[i].lo_bits, .min_experts = 4};
        struct wn_model *m;
        struct wn_fit *f = open_fit(&m, &fit);
        struct wn_plan_kept kept;
        struct wn_fit_ledger l;
        struct wn_plan p;
        struct wn_err err;
        uint64_t fixed = cases[i].memory ? wn_fit_fixed_memory(f) : f->rest, taken;

        /* room for 9.5 experts in each layer */
        *(cases[i].memory ? &f->options.memory : &f->options.size) =
            fixed + (f->layers[0].slab + f->layers[0].router) * f->layer_count * 19 / 2;
        o.fit = f;
        make(&o, &p, &kept);
        CHECK_OK(wn_fit_predict(f, &p, kept.low_routed, &l, &err), &err);
        taken = cases[i].memory ? l.total : l.tensor_bytes;
        assert_true(taken <= l.budget && l.budget - taken < l.one_more);
        assert_true(kept.reached > 0 && kept.reached <= kept.bound);
        if (cases[i].mode == WN_PLAN_UNIFORM)
            assert_int_equal(p.layers[0].keep_count, 9);
        else if (cases[i].lo_bits)
            assert_true(wn_plan_is_graded(&p) && p.layers[0].keep_count > 9);
        assert_int_equal(l.checkpoints, 3 * (l.state + l.cache));
        /* what is left of the total when all other rows are off */
        assert_in_range(l.tables, 5700000 + f->owned, 5700000 + f->owned + 1000000);
        wn_plan_kept_release(&kept);
        wn_plan_release(&p);
        wn_fit_free(f);
        wn_model_close(m);
    }
}

static void what_does_not_fit_is_refused_with_the_sums(void **state)
{
    struct wn_fit_options fit = {.size = 1000};
    struct wn_plan_options o = {0};
    struct wn_model *m;
    struct wn_fit *f = open_fit(&m, &fit);
    struct wn_plan p;
    struct wn_err err;

    (void)state;
    o.fit = f;
    CHECK_FAILS(wn_plan_make(wn_test_need_data(ARCHIVE), &o, &p, NULL, &err), &err,
                "of 1000 bytes of tensors all but the experts takes");
    CHECK_FAILS(wn_plan_make(wn_test_need_data(ARCHIVE), &o, &p, NULL, &err), &err, "0 bytes are left for experts");
    wn_fit_free(f);
    wn_model_close(m);
}

/* 2 bits leave nine tenths, more bits more, and the least squares never less than the usual rule. */
static void what_fewer_bits_leave_is_measured(void **state)
{
    double before = 0;

    (void)state;
    for (unsigned bits = 2; bits <= 4; bits++)
        for (int rule = 0; rule < 2; rule++) {
            struct wn_fit_options fit = {
                .format = WN_FORMAT_MLX, .lo_bits = bits, .encoder = rule ? WN_ENCODER_FIT : WN_ENCODER_MINMAX};
            struct wn_model *m;
            struct wn_fit *f = open_fit(&m, &fit);
            bool measured;
            double now = wn_fit_fidelity(f, &measured);

            assert_true(measured && now > before && now < 1);
            if (bits == 2 && rule)
                assert_true(now > 0.85 && now < 0.95);
            before = now;
            wn_fit_free(f);
            wn_model_close(m);
        }
}

static void impossible_wishes_are_refused(void **state)
{
    const char *hf = wn_test_need_data(HF), *gguf = wn_test_need_data("golden/text/tiny-a/gguf/tiny-a-BF16-MXFP4.gguf");
    const struct {
        const char *path;
        struct wn_fit_options o;
        const char *part;
    } cases[] = {
        {hf, {.memory = 1, .size = 1}, "one budget is enough"},
        {hf, {.lo_bits = 2}, "experts of 2 bits need an MLX folder, or a GGUF"},
        {hf, {.lo_bits = 3, .format = WN_FORMAT_GGUF}, "not written into a GGUF"},
        {hf, {.lo_bits = 2, .format = WN_FORMAT_GGUF}, "weights are no whole blocks"},
        {hf, {.lo_bits = 7, .format = WN_FORMAT_MLX}, "experts of 7 bits are not known"},
        {gguf, {.format = WN_FORMAT_MLX}, "cannot become another container"},
    };
    struct wn_err err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wn_model *m = wn_model_open(cases[i].path, &err);

        CHECK_OK(m, &err);
        CHECK_FAILS(wn_fit_new(cases[i].path, m, &cases[i].o, &err), &err, cases[i].part);
        wn_model_close(m);
    }
    CHECK_FAILS(wn_fit_new(hf, NULL, &(struct wn_fit_options){.memory = 1}, &err), &err,
                "is no model that winnow computes");
}

/* Without the model only sizes are known; those still are. */
static void a_model_that_is_not_computed_is_sized_all_the_same(void **state)
{
    const struct wn_fit_options fit = {0};
    struct wn_fit_ledger l;
    struct wn_plan p;
    struct wn_err err;
    struct wn_fit *f = wn_fit_new(wn_test_need_data(HF), NULL, &fit, &err);

    (void)state;
    CHECK_OK(f, &err);
    make(&(struct wn_plan_options){.keep = 9, .fit = f, .min_experts = 4}, &p, NULL);
    CHECK_OK(wn_fit_predict(f, &p, 0, &l, &err), &err);
    assert_true(l.tensor_bytes > 0 && l.total == 0 && l.token_bytes == 0 && l.experts == 0);
    wn_plan_release(&p);
    wn_fit_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ledger_is_what_prune_writes_and_what_is_bound_of_it),
        cmocka_unit_test(ghosts_are_priced_to_the_byte),
        cmocka_unit_test(a_graded_gguf_is_priced_to_the_byte),
        cmocka_unit_test(experts_of_a_second_parent_are_priced_by_it),
        cmocka_unit_test(a_budget_is_solved_with_both_parents_sizes),
        cmocka_unit_test(a_second_parent_that_is_none_is_refused),
        cmocka_unit_test(a_budget_is_filled_and_not_exceeded),
        cmocka_unit_test(what_does_not_fit_is_refused_with_the_sums),
        cmocka_unit_test(what_fewer_bits_leave_is_measured),
        cmocka_unit_test(impossible_wishes_are_refused),
        cmocka_unit_test(a_model_that_is_not_computed_is_sized_all_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
