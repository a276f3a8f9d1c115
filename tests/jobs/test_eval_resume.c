/*
 * A streamed evaluation that is killed, stopped, or meets a full disk goes on behind the last finished layer of either
 * model, and says the same to the bit. Runs that die do so in a child process, by a real SIGKILL.
 */
#include "eval_fixture.h"
#include "kills.h"

#include "base/rng.h"
#include "sys/clock.h"
#include "sys/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAYERS          8 /* of k3-mini */
#define WINDOWS         4 /* two of each text */
#define CALLS_PER_LAYER (WINDOWS + 2)

static struct outcome whole; /* of a run that nobody disturbed ... */
static uint64_t whole_us;    /* ... and what that took */

static struct wn_eval_options options(void)
{
    struct wn_eval_options o = eval_options(32, WINDOWS / 2);

    o.stream = true;
    o.work = eval_work_path;
    return o;
}

static int make_whole(void **state)
{
    double start;

    (void)eval_open_models(state);
    start = wn_clock_seconds();
    whole = eval_run(eval_pruned, 1, options());
    whole_us = (uint64_t)((wn_clock_seconds() - start) * 1e6) + 1;
    return 0;
}

static int drop_whole(void **state)
{
    eval_release(&whole);
    return eval_close_models(state);
}

/* ---- runs ---- */

static bool try(const struct wn_model *m, const struct wn_eval_options *o, const struct wn_job *job, struct wn_err *err)
{
    struct wn_pool *pool = wn_pool_new(1, err);
    struct wn_eval_result r;
    bool ok = pool && wn_eval(m, pool, o, job, &r, err);

    wn_pool_free(pool);
    if (ok)
        wn_eval_result_release(&r);
    return ok;
}

struct evaluation {
    const struct wn_model *m;
    const struct wn_eval_options *o;
    const struct wn_job *job;
};

static bool try_to_evaluate(void *arg)
{
    const struct evaluation *v = arg;
    struct wn_err err;

    return try(v->m, v->o, v->job, &err);
}

static void kill_at_call(const struct wn_model *m, const struct wn_eval_options *o, const char *phase, int call)
{
    struct killer k = {phase, call, false};
    struct wn_job job = {.progress = kill_count_down, .arg = &k};

    killed_on_its_way(try_to_evaluate, &(struct evaluation){m, o, &job});
}

/* Progress and notes of a run: calls within layers, per side, and all that was noted. */
struct heard {
    unsigned layers[2];
    char notes[2048];
};

static bool hear_progress(void *arg, const struct wn_progress *p)
{
    struct heard *h = arg;

    if (p->step && strncmp(p->step, "layer ", 6) == 0)
        h->layers[strcmp(p->phase, "evaluating the parent") == 0]++;
    return true;
}

static void hear_note(void *arg, const char *line)
{
    struct heard *h = arg;
    size_t n = strlen(h->notes);

    (void)snprintf(h->notes + n, sizeof h->notes - n, "%s\n", line);
}

static struct heard listen_to(const struct wn_model *m, const struct wn_eval_options *o)
{
    struct heard h = {0};
    struct wn_job job = {hear_progress, hear_note, &h};
    struct wn_err err;

    CHECK_OK(try(m, o, &job, &err), &err);
    return h;
}

static void check_ends_the_same(const struct wn_eval_options *o)
{
    struct outcome out = eval_run(eval_pruned, 2, *o);

    eval_check_same(&out, &whole, 2);
    eval_release(&out);
    if (o->work)
        assert_false(wn_path_exists(o->work));
}

static bool has(const char *folder, const char *name)
{
    return wn_path_exists(wn_test_path(folder, name));
}

static const char *parent_folder(void)
{
    return wn_test_path(eval_work_path, "parent");
}

static bool has_record(bool parent, int layer)
{
    char name[32];

    (void)snprintf(name, sizeof name, "layer-%03d", layer);
    return has(parent ? parent_folder() : eval_work_path, name);
}

static void kill_in(const char *side, int calls)
{
    struct wn_eval_options o = options();

    kill_at_call(eval_pruned, &o, side, calls);
}

/* ---- killed ---- */

/* In its middle; with the leaving stream in place but not the record; with the record in place. */
static void a_run_killed_three_times_in_every_layer_says_the_same(void **state)
{
    static const char *const side[] = {"evaluating the model", "evaluating the parent"};
    struct wn_eval_options o = options();

    (void)state;
    for (int i = 0; i < 2; i++)
        for (int layer = 0; layer < LAYERS; layer++) {
            kill_in(side[i], layer % WINDOWS);
            kill_in(side[i], WINDOWS);
            assert_false(has_record(i, layer));
            kill_in(side[i], WINDOWS + 1);
            assert_true(has_record(i, layer));
        }
    check_ends_the_same(&o);
}

static void what_is_finished_is_not_done_again(void **state)
{
    struct wn_eval_options o = options();
    struct heard h;

    (void)state;
    kill_in("evaluating the parent", 3 * CALLS_PER_LAYER + 1);
    h = listen_to(eval_pruned, &o);
    assert_int_equal(h.layers[0], 0);
    assert_int_equal(h.layers[1], (LAYERS - 3) * CALLS_PER_LAYER);
    assert_true(wn_test_contains(h.notes, "going on behind layer 7, which an earlier run finished"));
    assert_true(wn_test_contains(h.notes, "going on behind layer 2, which an earlier run finished"));
    assert_false(wn_path_exists(eval_work_path));
}

static void a_run_killed_at_any_moment_says_the_same(void **state)
{
    struct wn_rng rng = {21};
    unsigned killed = 0, taken_up = 0, n = kill_count();

    (void)state;
    for (unsigned i = 0; i < n; i++) {
        struct wn_eval_options o = options();
        struct evaluation v = {.m = eval_pruned, .o = &o};

        for (unsigned k = 0; k < 1 + i % 3; k++)
            killed += killed_after(try_to_evaluate, &v, wn_rng_below(&rng, whole_us));
        taken_up += has_record(false, 0);
        check_ends_the_same(&o);
    }
    printf("%u runs: killed %u times, %u taken up behind some layer\n", n, killed, taken_up);
    assert_true(killed > n / 4 || n < 20); /* how fast a run is changes with what else the machine does */
    assert_true(taken_up > 0 || n < 20);
}

/* What was counted of their choices by the layers that an earlier run finished is not lost, and not counted again. */
static void a_run_with_ghosts_counts_the_same(void **state)
{
    struct wn_eval_options o = options(), resident;
    struct outcome want, have;

    (void)state;
    o.masked = o.plan;
    o.plan = NULL;
    o.ghosts = WN_GHOSTS_SKIP;
    resident = o;
    resident.stream = false;
    want = eval_run(eval_parent, 1, resident);
    kill_at_call(eval_parent, &o, "evaluating the model", 4 * CALLS_PER_LAYER + 2);
    kill_at_call(eval_parent, &o, "evaluating the model", 2 * CALLS_PER_LAYER + 2);
    have = eval_run(eval_parent, 1, o);
    eval_check_same(&have, &want, 2);
    for (int t = 0; t < 2; t++) {
        assert_true(have.r.domains[t].ghosted > 0 && have.r.domains[t].ghosted == want.r.domains[t].ghosted);
        assert_true(have.r.domains[t].ghost_choices == want.r.domains[t].ghost_choices);
    }
    eval_release(&want);
    eval_release(&have);

    kill_at_call(eval_parent, &o, "evaluating the model", 4 * CALLS_PER_LAYER + 2);
    o.ghosts = WN_GHOSTS_OFF;
    assert_true(wn_test_contains(listen_to(eval_parent, &o).notes, "its ghost mode is 'skip "));
}

static void a_kill_while_the_state_is_removed_does_no_harm(void **state)
{
    static const char removing[] = "{\"made\": true, \"removing\": true}";
    struct wn_eval_options o = options();
    struct wn_err err;

    (void)state;
    kill_in("evaluating the model", 5 * CALLS_PER_LAYER + 1);
    CHECK_OK(wn_file_put(wn_test_path(eval_work_path, "state.json"), removing, strlen(removing), true, &err), &err);
    assert_true(wn_path_remove(wn_test_path(eval_work_path, "stream-005")));
    check_ends_the_same(&o);
}

/* ---- stopped, short of space ---- */

struct stopper {
    unsigned calls, stop_at;
};

static bool stop_at(void *arg, const struct wn_progress *p)
{
    struct stopper *s = arg;

    assert_true(p->done <= p->total);
    return ++s->calls != s->stop_at;
}

/* Wherever it is stopped, it leaves what it finished, or nothing at all. */
static void a_stopped_run_goes_on(void **state)
{
    struct wn_eval_options o = options();
    struct stopper s = {0};
    struct wn_job job = {.progress = stop_at, .arg = &s};
    struct wn_err err;
    unsigned calls;

    (void)state;
    CHECK_OK(try(eval_pruned, &o, &job, &err), &err);
    calls = s.calls;
    for (unsigned at = 1; at <= calls; at += 13) {
        o.fresh = true;
        s = (struct stopper){.stop_at = at};
        CHECK_FAILS(try(eval_pruned, &o, &job, &err), &err, "stopped on request");
        assert_int_equal(err.code, WN_ERR_CANCELED);
        assert_int_equal(wn_path_exists(eval_work_path), has_record(false, 0));
        o.fresh = false;
        check_ends_the_same(&o);
    }
}

static void a_full_disk_is_told_and_survived(void **state)
{
    struct wn_eval_options o = options();
    struct wn_err err;
    long n = 0;
    bool ok;

    (void)state;
    do {
        wn_file_fail_writes_after(n);
        ok = try(eval_pruned, &o, NULL, &err);
        wn_file_fail_writes_after(-1);
        assert_true(ok || err.code == WN_ERR_IO);
        n += 9;
    } while (!ok && n < 400);
    assert_true(ok && n > 20);
    assert_false(wn_path_exists(eval_work_path));
}

/* ---- what does not belong to the run ---- */

static void check_noted(const struct wn_model *m, struct wn_eval_options o, const char *what)
{
    struct wn_eval_options again = o;
    struct outcome resident, streamed;
    struct heard h;

    kill_in("evaluating the model", 3 * CALLS_PER_LAYER + 1);
    assert_true(has_record(false, 2));
    h = listen_to(m, &o);
    assert_true(wn_test_contains(h.notes, what));
    assert_true(wn_test_contains(h.notes, "starting anew"));
    assert_false(wn_test_contains(h.notes, "going on"));
    kill_in("evaluating the model", 3 * CALLS_PER_LAYER + 1);
    streamed = eval_run(m, 1, o);
    again.stream = false;
    resident = eval_run(m, 1, again);
    eval_check_same(&resident, &streamed, o.text_count);
    eval_release(&resident);
    eval_release(&streamed);
}

static void another_text_model_or_setting_starts_anew_and_says_so(void **state)
{
    struct wn_eval_options o = options();

    (void)state;
    o.text_count = 1;
    check_noted(eval_pruned, o, "its text is '");
    o = options();
    o.window = 31;
    check_noted(eval_pruned, o, "its window is '32' and not '31'");
    o = options();
    o.max_windows = 3;
    check_noted(eval_pruned, o, "its text is '");
    o = options();
    o.plan = NULL;
    check_noted(eval_parent, o, "its model is '");
}

/* The model's part is of no use to a mask; the parent's does not depend on the model, but on what is dropped of it. */
static void the_parent_s_part_stays_when_only_the_model_is_another(void **state)
{
    struct wn_eval_options o = options();
    struct heard h;

    (void)state;
    kill_in("evaluating the parent", 5 * CALLS_PER_LAYER + 1);
    o.masked = o.plan;
    o.plan = NULL;
    h = listen_to(eval_parent, &o);
    assert_true(wn_test_contains(h.notes, "its model is '"));
    assert_true(wn_test_contains(h.notes, "going on behind layer 4"));
    assert_int_equal(h.layers[0], LAYERS * CALLS_PER_LAYER);
    assert_int_equal(h.layers[1], (LAYERS - 5) * CALLS_PER_LAYER);

    kill_in("evaluating the parent", 5 * CALLS_PER_LAYER + 1);
    o.masked = NULL;
    h = listen_to(eval_parent, &o);
    assert_true(wn_test_contains(h.notes, "its plan is '"));
    assert_int_equal(h.layers[1], LAYERS * CALLS_PER_LAYER);
}

static void without_a_parent_what_is_left_of_it_goes(void **state)
{
    struct wn_eval_options o = options();
    struct heard h;

    (void)state;
    kill_in("evaluating the parent", 5 * CALLS_PER_LAYER + 1);
    o.against = NULL;
    o.plan = NULL;
    h = listen_to(eval_pruned, &o);
    assert_true(wn_test_contains(h.notes, "going on behind layer 7"));
    assert_int_equal(h.layers[0], 0);
    assert_false(wn_path_exists(eval_work_path));
}

static void fresh_gives_up_what_is_there(void **state)
{
    struct wn_eval_options o = options();
    struct heard h;

    (void)state;
    kill_in("evaluating the parent", 5 * CALLS_PER_LAYER + 1);
    o.fresh = true;
    h = listen_to(eval_pruned, &o);
    assert_string_equal(h.notes, "");
    assert_int_equal(h.layers[0] + h.layers[1], 2 * LAYERS * CALLS_PER_LAYER);
}

static void damage(const char *folder, const char *name)
{
    int fd = open(wn_test_path(folder, name), O_RDWR);
    char byte;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, 3), 1);
    byte = (char)~byte;
    assert_int_equal(pwrite(fd, &byte, 1, 3), 1);
    close(fd);
}

static void a_damaged_work_folder_is_refused_and_stays(void **state)
{
    static const struct {
        bool parent;
        const char *name;
    } harm[] = {{false, "layer-002"}, {false, "stream-000"}, {false, "stream-008"},
                {true, "layer-002"},  {true, "stream-000"},  {true, "stream-005"}};

    (void)state;
    for (size_t i = 0; i < sizeof harm / sizeof *harm; i++) {
        struct wn_eval_options o = options();
        struct wn_err err;

        kill_in("evaluating the parent", 5 * CALLS_PER_LAYER + 1);
        damage(harm[i].parent ? parent_folder() : eval_work_path, harm[i].name);
        CHECK_FAILS(try(eval_pruned, &o, NULL, &err), &err, harm[i].name);
        assert_true(wn_test_contains(err.msg, "damaged, start anew with --fresh"));
        o.fresh = true;
        check_ends_the_same(&o);
    }
}

static void work_of_another_kind_is_never_thrown_away(void **state)
{
    static const char theirs[] = "{\"made\": true, \"form\": \"winnow calibration 4\"}";
    struct wn_eval_options o = options();
    const char *folder = wn_test_folder();
    struct wn_err err;

    (void)state;
    o.work = folder;
    CHECK_OK(wn_file_put(wn_test_path(folder, "state.json"), theirs, strlen(theirs), false, &err), &err);
    CHECK_OK(wn_file_put(wn_test_path(folder, "layer-000"), "x", 1, false, &err), &err);
    CHECK_FAILS(try(eval_pruned, &o, NULL, &err), &err, "its form is 'winnow calibration 4'");
    assert_true(has(folder, "layer-000"));

    o.work = folder = wn_test_folder();
    CHECK_OK(wn_file_put(wn_test_path(folder, "mine"), "x", 1, false, &err), &err);
    CHECK_FAILS(try(eval_pruned, &o, NULL, &err), &err, "is no work folder of winnow's, but has 'mine' in it");
    assert_true(has(folder, "mine") && !has(folder, "state.json"));
}

/* ---- whose folder ---- */

static bool run_another(void *arg, const struct wn_progress *p)
{
    struct wn_eval_options *o = arg, second = *o;

    (void)p;
    if (o->fresh)
        return true;
    o->fresh = true; /* once will do */
    assert_true(wn_path_exists(WN_EVAL_WORK));
    check_ends_the_same(&second);
    assert_true(wn_path_exists(WN_EVAL_WORK));
    assert_false(wn_path_exists("winnow-eval.2.work"));
    return true;
}

static void runs_beside_each_other_have_folders_of_their_own(void **state)
{
    struct wn_eval_options o = options(), second;
    struct wn_job job = {.progress = run_another, .arg = &second};
    char here[1024];
    struct wn_err err;

    (void)state;
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(wn_test_folder()), 0);
    o.work = NULL;
    second = o;
    CHECK_OK(try(eval_pruned, &o, &job, &err), &err);
    assert_true(second.fresh);
    assert_false(wn_path_exists(WN_EVAL_WORK));

    /* what a killed run leaves there is found again */
    kill_at_call(eval_pruned, &o, "evaluating the model", 2 * CALLS_PER_LAYER + 1);
    assert_true(has(WN_EVAL_WORK, "layer-001"));
    assert_true(wn_test_contains(listen_to(eval_pruned, &o).notes, "going on behind layer 1"));
    assert_int_equal(chdir(here), 0);
}

static bool run_there_too(void *arg, const struct wn_progress *p)
{
    const struct wn_eval_options *o = arg;
    struct wn_err err;

    (void)p;
    CHECK_FAILS(try(eval_pruned, o, NULL, &err), &err, "another run is at work in");
    assert_int_equal(err.code, WN_ERR_BUSY);
    return false;
}

static void two_runs_do_not_share_a_named_folder(void **state)
{
    struct wn_eval_options o = options();
    struct wn_job job = {.progress = run_there_too, .arg = &o};
    struct wn_err err;

    (void)state;
    CHECK_FAILS(try(eval_pruned, &o, &job, &err), &err, "stopped on request");
    check_ends_the_same(&o);
}

static void an_empty_folder_of_the_user_s_is_used_and_stays(void **state)
{
    struct wn_eval_options o = options();
    struct outcome out;
    char **names;
    size_t n;
    struct wn_err err;

    (void)state;
    o.work = wn_test_folder();
    kill_at_call(eval_pruned, &o, "evaluating the parent", 2 * CALLS_PER_LAYER + 1);
    out = eval_run(eval_pruned, 1, o);
    eval_check_same(&out, &whole, 2);
    eval_release(&out);
    CHECK_OK(wn_path_list(o.work, &names, &n, &err), &err);
    assert_int_equal(n, 0);
    wn_names_free(names, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_killed_three_times_in_every_layer_says_the_same),
        cmocka_unit_test(what_is_finished_is_not_done_again),
        cmocka_unit_test(a_run_killed_at_any_moment_says_the_same),
        cmocka_unit_test(a_run_with_ghosts_counts_the_same),
        cmocka_unit_test(a_kill_while_the_state_is_removed_does_no_harm),
        cmocka_unit_test(a_stopped_run_goes_on),
        cmocka_unit_test(a_full_disk_is_told_and_survived),
        cmocka_unit_test(another_text_model_or_setting_starts_anew_and_says_so),
        cmocka_unit_test(the_parent_s_part_stays_when_only_the_model_is_another),
        cmocka_unit_test(without_a_parent_what_is_left_of_it_goes),
        cmocka_unit_test(fresh_gives_up_what_is_there),
        cmocka_unit_test(a_damaged_work_folder_is_refused_and_stays),
        cmocka_unit_test(work_of_another_kind_is_never_thrown_away),
        cmocka_unit_test(runs_beside_each_other_have_folders_of_their_own),
        cmocka_unit_test(two_runs_do_not_share_a_named_folder),
        cmocka_unit_test(an_empty_folder_of_the_user_s_is_used_and_stays),
    };

    return cmocka_run_group_tests(tests, make_whole, drop_whole);
}
