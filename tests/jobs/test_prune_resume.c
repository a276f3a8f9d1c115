/*
 * A prune that is killed or fails goes on behind the last file that was complete, wherever it was: after every single
 * write, and after kills at random moments (WINNOW_KILLS of them, `make kills`; a few in ordinary runs).
 */
#include "kills.h"
#include "road.h"
#include "two_parents.h"
#include "jobs/hashing.h"
#include "sys/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KILLS_FEW 6

/* ---- after every write ---- */

/*
 * From the n-th moment on, every so manieth. After each the same command makes the very same files, and takes up all
 * that was finished: the number of files taken up never falls.
 */
static void check_kills(struct road *r, long n, long step, uint32_t *most)
{
    bool through = false;

    for (; !through && n < STEPS_MOST; n += step) {
        struct wn_prune_result result;

        new_place(r);
        through = killed_before_write(r, n);
        if (through)
            continue;
        result = make_ok(r);
        check_same_folder(r->want, r->folder);
        assert_true(result.files_taken_up >= *most);
        *most = result.files_taken_up;
    }
    assert_true(through);
}

/* Writes of an undisturbed run, to about `step` of them. */
static long count_writes(struct road *r, long step)
{
    for (long n = step; n < STEPS_MOST; n += step) {
        new_place(r);
        if (killed_before_write(r, n))
            return n;
    }
    fail_msg("a run has more than %d writes", STEPS_MOST);
    return 0;
}

/* All moments with WINNOW_KILLS, otherwise some: those at the end, in which files get their names, closer together. */
static void check_every_kill(struct road *r, uint32_t files)
{
    uint32_t most = 0;

    if (getenv("WINNOW_KILLS")) {
        check_kills(r, 0, 1, &most);
    } else {
        long writes = count_writes(r, 64);

        check_kills(r, 5, writes / 16 + 1, &most);
        most = 0;
        check_kills(r, writes > 104 ? writes - 104 : 1, 7, &most);
    }
    assert_int_equal(most, files);
}

static void a_killed_cut_goes_on_behind_its_last_complete_shard(void **state)
{
    struct road r;

    (void)state;
    road_hf_cut(&r);
    check_every_kill(&r, 4);
    end_road(&r);
}

static void so_does_a_gguf_set(void **state)
{
    struct road r;

    (void)state;
    road_gguf_set(&r);
    check_every_kill(&r, 3);
    end_road(&r);
}

static void so_does_a_build_from_two_parents(void **state)
{
    struct road r;

    (void)state;
    road_two_parents(&r);
    check_every_kill(&r, 3);
    end_road(&r);
}

/* Another second parent of the same shapes and types is another command. */
static void a_second_parent_that_changed_starts_over(void **state)
{
    struct road r;
    char copy[512];

    (void)state;
    road_two_parents(&r);
    snprintf(copy, sizeof copy, "%s", wn_test_path(wn_test_folder(), "again.gguf"));
    twin_write(wn_test_need_data(TWIN_LO), copy, NULL, NULL, NULL, 0);
    for (long n = 0; n < STEPS_MOST; n += 20) {
        new_place(&r);
        assert_false(killed_before_write(&r, n));
        if (wn_path_exists(wn_test_path(r.folder, "t-00002-of-00003.gguf.part")))
            break;
    }
    r.o.lo_source = copy;
    assert_int_equal(make_ok(&r).files_taken_up, 0);
    end_road(&r);
}

static void so_do_files_that_are_made(void **state)
{
    struct road r;

    (void)state;
    road_made(&r, WN_FORMAT_GGUF);
    check_every_kill(&r, 3);
    end_road(&r);
}

/* ---- what is taken up ---- */

/* Killed when two shards are complete. */
static void leave_two_shards(struct road *r)
{
    for (long n = 0; n < STEPS_MOST; n += 40) {
        new_place(r);
        assert_false(killed_before_write(r, n));
        if (wn_path_exists(wn_test_path(r->folder, "model-00003-of-000004.safetensors.part")))
            return;
    }
    fail_msg("no moment was found at which the third shard was begun");
}

static void a_finished_shard_is_not_written_again(void **state)
{
    struct road r;
    struct stat before, after;

    (void)state;
    road_hf_cut(&r);
    leave_two_shards(&r);
    assert_int_equal(stat(wn_test_path(r.folder, "model-00001-of-000004.safetensors.part"), &before), 0);
    assert_int_equal(make_ok(&r).files_taken_up, 2);
    assert_int_equal(stat(wn_test_path(r.folder, "model-00001-of-000004.safetensors"), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
    assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
    end_road(&r);
}

static void a_file_that_was_changed_since_is_made_anew_with_those_behind_it(void **state)
{
    struct road r;

    (void)state;
    road_hf_cut(&r);
    leave_two_shards(&r);
    flip_byte(wn_test_path(r.folder, "model-00002-of-000004.safetensors.part"), 5000, 1);
    assert_int_equal(make_ok(&r).files_taken_up, 1);
    check_same_folder(r.want, r.folder);
    end_road(&r);
}

static void an_edited_journal_is_no_journal(void **state)
{
    struct road r;

    (void)state;
    road_hf_cut(&r);
    leave_two_shards(&r);
    assert_true(replace_text(wn_test_path(r.folder, JOURNAL), "\n0 ", "\n9 "));
    assert_int_equal(make_ok(&r).files_taken_up, 0);
    check_same_folder(r.want, r.folder);
    end_road(&r);
}

/* The identity has other bytes under the same names. */
static void another_command_starts_over(void **state)
{
    struct road r;
    struct wn_verify_result v;
    struct wn_err err;

    (void)state;
    road_hf_cut(&r);
    leave_two_shards(&r);
    r.o.plan = NULL;
    assert_int_equal(make_ok(&r).files_taken_up, 0);
    CHECK_OK(wn_verify(r.out, r.source, NULL, NULL, &v, &err), &err);
    assert_false(wn_path_exists(wn_test_path(r.folder, JOURNAL)));
    end_road(&r);
}

/* ---- failures ---- */

/* A disk that is full from the n-th write on, for each n: a sentence, no name, and the next run goes on. */
static void a_full_disk_at_any_write_is_a_sentence_and_can_be_taken_up(void **state)
{
    struct road r;
    uint8_t before[WN_DIGEST_BYTES], after[WN_DIGEST_BYTES];
    char shard[700];
    bool ok = false;
    uint32_t most = 0;
    struct wn_err err;

    (void)state;
    road_hf_cut(&r);
    snprintf(shard, sizeof shard, "%s/model-00001-of-000004.safetensors", r.source);
    CHECK_OK(wn_hash_file(shard, before, &err), &err);
    for (long n = 0; !ok && n < STEPS_MOST; n += getenv("WINNOW_KILLS") ? 1 : 41) {
        struct wn_prune_result result;

        new_place(&r);
        wn_file_fail_writes_after(n);
        ok = wn_prune(&r.o, NULL, &result, &err);
        wn_file_fail_writes_after(-1);
        if (ok)
            break;
        assert_int_equal(err.code, WN_ERR_IO);
        assert_non_null(strchr(err.msg, '\''));
        assert_false(has_final_name(&r) && !is_placing(&r));
        result = make_ok(&r);
        check_same_folder(r.want, r.folder);
        most = result.files_taken_up > most ? result.files_taken_up : most;
    }
    assert_true(ok);
    assert_true(most >= 3);
    CHECK_OK(wn_hash_file(shard, after, &err), &err);
    assert_memory_equal(before, after, sizeof before);
    end_road(&r);
}

static void a_write_that_fails_otherwise_is_a_sentence_with_the_reason(void **state)
{
    struct road r;
    struct wn_prune_result result;
    struct wn_err err;

    (void)state;
    road_hf_cut(&r);
    new_place(&r);
    wn_file_fail_writes_with(EIO);
    wn_file_fail_writes_after(300);
    CHECK_FAILS(wn_prune(&r.o, NULL, &result, &err), &err, strerror(EIO));
    wn_file_fail_writes_after(-1);
    wn_file_fail_writes_with(0);
    assert_false(has_final_name(&r));
    make_ok(&r);
    check_same_folder(r.want, r.folder);
    end_road(&r);
}

/* A system may take less than it was given. */
static void short_writes_change_no_byte(void **state)
{
    struct road r[2];

    (void)state;
    road_hf_cut(&r[0]);
    road_made(&r[1], WN_FORMAT_GGUF);
    wn_file_write_at_most(999);
    for (int i = 0; i < 2; i++) {
        new_place(&r[i]);
        make_ok(&r[i]);
        check_same_folder(r[i].want, r[i].folder);
        end_road(&r[i]);
    }
    wn_file_write_at_most(0);
}

/* ---- kills at random moments ---- */

static bool try_to_prune(void *arg)
{
    const struct road *r = arg;
    struct wn_prune_result result;
    struct wn_err err;

    return wn_prune(&r->o, NULL, &result, &err);
}

static double seconds_of(struct road *r)
{
    new_place(r);
    return make_ok(r).seconds;
}

/* Kills the same run some times, and lets it go through. */
static void kill_until_done(struct road *r, double seconds, unsigned *kills, unsigned *taken, unsigned *seed)
{
    struct wn_prune_result result;

    new_place(r);
    for (int i = 0; i < 3 && killed_after(try_to_prune, r, (uint64_t)((double)rand_r(seed) / RAND_MAX * seconds * 1e6));
         i++) {
        ++*kills;
        if (has_final_name(r) && !is_placing(r))
            break;
    }
    if (!has_final_name(r) || is_placing(r) || has_journal(r)) {
        result = make_ok(r);
        *taken += result.files_taken_up;
    }
    check_same_folder(r->want, r->folder);
}

static void kills_at_random_moments_change_no_byte(void **state)
{
    unsigned kills = 0, taken = 0, most = getenv("WINNOW_KILLS") ? kill_count() : KILLS_FEW;
    unsigned seed = (unsigned)time(NULL);
    struct road roads[3];
    double seconds[3];

    (void)state;
    if (getenv("WN_SEED"))
        seed = (unsigned)atoi(getenv("WN_SEED"));
    print_message("WN_SEED=%u\n", seed);
    road_hf_cut(&roads[0]);
    road_gguf_set(&roads[1]);
    road_made(&roads[2], WN_FORMAT_MLX);
    for (int i = 0; i < 3; i++)
        seconds[i] = seconds_of(&roads[i]);
    for (int i = 0; kills < most; i = (i + 1) % 3)
        kill_until_done(&roads[i], seconds[i], &kills, &taken, &seed);
    print_message("%u kills, %u files taken up\n", kills, taken);
    for (int i = 0; i < 3; i++)
        end_road(&roads[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_cut_goes_on_behind_its_last_complete_shard),
        cmocka_unit_test(so_does_a_gguf_set),
        cmocka_unit_test(so_does_a_build_from_two_parents),
        cmocka_unit_test(a_second_parent_that_changed_starts_over),
        cmocka_unit_test(so_do_files_that_are_made),
        cmocka_unit_test(a_finished_shard_is_not_written_again),
        cmocka_unit_test(a_file_that_was_changed_since_is_made_anew_with_those_behind_it),
        cmocka_unit_test(an_edited_journal_is_no_journal),
        cmocka_unit_test(another_command_starts_over),
        cmocka_unit_test(a_full_disk_at_any_write_is_a_sentence_and_can_be_taken_up),
        cmocka_unit_test(a_write_that_fails_otherwise_is_a_sentence_with_the_reason),
        cmocka_unit_test(short_writes_change_no_byte),
        cmocka_unit_test(kills_at_random_moments_change_no_byte),
    };

    wn_file_pretend_sync(true); /* no test here takes the power away */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
