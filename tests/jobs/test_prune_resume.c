/*
 * A prune that is killed or fails goes on behind the last file that was complete, wherever it was: after every single
 * write, and after kills at random moments (WINNOW_KILLS of them, `make kills`; a few in ordinary runs).
 */
#include "kills.h"
#include "two_parents.h"
#include "jobs/hashing.h"
#include "sys/file.h"
#include <winnow/pool.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HF        "golden/text/tiny-a/hf"
#define SET       "golden/text/tiny-b/gguf/split/tiny-b-IQ1_S-00001-of-00003.gguf"
#define JOURNAL   "progress.part"
#define KILLS_FEW 6

enum { STEPS_MOST = 2000 };

/* A command, and what it makes when nobody disturbs it. */
struct road {
    struct wn_prune_options o;
    struct wn_plan plan;
    struct wn_model *model;
    char source[512], second[512], out[600], folder[512]; /* folder: all that it makes lies in it */
    char want[512];
};

static void place(struct road *r, const char *folder)
{
    snprintf(r->folder, sizeof r->folder, "%s", folder);
    snprintf(r->out, sizeof r->out, "%s%s", folder,
             r->o.format == WN_FORMAT_GGUF || strstr(r->source, ".gguf") ? "/t-00001-of-00003.gguf" : "");
}

static struct wn_prune_result make_ok(struct road *r)
{
    struct wn_prune_result result;
    struct wn_err err;

    CHECK_OK(wn_prune(&r->o, NULL, &result, &err), &err);
    return result;
}

static void start_road_at(struct road *r)
{
    r->o.source = r->source;
    r->o.out = r->out;
    r->o.resume = r->o.hashes = true;
    place(r, wn_test_folder());
    make_ok(r);
    snprintf(r->want, sizeof r->want, "%s", r->folder);
}

static void start_road(struct road *r, const char *source)
{
    snprintf(r->source, sizeof r->source, "%s", wn_test_need_data(source));
    start_road_at(r);
}

static void new_place(struct road *r)
{
    place(r, wn_test_folder());
}

static void end_road(struct road *r)
{
    wn_model_close((struct wn_model *)r->model);
    wn_plan_release(&r->plan);
}

/* Four shards, cut; four GGUFs cut at a size would need names of their own, so three. */
static void hf_cut(struct road *r)
{
    *r = (struct road){0};
    plan_from_reference(&r->plan, wn_test_need_data("golden/text/tiny-a/ref/prune_keep.json"), 4, 16);
    r->o.plan = &r->plan;
    start_road(r, HF);
}

static void gguf_set(struct road *r)
{
    *r = (struct road){0};
    start_road(r, SET);
}

static void made(struct road *r, enum wn_format format)
{
    struct wn_err err;

    *r = (struct road){.o = {.format = format}};
    r->model = wn_model_open(wn_test_need_data(HF), &err);
    CHECK_OK(r->model, &err);
    r->o.model = r->model;
    if (format == WN_FORMAT_GGUF) {
        r->o.layout = WN_LAYOUT_SPLIT;
        r->o.shard_bytes = 2000000;
    }
    start_road(r, HF);
}

/* Experts in Q8_0 whole, in IQ1_S the others. */
static void two_parents(struct road *r)
{
    const char *hi = twin_parent(WN_Q8_0);

    *r = (struct road){.o = {.layout = WN_LAYOUT_SPLIT, .shard_bytes = 800000}};
    snprintf(r->second, sizeof r->second, "%s", wn_test_need_data(SET));
    snprintf(r->source, sizeof r->source, "%s", hi);
    twin_plan(&r->plan);
    r->o.plan = &r->plan;
    r->o.lo_source = r->second;
    start_road_at(r);
}

static void check_same_folder(const char *want, const char *have)
{
    struct wn_err err;
    char **names;
    size_t n;

    CHECK_OK(wn_path_list(want, &names, &n, &err), &err);
    for (size_t i = 0; i < n; i++) {
        uint8_t a[WN_DIGEST_BYTES], b[WN_DIGEST_BYTES];

        CHECK_OK(wn_hash_file(wn_test_path(want, names[i]), a, &err), &err);
        CHECK_OK(wn_hash_file(wn_test_path(have, names[i]), b, &err), &err);
        if (memcmp(a, b, sizeof a) != 0)
            fail_msg("'%s' differs in '%s' and '%s'", names[i], want, have);
    }
    assert_int_equal(count_entries(have), n);
    wn_names_free(names, n);
}

/* No name of the finished output is there unless all are, or the next run would take it for one. */
static bool has_final_name(const struct road *r)
{
    struct wn_err err;
    char **names;
    size_t n, final = 0;

    if (!wn_path_exists(r->folder))
        return false;
    CHECK_OK(wn_path_list(r->folder, &names, &n, &err), &err);
    for (size_t i = 0; i < n; i++)
        final += strlen(names[i]) < 5 || strcmp(names[i] + strlen(names[i]) - 5, ".part") != 0;
    wn_names_free(names, n);
    return final > 0;
}

static bool is_placing(const struct road *r)
{
    return wn_path_exists(wn_test_path(r->folder, "placing.part")) ||
           wn_path_exists(wn_test_path(r->folder, "t-00001-of-00003.gguf.placing.part"));
}

/* ---- after every write ---- */

/* The run ends by kill -9 before its n-th write-like call; true: it got through before. */
static bool killed_before_write(const struct road *r, long n)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        struct wn_prune_result result;
        struct wn_err err;

        wn_file_die_of_writes(true);
        wn_file_fail_writes_after(n);
        _exit(wn_prune(&r->o, NULL, &result, &err) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return !WIFSIGNALED(status);
}

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
        if (through || (has_final_name(r) && !is_placing(r)))
            continue; /* done but for a journal that nobody reads any more */
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
    hf_cut(&r);
    check_every_kill(&r, 4);
    end_road(&r);
}

static void so_does_a_gguf_set(void **state)
{
    struct road r;

    (void)state;
    gguf_set(&r);
    check_every_kill(&r, 3);
    end_road(&r);
}

static void so_does_a_build_from_two_parents(void **state)
{
    struct road r;

    (void)state;
    two_parents(&r);
    check_every_kill(&r, 3);
    end_road(&r);
}

/* Another second parent of the same shapes and types is another command. */
static void a_second_parent_that_changed_starts_over(void **state)
{
    struct road r;
    char copy[512];

    (void)state;
    two_parents(&r);
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
    made(&r, WN_FORMAT_GGUF);
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
    hf_cut(&r);
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
    hf_cut(&r);
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
    hf_cut(&r);
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
    hf_cut(&r);
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
    hf_cut(&r);
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
    hf_cut(&r);
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
    hf_cut(&r[0]);
    made(&r[1], WN_FORMAT_GGUF);
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
            return; /* the last step of all was done */
    }
    if (!has_final_name(r) || is_placing(r)) {
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
    hf_cut(&roads[0]);
    gguf_set(&roads[1]);
    made(&roads[2], WN_FORMAT_MLX);
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
