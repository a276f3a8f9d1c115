/* npz archives: numpy's are read, winnow's are read by numpy, equal content gives equal bytes, damage is refused. */
#include "wn_test.h"
#include "formats/npz.h"
#include "base/alloc.h"
#include "sys/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SALIENCY "golden/text/tiny-a/ref/saliency.npz"

/* Two small arrays: 'numbers' [2][3] i32 and 'words' [2] of 4 characters. */
static void make(struct wn_npz *z)
{
    static const uint64_t shape[2] = {2, 3};
    struct wn_npy a;
    struct wn_err err;

    *z = (struct wn_npz){0};
    CHECK_OK(wn_npy_init(&a, WN_NPY_I32, 0, 2, shape, &err), &err);
    for (int32_t i = 0; i < 6; i++)
        ((int32_t *)a.data)[i] = 10 * i;
    CHECK_OK(wn_npz_add(z, "numbers", &a, &err), &err);
    assert_null(a.data);
    CHECK_OK(wn_npy_init(&a, WN_NPY_UNICODE, 4, 1, shape, &err), &err);
    CHECK_OK(wn_npy_set_string(&a, 0, "code", &err), &err);
    CHECK_OK(wn_npy_set_string(&a, 1, "en", &err), &err);
    CHECK_OK(wn_npz_add(z, "words", &a, &err), &err);
}

static void check_same(const struct wn_npz *a, const struct wn_npz *b)
{
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        const struct wn_npy *x = &a->entry[i].array, *y = &b->entry[i].array;
        size_t item = x->kind == WN_NPY_UNICODE ? 4 * x->width : x->kind == WN_NPY_I32 || x->kind == WN_NPY_F32 ? 4 : 8;

        assert_string_equal(a->entry[i].name, b->entry[i].name);
        assert_int_equal(x->kind, y->kind);
        assert_int_equal(x->dims, y->dims);
        assert_memory_equal(x->shape, y->shape, sizeof x->shape);
        if (x->kind != WN_NPY_U8 && x->kind != WN_NPY_BOOL)
            assert_memory_equal(x->data, y->data, x->elements * item);
    }
}

static void a_saliency_archive_of_numpy_is_read(void **state)
{
    struct wn_npz z;
    struct wn_err err;
    const struct wn_npy *a;
    char text[32];
    int64_t v;
    double sum = 0, part, whole = 0;

    (void)state;
    CHECK_OK(wn_npz_read(&z, wn_test_need_data(SALIENCY), &err), &err);
    assert_int_equal(z.n, 16);
    assert_null(wn_npz_find(&z, "nothing"));
    a = wn_npz_find(&z, "saliency");
    assert_non_null(a);
    assert_int_equal(a->kind, WN_NPY_F64);
    assert_int_equal(a->dims, 2);
    assert_int_equal(a->shape[0], 13);
    assert_int_equal(a->shape[1], 16);
    for (uint64_t i = 0; i < a->elements; i++) {
        assert_true(wn_npy_as_f64(a, i, &part));
        whole += part;
    }
    a = wn_npz_find(&z, "per_source"); /* the sources' saliency adds up to the whole */
    assert_non_null(a);
    assert_int_equal(a->elements, 3 * 13 * 16);
    for (uint64_t i = 0; i < a->elements; i++) {
        assert_true(wn_npy_as_f64(a, i, &part));
        sum += part;
    }
    assert_true(whole > 0 && sum > whole * (1 - 1e-9) && sum < whole * (1 + 1e-9));
    a = wn_npz_find(&z, "n_tokens");
    assert_non_null(a);
    assert_int_equal(a->dims, 0);
    assert_true(wn_npy_as_i64(a, 0, &v));
    assert_int_equal(v, 8 * 128);
    a = wn_npz_find(&z, "source_labels");
    assert_non_null(a);
    assert_int_equal(a->kind, WN_NPY_UNICODE);
    CHECK_OK(wn_npy_get_string(a, 0, text, sizeof text, &err), &err);
    assert_true(strlen(text) > 0);
    wn_npz_release(&z);
}

static void equal_archives_are_equal_files(void **state)
{
    const char *folder = wn_test_folder();
    const char *first = wn_test_path(folder, "1.npz"), *second = wn_test_path(folder, "2.npz");
    struct wn_npz z, back;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_npz_read(&z, wn_test_need_data(SALIENCY), &err), &err);
    CHECK_OK(wn_npz_write(&z, first, false, &err), &err);
    setenv("TZ", "Asia/Kathmandu", 1);
    CHECK_OK(wn_npz_read(&back, first, &err), &err);
    CHECK_OK(wn_npz_write(&back, second, false, &err), &err);
    unsetenv("TZ");
    check_same(&z, &back);
    wn_test_same_file(first, second);
    CHECK_FAILS(wn_npz_write(&z, first, false, &err), &err, "exists");
    wn_npz_release(&z);
    wn_npz_release(&back);
}

static void one_changed_number_changes_the_file(void **state)
{
    const char *folder = wn_test_folder();
    const char *path = wn_test_path(folder, "a.npz");
    struct wn_npz z;
    struct wn_err err;
    char *before, *after;
    size_t n, m;

    (void)state;
    make(&z);
    CHECK_OK(wn_npz_write(&z, path, false, &err), &err);
    before = wn_file_slurp(path, 1 << 20, &n, &err);
    ((int32_t *)z.entry[0].array.data)[5]++;
    CHECK_OK(wn_npz_write(&z, path, true, &err), &err);
    after = wn_file_slurp(path, 1 << 20, &m, &err);
    assert_non_null(before);
    assert_non_null(after);
    assert_int_equal(n, m);
    assert_memory_not_equal(before, after, n);
    free(before);
    free(after);
    wn_npz_release(&z);
}

static void a_name_is_given_once(void **state)
{
    struct wn_npz z;
    struct wn_npy a;
    struct wn_err err;

    (void)state;
    make(&z);
    CHECK_OK(wn_npy_init(&a, WN_NPY_F64, 0, 0, NULL, &err), &err);
    CHECK_FAILS(wn_npz_add(&z, "words", &a, &err), &err, "two arrays named 'words'");
    assert_non_null(a.data);
    wn_npy_release(&a);
    wn_npz_release(&z);
}

/* A Python with numpy; without one the test skips, so it is asked for before anything is held. */
static const char *need_numpy(void)
{
    static const char *const pythons[] = {"python3", "/usr/bin/python3"};
    char command[256];

    for (size_t i = 0; i < sizeof pythons / sizeof pythons[0]; i++) {
        snprintf(command, sizeof command, "%s -c 'import numpy' >/dev/null 2>&1", pythons[i]);
        if (system(command) == 0)
            return pythons[i];
    }
    printf("skipped: no Python with numpy here\n");
    skip();
    return NULL;
}

/* Runs a numpy script on the paths. */
static int numpy(const char *python, const char *script, const char *a, const char *b)
{
    char command[4096];

    snprintf(command, sizeof command, "%s -c \"%s\" '%s' '%s'", python, script, a, b);
    return system(command);
}

static void numpy_reads_what_winnow_writes(void **state)
{
    const char *path = wn_test_path(wn_test_folder(), "a.npz"), *original = wn_test_need_data(SALIENCY);
    const char *script = "import sys, numpy as np\n"
                         "a, b = (np.load(p, allow_pickle=False) for p in sys.argv[1:])\n"
                         "assert a.files == b.files\n"
                         "for k in a.files:\n"
                         "    assert a[k].dtype == b[k].dtype and a[k].shape == b[k].shape, k\n"
                         "    assert np.array_equal(a[k], b[k]), k\n";
    const char *python = need_numpy();
    struct wn_npz z;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_npz_read(&z, original, &err), &err);
    CHECK_OK(wn_npz_write(&z, path, false, &err), &err);
    assert_int_equal(numpy(python, script, original, path), 0);
    ((double *)z.entry[0].array.data)[0] += 1;
    CHECK_OK(wn_npz_write(&z, path, true, &err), &err);
    wn_npz_release(&z);
    printf("(an AssertionError follows: the script must notice)\n");
    assert_int_not_equal(numpy(python, script, original, path), 0);
}

static void deflated_archives_and_odd_arrays_of_numpy_are_read(void **state)
{
    const char *path = wn_test_path(wn_test_folder(), "a.npz");
    const char *script =
        "import sys, numpy as np\n"
        "np.savez_compressed(sys.argv[1], objects=np.array([None, 1], dtype=object),\n"
        "    pairs=np.zeros(3, dtype=[('a', '<f8'), ('b', '<i4')]), z=np.zeros(5, complex),\n"
        "    ramp=np.arange(70000, dtype='<u4').reshape(7, 100, 100), turned=np.arange(6.).reshape(2, 3).T,\n"
        "    none=np.zeros((0, 5)), yes=np.array(True), half=np.array([1, -2], '<f2'))\n";
    struct wn_npz z;
    struct wn_err err;
    const struct wn_npy *a;
    double v;

    (void)state;
    assert_int_equal(numpy(need_numpy(), script, path, ""), 0);
    CHECK_OK(wn_npz_read(&z, path, &err), &err);
    assert_int_equal(z.n, 5);
    assert_null(wn_npz_find(&z, "objects"));
    assert_null(wn_npz_find(&z, "pairs"));
    assert_null(wn_npz_find(&z, "z"));
    a = wn_npz_find(&z, "ramp");
    assert_non_null(a);
    assert_int_equal(a->kind, WN_NPY_I64);
    for (uint64_t i = 0; i < a->elements; i++)
        assert_int_equal(((int64_t *)a->data)[i], i);
    a = wn_npz_find(&z, "turned");
    assert_non_null(a);
    assert_int_equal(a->shape[0], 3);
    assert_true(wn_npy_as_f64(a, 1, &v) && v == 3);
    assert_true(wn_npy_as_f64(a, 2, &v) && v == 1);
    a = wn_npz_find(&z, "none");
    assert_non_null(a);
    assert_int_equal(a->elements, 0);
    a = wn_npz_find(&z, "half");
    assert_non_null(a);
    assert_true(wn_npy_as_f64(a, 1, &v) && v == -2);
    wn_npz_release(&z);
}

/* The bytes of make()'s archive, *n of them (free). */
static uint8_t *archive(size_t *n)
{
    const char *path = wn_test_path(wn_test_folder(), "a.npz");
    struct wn_npz z;
    struct wn_err err;
    char *bytes;

    make(&z);
    CHECK_OK(wn_npz_write(&z, path, false, &err), &err);
    wn_npz_release(&z);
    bytes = wn_file_slurp(path, 1 << 20, n, &err);
    assert_non_null(bytes);
    return (uint8_t *)bytes;
}

static void an_archive_cut_anywhere_is_refused(void **state)
{
    size_t n;
    uint8_t *whole = archive(&n);
    struct wn_npz z;
    struct wn_err err;

    (void)state;
    for (size_t cut = 0; cut < n; cut++) {
        uint8_t *part = malloc(cut ? cut : 1);

        assert_non_null(part);
        memcpy(part, whole, cut);
        assert_false(wn_npz_parse(&z, part, cut, &err));
        assert_int_equal(err.code, WN_ERR_FORMAT);
        assert_null(z.entry);
        free(part);
    }
    CHECK_OK(wn_npz_parse(&z, whole, n, &err), &err);
    assert_int_equal(z.n, 2);
    wn_npz_release(&z);
    free(whole);
}

/* Each flipped byte of the archive is refused, or lies where it has no say over what is read (dates, say). */
static void a_flipped_byte_never_changes_a_number_unnoticed(void **state)
{
    size_t n, refused = 0;
    uint8_t *bytes = archive(&n);
    struct wn_npz good, z;
    struct wn_err err;

    (void)state;
    make(&good);
    for (size_t i = 0; i < n; i++) {
        bytes[i] ^= 0xff;
        if (wn_npz_parse(&z, bytes, n, &err)) {
            for (size_t k = 0; k < z.n; k++) {
                const struct wn_npy *a = wn_npz_find(&good, z.entry[k].name);

                if (a)
                    assert_memory_equal(a->data, z.entry[k].array.data, a->elements * 4);
            }
            wn_npz_release(&z);
        } else {
            refused++;
        }
        bytes[i] ^= 0xff;
    }
    assert_true(refused > 256); /* data and headers of both arrays at least */
    wn_npz_release(&good);
    free(bytes);
}

static void a_damaged_array_is_named(void **state)
{
    size_t n, at = 0;
    uint8_t *bytes = archive(&n);
    struct wn_npz z;
    struct wn_err err;

    (void)state;
    while (memcmp(bytes + at, "\x93NUMPY", 6) != 0)
        at++;
    bytes[at + 128] ^= 1; /* the first number */
    CHECK_FAILS(wn_npz_parse(&z, bytes, n, &err), &err, "array 'numbers': zip: CRC error");
    free(bytes);
}

/* A directory that promises more than its bytes can hold is refused before memory is asked for. */
static void a_size_that_cannot_be_is_refused(void **state)
{
    size_t n, at;
    uint8_t *bytes = archive(&n);
    struct wn_npz z;
    struct wn_err err;

    (void)state;
    at = n - 22; /* the end record, then back to the first directory entry */
    while (memcmp(bytes + at, "PK\1\2", 4) != 0 || bytes[at + 46] != 'n')
        at--;
    bytes[at + 24 + 3] = 0x70; /* size: 1.75 GiB more */
    bytes[30 - 8 + 3] = 0x70;  /* the same claim in the entry's own header */
    CHECK_FAILS(wn_npz_parse(&z, bytes, n, &err), &err, "cannot come out of");
    bytes[at + 10] = 8; /* deflated */
    bytes[8] = 8;
    CHECK_FAILS(wn_npz_parse(&z, bytes, n, &err), &err, "cannot come out of");
    free(bytes);
}

static void what_is_no_archive_is_refused(void **state)
{
    struct wn_npz z;
    struct wn_err err;
    const char *path = wn_test_path(wn_test_folder(), "a.npz");

    (void)state;
    CHECK_FAILS(wn_npz_read(&z, "/nowhere/x.npz", &err), &err, "/nowhere/x.npz");
    CHECK_OK(wn_file_put(path, "", 0, true, &err), &err);
    CHECK_FAILS(wn_npz_read(&z, path, &err), &err, "not an npz archive");
    CHECK_OK(wn_file_put(path, "this is thirty bytes of nothing", 31, true, &err), &err);
    CHECK_FAILS(wn_npz_read(&z, path, &err), &err, "Not a zip archive");
    wn_npz_release(&z);
}

static void memory_that_is_refused_is_reported_each_time(void **state)
{
    const char *path = wn_test_path(wn_test_folder(), "b.npz");
    size_t n;
    uint8_t *bytes = archive(&n);
    struct wn_npz z;
    struct wn_err err;
    long fail = 0;
    bool ok = false;

    (void)state;
    for (; !ok && fail < 1000; fail++) {
        wn_alloc_fail_after(fail);
        ok = wn_npz_parse(&z, bytes, n, &err);
        ok = ok && wn_npz_write(&z, path, true, &err);
        wn_alloc_fail_after(-1);
        if (!ok)
            assert_int_equal(err.code, WN_ERR_NOMEM);
        wn_npz_release(&z);
        if (wn_path_exists(path)) { /* perhaps the very last step failed: then the file is there, whole */
            CHECK_OK(wn_npz_read(&z, path, &err), &err);
            wn_npz_release(&z);
        }
    }
    assert_true(ok && fail > 10);
    free(bytes);
}

static void a_full_disk_leaves_what_was_there(void **state)
{
    const char *path = wn_test_path(wn_test_folder(), "a.npz");
    struct wn_npz z, back;
    struct wn_err err;

    (void)state;
    make(&z);
    CHECK_OK(wn_npz_write(&z, path, false, &err), &err);
    ((int32_t *)z.entry[0].array.data)[0] = 77;
    wn_file_fail_writes_after(0);
    assert_false(wn_npz_write(&z, path, true, &err));
    wn_file_fail_writes_after(-1);
    assert_int_equal(err.code, WN_ERR_IO);
    CHECK_OK(wn_npz_read(&back, path, &err), &err);
    assert_int_equal(((int32_t *)back.entry[0].array.data)[0], 0);
    wn_npz_release(&back);
    wn_npz_release(&z);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_saliency_archive_of_numpy_is_read),
        cmocka_unit_test(equal_archives_are_equal_files),
        cmocka_unit_test(one_changed_number_changes_the_file),
        cmocka_unit_test(a_name_is_given_once),
        cmocka_unit_test(numpy_reads_what_winnow_writes),
        cmocka_unit_test(deflated_archives_and_odd_arrays_of_numpy_are_read),
        cmocka_unit_test(an_archive_cut_anywhere_is_refused),
        cmocka_unit_test(a_flipped_byte_never_changes_a_number_unnoticed),
        cmocka_unit_test(a_damaged_array_is_named),
        cmocka_unit_test(a_size_that_cannot_be_is_refused),
        cmocka_unit_test(what_is_no_archive_is_refused),
        cmocka_unit_test(memory_that_is_refused_is_reported_each_time),
        cmocka_unit_test(a_full_disk_leaves_what_was_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
