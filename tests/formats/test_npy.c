/* npy files: what numpy writes is read, what winnow writes is what numpy would have written, lies are refused. */
#include "wn_test.h"
#include "formats/npz.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "sys/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An npy of format version `major` with this dict and data, in memory of just its size (free). */
static uint8_t *make(int major, const char *dict, const void *data, size_t data_bytes, size_t *n)
{
    size_t length = strlen(dict), start = major == 1 ? 10 : 12;
    uint8_t *p;

    *n = start + length + data_bytes;
    p = malloc(*n);
    assert_non_null(p);
    memcpy(p, "\x93NUMPY\1\0", 8);
    p[6] = (uint8_t)major;
    for (size_t i = 8; i < start; i++)
        p[i] = (uint8_t)(length >> 8 * (i - 8));
    memcpy(p + start, dict, length);
    if (data_bytes > 0)
        memcpy(p + start + length, data, data_bytes);
    return p;
}

static bool parse(struct wn_npy *a, const char *dict, const void *data, size_t data_bytes, struct wn_err *err)
{
    size_t n;
    uint8_t *p = make(1, dict, data, data_bytes, &n);
    bool ok = wn_npy_parse(a, p, n, err);

    free(p);
    return ok;
}

static void a_file_of_numpy_is_read_and_written_back_the_same(void **state)
{
    static const char *const names[] = {"calib_tokens.npy", "calib_labels.npy"};
    const char *folder = wn_test_folder();

    (void)state;
    for (int i = 0; i < 2; i++) {
        char name[64];
        struct wn_npy a;
        struct wn_err err;

        snprintf(name, sizeof name, "golden/text/tiny-a/ref/%s", names[i]);
        const char *path = wn_test_need_data(name), *copy = wn_test_path(folder, names[i]);

        CHECK_OK(wn_npy_read(&a, path, &err), &err);
        assert_int_equal(a.kind, WN_NPY_I32);
        assert_int_equal(a.dims, 2);
        assert_int_equal(a.shape[0], 8);
        assert_int_equal(a.shape[1], 128);
        CHECK_OK(wn_npy_write(&a, copy, false, &err), &err);
        wn_test_same_file(path, copy);
        CHECK_FAILS(wn_npy_write(&a, copy, false, &err), &err, "exists");
        CHECK_OK(wn_npy_write(&a, copy, true, &err), &err);
        wn_npy_release(&a);
    }
}

static void every_kind_comes_back_as_it_was(void **state)
{
    static const uint64_t shape[3] = {2, 3, 4};
    const char *path = wn_test_path(wn_test_folder(), "a.npy");

    (void)state;
    for (int kind = WN_NPY_F64; kind <= WN_NPY_UNICODE; kind++)
        for (uint32_t dims = 0; dims <= 3; dims++) {
            struct wn_npy a, b;
            struct wn_err err;
            uint32_t width = kind == WN_NPY_UNICODE ? 3 : 0;
            double v;

            CHECK_OK(wn_npy_init(&a, (enum wn_npy_kind)kind, width, dims, shape, &err), &err);
            memset(a.data, 1, kind == WN_NPY_F16 ? 2 * a.elements : a.elements);
            CHECK_OK(wn_npy_write(&a, path, true, &err), &err);
            CHECK_OK(wn_npy_read(&b, path, &err), &err);
            if (kind == WN_NPY_F16) { /* which reading widens */
                assert_int_equal(b.kind, WN_NPY_F32);
                for (uint64_t i = 0; i < a.elements; i++)
                    assert_true(((const float *)b.data)[i] == 0x1.01p-16f && wn_npy_as_f64(&a, i, &v) &&
                                v == 0x1.01p-16);
                wn_npy_release(&a);
                wn_npy_release(&b);
                continue;
            }
            assert_int_equal(b.kind, kind);
            assert_int_equal(b.width, width);
            assert_int_equal(b.dims, dims);
            assert_memory_equal(b.shape, a.shape, sizeof a.shape);
            assert_int_equal(b.elements, a.elements);
            assert_memory_equal(b.data, a.data, a.elements);
            wn_npy_release(&a);
            wn_npy_release(&b);
        }
}

static void format_versions_one_to_three_are_read(void **state)
{
    const char *dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }   \n";
    static const float data[2] = {1.5f, -2};

    (void)state;
    for (int major = 0; major < 5; major++) {
        struct wn_npy a;
        struct wn_err err;
        size_t n;
        uint8_t *p = make(major, dict, data, sizeof data, &n);

        if (major >= 1 && major <= 3) {
            CHECK_OK(wn_npy_parse(&a, p, n, &err), &err);
            assert_memory_equal(a.data, data, sizeof data);
            wn_npy_release(&a);
        } else {
            CHECK_FAILS(wn_npy_parse(&a, p, n, &err), &err, "npy format");
        }
        free(p);
    }
}

static void an_array_without_dimensions_has_one_element(void **state)
{
    static const int64_t seven = 7;
    struct wn_npy a;
    struct wn_err err;
    int64_t v;

    (void)state;
    CHECK_OK(parse(&a, "{'descr': '<i8', 'fortran_order': False, 'shape': (), }", &seven, 8, &err), &err);
    assert_int_equal(a.dims, 0);
    assert_int_equal(a.elements, 1);
    assert_true(wn_npy_as_i64(&a, 0, &v));
    assert_int_equal(v, 7);
    wn_npy_release(&a);
}

static void fortran_order_is_turned(void **state)
{
    /* [[0 1 2] [3 4 5]] by columns, and a 2 x 2 x 3 whose element (i, j, k) is 100 i + 10 j + k */
    static const int32_t flat[6] = {0, 3, 1, 4, 2, 5};
    static const int32_t cube[12] = {0, 100, 10, 110, 1, 101, 11, 111, 2, 102, 12, 112};
    struct wn_npy a;
    struct wn_err err;
    int64_t v;

    (void)state;
    CHECK_OK(parse(&a, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3)}", flat, sizeof flat, &err), &err);
    for (uint64_t i = 0; i < 6; i++) {
        assert_true(wn_npy_as_i64(&a, i, &v));
        assert_int_equal(v, i);
    }
    wn_npy_release(&a);
    CHECK_OK(parse(&a, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 2, 3)}", cube, sizeof cube, &err), &err);
    for (uint64_t i = 0; i < 12; i++) {
        assert_true(wn_npy_as_i64(&a, i, &v));
        assert_int_equal(v, i / 6 * 100 + i / 3 % 2 * 10 + i % 3);
    }
    wn_npy_release(&a);
}

static void narrow_numbers_become_the_next_kind_that_holds_them(void **state)
{
    static const struct {
        const char *dict;
        unsigned char bytes[8];
        size_t n;
        enum wn_npy_kind kind;
        double value;
    } cases[] = {
        {"{'descr': '<f2', 'fortran_order': False, 'shape': ()}", {0, 0xc1}, 2, WN_NPY_F32, -2.5},
        {"{'descr': '|i1', 'fortran_order': False, 'shape': ()}", {0xff}, 1, WN_NPY_I32, -1},
        {"{'descr': '<i2', 'fortran_order': False, 'shape': ()}", {0xfe, 0xff}, 2, WN_NPY_I32, -2},
        {"{'descr': '<u2', 'fortran_order': False, 'shape': ()}", {0xfe, 0xff}, 2, WN_NPY_I32, 65534},
        {"{'descr': '<u4', 'fortran_order': False, 'shape': ()}", {0, 0, 0, 0x80}, 4, WN_NPY_I64, 2147483648.0},
        {"{'descr': '<u8', 'fortran_order': False, 'shape': ()}", {9}, 8, WN_NPY_I64, 9},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': ()}", {0xff}, 1, WN_NPY_U8, 255},
        {"{'descr': '|b1', 'fortran_order': False, 'shape': ()}", {1}, 1, WN_NPY_BOOL, 1},
    };
    struct wn_npy a;
    struct wn_err err;
    double v;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_OK(parse(&a, cases[i].dict, cases[i].bytes, cases[i].n, &err), &err);
        assert_int_equal(a.kind, cases[i].kind);
        assert_true(wn_npy_as_f64(&a, 0, &v));
        assert_true(v == cases[i].value);
        wn_npy_release(&a);
    }
    CHECK_FAILS(parse(&a, "{'descr': '<u8', 'fortran_order': False, 'shape': ()}", "\0\0\0\0\0\0\0\x80", 8, &err), &err,
                "9223372036854775808");
}

static void only_whole_numbers_become_int64(void **state)
{
    static const double odd[] = {0.5, -1e300, 0x1p63, INFINITY, NAN};
    static const uint64_t one = 1;
    struct wn_npy a;
    struct wn_err err;
    int64_t v;

    (void)state;
    CHECK_OK(wn_npy_init(&a, WN_NPY_F64, 0, 1, &one, &err), &err);
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        memcpy(a.data, &odd[i], sizeof odd[i]);
        assert_false(wn_npy_as_i64(&a, 0, &v));
    }
    memcpy(a.data, &(double){-0x1p63}, 8);
    assert_true(wn_npy_as_i64(&a, 0, &v));
    assert_true(v == INT64_MIN);
    wn_npy_release(&a);
}

static void strings_go_in_and_out_as_utf8(void **state)
{
    static const uint64_t three = 3;
    struct wn_npy a;
    struct wn_err err;
    char text[16];

    (void)state;
    CHECK_OK(wn_npy_init(&a, WN_NPY_UNICODE, 3, 1, &three, &err), &err);
    CHECK_OK(wn_npy_set_string(&a, 0, "h\xc3\xa9!", &err), &err);
    CHECK_OK(wn_npy_set_string(&a, 1, "\xf0\x9f\x8c\xbe", &err), &err);
    CHECK_OK(wn_npy_get_string(&a, 0, text, sizeof text, &err), &err);
    assert_string_equal(text, "h\xc3\xa9!");
    CHECK_OK(wn_npy_get_string(&a, 1, text, 5, &err), &err);
    assert_string_equal(text, "\xf0\x9f\x8c\xbe");
    CHECK_OK(wn_npy_get_string(&a, 2, text, 1, &err), &err);
    assert_string_equal(text, "");
    CHECK_FAILS(wn_npy_get_string(&a, 1, text, 4, &err), &err, "longer than 3 bytes");
    CHECK_FAILS(wn_npy_set_string(&a, 2, "four", &err), &err, "more than 3 characters");
    CHECK_FAILS(wn_npy_set_string(&a, 2, "\xff", &err), &err, "not UTF-8");
    for (uint32_t bad = 0; bad < 3; bad++) {
        uint32_t codes[3] = {bad == 0 ? 0xd800 : bad == 1 ? 0x110000 : 0, 'x', 0};

        memcpy(a.data, codes, sizeof codes);
        CHECK_FAILS(wn_npy_get_string(&a, 0, text, sizeof text, &err), &err, "which is none");
    }
    wn_npy_release(&a);
}

#define F8 "'descr': '<f8', 'fortran_order': False, "

static void headers_that_lie_or_are_broken_are_refused(void **state)
{
    static const struct {
        const char *dict, *says;
    } cases[] = {
        {"", "no dict"},
        {"{", "bad dict"},
        {"{}", "one is missing"},
        {"{" F8 "}", "one is missing"},
        {"{" F8 "'shape': (1,)", "bad dict"},
        {"{" F8 "'shape': (1,)} x", "behind the dict"},
        {"{" F8 "'shape': (1)}", "not a tuple"},
        {"{" F8 "'shape': 1}", "not a tuple"},
        {"{" F8 "'shape': (-1,)}", "bad number"},
        {"{" F8 "'shape': (1 2)}", "bad number"},
        {"{" F8 "'shape': (,)}", "bad number"},
        {"{" F8 "'shape': (99999999999999999999,)}", "bad number"},
        {"{" F8 "'shape': (4294967296, 4294967296)}", "asks for more than"},
        {"{" F8 "'shape': (137438953473,)}", "asks for more than"},
        {"{" F8 "'shape': (137438953472,)}", "ask for 1099511627776"},
        {"{" F8 "'shape': (0,)}", "ask for 0"},
        {"{" F8 "'shape': (2,)}", "ask for 16"},
        {"{" F8 "'shape': (1,1,1,1,1,1,1,1,1)}", "more than 8 dimensions"},
        {"{" F8 F8 "'shape': (1,)}", "repeated key"},
        {"{" F8 "'size': (1,)}", "unknown or repeated key 'size'"},
        {"{" F8 "'shape' (1,)}", "bad dict"},
        {"{" F8 "'shape: (1,)}", "bad dict"},
        {"{'descr': '<f8' 'fortran_order': False, 'shape': (1,)}", "bad dict"},
        {"{'descr': 8, 'fortran_order': False, 'shape': (1,)}", "not a string"},
        {"{'descr': 'f8', 'fortran_order': False, 'shape': (1,)}", "no dtype"},
        {"{'descr': '<f8', 'fortran_order': 0, 'shape': (1,)}", "neither True nor False"},
        {"{'descr': '>f8', 'fortran_order': False, 'shape': (1,)}", "big-endian"},
        {"{'descr': '<U', 'fortran_order': False, 'shape': (1,)}", "bad string width"},
        {"{'descr': '<U0', 'fortran_order': False, 'shape': (1,)}", "bad string width"},
        {"{'descr': '<U99999999', 'fortran_order': False, 'shape': (1,)}", "bad string width"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "dtype '|O' are not read"},
        {"{'descr': '<c16', 'fortran_order': False, 'shape': (1,)}", "dtype '<c16' are not read"},
        {"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}", "dtype '[...]' are not read"},
    };
    static const double one = 1;
    struct wn_npy a;
    struct wn_err err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_FAILS(parse(&a, cases[i].dict, &one, sizeof one, &err), &err, cases[i].says);
    CHECK_OK(parse(&a, "{\"shape\" : (1L,),\"fortran_order\":False,\n'descr':\"<f8\"} \n", &one, 8, &err), &err);
    wn_npy_release(&a);
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    static const float data[3] = {1, 2, 3};
    struct wn_npy a;
    struct wn_err err;
    size_t n;
    uint8_t *p = make(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n", data, sizeof data, &n);

    (void)state;
    for (size_t cut = 0; cut < n; cut++) {
        uint8_t *part = malloc(cut ? cut : 1); /* its own memory: a sanitizer sees one byte too many */

        assert_non_null(part);
        memcpy(part, p, cut);
        assert_false(wn_npy_parse(&a, part, cut, &err));
        assert_int_equal(err.code, WN_ERR_FORMAT);
        free(part);
    }
    CHECK_OK(wn_npy_parse(&a, p, n, &err), &err);
    wn_npy_release(&a);
    p[0] = 'x';
    CHECK_FAILS(wn_npy_parse(&a, p, n, &err), &err, "magic");
    p[0] = 0x93;
    p[8] = p[9] = 0xff;
    CHECK_FAILS(wn_npy_parse(&a, p, n, &err), &err, "npy header of 65535 bytes");
    free(p);
}

static void a_missing_file_is_named(void **state)
{
    struct wn_npy a;
    struct wn_err err;

    (void)state;
    CHECK_FAILS(wn_npy_read(&a, "/nowhere/x.npy", &err), &err, "/nowhere/x.npy");
    wn_npy_release(&a);
}

static void memory_that_is_refused_is_reported_each_time(void **state)
{
    static const int32_t data[4] = {1, 3, 2, 4};
    size_t n;
    uint8_t *p = make(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 2), }\n", data, sizeof data, &n);
    const char *path = wn_test_path(wn_test_folder(), "a.npy");
    struct wn_npy a;
    struct wn_err err;
    long fail = 0;
    bool ok = false;

    (void)state;
    for (; !ok && fail < 100; fail++) {
        wn_alloc_fail_after(fail);
        ok = wn_npy_parse(&a, p, n, &err);
        ok = ok && wn_npy_write(&a, path, true, &err);
        wn_alloc_fail_after(-1);
        if (!ok)
            assert_int_equal(err.code, WN_ERR_NOMEM);
        wn_npy_release(&a);
        if (wn_path_exists(path)) { /* perhaps the very last step failed: then the file is there, whole */
            CHECK_OK(wn_npy_read(&a, path, &err), &err);
            wn_npy_release(&a);
        }
    }
    assert_true(ok && fail > 4);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_numpy_is_read_and_written_back_the_same),
        cmocka_unit_test(every_kind_comes_back_as_it_was),
        cmocka_unit_test(format_versions_one_to_three_are_read),
        cmocka_unit_test(an_array_without_dimensions_has_one_element),
        cmocka_unit_test(fortran_order_is_turned),
        cmocka_unit_test(narrow_numbers_become_the_next_kind_that_holds_them),
        cmocka_unit_test(only_whole_numbers_become_int64),
        cmocka_unit_test(strings_go_in_and_out_as_utf8),
        cmocka_unit_test(headers_that_lie_or_are_broken_are_refused),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(a_missing_file_is_named),
        cmocka_unit_test(memory_that_is_refused_is_reported_each_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
