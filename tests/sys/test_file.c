/* sys/file.h: reads are whole, outputs appear whole or not at all, holes stay holes. */
#include "sys/file.h"
#include "sys/infile.h"
#include "wn_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <winnow/job.h>

static struct wn_err err;

static void put_file(const char *path, const char *text)
{
    CHECK_OK(wn_file_put(path, text, strlen(text), true, &err), &err);
}

static void a_range_past_the_end_is_refused_with_the_figures(void **state)
{
    const char *path = wn_test_path(wn_test_folder(), "a");
    struct wn_file f;
    char got[8];

    (void)state;
    put_file(path, "0123456789");
    CHECK_OK(wn_file_open(&f, path, &err), &err);
    CHECK_OK(wn_file_read(&f, 2, got, 8, &err), &err);
    assert_memory_equal(got, "23456789", 8);
    CHECK_FAILS(wn_file_read(&f, 3, got, 8, &err), &err, "8 bytes at 3 run past its end (10)");
    CHECK_FAILS(wn_file_read(&f, UINT64_MAX, got, 8, &err), &err, "run past its end");
    wn_file_close(&f);
}

static void a_folder_is_not_a_file(void **state)
{
    struct wn_file f;

    (void)state;
    CHECK_FAILS(wn_file_open(&f, wn_test_folder(), &err), &err, "is a folder, not a file");
    CHECK_FAILS(wn_file_open(&f, "/nowhere/at/all", &err), &err, "'/nowhere/at/all'");
}

static void a_pipe_is_refused_without_waiting_for_its_writer(void **state)
{
    const char *path = wn_test_path(wn_test_folder(), "pipe");
    struct wn_file f;

    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(10); /* a wait would be without end */
    CHECK_FAILS(wn_file_open(&f, path, &err), &err, "is a pipe, not a file");
    alarm(0);
}

static void an_empty_file_maps_to_a_nothing_that_is_not_null(void **state)
{
    const char *path = wn_test_path(wn_test_folder(), "empty");
    struct wn_file f;

    (void)state;
    put_file(path, "");
    CHECK_OK(wn_file_open(&f, path, &err), &err);
    CHECK_OK(wn_file_map(&f, &err), &err);
    assert_non_null(f.map);
    wn_file_close(&f);
}

static void nothing_stands_under_the_name_until_commit(void **state)
{
    const char *folder = wn_test_folder(), *path = wn_test_path(folder, "out"),
               *part = wn_test_path(folder, "out.part");
    struct wn_outfile o;

    (void)state;
    CHECK_OK(wn_outfile_open(&o, path, false, &err), &err);
    CHECK_OK(wn_outfile_write(&o, "abc", 3, &err), &err);
    assert_false(wn_path_exists(path));
    assert_true(wn_path_exists(part));
    CHECK_OK(wn_outfile_write_at(&o, 1, "B", 1, &err), &err);
    CHECK_FAILS(wn_outfile_write_at(&o, 3, "x", 1, &err), &err, "were not written yet");
    CHECK_OK(wn_outfile_commit(&o, &err), &err);
    assert_false(wn_path_exists(part));
    {
        size_t n;
        char *text = wn_file_slurp(path, 100, &n, &err);

        assert_non_null(text);
        assert_string_equal(text, "aBc");
        free(text);
        assert_null(wn_file_slurp(path, 2, &n, &err));
    }
}

static void an_existing_output_is_kept_unless_overwriting_is_asked_for(void **state)
{
    const char *path = wn_test_path(wn_test_folder(), "out");
    struct wn_outfile o;

    (void)state;
    put_file(path, "old");
    CHECK_FAILS(wn_outfile_open(&o, path, false, &err), &err, "exists already");
    CHECK_OK(wn_outfile_open(&o, path, true, &err), &err);
    CHECK_OK(wn_outfile_write(&o, "new", 3, &err), &err);
    wn_outfile_abandon(&o);
    wn_outfile_abandon(&o); /* a second time does nothing */
    {
        size_t n;
        char *text = wn_file_slurp(path, 100, &n, &err);

        assert_string_equal(text, "old");
        free(text);
    }
}

static void an_output_that_is_no_regular_file_is_neither_replaced_nor_opened(void **state)
{
    const char *folder = wn_test_folder(), *pipe = wn_test_path(folder, "pipe"), *link = wn_test_path(folder, "link"),
               *target = wn_test_path(folder, "target");
    struct wn_outfile o;
    struct stat st;

    (void)state;
    put_file(target, "old");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(symlink(target, link), 0);
    CHECK_FAILS(wn_outfile_open(&o, pipe, true, &err), &err, "pipe' is not a regular file");
    CHECK_FAILS(wn_outfile_open(&o, link, true, &err), &err, "link' is a link: name the file that it points to");
    CHECK_FAILS(wn_outfile_open(&o, folder, true, &err), &err, "is a folder, not a file");
    CHECK_FAILS(wn_outfile_open(&o, link, false, &err), &err, "exists already");
    /* nor is the .part opened or removed when it is none */
    assert_int_equal(rename(pipe, wn_test_path(folder, "x.part")), 0);
    CHECK_FAILS(wn_outfile_open(&o, wn_test_path(folder, "x"), true, &err), &err, "x.part' is not a regular file");
    assert_int_equal(stat(wn_test_path(folder, "x.part"), &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    assert_int_equal(stat(target, &st), 0);
    assert_int_equal(st.st_size, 3);
}

static void a_sudden_end_removes_what_is_unfinished_and_nothing_else(void **state)
{
    const char *folder = wn_test_folder(),
               *path[3] = {wn_test_path(folder, "a"), wn_test_path(folder, "b"), wn_test_path(folder, "c")};
    struct wn_outfile o[3];

    (void)state;
    for (int again = 0; again < 2; again++) { /* names that come back are known still */
        for (size_t i = 0; i < 3; i++)
            CHECK_OK(wn_outfile_open(&o[i], path[i], true, &err), &err);
        CHECK_OK(wn_outfile_commit(&o[0], &err), &err);
        wn_outfile_abandon(&o[1]);
        put_file(wn_test_path(folder, "a.part"), "another's by now");
        put_file(wn_test_path(folder, "b.part"), "another's by now");
        wn_remove_unfinished();
        assert_false(wn_path_exists(wn_test_path(folder, "c.part")));
        assert_true(wn_path_exists(path[0]) && wn_path_exists(wn_test_path(folder, "a.part")) &&
                    wn_path_exists(wn_test_path(folder, "b.part")));
        wn_outfile_abandon(&o[2]);
    }
}

/* Whatever the file system can: the file of the one who came first stays, and is not taken for ours. */
static void a_name_taken_meanwhile_is_left_alone(void **state)
{
    const char *folder = wn_test_folder(), *path = wn_test_path(folder, "out");

    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        struct wn_outfile o;
        FILE *their;
        size_t n;
        char *text;

        wn_file_pretend_no_links(plain);
        CHECK_OK(wn_outfile_open(&o, path, false, &err), &err);
        CHECK_OK(wn_outfile_write(&o, "ours", 4, &err), &err);
        their = fopen(path, "w"); /* not by an outfile: that would meet the same .part */
        assert_non_null(their);
        fputs("theirs", their);
        fclose(their);
        CHECK_FAILS(wn_outfile_commit(&o, &err), &err, "appeared while it was being written");
        assert_false(wn_path_exists(wn_test_path(folder, "out.part")));
        text = wn_file_slurp(path, 100, &n, &err);
        CHECK_OK(text, &err);
        assert_string_equal(text, "theirs");
        free(text);
        assert_true(wn_path_remove(path));
        /* nobody came: it gets its name */
        CHECK_OK(wn_file_put(path, "ours", 4, false, &err), &err);
        assert_false(wn_path_exists(wn_test_path(folder, "out.part")));
        assert_true(wn_path_remove(path));
        assert_true(wn_path_remove(path)); /* there is none: fine */
        wn_file_pretend_no_links(false);
    }
}

static void paths_know_their_folders(void **state)
{
    static const char *const parent[][2] = {{"a", "."},     {"a/b", "a"},    {"a/b/", "a"}, {"/a", "/"},
                                            {"/a/b", "/a"}, {"a//b//", "a"}, {"/", "/"},    {"//a", "/"}};
    const char *folder = wn_test_folder(), *below = wn_test_path(folder, "x");

    (void)state;
    for (size_t i = 0; i < sizeof parent / sizeof parent[0]; i++) {
        char *p = wn_path_parent(parent[i][0], &err);

        CHECK_OK(p, &err);
        assert_string_equal(p, parent[i][1]);
        free(p);
    }
    assert_true(wn_path_inside(wn_test_path(folder, "not/there/yet"), folder));
    assert_false(wn_path_inside(folder, below));
    CHECK_OK(wn_path_make_folder(below, &err), &err);
    assert_true(wn_path_inside(below, folder));
    assert_false(wn_path_inside(folder, below));
    assert_true(wn_path_same(folder, wn_test_path(below, "..")));
    assert_false(wn_path_remove_folder(folder)); /* x is in it */
    assert_true(wn_path_remove_folder(below));
}

static void a_lock_is_held_by_one_at_a_time(void **state)
{
    const char *path = wn_test_path(wn_test_folder(), "lock");
    struct wn_lock a, b;

    (void)state;
    CHECK_OK(wn_lock_take(&a, path, &err), &err);
    CHECK_FAILS(wn_lock_take(&b, path, &err), &err, "another run holds it");
    assert_int_equal(err.code, WN_ERR_BUSY);
    wn_lock_release(&a);
    CHECK_OK(wn_lock_take(&b, path, &err), &err);
    wn_lock_remove(&b);
    assert_false(wn_path_exists(path));
    wn_lock_release(&b); /* does nothing */
}

static void a_part_that_another_process_writes_is_refused_and_kept(void **state)
{
    const char *path = wn_test_path(wn_test_folder(), "out");
    struct wn_outfile o;
    int status;
    pid_t child;

    (void)state;
    CHECK_OK(wn_outfile_open(&o, path, false, &err), &err);
    CHECK_OK(wn_outfile_write(&o, "mine", 4, &err), &err);
    child = fork();
    if (child == 0) {
        struct wn_outfile other;
        bool refused = !wn_outfile_open(&other, path, false, &err) && strstr(err.msg, "another process");

        _exit(refused ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    CHECK_OK(wn_outfile_commit(&o, &err), &err);
}

static void a_part_that_a_killed_run_left_is_started_anew(void **state)
{
    const char *folder = wn_test_folder(), *path = wn_test_path(folder, "out");
    struct wn_outfile o;
    size_t n;
    char *text;

    (void)state;
    put_file(wn_test_path(folder, "out.part"), "left over and longer");
    CHECK_OK(wn_outfile_open(&o, path, false, &err), &err);
    CHECK_OK(wn_outfile_write(&o, "new", 3, &err), &err);
    CHECK_OK(wn_outfile_commit(&o, &err), &err);
    text = wn_file_slurp(path, 100, &n, &err);
    assert_string_equal(text, "new");
    free(text);
}

/* 5 GiB with two islands of data: the copy has the same bytes and takes no more room. */
static void a_copy_keeps_holes_and_reaches_past_4_gib(void **state)
{
    const char *folder = wn_test_folder(), *from = wn_test_path(folder, "from"), *to = wn_test_path(folder, "to");
    const uint64_t far = (uint64_t)5 << 30;
    struct wn_outfile o;
    struct wn_file f;
    struct stat st;
    char got[6];

    (void)state;
    CHECK_OK(wn_outfile_open(&o, from, false, &err), &err);
    CHECK_OK(wn_outfile_write(&o, "start", 5, &err), &err);
    CHECK_OK(wn_outfile_skip(&o, far - 5, &err), &err);
    CHECK_OK(wn_outfile_write(&o, "island", 6, &err), &err);
    CHECK_OK(wn_outfile_skip(&o, 1000, &err), &err);
    CHECK_OK(wn_outfile_commit(&o, &err), &err);

    CHECK_OK(wn_file_open(&f, from, &err), &err);
    assert_true(f.bytes == far + 1006);
    CHECK_OK(wn_outfile_open(&o, to, false, &err), &err);
    CHECK_OK(wn_outfile_write(&o, "x", 1, &err), &err);
    CHECK_OK(wn_outfile_copy(&o, &f, 1, f.bytes - 1, &err), &err);
    CHECK_FAILS(wn_outfile_copy(&o, &f, 1, f.bytes, &err), &err, "run past its end");
    CHECK_OK(wn_outfile_commit(&o, &err), &err);
    wn_file_close(&f);

    CHECK_OK(wn_file_open(&f, to, &err), &err);
    assert_true(f.bytes == far + 1006);
    CHECK_OK(wn_file_read(&f, 0, got, 6, &err), &err);
    assert_memory_equal(got, "xtart\0", 6);
    CHECK_OK(wn_file_read(&f, far, got, 6, &err), &err);
    assert_memory_equal(got, "island", 6);
    wn_file_close(&f);
    assert_int_equal(stat(to, &st), 0);
#if defined(__linux__)
    assert_true((uint64_t)st.st_blocks * 512 < (uint64_t)1 << 20);
#endif
}

/* ENOSPC at the first, second, third ... write-like call: each time a clean error, nothing under the name. */
static void a_full_disk_leaves_nothing_behind(void **state)
{
    const char *folder = wn_test_folder(), *path = wn_test_path(folder, "out"), *src = wn_test_path(folder, "src");
    long n = 0;

    (void)state;
    put_file(src, "some bytes to copy");
    for (;; n++) {
        struct wn_outfile o;
        struct wn_file f;
        bool ok;

        CHECK_OK(wn_file_open(&f, src, &err), &err);
        wn_file_fail_writes_after(n);
        ok = wn_outfile_open(&o, path, false, &err);
        if (ok) {
            ok = wn_outfile_write(&o, "head", 4, &err) && wn_outfile_copy(&o, &f, 0, f.bytes, &err);
            if (ok)
                ok = wn_outfile_commit(&o, &err);
            else
                wn_outfile_abandon(&o);
        }
        wn_file_fail_writes_after(-1);
        wn_file_close(&f);
        if (ok)
            break;
        assert_false(wn_path_exists(path));
        assert_true(wn_test_contains(err.msg, "No space left"));
    }
    assert_true(n >= 4);
    assert_true(wn_path_exists(path));
}

static void a_folder_lists_its_names_in_order(void **state)
{
    const char *folder = wn_test_folder();
    char **names;
    size_t n;

    (void)state;
    put_file(wn_test_path(folder, "b"), "");
    put_file(wn_test_path(folder, "a"), "");
    put_file(wn_test_path(folder, "c"), "");
    CHECK_OK(wn_path_list(folder, &names, &n, &err), &err);
    assert_int_equal(n, 3);
    assert_string_equal(names[0], "a");
    assert_string_equal(names[2], "c");
    wn_names_free(names, n);
    CHECK_FAILS(wn_path_list("/nowhere/at/all", &names, &n, &err), &err, "/nowhere/at/all");
}

static void a_small_input_is_read_up_to_its_limit(void **state)
{
    const char *path = wn_test_path(wn_test_folder(), "a");
    enum { N = 200000 }; /* a few pieces */
    char *text = calloc(N + 1, 1), *got;
    size_t n;

    (void)state;
    assert_non_null(text);
    memset(text, 'x', N);
    put_file(path, text);
    got = wn_infile_slurp(path, N, &n, &err);
    CHECK_OK(got, &err);
    assert_int_equal(n, N);
    assert_string_equal(got, text);
    free(got);
    CHECK_FAILS(wn_infile_slurp(path, N - 1, &n, &err), &err, "at most 199999 bytes are read");
    put_file(path, "");
    got = wn_infile_slurp(path, 0, &n, &err);
    CHECK_OK(got, &err);
    assert_true(n == 0 && got[0] == '\0');
    free(got);
    CHECK_FAILS(wn_infile_slurp("/dev/null", 9, &n, &err), &err, "is a device, not a file or a pipe");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_past_the_end_is_refused_with_the_figures),
        cmocka_unit_test(a_folder_is_not_a_file),
        cmocka_unit_test(a_pipe_is_refused_without_waiting_for_its_writer),
        cmocka_unit_test(an_empty_file_maps_to_a_nothing_that_is_not_null),
        cmocka_unit_test(nothing_stands_under_the_name_until_commit),
        cmocka_unit_test(an_existing_output_is_kept_unless_overwriting_is_asked_for),
        cmocka_unit_test(an_output_that_is_no_regular_file_is_neither_replaced_nor_opened),
        cmocka_unit_test(a_sudden_end_removes_what_is_unfinished_and_nothing_else),
        cmocka_unit_test(a_name_taken_meanwhile_is_left_alone),
        cmocka_unit_test(paths_know_their_folders),
        cmocka_unit_test(a_lock_is_held_by_one_at_a_time),
        cmocka_unit_test(a_part_that_another_process_writes_is_refused_and_kept),
        cmocka_unit_test(a_part_that_a_killed_run_left_is_started_anew),
        cmocka_unit_test(a_copy_keeps_holes_and_reaches_past_4_gib),
        cmocka_unit_test(a_full_disk_leaves_nothing_behind),
        cmocka_unit_test(a_small_input_is_read_up_to_its_limit),
        cmocka_unit_test(a_folder_lists_its_names_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
