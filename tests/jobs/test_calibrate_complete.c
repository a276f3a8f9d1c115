/*
 * A calibration that is killed behind the naming of its archive has made all that it was to make. The same command
 * again says so, and removes what the killed run could not.
 */
#include "calibrate_fixture.h"
#include "kills.h"

#include "sys/file.h"

#include <stdio.h>
#include <string.h>

#define SEQUENCES 2

static int make_whole(void **state)
{
    double seconds;

    (void)state;
    (void)calibrate_make_whole(SEQUENCES, &seconds);
    return 0;
}

static void check_goes_on(struct calibration *c)
{
    struct wn_err err;

    CHECK_OK(calibrate(c, &err), &err);
    assert_int_equal(c->result.layers_resumed, CALIBRATE_LAYERS);
    wn_test_same_file(c->o.out, calibrate_whole);
    assert_false(wn_path_exists(calibrate_work(c)));
}

struct dying {
    struct calibration *c;
    long writes;
};

static bool calibrate_and_die(void *arg)
{
    const struct dying *d = arg;
    struct wn_err err;

    wn_file_die_of_writes(true);
    wn_file_fail_writes_after(d->writes);
    return calibrate(d->c, &err);
}

/* Write-like calls of a run; killed before the last of them, it has told that it removes what it left. */
static long count_writes(void)
{
    long writes = 0;

    for (long step = 1 << 12; step > 0; step /= 2) {
        struct calibration c = calibrate_fresh();
        struct dying d = {&c, writes + step};

        if (killed_in(calibrate_and_die, &d))
            writes += step;
    }
    return writes + 1;
}

static void note(void *arg, const char *line)
{
    snprintf(arg, 600, "%s", line);
}

static void check_was_complete(struct calibration *c)
{
    char line[600] = "";
    struct wn_job job = {.note = note, .arg = line};
    struct wn_err err;

    c->job = &job;
    CHECK_OK(calibrate(c, &err), &err);
    assert_true(wn_test_contains(line, "was complete already"));
    assert_int_equal(c->result.layers_resumed, CALIBRATE_LAYERS);
    assert_int_equal(c->result.layers_done, 0);
    wn_test_same_file(c->o.out, calibrate_whole);
    assert_false(wn_path_exists(calibrate_work(c)));
    CHECK_FAILS(calibrate(c, &err), &err, "exists already");
}

static void a_run_killed_behind_its_last_rename_was_complete(void **state)
{
    long writes = count_writes();
    int complete = 0;

    (void)state;
    for (long back = 1; back < 16; back++) {
        struct calibration c = calibrate_fresh();
        struct dying d = {&c, writes - back};

        assert_true(killed_in(calibrate_and_die, &d));
        complete += wn_path_exists(c.o.out);
        if (back == 1) /* it had begun to remove */
            assert_true(wn_path_remove(wn_test_path(calibrate_work(&c), "stream-000")));
        if (wn_path_exists(c.o.out))
            check_was_complete(&c);
        else
            check_goes_on(&c);
    }
    assert_true(complete >= 4 && complete < 15);
}

static void another_run_s_archive_is_not_taken_for_it(void **state)
{
    long writes = count_writes();
    struct calibration c = calibrate_fresh(), other;
    struct dying d = {&c, writes - 1};
    struct wn_err err;

    (void)state;
    assert_true(killed_in(calibrate_and_die, &d));
    other = c;
    other.o.corpus = random_corpus(SEQUENCES, 24, 400, 8);
    CHECK_FAILS(calibrate(&other, &err), &err, "exists already");
    other = c;
    other.o.fresh = true;
    CHECK_FAILS(calibrate(&other, &err), &err, "exists already");
    /* the archive is another one now */
    CHECK_OK(wn_file_put(c.o.out, "x", 1, true, &err), &err);
    CHECK_FAILS(calibrate(&c, &err), &err, "exists already");
}

/* Killed between removing what lay in its folder and the folder; or before anything lay there. */
static void a_bare_work_folder_goes(void **state)
{
    struct calibration c = calibrate_fresh();
    const char *work = calibrate_work(&c), *lock = wn_test_path(work, "winnow.lock");
    struct wn_lock held;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_path_make_folder(work, &err), &err);
    CHECK_OK(calibrate(&c, &err), &err);
    assert_false(wn_path_exists(work));
    for (int locked = 0; locked < 2; locked++) {
        CHECK_OK(wn_path_make_folder(work, &err), &err);
        if (locked)
            CHECK_OK(wn_file_put(lock, "", 0, false, &err), &err);
        CHECK_FAILS(calibrate(&c, &err), &err, "exists already");
        assert_false(wn_path_exists(work));
    }
    /* a run is at work there */
    CHECK_OK(wn_path_make_folder(work, &err), &err);
    CHECK_OK(wn_lock_take(&held, lock, &err), &err);
    CHECK_FAILS(calibrate(&c, &err), &err, "exists already");
    assert_true(wn_path_exists(lock));
    wn_lock_remove(&held);
    /* somebody's file */
    CHECK_OK(wn_file_put(wn_test_path(work, "notes"), "x", 1, false, &err), &err);
    CHECK_FAILS(calibrate(&c, &err), &err, "exists already");
    assert_true(wn_path_exists(wn_test_path(work, "notes")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_killed_behind_its_last_rename_was_complete),
        cmocka_unit_test(another_run_s_archive_is_not_taken_for_it),
        cmocka_unit_test(a_bare_work_folder_goes),
    };

    wn_file_pretend_sync(true); /* no test here takes the power away */
    return cmocka_run_group_tests(tests, make_whole, NULL);
}
