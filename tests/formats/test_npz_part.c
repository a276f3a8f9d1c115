/* Arrays that are never in memory as a whole: filled while the archive is written, read piece by piece. */
#include "wn_test.h"
#include "formats/npz.h"
#include "sys/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 700, COLS = 1001 }; /* more than one step of filling, and no divisor of it */

/* Element i of the array, as 16 bits. */
static uint16_t value(uint64_t i)
{
    return (uint16_t)(i * 40503u >> 3);
}

struct filler {
    uint64_t next; /* where the next call must begin */
    uint64_t stop; /* bytes after which it fails */
};

static bool fill(void *arg, uint64_t at, void *dst, size_t n, struct wn_err *err)
{
    struct filler *f = arg;

    assert_int_equal(at, f->next);
    f->next += n;
    if (f->next > f->stop)
        return wn_fail(err, WN_ERR_IO, "no more of it");
    for (size_t i = 0; i < n / 2; i++)
        ((uint16_t *)dst)[i] = value(at / 2 + i);
    return true;
}

static void add_words(struct wn_npz *z, const char *name)
{
    static const uint64_t shape[1] = {3};
    struct wn_npy a;
    struct wn_err err;

    CHECK_OK(wn_npy_init(&a, WN_NPY_I64, 0, 1, shape, &err), &err);
    for (int64_t i = 0; i < 3; i++)
        ((int64_t *)a.data)[i] = i + 7;
    CHECK_OK(wn_npz_add(z, name, &a, &err), &err);
}

/* "first", the filled "big" [ROWS][COLS] of 16-bit floats, "last". */
static bool make(const char *path, struct filler *f, struct wn_err *err)
{
    static const uint64_t shape[2] = {ROWS, COLS};
    struct wn_npz z = {0};
    struct wn_npy big;
    bool ok;

    add_words(&z, "first");
    CHECK_OK(wn_npy_shape(&big, WN_NPY_F16, 0, 2, shape, err), err);
    CHECK_OK(wn_npz_add_filled(&z, "big", &big, fill, f, err), err);
    add_words(&z, "last");
    ok = wn_npz_write(&z, path, true, err);
    wn_npz_release(&z);
    return ok;
}

static const char *made(void)
{
    const char *path = wn_test_path(wn_test_folder(), "a.npz");
    struct filler f = {.stop = UINT64_MAX};
    struct wn_err err;

    CHECK_OK(make(path, &f, &err), &err);
    assert_int_equal(f.next, 2 * ROWS * COLS);
    return path;
}

static void check_row(struct wn_npz_part *p, uint64_t row)
{
    static uint16_t got[COLS];
    struct wn_err err;

    CHECK_OK(wn_npz_part_read(p, row * sizeof got, got, sizeof got, &err), &err);
    for (size_t i = 0; i < COLS; i++)
        assert_int_equal(got[i], value(row * COLS + i));
}

static void check_parts(const char *path)
{
    static const uint64_t rows[] = {0, 1, 2, 600, 3, 699, 0, 698, 699};
    struct wn_npz_part p;
    struct wn_err err;
    bool there;

    CHECK_OK(wn_npz_part_open(&p, path, "big", &there, &err), &err);
    assert_true(there);
    assert_int_equal(p.array.kind, WN_NPY_F16);
    assert_int_equal(p.array.dims, 2);
    assert_int_equal(p.array.shape[0], ROWS);
    assert_int_equal(p.array.shape[1], COLS);
    assert_null(p.array.data);
    assert_int_equal(p.bytes, 2 * ROWS * COLS);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_row(&p, rows[i]);
    wn_npz_part_close(&p);
}

static void what_is_filled_is_read_piece_by_piece_in_any_order(void **state)
{
    (void)state;
    check_parts(made());
}

static void an_archive_deflated_by_another_tool_is_read_in_parts_too(void **state)
{
    const char *path = made(), *again = wn_test_path(wn_test_folder(), "b.npz");
    char command[1024];

    (void)state;
    (void)snprintf(command, sizeof command,
                   "python3 -c \"import zipfile; a = zipfile.ZipFile('%s'); assert a.testzip() is None; "
                   "b = zipfile.ZipFile('%s', 'w', zipfile.ZIP_DEFLATED); [b.writestr(n, a.read(n)) for n in "
                   "a.namelist()]; b.close()\" 2>&1",
                   path, again);
    if (system("python3 -c 'import zipfile, zlib' 2>/dev/null") != 0) {
        printf("skipped: no Python here\n");
        skip();
    }
    assert_int_equal(system(command), 0);
    check_parts(again);
}

static void the_rest_is_read_without_it(void **state)
{
    const char *path = made();
    const struct wn_npy *a;
    struct wn_npz z;
    struct wn_err err;
    double v;

    (void)state;
    CHECK_OK(wn_npz_read_but(&z, path, "big", &err), &err);
    assert_int_equal(z.n, 3);
    a = wn_npz_find(&z, "big");
    assert_non_null(a);
    assert_null(a->data);
    assert_int_equal(a->kind, WN_NPY_F16);
    assert_int_equal(a->elements, ROWS * COLS);
    a = wn_npz_find(&z, "last");
    assert_non_null(a);
    assert_int_equal(((int64_t *)a->data)[2], 9);
    wn_npz_release(&z);
    /* and whole, where it is asked for: as numbers of 32 bits */
    CHECK_OK(wn_npz_read(&z, path, &err), &err);
    a = wn_npz_find(&z, "big");
    assert_int_equal(a->kind, WN_NPY_F32);
    assert_true(wn_npy_as_f64(a, 0, &v) && v == 0);
    wn_npz_release(&z);
}

static void an_array_that_is_not_there_is_no_failure(void **state)
{
    struct wn_npz_part p;
    struct wn_err err;
    bool there = true;

    (void)state;
    CHECK_OK(wn_npz_part_open(&p, made(), "small", &there, &err), &err);
    assert_false(there);
    wn_npz_part_close(&p);
    CHECK_FAILS(wn_npz_part_open(&p, "/nowhere/a.npz", "big", &there, &err), &err, "/nowhere/a.npz");
}

static void damage_anywhere_in_the_array_is_seen_when_it_is_opened(void **state)
{
    const char *path = made(), *bad = wn_test_path(wn_test_folder(), "bad.npz");
    struct wn_npz_part p;
    struct wn_err err;
    bool there;
    size_t n;
    char *bytes = wn_file_slurp(path, 1 << 22, &n, &err);

    (void)state;
    assert_non_null(bytes);
    bytes[n / 2] ^= 4;
    CHECK_OK(wn_file_put(bad, bytes, n, false, &err), &err);
    CHECK_FAILS(wn_npz_part_open(&p, bad, "big", &there, &err), &err, "bad.npz': array 'big': zip: CRC error");
    assert_null(p.zip);
    /* which the others do not mind */
    CHECK_OK(wn_npz_part_open(&p, bad, "last", &there, &err), &err);
    wn_npz_part_close(&p);
    free(bytes);
}

static void a_filler_that_fails_leaves_nothing(void **state)
{
    const char *path = wn_test_path(wn_test_folder(), "a.npz");
    struct filler f = {.stop = 1 << 20};
    struct wn_err err;

    (void)state;
    CHECK_FAILS(make(path, &f, &err), &err, "a.npz': array 'big': no more of it");
    assert_false(wn_path_exists(path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_filled_is_read_piece_by_piece_in_any_order),
        cmocka_unit_test(an_archive_deflated_by_another_tool_is_read_in_parts_too),
        cmocka_unit_test(the_rest_is_read_without_it),
        cmocka_unit_test(an_array_that_is_not_there_is_no_failure),
        cmocka_unit_test(damage_anywhere_in_the_array_is_seen_when_it_is_opened),
        cmocka_unit_test(a_filler_that_fails_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
