/*
 * A calibration that is killed, stopped, or meets a full disk goes on behind the last finished layer and ends with the
 * same archive. Runs that die do so in a child process, by a real SIGKILL. All bring means, too, which a layer leaves
 * in the work folder.
 */
#include "calibrate_fixture.h"
#include "kills.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "sys/file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Short sequences: one call of progress for each, then one before the record is put and one behind it. */
#define SEQUENCES       4
#define CALLS_PER_LAYER (SEQUENCES + 2)

static uint64_t whole_us; /* what the run took that nobody disturbed */

static int make_whole(void **state)
{
    double seconds;

    (void)state;
    if (calibrate_make_whole(SEQUENCES, &seconds))
        whole_us = (uint64_t)(seconds * 1e6) + 1;
    return 0;
}

static void check_ends_the_same(struct calibration *c, uint32_t resumed)
{
    struct wn_err err;

    c->job = NULL;
    CHECK_OK(calibrate(c, &err), &err);
    assert_int_equal(c->result.layers_resumed, resumed);
    assert_int_equal(c->result.layers_done, CALIBRATE_LAYERS - resumed);
    wn_test_same_file(c->o.out, calibrate_whole);
    assert_false(wn_path_exists(calibrate_work(c)));
}

/* ---- killed at a given call of progress ---- */

static bool try_to_calibrate(void *arg)
{
    struct wn_err err;

    return calibrate(arg, &err);
}

static void run_until_killed(struct calibration *c, int call)
{
    struct killer k = {"calibrating", call, false};
    struct wn_job job = {.progress = kill_count_down, .arg = &k};
    struct calibration dying = *c;

    dying.job = &job;
    killed_on_its_way(try_to_calibrate, &dying);
    assert_false(wn_path_exists(c->o.out));
}

static bool has_record(const struct calibration *c, int layer)
{
    char path[512];

    snprintf(path, sizeof path, "%s.work/layer-%03d", c->o.out, layer);
    return wn_path_exists(path);
}

/*
 * Three kills in each layer: in its middle; with the leaving stream in place but not the record; with the record in
 * place. Calls are counted from the run's start, so a run that did a finished layer again would not get as far as is
 * checked.
 */
static void a_run_killed_three_times_in_every_layer_ends_the_same(void **state)
{
    struct calibration c = calibrate_fresh();

    (void)state;
    for (int layer = 0; layer < CALIBRATE_LAYERS; layer++) {
        run_until_killed(&c, layer % SEQUENCES);
        run_until_killed(&c, SEQUENCES);
        assert_false(has_record(&c, layer));
        run_until_killed(&c, SEQUENCES + 1);
        assert_true(has_record(&c, layer));
    }
    check_ends_the_same(&c, CALIBRATE_LAYERS);
}

/* Each time another run: before anything, in a layer that banks, in one that does not, in the last. */
static void a_run_killed_once_ends_the_same(void **state)
{
    const int layers[] = {0, 4, 7, CALIBRATE_LAYERS - 1};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct calibration c = calibrate_fresh();
        int extra = i % 3;

        run_until_killed(&c, layers[i] * CALLS_PER_LAYER + SEQUENCES - 1 + extra);
        check_ends_the_same(&c, (uint32_t)(layers[i] + (extra == 2)));
    }
}

/* Anywhere in a run, and every third time in the one that takes it up, too. */
static void a_run_killed_at_any_moment_ends_the_same(void **state)
{
    struct wn_rng rng = {20};
    unsigned killed = 0, taken_up = 0, n = kill_count();

    (void)state;
    for (unsigned i = 0; i < n; i++) {
        struct calibration c = calibrate_fresh();
        struct wn_err err;

        c.o.ram = i % 2 ? UINT64_C(1) << 32 : 0;
        for (unsigned k = 0; k < 1 + (i % 3 == 2); k++)
            killed += killed_after(try_to_calibrate, &c, wn_rng_below(&rng, whole_us));
        c.o.overwrite = true; /* it may have been quicker than we */
        CHECK_OK(calibrate(&c, &err), &err);
        assert_int_equal(c.result.layers_done + c.result.layers_resumed, CALIBRATE_LAYERS);
        taken_up += c.result.layers_resumed > 0;
        wn_test_same_file(c.o.out, calibrate_whole);
    }
    printf("%u runs: killed %u times, %u taken up behind some layer\n", n, killed, taken_up);
    assert_true(killed > n / 4 || n < 20); /* how fast a run is changes with what else the machine does */
    assert_true(taken_up > 0 || n < 20);
}

/* ---- stopped, refused, short of space or memory ---- */

static void a_run_that_was_stopped_goes_on(void **state)
{
    struct calibration c = calibrate_fresh();
    struct killer k = {"calibrating", 3 * CALLS_PER_LAYER + 1, true};
    struct wn_job job = {.progress = kill_count_down, .arg = &k};
    struct wn_err err;

    (void)state;
    c.job = &job;
    CHECK_FAILS(calibrate(&c, &err), &err, "calibrating layer 3: stopped on request");
    assert_int_equal(err.code, WN_ERR_CANCELED);
    check_ends_the_same(&c, 3);
}

static void a_full_disk_is_told_and_survived(void **state)
{
    struct calibration c = calibrate_fresh();
    struct wn_err err;
    long n = 0;
    bool ok;

    (void)state;
    /* the 1st, 13th, 25th ... write fails, and each run takes up what the ones before it left */
    do {
        wn_file_fail_writes_after(n);
        ok = calibrate(&c, &err);
        wn_file_fail_writes_after(-1);
        assert_true(ok || err.code == WN_ERR_IO);
        n += 12;
    } while (!ok && n < 400);
    assert_true(ok && n > 20);
    wn_test_same_file(c.o.out, calibrate_whole);
}

/* The archive, too, must have room beside what the run keeps; and who is refused leaves no folder. */
static void too_little_room_is_refused_and_leaves_nothing(void **state)
{
    struct calibration c = calibrate_fresh();
    uint64_t kept, bytes;
    struct wn_file f;
    struct wn_err err;

    (void)state;
    CHECK_OK(calibrate(&c, &err), &err);
    kept = c.result.need.activations + c.result.need.means;
    CHECK_OK(wn_file_open(&f, c.o.out, &err), &err);
    bytes = f.bytes;
    wn_file_close(&f);
    for (int i = 0; i < 3; i++) {
        c = calibrate_fresh();
        wn_path_pretend_space(i == 0 ? 1000 : i == 1 ? kept : kept + bytes + bytes / 4);
        if (i < 2)
            CHECK_FAILS(calibrate(&c, &err), &err, i == 0 ? "1000 are free" : "what the run leaves there takes");
        else
            CHECK_OK(calibrate(&c, &err), &err);
        wn_path_pretend_space(UINT64_MAX);
        assert_false(wn_path_exists(calibrate_work(&c)));
    }
}

static void every_refused_allocation_is_survived(void **state)
{
    struct calibration c = calibrate_fresh();
    struct wn_err err;
    struct wn_model *m = wn_model_open(calibrate_model, &err);
    struct wn_pool *pool = wn_pool_new(1, &err);
    long n = 0;
    bool ok;

    (void)state;
    assert_true(m && pool);
    c.o.ram = UINT64_C(1) << 32; /* so that memory for the activations is asked for, too */
    do {
        wn_alloc_fail_after(n);
        ok = wn_calibrate(m, pool, &c.o, NULL, &c.result, &err);
        wn_alloc_fail_after(-1);
        if (!ok && err.code != WN_ERR_NOMEM)
            fail_msg("allocation %ld: %s", n, err.msg);
        n += n < 60 ? 5 : 61;
    } while (!ok && n < 20000);
    assert_true(ok);
    wn_test_same_file(c.o.out, calibrate_whole);
    wn_pool_free(pool);
    wn_model_close(m);
}

static void another_run_s_state_is_refused_by_name(void **state)
{
    struct calibration c = calibrate_fresh(), other;
    struct wn_err err;

    (void)state;
    run_until_killed(&c, 2 * CALLS_PER_LAYER);
    other = c;
    other.o.corpus = random_corpus(SEQUENCES, 24, 400, 8);
    CHECK_FAILS(calibrate(&other, &err), &err, "its corpus is '");
    assert_true(wn_test_contains(err.msg, "--fresh"));
    other.o.corpus = random_corpus(SEQUENCES, 25, 400, 7);
    CHECK_FAILS(calibrate(&other, &err), &err, "its sequence is '24' and not '25'");
    other = c;
    other.o.means = false;
    CHECK_FAILS(calibrate(&other, &err), &err, "its record is 'sums and means' and not 'sums'");
    other = c;
    other.model = wn_test_need_data("golden/text/tiny-a/gguf/tiny-a-BF16-MXFP4.gguf");
    CHECK_FAILS(calibrate(&other, &err), &err, "its model is '");

    /* the state is still good for the run that it belongs to; and --fresh gives it up */
    other = c;
    other.o.corpus = random_corpus(SEQUENCES, 24, 400, 8);
    other.o.out = wn_test_path(wn_test_folder(), "other.npz");
    CHECK_OK(calibrate(&other, &err), &err);
    check_ends_the_same(&c, 2);

    c = calibrate_fresh();
    run_until_killed(&c, 2 * CALLS_PER_LAYER);
    c.o.fresh = true;
    check_ends_the_same(&c, 0);
}

static bool run_another(void *arg, const struct wn_progress *p)
{
    struct calibration *c = arg;
    struct wn_err err;

    (void)p;
    if (c->threads++ < 4) /* a few times will do */
        CHECK_FAILS(calibrate(c, &err), &err, "another run is at work in");
    return true;
}

static void two_runs_do_not_share_a_work_folder(void **state)
{
    struct calibration c = calibrate_fresh(), second = c;
    struct wn_job job = {.progress = run_another, .arg = &second};
    struct wn_err err;

    (void)state;
    c.job = &job;
    CHECK_OK(calibrate(&c, &err), &err);
    wn_test_same_file(c.o.out, calibrate_whole);
}

/* The last byte of a file in the work folder turned over, or the file cut short. */
static void damage(const char *folder, const char *name, bool cut)
{
    char path[512], byte;
    int fd;
    off_t end;

    snprintf(path, sizeof path, "%s.work/%s", folder, name);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    end = lseek(fd, -1, SEEK_END);
    assert_true(end > 0);
    if (cut) {
        assert_int_equal(ftruncate(fd, end), 0);
    } else {
        assert_int_equal(pread(fd, &byte, 1, end), 1);
        byte = (char)~byte;
        assert_int_equal(pwrite(fd, &byte, 1, end), 1);
    }
    close(fd);
}

static void a_damaged_work_folder_is_noticed(void **state)
{
    static const struct {
        const char *name;
        bool cut;
    } harm[] = {{"layer-002", false}, {"layer-002", true},   {"stream-005", true},
                {"stream-000", true}, {"stream-005", false}, {"stream-004", false}};
    struct wn_err err;

    (void)state;
    for (size_t i = 0; i < sizeof harm / sizeof harm[0]; i++) {
        struct calibration c = calibrate_fresh();

        run_until_killed(&c, 5 * CALLS_PER_LAYER + 1);
        damage(c.o.out, harm[i].name, harm[i].cut);
        c.job = NULL;
        CHECK_FAILS(calibrate(&c, &err), &err, harm[i].name);
        assert_true(wn_test_contains(err.msg, "damaged, start anew with --fresh"));
    }
}

/* wn_progress_fn: once, in layer 5, the first bytes of a bank are lost in its file. */
static bool spoil_bank(void *arg, const struct wn_progress *p)
{
    const char **out = arg;
    const float lost[64] = {0};
    char path[512];
    int fd;

    if (!*out || !p->step || strncmp(p->step, "layer 5 ", 8) != 0)
        return true;
    snprintf(path, sizeof path, "%s.work/stream-000", *out);
    fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, lost, sizeof lost, 0), sizeof lost);
    close(fd);
    *out = NULL;
    return true;
}

static bool same_as_whole(const char *out)
{
    struct wn_err err;
    size_t n[2];
    char *a = wn_file_slurp(out, 1 << 30, &n[0], &err), *b = wn_file_slurp(calibrate_whole, 1 << 30, &n[1], &err);
    bool same = a && b && n[0] == n[1] && memcmp(a, b, n[0]) == 0;

    free(a);
    free(b);
    return same;
}

/* With room for the activations they are read from memory, from the start and when a run is taken up. */
static void what_is_held_in_memory_is_not_read_again(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct calibration c = calibrate_fresh();
        const char *out = c.o.out;
        struct wn_job job = {.progress = spoil_bank, .arg = &out};
        struct wn_err err;

        c.o.ram = i < 2 ? UINT64_C(1) << 32 : 0;
        if (i == 1)
            run_until_killed(&c, 3 * CALLS_PER_LAYER + 1);
        c.job = &job;
        CHECK_OK(calibrate(&c, &err), &err);
        assert_int_equal(c.result.layers_resumed, i == 1 ? 3 : 0);
        assert_int_equal(c.result.need.held, i < 2 ? c.result.need.activations : 0);
        assert_null(out);
        assert_int_equal(same_as_whole(c.o.out), i < 2);
    }
}

/* Layer 0 and every fourth after it bank the stream that enters them; the others' streams go. */
static void only_banks_and_the_running_stream_are_kept(void **state)
{
    struct calibration c = calibrate_fresh();
    char out[256];

    (void)state;
    run_until_killed(&c, 6 * CALLS_PER_LAYER + 1);
    snprintf(out, sizeof out, "%s.work", c.o.out);
    for (unsigned i = 0; i < CALIBRATE_LAYERS; i++) {
        char name[32];

        snprintf(name, sizeof name, "stream-%03u", i);
        assert_int_equal(wn_path_exists(wn_test_path(out, name)), i == 0 || i == 4 || i == 6);
    }
}

static void put(const char *folder, const char *name)
{
    struct wn_err err;

    CHECK_OK(wn_file_put(wn_test_path(folder, name), "x", 1, false, &err), &err);
}

static void files_of_others_in_the_work_folder_stay(void **state)
{
    static const char *const names[] = {"layer-notes.txt", "stream-1",       "stream-0001", "layer-000.bak",
                                        "state.json5",     "state.json.txt", "a.part",      "lock"};
    struct calibration c = calibrate_fresh();
    const char *work;
    struct wn_err err;

    (void)state;
    run_until_killed(&c, 3 * CALLS_PER_LAYER + 1);
    work = calibrate_work(&c);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        put(work, names[i]);
    c.job = NULL;
    c.o.fresh = true;
    CHECK_OK(calibrate(&c, &err), &err);
    wn_test_same_file(c.o.out, calibrate_whole);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_true(wn_path_exists(wn_test_path(work, names[i])));
    assert_false(wn_path_exists(wn_test_path(work, "state.json")));
    assert_false(wn_path_exists(wn_test_path(work, "winnow.lock")));
    assert_false(wn_path_exists(wn_test_path(work, "stream-000")));
}

static void a_folder_that_is_no_work_folder_is_refused_and_untouched(void **state)
{
    struct calibration c = calibrate_fresh();
    struct wn_err err;
    char **names;
    size_t n;

    (void)state;
    for (int fresh = 0; fresh < 2; fresh++) {
        const char *work = wn_test_folder();

        put(work, "stream-000");
        c.o.work = work;
        c.o.fresh = fresh;
        CHECK_FAILS(calibrate(&c, &err), &err, "is no work folder of winnow's, but has 'stream-000' in it");
        CHECK_OK(wn_path_list(work, &names, &n, &err), &err);
        assert_int_equal(n, 1);
        wn_names_free(names, n);
    }
}

static void an_empty_folder_of_the_user_s_is_used_and_stays(void **state)
{
    struct calibration c = calibrate_fresh();
    struct wn_err err;
    char **names;
    size_t n;

    (void)state;
    c.o.work = wn_test_folder();
    run_until_killed(&c, 3 * CALLS_PER_LAYER + 1);
    check_ends_the_same(&c, 3);
    CHECK_OK(wn_path_list(c.o.work, &names, &n, &err), &err);
    assert_int_equal(n, 0);
    wn_names_free(names, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_killed_three_times_in_every_layer_ends_the_same),
        cmocka_unit_test(a_run_killed_once_ends_the_same),
        cmocka_unit_test(a_run_killed_at_any_moment_ends_the_same),
        cmocka_unit_test(a_run_that_was_stopped_goes_on),
        cmocka_unit_test(a_full_disk_is_told_and_survived),
        cmocka_unit_test(too_little_room_is_refused_and_leaves_nothing),
        cmocka_unit_test(every_refused_allocation_is_survived),
        cmocka_unit_test(another_run_s_state_is_refused_by_name),
        cmocka_unit_test(two_runs_do_not_share_a_work_folder),
        cmocka_unit_test(a_damaged_work_folder_is_noticed),
        cmocka_unit_test(what_is_held_in_memory_is_not_read_again),
        cmocka_unit_test(only_banks_and_the_running_stream_are_kept),
        cmocka_unit_test(files_of_others_in_the_work_folder_stay),
        cmocka_unit_test(a_folder_that_is_no_work_folder_is_refused_and_untouched),
        cmocka_unit_test(an_empty_folder_of_the_user_s_is_used_and_stays),
    };

    return cmocka_run_group_tests(tests, make_whole, NULL);
}
