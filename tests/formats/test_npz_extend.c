/* An archive with more arrays: the others stay as they are, of equal names the new ones count. */
#include "wn_test.h"
#include "formats/npz.h"
#include "base/alloc.h"
#include "sys/file.h"

#include <string.h>
#include <zip.h>

/* Arrays of one number each. */
static void add(struct wn_npz *z, const char *name, int64_t value)
{
    struct wn_npy a;
    struct wn_err err;

    CHECK_OK(wn_npy_init(&a, WN_NPY_I64, 0, 0, NULL, &err), &err);
    *(int64_t *)a.data = value;
    CHECK_OK(wn_npz_add(z, name, &a, &err), &err);
}

static int64_t number(const struct wn_npz *z, size_t i, const char *name)
{
    int64_t v;

    assert_string_equal(z->entry[i].name, name);
    assert_true(wn_npy_as_i64(&z->entry[i].array, 0, &v));
    return v;
}

static const char *make(const char *folder)
{
    const char *path = wn_test_path(folder, "a.npz");
    struct wn_npz z = {0};
    struct wn_err err;

    add(&z, "one", 1);
    add(&z, "two", 2);
    add(&z, "three", 3);
    CHECK_OK(wn_npz_write(&z, path, false, &err), &err);
    wn_npz_release(&z);
    return path;
}

static void arrays_come_behind_the_others_and_in_the_place_of_their_names(void **state)
{
    const char *folder = wn_test_folder(), *from = make(folder), *out = wn_test_path(folder, "b.npz");
    struct wn_npz more = {0}, z;
    struct wn_err err;

    (void)state;
    add(&more, "four", 4);
    add(&more, "two", 22);
    CHECK_OK(wn_npz_extend(from, &more, out, false, &err), &err);
    CHECK_FAILS(wn_npz_extend(from, &more, out, false, &err), &err, "exists already");
    CHECK_OK(wn_npz_read(&z, out, &err), &err);
    assert_int_equal(z.n, 4);
    assert_int_equal(number(&z, 0, "one"), 1);
    assert_int_equal(number(&z, 1, "three"), 3);
    assert_int_equal(number(&z, 2, "four"), 4);
    assert_int_equal(number(&z, 3, "two"), 22);
    wn_npz_release(&z);
    /* in its own place the same */
    CHECK_OK(wn_npz_extend(from, &more, from, true, &err), &err);
    wn_test_same_file(from, out);
    wn_npz_release(&more);
}

/* A zip with a deflated text in it, which is no array. */
static void make_with_notes(const char *path, const char *notes, size_t n)
{
    int code;
    zip_t *zip = zip_open(path, ZIP_CREATE, &code);
    zip_source_t *source;

    assert_non_null(zip);
    source = zip_source_buffer(zip, notes, n, 0);
    assert_int_equal(zip_file_add(zip, "notes.txt", source, 0), 0);
    assert_int_equal(zip_set_file_compression(zip, 0, ZIP_CM_DEFLATE, 9), 0);
    assert_int_equal(zip_close(zip), 0);
}

static void entries_that_nobody_reads_are_copied(void **state)
{
    const char *folder = wn_test_folder(), *from = wn_test_path(folder, "a.npz");
    const char *out = wn_test_path(folder, "b.npz");
    static char notes[5000], back[sizeof notes + 1];
    struct wn_npz more = {0};
    struct wn_err err;
    zip_file_t *f;
    zip_t *zip;
    int code;

    (void)state;
    memset(notes, 'n', sizeof notes);
    make_with_notes(from, notes, sizeof notes);
    add(&more, "more", 7);
    CHECK_OK(wn_npz_extend(from, &more, out, false, &err), &err);
    zip = zip_open(out, ZIP_RDONLY, &code);
    assert_non_null(zip);
    assert_int_equal(zip_get_num_entries(zip, 0), 2);
    f = zip_fopen(zip, "notes.txt", 0);
    assert_non_null(f);
    assert_int_equal(zip_fread(f, back, sizeof back), sizeof notes);
    assert_memory_equal(back, notes, sizeof notes);
    (void)zip_fclose(f);
    zip_discard(zip);
    wn_npz_release(&more);
}

static void what_is_no_archive_is_refused(void **state)
{
    const char *folder = wn_test_folder(), *from = wn_test_path(folder, "a.npz"), *out = wn_test_path(folder, "b.npz");
    struct wn_npz more = {0};
    struct wn_err err;

    (void)state;
    add(&more, "more", 7);
    CHECK_FAILS(wn_npz_extend(from, &more, out, false, &err), &err, "a.npz");
    CHECK_OK(wn_file_put(from, "PK, but nothing behind it at all", 32, false, &err), &err);
    CHECK_FAILS(wn_npz_extend(from, &more, out, false, &err), &err, "a.npz");
    assert_false(wn_path_exists(out));
    wn_npz_release(&more);
}

static void memory_that_is_refused_is_reported_each_time(void **state)
{
    const char *folder = wn_test_folder(), *from = make(folder), *out = wn_test_path(folder, "b.npz");
    struct wn_npz more = {0};
    struct wn_err err;
    bool ok = false;

    (void)state;
    add(&more, "four", 4);
    for (long n = 0; !ok && n < 100; n++) {
        wn_alloc_fail_after(n);
        ok = wn_npz_extend(from, &more, out, false, &err);
        wn_alloc_fail_after(-1);
        assert_true(ok || (err.code == WN_ERR_NOMEM && !wn_path_exists(out)));
    }
    assert_true(ok);
    wn_npz_release(&more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_come_behind_the_others_and_in_the_place_of_their_names),
        cmocka_unit_test(entries_that_nobody_reads_are_copied),
        cmocka_unit_test(what_is_no_archive_is_refused),
        cmocka_unit_test(memory_that_is_refused_is_reported_each_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
