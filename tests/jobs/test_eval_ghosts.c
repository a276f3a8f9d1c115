/* Ghosts of a plan in a whole model: both roads to the bit, the meter against the routing itself, what is refused. */
#include "eval_fixture.h"
#include "engine/engine.h"
#include "formats/npz.h"
#include "jobs/plan/dropped.h"
#include "sys/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 70

static struct wn_eval_options ghost_options(enum wn_ghosts ghosts)
{
    struct wn_eval_options o = eval_options(WINDOW, 2);

    o.plan = NULL;
    o.masked = eval_plan_path;
    o.ghosts = ghosts;
    return o;
}

static void check_ghosts(const struct outcome *a, const struct outcome *b)
{
    for (int t = 0; t < 3; t++) {
        const struct wn_eval_domain *x = t < 2 ? &a->r.domains[t] : &a->r.overall;
        const struct wn_eval_domain *y = t < 2 ? &b->r.domains[t] : &b->r.overall;

        assert_true(x->ghosted > 0.3 && x->ghosted < 1 && x->ghost_choices > 0.3 && x->ghost_choices < 1);
        assert_true(x->ghosted == y->ghosted && x->ghost_choices == y->ghost_choices);
    }
}

static void ghosts_of_a_plan_have_the_same_bits_on_both_roads(void **state)
{
    struct wn_eval_options o = ghost_options(WN_GHOSTS_SKIP);
    struct outcome resident = eval_run(eval_parent, 1, o), streamed, off;

    (void)state;
    o.stream = true;
    o.work = eval_work_path;
    streamed = eval_run(eval_parent, 2, o);
    off = eval_run(eval_parent, 2, ghost_options(WN_GHOSTS_OFF));
    eval_check_same(&resident, &streamed, 2);
    check_ghosts(&resident, &streamed);
    assert_int_equal(resident.r.ghosts, WN_GHOSTS_SKIP);
    /* without them the next choices come in, which is another model; nobody is there to be counted */
    assert_true(off.tokens[5].nll != resident.tokens[5].nll);
    assert_true(isnan(off.r.overall.ghosted) && isnan(off.r.domains[0].ghost_choices));
    assert_int_equal(off.r.ghosts, WN_GHOSTS_OFF);
    eval_release(&resident);
    eval_release(&streamed);
    eval_release(&off);
}

/* What the router gave to the dropped, by the probe. */
struct routed {
    double lost;
    uint64_t tokens, chosen, ghosts;
};

static void add_routed(void *arg, int32_t layer, const uint32_t *ids, const float *weights, const float *outputs,
                       size_t tokens, size_t k, size_t width)
{
    struct routed *r = arg;

    (void)outputs;
    (void)width;
    for (size_t t = 0; t < tokens; t++) {
        double all = 0, lost = 0;

        for (size_t i = t * k; i < (t + 1) * k; i++) {
            bool ghost = !eval_stays((uint32_t)layer, ids[i]);

            all += (double)weights[i];
            lost += ghost ? (double)weights[i] : 0;
            r->ghosts += ghost;
        }
        r->lost += lost / all;
    }
    r->tokens += tokens;
    r->chosen += tokens * k;
}

static uint32_t *window_of(const char *path, struct wn_err *err)
{
    size_t bytes, n = 0;
    char *text = wn_file_slurp(path, 1 << 20, &bytes, err);
    uint32_t *ids = NULL;

    CHECK_OK(text && wn_vocab_encode(wn_model_vocab(eval_parent, err), text, bytes, false, &ids, &n, err), err);
    free(text);
    assert_true(n >= WINDOW);
    return ids;
}

static struct wn_session *ghost_session(struct wn_weights **w, struct wn_dropped *d, struct wn_pool *pool)
{
    const struct wn_config *c = wn_model_config(eval_parent);
    struct wn_session_options so = {.context = WINDOW, .chunk = 33};
    struct wn_session *s;
    struct wn_plan plan;
    struct wn_err err;

    eval_make_plan(&plan, c);
    CHECK_OK(wn_dropped_init(d, &plan, c, NULL, &err), &err);
    CHECK_OK(wn_dropped_make_ghosts(d, WN_GHOSTS_SKIP, NULL, eval_parent, false, &err), &err);
    wn_plan_release(&plan);
    *w = wn_weights_load(eval_parent, &err);
    CHECK_OK(*w, &err);
    for (uint32_t i = 0; i < c->layer_count; i++)
        wn_dropped_mask(d, &(*w)->layers[i]);
    s = wn_session_new(eval_parent, *w, pool, &so, &err);
    CHECK_OK(s, &err);
    return s;
}

static void the_meter_counts_what_the_router_gave_to_ghosts(void **state)
{
    struct wn_eval_options o = ghost_options(WN_GHOSTS_SKIP);
    struct routed seen = {0};
    const struct wn_probe probe = {.arg = &seen, .routed = add_routed};
    struct wn_routing routing;
    struct wn_dropped d;
    struct wn_weights *w;
    struct wn_err err;
    struct wn_pool *pool = wn_pool_new(2, &err);
    struct wn_session *s;
    uint32_t *ids = window_of(eval_texts[0].path, &err);
    struct outcome out;

    (void)state;
    CHECK_OK(pool, &err);
    s = ghost_session(&w, &d, pool);
    wn_session_probe(s, &probe);
    CHECK_OK(wn_session_feed(s, ids, WINDOW - 1, NULL, NULL, &err), &err);
    wn_session_routing(s, &routing);
    assert_int_equal(routing.tokens, seen.tokens);
    assert_int_equal(routing.chosen, seen.chosen);
    assert_int_equal(routing.ghosts, seen.ghosts);
    assert_true(seen.ghosts > 0 && fabs(routing.lost - seen.lost) < 1e-9 * seen.lost);
    o.max_windows = 1;
    out = eval_run(eval_parent, 2, o);
    assert_true(fabs(out.r.domains[0].ghosted - seen.lost / (double)seen.tokens) < 1e-12);
    assert_true(out.r.domains[0].ghost_choices == (double)seen.ghosts / (double)seen.chosen);
    eval_release(&out);
    wn_session_free(s);
    wn_weights_free(w);
    wn_dropped_release(&d);
    wn_pool_free(pool);
    free(ids);
}

static void tell_model(struct wn_npz *z, const char *fingerprint)
{
    struct wn_npy name;
    struct wn_err err;

    CHECK_OK(wn_npy_init(&name, WN_NPY_UNICODE, 16, 0, NULL, &err), &err);
    CHECK_OK(wn_npy_set_string(&name, 0, fingerprint, &err), &err);
    CHECK_OK(wn_npz_add(z, "winnow_model", &name, &err), &err);
}

/* An archive of nothing but means: small numbers, all different. fingerprint: of its model, or NULL. */
static const char *write_means(uint32_t width, const char *fingerprint)
{
    const struct wn_config *c = wn_model_config(eval_parent);
    const uint64_t shape[] = {c->layer_count, c->expert_count, width};
    const char *path = wn_test_path(eval_folder, "means.npz");
    struct wn_npz z = {0};
    struct wn_npy means;
    struct wn_err err;

    CHECK_OK(wn_npy_init(&means, WN_NPY_F16, 0, 3, shape, &err), &err);
    for (uint64_t i = 0; i < means.elements; i++)
        ((uint16_t *)means.data)[i] = (uint16_t)(0x2000 + i * 2654435761u % 0x0800 + (i % 3 ? 0x8000 : 0));
    CHECK_OK(wn_npz_add(&z, "mean_out", &means, &err), &err);
    if (fingerprint)
        tell_model(&z, fingerprint);
    CHECK_OK(wn_npz_write(&z, path, true, &err), &err);
    wn_npz_release(&z);
    return path;
}

static struct wn_model *build_with(enum wn_ghosts ghosts, const char *saliency, enum wn_format format)
{
    char name[32];
    const char *out;
    struct wn_prune_options po = {.source = wn_model_path(eval_parent),
                                  .model = eval_parent,
                                  .ghosts = ghosts,
                                  .saliency = saliency,
                                  .force_plan = true /* the archive tells no model */,
                                  .format = format,
                                  .rest_bits = 16};
    struct wn_prune_result r;
    struct wn_plan plan;
    struct wn_model *m;
    struct wn_err err;

    snprintf(name, sizeof name, "%s-%d", wn_ghosts_name(ghosts), (int)format);
    out = wn_test_path(eval_folder, name);
    eval_make_plan(&plan, wn_model_config(eval_parent));
    po.out = out;
    po.plan = &plan;
    CHECK_OK(wn_prune(&po, NULL, &r, &err), &err);
    wn_plan_release(&plan);
    m = wn_model_open(out, &err);
    CHECK_OK(m, &err);
    return m;
}

/* The model with the plan's experts masked in that mode, and the build when it is run in it. */
static double check_law(struct wn_model *build, enum wn_ghosts mode, const char *means)
{
    struct wn_eval_options o = ghost_options(mode), built = eval_options(WINDOW, 2);
    struct outcome masked, made;
    struct wn_err err;
    double nll;

    o.saliency = mode == WN_GHOSTS_MEAN ? means : NULL;
    o.force_plan = true; /* the archive tells no model */
    CHECK_OK(wn_model_set_ghosts(build, mode, &err), &err);
    masked = eval_run(eval_parent, 2, o);
    made = eval_run(build, 2, built);
    eval_check_same(&masked, &made, 2);
    if (mode != WN_GHOSTS_OFF)
        check_ghosts(&masked, &made);
    assert_int_equal(made.r.ghosts, mode);
    nll = made.tokens[5].nll;
    eval_release(&masked);
    eval_release(&made);
    return nll;
}

/* Every mode in every container: a build with means may be run in all three, one without them in two. */
static void a_plan_and_a_build_with_ghosts_have_the_same_bits(void **state)
{
    static const enum wn_format formats[] = {WN_FORMAT_AS_SOURCE, WN_FORMAT_GGUF, WN_FORMAT_MLX};
    char means[600]; /* names of test files do not last */

    (void)state;
    snprintf(means, sizeof means, "%s", write_means(wn_model_config(eval_parent)->latent_size, NULL));
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
        struct wn_model *build = build_with(WN_GHOSTS_MEAN, means, formats[f]);
        double off = check_law(build, WN_GHOSTS_OFF, means), skip = check_law(build, WN_GHOSTS_SKIP, means);
        double mean = check_law(build, WN_GHOSTS_MEAN, means);

        assert_true(off != skip && skip != mean && mean != off); /* the check can fail */
        wn_model_close(build);
        build = build_with(WN_GHOSTS_SKIP, NULL, formats[f]);
        assert_true(check_law(build, WN_GHOSTS_OFF, NULL) == off && check_law(build, WN_GHOSTS_SKIP, NULL) == skip);
        wn_model_close(build);
    }
}

static void means_of_another_width_are_refused(void **state)
{
    struct wn_eval_options o = ghost_options(WN_GHOSTS_MEAN);
    struct wn_eval_result r;
    struct wn_err err;
    struct wn_pool *pool = wn_pool_new(1, &err);

    (void)state;
    assert_non_null(pool);
    o.saliency = write_means(wn_model_config(eval_parent)->latent_size + 1, NULL);
    o.force_plan = true;
    assert_false(wn_eval(eval_parent, pool, &o, NULL, &r, &err));
    assert_non_null(strstr(err.msg, "channels"));
    wn_pool_free(pool);
}

static void expect_refused(struct wn_eval_options o, const char *why)
{
    struct wn_eval_result r;
    struct wn_err err;
    struct wn_pool *pool = wn_pool_new(1, &err);

    assert_non_null(pool);
    assert_false(wn_eval(eval_parent, pool, &o, NULL, &r, &err));
    assert_int_equal(err.code, WN_ERR_ARG);
    assert_non_null(strstr(err.msg, why));
    wn_pool_free(pool);
}

/* The whole model in another container, and so with another fingerprint. */
static struct wn_model *parent_as_gguf(void)
{
    const char *out = wn_test_path(eval_folder, "whole.gguf");
    struct wn_prune_options po = {.source = wn_model_path(eval_parent),
                                  .model = eval_parent,
                                  .out = out,
                                  .format = WN_FORMAT_GGUF,
                                  .rest_bits = 16};
    struct wn_prune_result r;
    struct wn_model *m;
    struct wn_err err;

    CHECK_OK(wn_prune(&po, NULL, &r, &err), &err);
    m = wn_model_open(out, &err);
    CHECK_OK(m, &err);
    return m;
}

static void check_another(const struct wn_model *m, struct wn_eval_options o, const char *why)
{
    struct outcome here, there;
    struct wn_eval_result r;
    struct wn_err err;
    struct wn_pool *pool = wn_pool_new(1, &err);

    assert_non_null(pool);
    o.max_windows = 1;
    o.against = NULL;
    here = eval_run(eval_parent, 2, o);
    CHECK_FAILS(wn_eval(m, pool, &o, NULL, &r, &err), &err, why);
    assert_true(wn_test_contains(err.msg, "--force-plan takes it all the same"));
    o.force_plan = true;
    there = eval_run(m, 2, o);
    eval_check_same(&here, &there, 2);
    eval_release(&here);
    eval_release(&there);
    wn_pool_free(pool);
}

static void means_and_plans_of_another_model_are_refused_unless_forced(void **state)
{
    struct wn_eval_options o = ghost_options(WN_GHOSTS_MEAN);
    char own[17], path[600];
    struct wn_model *gguf = parent_as_gguf();
    struct wn_plan plan;
    struct wn_err err;

    (void)state;
    wn_source_fingerprint(wn_model_source(eval_parent), own);
    o.saliency = write_means(wn_model_config(eval_parent)->latent_size, own);
    check_another(gguf, o, "means.npz': its means are of a model with the fingerprint");
    o = ghost_options(WN_GHOSTS_OFF);
    snprintf(path, sizeof path, "%s/told.json", eval_folder);
    eval_make_plan(&plan, wn_model_config(eval_parent));
    memcpy(plan.model_fingerprint, own, sizeof own);
    CHECK_OK(wn_plan_write(&plan, path, false, &err), &err);
    wn_plan_release(&plan);
    o.masked = path;
    check_another(gguf, o, "told.json': the plan was made for a model with the fingerprint");
    wn_model_close(gguf);
    /* an archive that does not tell might be anyone's */
    o = ghost_options(WN_GHOSTS_MEAN);
    o.saliency = write_means(wn_model_config(eval_parent)->latent_size, NULL);
    expect_refused(o, "its means are of a model with the fingerprint (none told)");
    o = eval_options(WINDOW, 2);
    o.force_plan = true;
    expect_refused(o, "and there is none");
}

static void ghosts_without_a_plan_or_means_without_an_archive_are_refused(void **state)
{
    struct wn_eval_options o = ghost_options(WN_GHOSTS_MEAN);
    struct wn_err err;

    (void)state;
    expect_refused(o, "means of ghosts come from a saliency archive");
    o.masked = NULL;
    o.ghosts = WN_GHOSTS_SKIP;
    expect_refused(o, "there is none");
    assert_false(wn_model_set_ghosts(eval_parent, WN_GHOSTS_SKIP, &err));
    assert_non_null(strstr(err.msg, "has none"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ghosts_of_a_plan_have_the_same_bits_on_both_roads),
        cmocka_unit_test(the_meter_counts_what_the_router_gave_to_ghosts),
        cmocka_unit_test(a_plan_and_a_build_with_ghosts_have_the_same_bits),
        cmocka_unit_test(means_of_another_width_are_refused),
        cmocka_unit_test(means_and_plans_of_another_model_are_refused_unless_forced),
        cmocka_unit_test(ghosts_without_a_plan_or_means_without_an_archive_are_refused),
    };

    return cmocka_run_group_tests(tests, eval_open_models, eval_close_models);
}
