/*
 * A prune that is killed behind its last rename has made all that it was to make. The same command again says so, and
 * removes what the killed run could not.
 */
#include "road.h"
#include "sys/file.h"
#include <winnow/pool.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Into a folder where an older model of other files stands, with --force. */
static void stand_older_model(const struct road *r)
{
    static const char *const names[] = {"config.json", "model-00007-of-00009.safetensors", "model.safetensors",
                                        "model-00002-of-000004.safetensors", "winnow.json"};
    struct wn_err err;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        CHECK_OK(wn_file_put(wn_test_path(r->folder, names[i]), "old", 3, false, &err), &err);
}

/* Killed at its last steps, one after the other: all names are given, `back` writes were still to come. */
static void leave_complete(struct road *r, long writes, long back)
{
    new_place(r);
    if (r->o.overwrite)
        stand_older_model(r);
    assert_false(killed_before_write(r, writes - back));
    assert_true(has_final_name(r) && !is_placing(r) && has_journal(r));
}

static long exact_writes(struct road *r)
{
    long low = 0, high = STEPS_MOST;

    while (high - low > 1) {
        long middle = (low + high) / 2;

        new_place(r);
        if (r->o.overwrite)
            stand_older_model(r);
        if (killed_before_write(r, middle))
            high = middle;
        else
            low = middle;
    }
    return high;
}

static void note(void *arg, const char *line)
{
    snprintf(arg, 600, "%s", line);
}

/* It says what the command would do, and leaves what lies there. */
static void check_dry_run(struct road *r)
{
    char line[600] = "";
    struct wn_job job = {.note = note, .arg = line};
    struct wn_prune_result result;
    struct wn_err err;

    r->o.dry_run = true;
    CHECK_OK(wn_prune(&r->o, &job, &result, &err), &err);
    r->o.dry_run = false;
    assert_true(wn_test_contains(line, "is complete already; leftovers of the run that made it would be removed"));
    assert_true(has_final_name(r) && has_journal(r));
}

static void check_complete(struct road *r, uint32_t files)
{
    char line[600] = "";
    struct wn_job job = {.note = note, .arg = line};
    struct wn_prune_result result;
    struct wn_err err;

    check_dry_run(r);
    CHECK_OK(wn_prune(&r->o, &job, &result, &err), &err);
    assert_int_equal(result.files_taken_up, files);
    assert_int_equal(result.copied_bytes, 0);
    assert_true(wn_test_contains(line, "was complete already"));
    check_same_folder(r->want, r->folder); /* which counts the names: nothing else is left */
    r->o.overwrite = false;
    CHECK_FAILS(wn_prune(&r->o, NULL, &result, &err), &err, "exists already");
}

static void check_complete_road(struct road *r, uint32_t files, bool force)
{
    long writes;

    r->o.overwrite = force;
    writes = exact_writes(r);
    for (long back = 1; back <= 5; back += 4) {
        r->o.overwrite = force;
        leave_complete(r, writes, back);
        check_complete(r, files);
    }
    end_road(r);
}

static void a_run_killed_behind_its_last_rename_was_complete(void **state)
{
    struct road r;

    (void)state;
    road_hf_cut(&r);
    check_complete_road(&r, 4, false);
    road_gguf_set(&r);
    check_complete_road(&r, 3, false);
    road_made(&r, WN_FORMAT_GGUF);
    check_complete_road(&r, 3, false);
}

/* What stood there is set aside, and goes. */
static void so_was_one_that_overwrote_another_model(void **state)
{
    struct road r;

    (void)state;
    road_hf_cut(&r);
    check_complete_road(&r, 4, true);
}

/* One name, which needs no journal of renames, and may have been given as a second one. */
static void so_was_a_single_file_without_hashes(void **state)
{
    struct road r = {.o = {.layout = WN_LAYOUT_JOINED}};

    (void)state;
    r.name = "one.gguf";
    r.no_hashes = true;
    start_road(&r, SET);
    leave_complete(&r, exact_writes(&r), 1);
    assert_int_equal(link(r.out, wn_test_path(r.folder, "one.gguf.part")), 0);
    check_complete(&r, 1);
    end_road(&r);
}

static void what_is_not_that_output_is_not_taken_for_it(void **state)
{
    struct wn_prune_result result;
    struct wn_err err;
    struct road r;
    long writes;

    (void)state;
    road_hf_cut(&r);
    writes = exact_writes(&r);
    leave_complete(&r, writes, 1);
    r.o.plan = NULL; /* another command */
    CHECK_FAILS(wn_prune(&r.o, NULL, &result, &err), &err, "exists already");
    r.o.plan = &r.plan;
    flip_byte(wn_test_path(r.folder, "model-00002-of-000004.safetensors"), 4000, 1);
    CHECK_FAILS(wn_prune(&r.o, NULL, &result, &err), &err, "exists already");
    leave_complete(&r, writes, 1);
    assert_true(wn_path_remove(wn_test_path(r.folder, "config.json")));
    CHECK_FAILS(wn_prune(&r.o, NULL, &result, &err), &err, "exists already");
    assert_true(has_journal(&r));
    end_road(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_killed_behind_its_last_rename_was_complete),
        cmocka_unit_test(so_was_one_that_overwrote_another_model),
        cmocka_unit_test(so_was_a_single_file_without_hashes),
        cmocka_unit_test(what_is_not_that_output_is_not_taken_for_it),
    };

    wn_file_pretend_sync(true); /* no test here takes the power away */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
