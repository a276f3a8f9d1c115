/*
 * Runs that write ghosts: told beforehand, killed and taken up, with a source that gives itself away, and without
 * memory.
 */
#include "ghost_help.h"
#include "base/alloc.h"
#include "sys/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS_MOST = 3000 };

static struct wn_plan plan;

static struct wn_prune_options options(const char *source, const char *out)
{
    return (struct wn_prune_options){.source = source,
                                     .out = out,
                                     .plan = &plan,
                                     .ghosts = WN_GHOSTS_MEAN,
                                     .resume = true,
                                     .hashes = true,
                                     .saliency = ghost_archive(source)};
}

static bool proved(const struct wn_prune_options *o, const char *source, struct wn_err *err)
{
    struct wn_verify_result r;

    return wn_verify_all(&(struct wn_verify_options){o->out, source, NULL, o->plan, o->saliency}, NULL, &r, err) &&
           wn_verify(o->out, NULL, NULL, NULL, &r, err);
}

static void a_dry_run_tells_the_sizes_to_the_byte_and_needs_no_archive(void **state)
{
    static const char *const models[] = {GHOST_HF, GHOST_GGUF};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct wn_prune_options o =
            options(wn_test_need_data(models[i]), wn_test_path(wn_test_folder(), i ? "out.gguf" : "out"));
        const char *archive = o.saliency;
        struct wn_prune_result told, plain, made;
        struct wn_err err;

        o.dry_run = true;
        o.saliency = NULL;
        CHECK_OK(wn_prune(&o, NULL, &told, &err), &err);
        o.ghosts = WN_GHOSTS_BUILT;
        CHECK_OK(wn_prune(&o, NULL, &plain, &err), &err);
        o.ghosts = WN_GHOSTS_MEAN;
        o.dry_run = false;
        o.saliency = archive;
        CHECK_OK(wn_prune(&o, NULL, &made, &err), &err);
        assert_int_equal(told.out_bytes, made.out_bytes);
        assert_int_equal(told.out_tensor_bytes, made.out_tensor_bytes);
        assert_int_equal(told.tensors, made.tensors);
        assert_int_equal(made.copied_bytes, made.out_tensor_bytes);
        assert_true(told.out_tensor_bytes > plain.out_tensor_bytes);
        assert_int_equal(told.tensors, plain.tensors + 24);
    }
}

static bool is_named(const char *out)
{
    char path[700];

    snprintf(path, sizeof path, "%s/config.json", out);
    return wn_path_exists(path);
}

static void a_killed_run_is_taken_up(void **state)
{
    char source[600], out[600], archive[600];
    uint32_t most = 0;
    bool through = false;

    (void)state;
    snprintf(source, sizeof source, "%s", wn_test_need_data(GHOST_HF));
    snprintf(archive, sizeof archive, "%s", ghost_archive(source));
    for (long n = 0; !through && n < STEPS_MOST; n += 149) {
        struct wn_prune_options o = options(source, out);
        struct wn_prune_result r;
        struct wn_err err;

        snprintf(out, sizeof out, "%s/out", wn_test_folder());
        o.saliency = archive;
        through = prune_gets_through(&o, n);
        if (!through && !is_named(out)) {
            CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
            most = r.files_taken_up > most ? r.files_taken_up : most;
        }
        CHECK_OK(proved(&o, source, &err), &err);
    }
    assert_true(through);
    assert_true(most >= 2);
}

/* Means of another archive, or none, are other bytes in the same places. */
static void another_archive_starts_over(void **state)
{
    char source[600], out[600], shard[700], archive[600];
    struct wn_prune_options o;
    struct wn_prune_result r;
    struct wn_err err;
    FILE *f;

    (void)state;
    snprintf(source, sizeof source, "%s", wn_test_need_data(GHOST_HF));
    snprintf(out, sizeof out, "%s/out", wn_test_folder());
    snprintf(shard, sizeof shard, "%s/model-00003-of-000004.safetensors.part", out);
    o = options(source, out);
    snprintf(archive, sizeof archive, "%s", o.saliency);
    o.saliency = archive;
    for (long n = 0; n < STEPS_MOST && !wn_path_exists(shard); n += 40)
        assert_false(prune_gets_through(&o, n));
    f = fopen(archive, "ab"); /* a byte behind the zip makes another file, with the same means in it */
    assert_non_null(f);
    assert_int_equal(fputc(0, f), 0);
    assert_int_equal(fclose(f), 0);
    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    assert_int_equal(r.files_taken_up, 0);
    CHECK_OK(proved(&o, source, &err), &err);
}

static bool can_punch(void)
{
    const char *path = wn_test_path(wn_test_folder(), "probe");
    char bytes[4096] = {1};
    struct wn_err err;

    CHECK_OK(wn_file_put(path, bytes, sizeof bytes, false, &err), &err);
    return wn_file_punch(path, 0, sizeof bytes, &err);
}

static void a_source_may_be_given_away_for_it(void **state)
{
    char whole[600];
    bool through = false;

    (void)state;
    if (!can_punch())
        skip();
    snprintf(whole, sizeof whole, "%s", wn_test_need_data(GHOST_HF));
    for (long n = 200; !through && n < STEPS_MOST; n += 373) {
        char source[600], out[600], archive[600];
        struct wn_prune_options o;
        struct wn_prune_result r;
        struct wn_err err;

        snprintf(source, sizeof source, "%s/parent", wn_test_folder());
        snprintf(out, sizeof out, "%s/out", wn_test_folder());
        prune_ok(whole, source, NULL, WN_LAYOUT_AS_SOURCE, 0);
        o = options(source, out);
        snprintf(archive, sizeof archive, "%s", o.saliency);
        o.saliency = archive;
        o.consume = true;
        through = prune_gets_through(&o, n);
        if (!through && !is_named(out))
            CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
        CHECK_OK(proved(&o, whole, &err), &err);
    }
    assert_true(through);
}

static void ghosts_do_not_go_out_of_a_source_that_does(void **state)
{
    struct wn_prune_options o = {
        .source = "source", .out = "out", .ghosts = WN_GHOSTS_OFF, .resume = true, .hashes = true, .consume = true};
    struct wn_prune_result r;
    struct wn_err err;

    (void)state;
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "while its ghosts go");
}

static void every_refused_allocation_is_survived(void **state)
{
    char source[600], folder[600], out[700], archive[600];
    struct wn_prune_options o;
    struct wn_prune_result r;
    struct wn_err err;
    bool ok = false;

    (void)state;
    snprintf(source, sizeof source, "%s", wn_test_need_data(GHOST_GGUF));
    snprintf(folder, sizeof folder, "%s", wn_test_folder());
    snprintf(out, sizeof out, "%s/out.gguf", folder);
    o = options(source, out);
    snprintf(archive, sizeof archive, "%s", o.saliency);
    o.saliency = archive;
    o.resume = false;
    for (long n = 0; !ok; n += 1 + n / 16) {
        wn_alloc_fail_after(n);
        ok = wn_prune(&o, NULL, &r, &err);
        wn_alloc_fail_after(-1);
        assert_true(ok || (err.code == WN_ERR_NOMEM && count_entries(folder) == 0));
    }
    ok = false;
    for (long n = 0; !ok; n += 1 + n / 16) {
        wn_alloc_fail_after(n);
        ok = proved(&o, source, &err);
        wn_alloc_fail_after(-1);
        assert_true(ok || err.code == WN_ERR_NOMEM);
    }
}

static int make_plan(void **state)
{
    (void)state;
    ghost_plan(&plan, true);
    return 0;
}

static int drop_plan(void **state)
{
    (void)state;
    wn_plan_release(&plan);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dry_run_tells_the_sizes_to_the_byte_and_needs_no_archive),
        cmocka_unit_test(a_killed_run_is_taken_up),
        cmocka_unit_test(another_archive_starts_over),
        cmocka_unit_test(a_source_may_be_given_away_for_it),
        cmocka_unit_test(ghosts_do_not_go_out_of_a_source_that_does),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, make_plan, drop_plan);
}
