/* Probing that is killed, stopped, or meets a full disk goes on behind the last step and ends with the same archive. */
#include "kills.h"
#include "probe_fixture.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "sys/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEPS (PROBE_LAYERS + (PROBE_LAYERS - 1) * PROBE_LAYERS / 2)

static char whole[512];   /* the archive of a run that nobody disturbed ... */
static uint64_t whole_us; /* ... and what that took */

static struct probing one_share(void)
{
    struct probing p = probe_fresh();

    p.o.kept_count = 1;
    return p;
}

static int make_whole(void **state)
{
    struct wn_err err;
    struct probing p;

    if (probe_make_archive(state) != 0 || !probe_model)
        return 0;
    p = one_share();
    (void)snprintf(whole, sizeof whole, "%s", p.o.out);
    p.o.out = whole;
    CHECK_OK(probe_run(&p, &err), &err);
    whole_us = (uint64_t)(p.result.seconds * 1e6) + 1;
    return 0;
}

static bool try_to_probe(void *arg)
{
    struct wn_err err;

    return probe_run(arg, &err);
}

static void run_until_killed(const struct probing *p, const char *phase, int call)
{
    struct killer k = {phase, call, false};
    struct wn_job job = {.progress = kill_count_down, .arg = &k};
    struct probing dying = *p;

    dying.job = &job;
    killed_on_its_way(try_to_probe, &dying);
    assert_false(wn_path_exists(p->o.out));
}

static void check_ends_the_same(struct probing *p, bool resumed)
{
    struct wn_err err;
    char work[512];

    p->job = NULL;
    CHECK_OK(probe_run(p, &err), &err);
    assert_int_equal(p->result.done + p->result.resumed, STEPS);
    assert_int_equal(p->result.resumed > 0, resumed);
    wn_test_same_file(p->o.out, whole);
    (void)snprintf(work, sizeof work, "%s.work", p->o.out);
    assert_false(wn_path_exists(work));
}

/* A step is a call for each sequence and one behind it; steps that are done are told in one call. */
static void a_run_killed_again_and_again_ends_the_same(void **state)
{
    struct probing p = one_share();

    (void)state;
    for (int i = 0; i < 6; i++)
        run_until_killed(&p, "probing", 12 + 3 * i);
    for (int i = 0; i < 3; i++)
        run_until_killed(&p, "scoring", 17);
    check_ends_the_same(&p, true);
    assert_int_equal(p.result.done, 0); /* all ways had been gone when scoring began */
}

static void no_step_that_is_done_is_done_again(void **state)
{
    struct probing p = one_share();

    (void)state;
    /* the dense layer's one step and layer 1's two are done, and two of layer 2's three */
    run_until_killed(&p, "probing", 5 * (PROBE_SEQUENCES + 1) + 2);
    check_ends_the_same(&p, true);
    assert_int_equal(p.result.resumed, 5);
}

static void a_run_killed_at_any_moment_ends_the_same(void **state)
{
    struct wn_rng rng = {21};
    unsigned killed = 0, n = kill_count();

    (void)state;
    for (unsigned i = 0; i < n; i++) {
        struct probing p = one_share();
        struct wn_err err;

        p.o.ram = i % 2 ? UINT64_C(1) << 32 : 0;
        for (unsigned k = 0; k < 1 + (i % 3 == 2); k++)
            killed += killed_after(try_to_probe, &p, wn_rng_below(&rng, whole_us));
        p.o.overwrite = true; /* it may have been quicker than we */
        CHECK_OK(probe_run(&p, &err), &err);
        assert_int_equal(p.result.done + p.result.resumed, STEPS);
        wn_test_same_file(p.o.out, whole);
    }
    printf("%u runs: killed %u times\n", n, killed);
    assert_true(killed > n / 4 || n < 20); /* how fast a run is changes with what else the machine does */
}

static void a_run_that_was_stopped_goes_on(void **state)
{
    struct probing p = one_share();
    struct killer k = {"probing", 24, true};
    struct wn_job job = {.progress = kill_count_down, .arg = &k};
    struct wn_err err;

    (void)state;
    p.job = &job;
    CHECK_FAILS(probe_run(&p, &err), &err, "probing layer 2: stopped on request");
    assert_int_equal(err.code, WN_ERR_CANCELED);
    check_ends_the_same(&p, true);
}

/* In its own place: killed behind the commit, it finds its work folder and an archive that has the probes. */
static void the_archive_s_own_probes_do_not_disturb_a_run(void **state)
{
    struct probing p = one_share();
    struct wn_err err;

    (void)state;
    run_until_killed(&p, "scoring", 30);
    p.o.archive = whole;
    CHECK_OK(probe_run(&p, &err), &err);
    assert_int_equal(p.result.done, 0);
    wn_test_same_file(p.o.out, whole);
}

static void a_full_disk_is_told_and_survived(void **state)
{
    struct probing p = one_share();
    struct wn_err err;
    long n = 0;
    bool ok;

    (void)state;
    do {
        wn_file_fail_writes_after(n);
        ok = probe_run(&p, &err);
        wn_file_fail_writes_after(-1);
        assert_true(ok || err.code == WN_ERR_IO);
        n += 23;
    } while (!ok && n < 2000);
    assert_true(ok && n > 100);
    wn_test_same_file(p.o.out, whole);
}

static void every_refused_allocation_is_survived(void **state)
{
    struct probing p = one_share();
    struct wn_err err;
    struct wn_model *m = wn_model_open(probe_model, &err);
    struct wn_pool *pool = wn_pool_new(1, &err);
    long n = 0;
    bool ok;

    (void)state;
    assert_true(m && pool);
    p.o.ram = UINT64_C(1) << 32; /* so that memory for the activations is asked for, too */
    do {
        wn_alloc_fail_after(n);
        ok = wn_layer_probe(m, pool, &p.o, NULL, &p.result, &err);
        wn_alloc_fail_after(-1);
        if (!ok && err.code != WN_ERR_NOMEM)
            fail_msg("allocation %ld: %s", n, err.msg);
        n += n < 400 ? 7 : 997;
    } while (!ok && n < 200000);
    assert_true(ok);
    wn_test_same_file(p.o.out, whole);
    wn_pool_free(pool);
    wn_model_close(m);
}

static void another_run_s_state_is_refused_by_name(void **state)
{
    static const double kept[] = {0.25};
    struct probing p = one_share(), other;
    struct wn_err err;

    (void)state;
    run_until_killed(&p, "probing", 20);
    other = p;
    other.o.kept = kept;
    CHECK_FAILS(probe_run(&other, &err), &err, "its dropped experts is '");
    assert_true(wn_test_contains(err.msg, "--fresh"));
    other = p;
    other.o.max_tokens = 2 * PROBE_LENGTH;
    CHECK_FAILS(probe_run(&other, &err), &err, "its corpus is '");
    check_ends_the_same(&p, true);
}

/* The last byte of a stream turned over. */
static void damage(const char *folder, const char *name)
{
    char path[512], byte;
    int fd;
    off_t end;

    (void)snprintf(path, sizeof path, "%s.work/%s", folder, name);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    end = lseek(fd, -1, SEEK_END);
    assert_int_equal(pread(fd, &byte, 1, end), 1);
    byte = (char)~byte;
    assert_int_equal(pwrite(fd, &byte, 1, end), 1);
    close(fd);
}

static void a_damaged_stream_is_noticed(void **state)
{
    /* the whole model's bank, and way 1's stream into layer 3: 9 numbers a way */
    static const char *const harm[] = {"stream-000", "stream-012"};
    struct wn_err err;

    (void)state;
    for (size_t i = 0; i < sizeof harm / sizeof harm[0]; i++) {
        struct probing p = one_share();

        run_until_killed(&p, "probing", 6 * (PROBE_SEQUENCES + 1) + 1);
        damage(p.o.out, harm[i]);
        CHECK_FAILS(probe_run(&p, &err), &err, harm[i]);
        assert_true(wn_test_contains(err.msg, "damaged, start anew with --fresh"));
        p.o.fresh = true;
        check_ends_the_same(&p, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_killed_again_and_again_ends_the_same),
        cmocka_unit_test(no_step_that_is_done_is_done_again),
        cmocka_unit_test(a_run_killed_at_any_moment_ends_the_same),
        cmocka_unit_test(a_run_that_was_stopped_goes_on),
        cmocka_unit_test(the_archive_s_own_probes_do_not_disturb_a_run),
        cmocka_unit_test(a_full_disk_is_told_and_survived),
        cmocka_unit_test(every_refused_allocation_is_survived),
        cmocka_unit_test(another_run_s_state_is_refused_by_name),
        cmocka_unit_test(a_damaged_stream_is_noticed),
    };

    return cmocka_run_group_tests(tests, make_whole, NULL);
}
