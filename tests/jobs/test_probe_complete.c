/*
 * Probing that is killed behind the naming of its archive has made all that it was to make. The same command again says
 * so, and removes what the killed run could not.
 */
#include "kills.h"
#include "probe_fixture.h"

#include "sys/file.h"

#include <stdio.h>
#include <stdlib.h>

#define STEPS (PROBE_LAYERS + (PROBE_LAYERS - 1) * PROBE_LAYERS / 2)

static struct probing one_share(void)
{
    struct probing p = probe_fresh();

    p.o.kept_count = 1;
    return p;
}

/* An archive of its own, which gets the probes; path stays the caller's. */
static struct probing in_place(char path[512])
{
    struct probing p = one_share();
    struct wn_err err;
    size_t n;
    char *bytes = wn_file_slurp(probe_archive, 1 << 30, &n, &err);

    CHECK_OK(bytes, &err);
    (void)snprintf(path, 512, "%s", p.o.out);
    CHECK_OK(wn_file_put(path, bytes, n, false, &err), &err);
    free(bytes);
    p.o.archive = p.o.out = path;
    p.o.overwrite = true;
    return p;
}

struct dying {
    struct probing *p;
    long writes;
};

static bool probe_and_die(void *arg)
{
    const struct dying *d = arg;
    struct wn_err err;

    wn_file_die_of_writes(true);
    wn_file_fail_writes_after(d->writes);
    return probe_run(d->p, &err);
}

/* Write-like calls of a run; killed before the last of them, it has told that it removes what it left. */
static long count_writes(void)
{
    static long writes;

    for (long step = writes ? 0 : 1 << 10; step > 0; step /= 2) {
        struct probing p = one_share();
        struct dying d = {&p, writes + step};

        if (killed_in(probe_and_die, &d))
            writes += step;
    }
    return writes;
}

static void die(struct probing *p, long writes)
{
    struct dying d = {p, writes};

    assert_true(killed_in(probe_and_die, &d));
}

static void note(void *arg, const char *line)
{
    (void)snprintf(arg, 600, "%s", line);
}

static void check_was_complete(struct probing *p)
{
    char line[600] = "", work[600];
    struct wn_job job = {.note = note, .arg = line};
    struct wn_err err;

    p->job = &job;
    CHECK_OK(probe_run(p, &err), &err);
    assert_true(wn_test_contains(line, "was complete already"));
    assert_int_equal(p->result.resumed, STEPS);
    assert_int_equal(p->result.done, 0);
    (void)snprintf(work, sizeof work, "%s.work", p->o.out);
    assert_false(wn_path_exists(work));
}

static void a_run_killed_behind_its_last_rename_was_complete(void **state)
{
    long writes = count_writes();
    struct wn_err err;

    (void)state;
    for (long back = 0; back < 5; back += 2) {
        struct probing p = one_share();

        die(&p, writes - back);
        assert_true(wn_path_exists(p.o.out));
        check_was_complete(&p);
        CHECK_FAILS(probe_run(&p, &err), &err, "exists already");
    }
}

/* An archive that gets its own probes is another one behind that. */
static void so_was_one_in_its_own_place(void **state)
{
    struct probing p;
    char path[512];

    (void)state;
    p = in_place(path);
    die(&p, count_writes());
    check_was_complete(&p);
}

/* Made of another archive, or of other shares. */
static void another_run_s_archive_is_not_taken_for_it(void **state)
{
    static const double kept[] = {0.25};
    struct probing p = one_share(), other;
    char path[512];
    struct wn_err err;

    (void)state;
    die(&p, count_writes());
    other = p;
    other.o.kept = kept;
    CHECK_FAILS(probe_run(&other, &err), &err, "exists already");
    other = in_place(path);
    other.o.out = p.o.out;
    other.o.overwrite = false;
    CHECK_FAILS(probe_run(&other, &err), &err, "exists already");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_killed_behind_its_last_rename_was_complete),
        cmocka_unit_test(so_was_one_in_its_own_place),
        cmocka_unit_test(another_run_s_archive_is_not_taken_for_it),
    };

    wn_file_pretend_sync(true); /* no test here takes the power away */
    return cmocka_run_group_tests(tests, probe_make_archive, NULL);
}
