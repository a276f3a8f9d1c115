/* A source that gives its bytes away: never before they are safe elsewhere, and to nobody but one output. */
#include "prune_help.h"
#include "formats/source.h"
#include "sys/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define HF   "golden/text/tiny-a/hf"
#define KEEP "golden/text/tiny-a/ref/prune_keep.json"
#define GGUF "golden/text/tiny-b/gguf/tiny-b-IQ1_S.gguf"

enum { STEPS_MOST = 2500 };

static struct wn_plan plan;

/* A folder of our own with all of a model in it, which may go. */
static const char *copy_of(const char *model)
{
    const char *copy = wn_test_path(wn_test_folder(), "parent");

    prune_ok(wn_test_need_data(model), copy, NULL, WN_LAYOUT_AS_SOURCE, 0);
    return copy;
}

static struct wn_prune_options consuming(const char *source, const char *out)
{
    return (struct wn_prune_options){
        .source = source, .out = out, .plan = &plan, .resume = true, .hashes = true, .consume = true};
}

static bool can_punch(void)
{
    const char *path = wn_test_path(wn_test_folder(), "probe");
    char bytes[4096] = {1};
    struct wn_err err;

    CHECK_OK(wn_file_put(path, bytes, sizeof bytes, false, &err), &err);
    if (wn_file_punch(path, 0, sizeof bytes, &err))
        return true;
    print_message("%s\n", err.msg);
    return false;
}

static void check_made(const char *out)
{
    struct wn_verify_result v;
    struct wn_err err;

    CHECK_OK(wn_verify(out, wn_test_need_data(HF), &plan, NULL, &v, &err), &err);
    CHECK_OK(wn_verify(out, NULL, NULL, NULL, &v, &err), &err);
    assert_true(v.hashed_files > 4);
}

static void the_weights_go_and_the_output_is_whole(void **state)
{
    const char *source = copy_of(HF), *out = wn_test_path(wn_test_folder(), "out");
    struct wn_prune_options o = consuming(source, out);
    struct wn_prune_result r;
    struct wn_err err;

    (void)state;
    if (!can_punch())
        skip();
    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    check_made(out);
    assert_true(wn_path_filled(wn_test_path(source, "model-00002-of-000004.safetensors")) < 0.2);
    assert_null(wn_source_open(source, &err));
    assert_true(wn_test_contains(err.msg, "given away by a prune with --consume"));
}

static void a_finished_one_given_again_is_complete(void **state)
{
    const char *source = copy_of(HF), *out = wn_test_path(wn_test_folder(), "out");
    struct wn_prune_options o = consuming(source, out);
    struct wn_plan cut = plan, other = plan;
    struct wn_prune_result r;
    struct wn_err err;

    (void)state;
    if (!can_punch())
        skip();
    (void)snprintf(cut.sha256, sizeof cut.sha256, "%064d", 1);
    o.plan = &cut;
    o.plan_file = "plan.json";
    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    assert_int_equal(r.files_taken_up, r.files);
    assert_int_equal(r.copied_bytes, 0);
    check_made(out);
    /* by another plan it is not */
    (void)snprintf(other.sha256, sizeof other.sha256, "%064d", 0);
    o.plan = &other;
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "exists already");
    o.plan = &cut;
    /* nor with a file missing */
    CHECK_OK(wn_path_remove(wn_test_path(out, "model-00003-of-000004.safetensors")), &err);
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "exists already");
}

static void a_killed_one_goes_on_at_whatever_moment(void **state)
{
    long step = getenv("WINNOW_KILLS") ? 1 : 53;
    bool through = false;
    uint32_t most = 0;

    (void)state;
    if (!can_punch())
        skip();
    for (long n = 0; !through && n < STEPS_MOST; n += step) {
        const char *source = copy_of(HF), *out = wn_test_path(wn_test_folder(), "out");
        struct wn_prune_options o = consuming(source, out);
        struct wn_prune_result r = {0};
        struct wn_err err;

        through = prune_gets_through(&o, n);
        if (!through)
            CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
        check_made(out);
        most = r.files_taken_up > most ? r.files_taken_up : most;
    }
    assert_true(through);
    assert_true(most >= 2);
}

static void leave_half(const struct wn_prune_options *o)
{
    for (long n = 100; n < STEPS_MOST; n += 40) {
        assert_false(prune_gets_through(o, n));
        if (wn_path_exists(wn_test_path(o->source, "model-00001-of-000004.safetensors.consumed.part")))
            return;
    }
    fail_msg("nothing was given away");
}

/*
 * Zeros must never be taken for weights: not by another command, not by another output, not when the journal has gone.
 */
static void what_was_given_away_is_not_made_anew(void **state)
{
    const char *source = copy_of(HF), *folder = wn_test_folder(), *out = wn_test_path(folder, "out");
    struct wn_prune_options o = consuming(source, out), other = o;
    struct wn_prune_result r;
    struct wn_err err;

    (void)state;
    if (!can_punch())
        skip();
    leave_half(&o);
    other.consume = false;
    CHECK_FAILS(wn_prune(&other, NULL, &r, &err), &err, "given away");
    other = o;
    other.out = wn_test_path(folder, "elsewhere");
    CHECK_FAILS(wn_prune(&other, NULL, &r, &err), &err, "cannot become");
    other = o;
    other.plan = NULL;
    CHECK_FAILS(wn_prune(&other, NULL, &r, &err), &err, "that journal is of another command");
    flip_byte(wn_test_path(out, "model-00001-of-000004.safetensors.part"), 4000, 1);
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "there is nothing to make them from again");
    assert_true(wn_path_remove(wn_test_path(out, "progress.part")));
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "that journal is not there");
}

/* ---- what a crash could take ---- */

/* The system's calls, as they come by. */
static struct {
    char out[512], parent[512]; /* real paths */
    bool unnamed, has_parent;   /* a file is complete, and its name not on the disk; that of the folder is */
    int punched, too_early;
} watch;

/* The file behind a descriptor. */
static const char *path_of(int fd, char path[512])
{
    char name[64];
    ssize_t n;

    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    n = readlink(name, path, 511);
    path[n > 0 ? n : 0] = 0;
    return path;
}

/* Instead of the system's, in this program; the disk is waited for in no test. */
int fsync(int fd)
{
    char path[512];

    path_of(fd, path);
    if (strcmp(path, watch.out) == 0)
        watch.unnamed = false;
    else if (strcmp(path, watch.parent) == 0)
        watch.has_parent = true;
    else if (*watch.out && strncmp(path, watch.out, strlen(watch.out)) == 0 && strstr(path, ".safetensors.part"))
        watch.unnamed = true;
    return 0;
}

int fallocate(int fd, int mode, off_t at, off_t n)
{
    char path[512];

    if (*watch.out && !strstr(path_of(fd, path), ".part")) {
        watch.punched++;
        watch.too_early += watch.unnamed || !watch.has_parent;
    }
    return (int)syscall(SYS_fallocate, fd, mode, at, n);
}

static void names_are_on_the_disk_before_anything_goes(void **state)
{
    const char *source = copy_of(HF), *out = wn_test_path(wn_test_folder(), "out");
    struct wn_prune_options o = consuming(source, out);
    struct wn_prune_result r;
    struct wn_err err;
    char *folder = wn_path_parent(out, &err), *real = folder ? realpath(folder, NULL) : NULL;

    (void)state;
    if (!can_punch())
        skip();
    assert_non_null(real);
    snprintf(watch.parent, sizeof watch.parent, "%s", real);
    snprintf(watch.out, sizeof watch.out, "%.500s/out", real);
    wn_file_pretend_sync(false);
    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    wn_file_pretend_sync(true);
    watch.out[0] = 0;
    assert_true(watch.punched >= 4);
    assert_int_equal(watch.too_early, 0);
    free(real);
    free(folder);
}

enum { SPELLINGS = 5 };

/* folder/out in other words; the last is a link to it. */
static void spell(int i, const char *folder, char name[600])
{
    static const char *const ends[] = {"/out/", "/./out", "//out/."};

    if (i < 3)
        snprintf(name, 600, "%s%s", folder, ends[i]);
    else if (i == 3)
        snprintf(name, 600, "%s/../%s/out", folder, wn_path_name(folder));
    else {
        snprintf(name, 600, "%s/link", wn_test_folder());
        assert_int_equal(symlink(wn_test_path(folder, "out"), name), 0);
    }
}

static void the_output_may_be_spelled_otherwise(void **state)
{
    char name[600];
    struct wn_err err;

    (void)state;
    if (!can_punch())
        skip();
    for (int i = 0; i < SPELLINGS; i++) {
        const char *source = copy_of(HF), *folder = wn_test_folder(), *out = wn_test_path(folder, "out");
        struct wn_prune_options o = consuming(source, out);
        struct wn_prune_result r;

        leave_half(&o);
        spell(i, folder, name);
        o.out = name;
        CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
        assert_true(r.files_taken_up > 0);
        check_made(out);
    }
}

static void what_somebody_else_reads_is_not_given_away(void **state)
{
    const char *source = copy_of(HF), *out = wn_test_path(wn_test_folder(), "out"), *shard, *second;
    struct wn_prune_options o = consuming(source, out);
    struct wn_prune_result r;
    struct wn_err err;

    (void)state;
    shard = wn_test_path(source, "model-00003-of-000004.safetensors");
    second = wn_test_path(wn_test_folder(), "second-name");
    assert_int_equal(link(shard, second), 0);
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "has another name");
    assert_true(wn_path_remove(shard));
    assert_int_equal(symlink(second, shard), 0);
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "is a link");
    assert_int_equal(count_entries(out), -1);
}

static void it_needs_hashes_a_journal_and_a_copy(void **state)
{
    const char *out = wn_test_path(wn_test_folder(), "out");
    struct wn_prune_options o = consuming(copy_of(HF), out);
    struct wn_prune_result r;
    struct wn_err err;

    (void)state;
    o.hashes = false;
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "hashed");
    o.hashes = true;
    o.overwrite = true;
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "overwrites");
}

/* A disk with room for one file of the output more than it holds is enough. */
static void the_disk_need_not_hold_both(void **state)
{
    const char *folder = wn_test_folder(), *source = wn_test_path(folder, "one.gguf"), *out = wn_test_path(folder, "t");
    struct wn_prune_options o = consuming(source, out);
    struct wn_prune_result r;
    struct wn_err err;

    (void)state;
    if (!can_punch())
        skip();
    prune_ok(wn_test_need_data(GGUF), source, NULL, WN_LAYOUT_AS_SOURCE, 0);
    o.plan = NULL;
    o.layout = WN_LAYOUT_SPLIT;
    o.shard_bytes = 300000;
    wn_path_pretend_space(1800000); /* 1 MB is margin */
    o.consume = false;
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "1800000 bytes free");
    o.consume = true;
    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    wn_path_pretend_space(UINT64_MAX);
    assert_true(wn_path_filled(source) < 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_weights_go_and_the_output_is_whole),
        cmocka_unit_test(a_finished_one_given_again_is_complete),
        cmocka_unit_test(a_killed_one_goes_on_at_whatever_moment),
        cmocka_unit_test(what_was_given_away_is_not_made_anew),
        cmocka_unit_test(names_are_on_the_disk_before_anything_goes),
        cmocka_unit_test(the_output_may_be_spelled_otherwise),
        cmocka_unit_test(what_somebody_else_reads_is_not_given_away),
        cmocka_unit_test(it_needs_hashes_a_journal_and_a_copy),
        cmocka_unit_test(the_disk_need_not_hold_both),
    };
    int failed;

    if (!wn_test_data(KEEP))
        return 0;
    plan_from_reference(&plan, wn_test_data(KEEP), 4, 16);
    wn_file_pretend_sync(true); /* no test here takes the power away */
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    wn_plan_release(&plan);
    return failed;
}
