/*
 * How an evaluation knows what was dropped, and what it refuses: plans, vocabularies, memory, a stop.
 */
#include "eval_fixture.h"
#include "base/alloc.h"
#include "jobs/prune/seal_json.h"
#include "model/weights.h"
#include "sys/file.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what was dropped ---- */

/* A folder (good until the next call) with all of from's files linked, but for one, which is what the text says. */
static const char *altered(const char *from, const char *file, const char *text, size_t n)
{
    static char to[512];
    struct wn_err err;
    char **names;
    size_t count;

    snprintf(to, sizeof to, "%s", wn_test_folder());
    CHECK_OK(wn_path_list(from, &names, &count, &err), &err);
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], file) != 0)
            assert_int_equal(symlink(wn_test_path(from, names[i]), wn_test_path(to, names[i])), 0);
    wn_names_free(names, count);
    CHECK_OK(wn_file_put(wn_test_path(to, file), text, n, false, &err), &err);
    return to;
}

static struct wn_model *with_reap(json_t *reap)
{
    json_t *root = json_load_file(wn_test_path(eval_pruned_path, "config.json"), 0, NULL);
    struct wn_model *m;
    struct wn_err err;
    char *text;

    assert_non_null(root);
    assert_int_equal(json_object_set_new(root, "reap", reap), 0);
    text = json_dumps(root, 0);
    m = wn_model_open(altered(eval_pruned_path, "config.json", text, strlen(text)), &err);
    CHECK_OK(m, &err);
    free(text);
    json_decref(root);
    return m;
}

static json_t *reap_of_plan(void)
{
    json_t *plan = json_load_file(eval_plan_path, 0, NULL), *keep = json_object(), *layer, *reap;
    const char *key;

    json_object_foreach(json_object_get(plan, "layers"), key, layer)
        json_object_set(keep, key, json_object_get(layer, "keep"));
    reap = json_pack("{si so}", "source_num_experts", EXPERTS, "keep", keep);
    json_decref(plan);
    return reap;
}

static void the_kept_lists_of_a_config_do_as_well_as_a_plan(void **state)
{
    struct wn_eval_options o = eval_options(32, 2);
    struct outcome by_plan = eval_run(eval_pruned, 2, o), unknown, by_config;
    struct wn_model *m = with_reap(reap_of_plan());

    (void)state;
    o.plan = NULL;
    unknown = eval_run(eval_pruned, 2, o);
    assert_null(unknown.r.dropped);
    assert_true(isnan(unknown.r.overall.against.misroute.value) && unknown.r.overall.against.routed == 0);
    assert_true(unknown.r.overall.against.kld.value == by_plan.r.overall.against.kld.value);
    by_config = eval_run(m, 2, o);
    eval_check_same(&by_plan, &by_config, 2);
    assert_string_equal(by_config.r.dropped, "model");
    wn_model_close(m);
    eval_release(&by_plan);
    eval_release(&unknown);
    eval_release(&by_config);
}

/* Cut with a record, in its container or as a GGUF; against another parent than its own nothing is known of it. */
static struct wn_model *with_record(enum wn_format format, const char *out)
{
    struct wn_prune_options o = {
        .source = wn_source_path(wn_model_source(eval_parent)), .model = eval_parent, .out = out, .hashes = true};
    struct wn_prune_result r;
    struct wn_plan plan;
    struct wn_model *m;
    struct wn_err err;

    eval_make_plan(&plan, wn_model_config(eval_parent));
    o.plan = &plan;
    o.format = format;
    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    wn_plan_release(&plan);
    m = wn_model_open(out, &err);
    CHECK_OK(m, &err);
    return m;
}

static void check_known(const struct wn_model *m, struct wn_eval_options o, const char *by)
{
    struct outcome out = eval_run(m, 2, o);

    if (by)
        assert_string_equal(out.r.dropped, by);
    else
        assert_null(out.r.dropped);
    eval_release(&out);
}

static void so_do_those_of_a_record_that_names_the_parent(void **state)
{
    struct wn_eval_options o = eval_options(32, 2);
    struct outcome by_plan = eval_run(eval_pruned, 2, o), by_record;
    const char *folder = wn_test_folder(), *gguf = wn_test_path(folder, "cut.gguf"),
               *whole = wn_test_path(folder, "whole.gguf");
    struct wn_prune_options convert = {.source = wn_source_path(wn_model_source(eval_parent)),
                                       .model = eval_parent,
                                       .out = whole,
                                       .format = WN_FORMAT_GGUF};
    struct wn_model *m[2] = {with_record(WN_FORMAT_AS_SOURCE, wn_test_path(folder, "cut")),
                             with_record(WN_FORMAT_GGUF, gguf)},
                    *other;
    struct wn_prune_result r;
    struct wn_err err;

    (void)state;
    o.plan = NULL;
    by_record = eval_run(m[0], 2, o);
    eval_check_same(&by_plan, &by_record, 2);
    assert_string_equal(by_record.r.dropped, "record");
    check_known(m[1], o, "record");
    CHECK_OK(wn_prune(&convert, NULL, &r, &err), &err);
    other = wn_model_open(whole, &err);
    CHECK_OK(other, &err);
    o.against = other;
    check_known(m[1], o, NULL);
    wn_model_close(other);
    o.against = eval_parent;
    assert_true(
        replace_text(wn_test_path(folder, "cut.gguf.winnow.json"), "\"num_experts\": 64", "\"num_experts\": 46"));
    check_known(m[1], o, NULL);
    wn_model_close(m[0]);
    wn_model_close(m[1]);
    eval_release(&by_plan);
    eval_release(&by_record);
}

/* ---- refused ---- */

static void check_refused(const struct wn_model *m, struct wn_eval_options o, const char *part)
{
    struct wn_eval_result r;
    struct wn_err err;
    struct wn_pool *pool = wn_pool_new(1, &err);

    assert_non_null(pool);
    CHECK_FAILS(wn_eval(m, pool, &o, NULL, &r, &err), &err, part);
    assert_null(r.domains);
    assert_false(wn_path_exists(eval_work_path));
    wn_pool_free(pool);
}

/* Fitting both models is not enough: the record tells which plan it was. */
static void a_plan_by_which_the_build_was_not_cut_is_refused(void **state)
{
    struct wn_eval_options o = eval_options(32, 2);
    const char *folder = wn_test_folder(), *cut = wn_test_path(folder, "cut"), *other = wn_test_path(folder, "b.json");
    struct wn_prune_options prune = {.source = wn_source_path(wn_model_source(eval_parent)),
                                     .model = eval_parent,
                                     .out = cut,
                                     .hashes = true,
                                     .plan_file = eval_plan_path};
    struct wn_prune_result r;
    struct wn_plan plan;
    struct wn_model *m;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_plan_read(&plan, eval_plan_path, &err), &err);
    prune.plan = &plan;
    CHECK_OK(wn_prune(&prune, NULL, &r, &err), &err);
    m = wn_model_open(cut, &err);
    CHECK_OK(m, &err);
    check_known(m, o, "plan");
    plan.layers[0].keep[0] = plan.layers[0].keep[0] ? 0 : 1;
    plan.layers[0].keep[1] = 2;
    CHECK_OK(wn_plan_write(&plan, other, false, &err), &err);
    o.plan = other;
    check_refused(m, o, "but by its record '");
    check_known(eval_pruned, o, "plan"); /* which has no record */
    wn_model_close(m);
    wn_plan_release(&plan);
}

static void a_plan_of_another_model_is_refused(void **state)
{
    struct wn_eval_options o = eval_options(32, 2);
    const char *other = wn_test_path(eval_folder, "other.json");
    json_t *reap = reap_of_plan();
    struct wn_model *m;
    struct wn_plan plan;
    struct wn_err err;

    (void)state;
    check_refused(eval_parent, o, "the plan keeps 16 experts, the model has 64");
    eval_make_plan(&plan, wn_model_config(eval_parent));
    plan.layers[0].layer = 0;
    CHECK_OK(wn_plan_write(&plan, other, true, &err), &err);
    o.plan = other;
    check_refused(eval_pruned, o, "the plan has layer 0, which has no experts in the model");
    plan.layers[0].layer = 1;
    plan.num_experts = EXPERTS + 1;
    CHECK_OK(wn_plan_write(&plan, other, true, &err), &err);
    check_refused(eval_pruned, o, "the plan is for 65 experts, layer 1 has 64");
    o.plan = NULL;
    o.masked = other;
    check_refused(eval_parent, o, "the plan is for 65 experts, layer 1 has 64");
    plan.num_experts = EXPERTS;
    free(plan.layers[--plan.layer_count].keep);
    CHECK_OK(wn_plan_write(&plan, other, true, &err), &err);
    check_refused(eval_parent, o, "the plan has no layer");
    o.plan = other;
    check_refused(eval_parent, o, "one of them is wanted");
    wn_plan_release(&plan);
    o = eval_options(32, 2);
    o.against = NULL;
    check_refused(eval_pruned, o, "there is none");
    o = eval_options(32, 2);
    o.plan = NULL;
    (void)json_array_remove(json_object_get(json_object_get(reap, "keep"), "1"), 0);
    m = with_reap(reap);
    check_refused(m, o, "layer 1: the plan keeps 15 experts, the model has 16");
    wn_model_close(m);
}

/* Its second bank has other numbers in the build. */
static void a_mask_of_a_graded_plan_is_refused(void **state)
{
    struct wn_eval_options o = eval_options(32, 2);
    const char *path = wn_test_path(eval_folder, "graded.json");
    struct wn_plan plan;
    struct wn_err err;

    (void)state;
    eval_make_plan(&plan, wn_model_config(eval_parent));
    for (uint32_t i = 0; i < plan.layer_count; i++) {
        plan.layers[i].hi_count = 8;
        plan.layers[i].lo_bits = 2;
    }
    CHECK_OK(wn_plan_write(&plan, path, true, &err), &err);
    wn_plan_release(&plan);
    o.plan = NULL;
    o.masked = path;
    check_refused(eval_parent, o, "some of the experts that it keeps have fewer bits in the build");
}

static void another_vocabulary_is_refused(void **state)
{
    struct wn_eval_options o = eval_options(32, 2);
    const char *tiny = wn_test_need_data("golden/text/tiny-a/hf");
    struct wn_model *m;
    struct wn_err err;
    char *text, *first, *second;
    size_t n;

    (void)state;
    m = wn_model_open(tiny, &err);
    CHECK_OK(m, &err);
    o.plan = NULL;
    check_refused(m, o, "there is no comparing them");
    wn_model_close(m);
    /* two tokens of one length change places */
    text = wn_file_slurp(wn_test_path(eval_pruned_path, "tiktoken.model"), 1 << 24, &n, &err);
    CHECK_OK(text, &err);
    first = text;
    second = strchr(text, '\n') + 1;
    for (int i = 0; i < 4; i++) {
        char c = first[i];

        first[i] = second[i];
        second[i] = c;
    }
    m = wn_model_open(altered(eval_pruned_path, "tiktoken.model", text, n), &err);
    CHECK_OK(m, &err);
    check_refused(m, o, "token 0 is not the same in the model's and the parent's vocabulary");
    wn_model_close(m);
    free(text);
}

static void too_little_memory_and_too_little_room_are_refused(void **state)
{
    struct wn_eval_options o = eval_options(32, 2);

    (void)state;
    o.ram = 1 << 20;
    check_refused(eval_pruned, o, "--stream takes one layer at a time");
    o.stream = true;
    o.work = eval_work_path;
    check_refused(eval_pruned, o, "and 1048576 bytes (1.05 MB) are allowed");
    o.ram = 0;
    wn_path_pretend_space(1000);
    check_refused(eval_pruned, o, "1000 are free");
    wn_path_pretend_space(UINT64_MAX);
    assert_false(wn_path_exists(eval_work_path));
}

static void the_need_is_told_before_anything_is_done(void **state)
{
    struct wn_eval_options o = eval_options(32, 2);
    struct wn_eval_need need;

    (void)state;
    o.stream = true;
    o.work = eval_work_path;
    need = eval_need(eval_pruned, o);
    assert_true(need.tokens == 2 * 2 * 32 && need.peak > need.weights && need.disk > 0);
    assert_false(wn_path_exists(eval_work_path));
}

static void every_refused_allocation_is_survived(void **state)
{
    struct wn_eval_options o = eval_options(8, 1);
    struct wn_err err;

    (void)state;
    o.text_count = 1;
    /* resident; streamed from the start each time; and on from what the one before finished */
    for (int road = 0; road < 3; road++) {
        long n = 0;
        bool ok;

        o.stream = road > 0;
        o.fresh = road == 1;
        o.work = eval_work_path;
        do {
            struct wn_pool *pool = wn_pool_new(1, &err);
            struct wn_eval_result r;

            assert_non_null(pool);
            wn_alloc_fail_after(n);
            ok = wn_eval(eval_pruned, pool, &o, NULL, &r, &err);
            wn_alloc_fail_after(-1);
            wn_eval_result_release(&r);
            wn_pool_free(pool);
            assert_true(ok || err.code == WN_ERR_NOMEM);
            assert_true(!ok || !wn_path_exists(eval_work_path));
            n += n < 60 ? 1 : 31;
        } while (!ok && n < 100000);
        assert_true(ok && n > 20);
    }
}

/* Whoever writes a record can give it its digest: what it says is checked like a plan. */
static void a_record_that_contradicts_the_model_is_refused(void **state)
{
    struct wn_eval_options o = eval_options(32, 2);
    const char *folder = wn_test_folder(), *gguf = wn_test_path(folder, "cut.gguf"),
               *record = wn_test_path(folder, "cut.gguf.winnow.json");
    struct wn_model *m = with_record(WN_FORMAT_GGUF, gguf);
    json_t *root = json_load_file(record, 0, NULL), *keep;
    char self[2 * WN_DIGEST_BYTES + 1];
    struct wn_err err;

    (void)state;
    o.plan = NULL;
    assert_non_null(root);
    keep = json_object_get(json_object_get(root, "plan"), "keep");
    assert_int_equal(json_array_remove(json_object_get(keep, "3"), 0), 0);
    assert_int_equal(json_object_del(root, "record"), 0);
    CHECK_OK(wn_seal_self(root, self, &err), &err);
    json_object_set_new(root, "record", json_string(self));
    assert_int_equal(json_dump_file(root, record, 0), 0);
    json_decref(root);
    check_refused(m, o, "the record of '");
    check_refused(m, o, "layer 3: the plan keeps 15 experts, the model has 16");
    wn_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kept_lists_of_a_config_do_as_well_as_a_plan),
        cmocka_unit_test(so_do_those_of_a_record_that_names_the_parent),
        cmocka_unit_test(a_record_that_contradicts_the_model_is_refused),
        cmocka_unit_test(a_plan_by_which_the_build_was_not_cut_is_refused),
        cmocka_unit_test(a_plan_of_another_model_is_refused),
        cmocka_unit_test(a_mask_of_a_graded_plan_is_refused),
        cmocka_unit_test(another_vocabulary_is_refused),
        cmocka_unit_test(too_little_memory_and_too_little_room_are_refused),
        cmocka_unit_test(the_need_is_told_before_anything_is_done),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, eval_open_models, eval_close_models);
}
