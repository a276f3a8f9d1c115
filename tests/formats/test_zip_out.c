/* Zips that other programs read, in the forms for small and for large numbers. */
#include "wn_test.h"
#include "formats/zip_out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

static const char *const names[] = {"a.txt", "nothing", "some/longer.name"};
static const char *const contents[] = {"what stands in it", "", "and in another, which is longer than the first"};

/* Numbers above `most` in the large form. */
static const char *made(uint64_t most)
{
    const char *path = wn_test_path(wn_test_folder(), "a.zip");
    struct wn_zip_out z;
    struct wn_err err;

    CHECK_OK(wn_zip_out_open(&z, path, false, &err), &err);
    z.most = most;
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(contents[i]), first = n / 3;

        CHECK_OK(wn_zip_out_begin(&z, names[i], n, &err), &err);
        if (n == 0)
            continue;
        CHECK_OK(wn_zip_out_add(&z, contents[i], first, &err), &err);
        CHECK_OK(wn_zip_out_add(&z, contents[i] + first, n - first, &err), &err);
    }
    CHECK_OK(wn_zip_out_commit(&z, &err), &err);
    return path;
}

/* libzip compares each entry's checksum when it comes to its end, and with ZIP_CHECKCONS all headers. */
static void check(const char *path)
{
    zip_t *zip = zip_open(path, ZIP_RDONLY | ZIP_CHECKCONS, NULL);

    assert_non_null(zip);
    assert_int_equal(zip_get_num_entries(zip, 0), 3);
    for (size_t i = 0; i < 3; i++) {
        zip_file_t *f = zip_fopen(zip, names[i], 0);
        char text[64] = "";

        assert_non_null(f);
        assert_int_equal(zip_fread(f, text, sizeof text), strlen(contents[i]));
        assert_string_equal(text, contents[i]);
        assert_int_equal(zip_fread(f, text, 1), 0);
        (void)zip_fclose(f);
    }
    zip_discard(zip);
}

static void small_zips_are_read_by_others(void **state)
{
    (void)state;
    check(made(UINT32_MAX - 1));
}

/* The form of sizes and offsets of 4 GiB and more, at a smaller size. */
static void large_numbers_have_the_form_that_others_read(void **state)
{
    (void)state;
    check(made(60)); /* places, not sizes */
    check(made(20)); /* one size */
    check(made(0));
}

static void python_agrees(void **state)
{
    char command[512];

    (void)state;
    if (system("python3 -c 'import zipfile' 2>/dev/null") != 0) {
        printf("skipped: no Python here\n");
        skip();
    }
    for (uint64_t most = 0; most < 200; most += 50) {
        (void)snprintf(command, sizeof command,
                       "python3 -c \"import zipfile; z = zipfile.ZipFile('%s'); assert z.testzip() is None; "
                       "assert z.read('a.txt') == b'what stands in it'; assert len(z.namelist()) == 3\"",
                       made(most));
        assert_int_equal(system(command), 0);
    }
}

static void more_than_65535_entries_are_counted(void **state)
{
    const char *path = wn_test_path(wn_test_folder(), "many.zip");
    struct wn_zip_out z;
    struct wn_err err;
    zip_t *zip;

    (void)state;
    CHECK_OK(wn_zip_out_open(&z, path, false, &err), &err);
    for (unsigned i = 0; i < 70000; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "%u", i);
        CHECK_OK(wn_zip_out_begin(&z, name, 0, &err), &err);
    }
    CHECK_OK(wn_zip_out_commit(&z, &err), &err);
    zip = zip_open(path, ZIP_RDONLY, NULL);
    assert_non_null(zip);
    assert_int_equal(zip_get_num_entries(zip, 0), 70000);
    assert_int_equal(zip_name_locate(zip, "69999", 0), 69999);
    zip_discard(zip);
}

static void what_is_abandoned_leaves_nothing(void **state)
{
    const char *folder = wn_test_folder(), *path = wn_test_path(folder, "a.zip");
    struct wn_zip_out z;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_zip_out_open(&z, path, false, &err), &err);
    CHECK_OK(wn_zip_out_begin(&z, "x", 5, &err), &err);
    CHECK_OK(wn_zip_out_add(&z, "xx", 2, &err), &err);
    wn_zip_out_abandon(&z);
    assert_false(wn_path_exists(path));
    assert_true(wn_path_remove_folder(folder));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_zips_are_read_by_others),
        cmocka_unit_test(large_numbers_have_the_form_that_others_read),
        cmocka_unit_test(python_agrees),
        cmocka_unit_test(more_than_65535_entries_are_counted),
        cmocka_unit_test(what_is_abandoned_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
