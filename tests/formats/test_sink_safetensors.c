/* Safetensors written: one file, folders with their index, names of all kinds. */
#include "base/bits.h"
#include "made.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static const struct wn_sink_options plain;

static void an_identity_copy_of_a_folder_is_the_same_folder(void **state)
{
    static const struct {
        const char *folder;
        int shards;
    } cases[] = {{"golden/text/tiny-a/hf", 4}, {"golden/text/tiny-b/hf", 3}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const char *from = wn_test_data(cases[i].folder), *to = wn_test_folder();
        struct wn_err err;
        char name[64];

        if (!from)
            continue;
        CHECK_OK(made_identity(from, to, &err), &err);
        for (int f = 1; f <= cases[i].shards; f++) {
            snprintf(name, sizeof name, "model-%05d-of-%06d.safetensors", f, cases[i].shards);
            wn_test_same_file(wn_test_path(from, name), wn_test_path(to, name));
        }
        wn_test_same_file(wn_test_path(from, "model.safetensors.index.json"),
                          wn_test_path(to, "model.safetensors.index.json"));
        assert_int_equal(made_count_names(to), cases[i].shards + 1);
    }
}

static void an_identity_copy_of_one_file_needs_no_index(void **state)
{
    const char *from = wn_test_need_data("golden/text/tiny-a/ref/greedy.safetensors"), *to = wn_test_folder();
    struct wn_err err;
    struct wn_source *a, *b;

    (void)state;
    CHECK_OK(made_identity(from, to, &err), &err);
    assert_int_equal(made_count_names(to), 1);
    a = wn_source_open(from, &err);
    CHECK_OK(a, &err);
    b = wn_source_open(wn_test_path(to, "model.safetensors"), &err);
    CHECK_OK(b, &err);
    assert_int_equal(wn_source_tensor_count(a), wn_source_tensor_count(b));
    for (size_t i = 0; i < wn_source_tensor_count(a); i++) {
        const struct wn_tensor *x = wn_source_tensor_at(a, i), *y = wn_source_find(b, x->name);

        assert_non_null(y);
        assert_int_equal(x->bytes, y->bytes);
        assert_memory_equal(wn_source_view(a, x, &err), wn_source_view(b, y, &err), x->bytes);
    }
    wn_source_close(a);
    wn_source_close(b);
}

/* The header of the one file in a folder, without padding; free it. */
static char *header_of(const char *folder, const char *name)
{
    struct wn_err err;
    size_t n, length;
    char *bytes = wn_file_slurp(wn_test_path(folder, name), 1 << 24, &n, &err);

    CHECK_OK(bytes, &err);
    length = (size_t)wn_load64(bytes);
    assert_int_equal(length % 8, 0);
    memmove(bytes, bytes + 8, length);
    while (bytes[length - 1] == ' ')
        length--;
    bytes[length] = '\0';
    return bytes;
}

static void headers_are_compact_json_in_the_order_declared(void **state)
{
    static const char *const metadata[] = {"format", "pt", "by", "\"w\"", NULL};
    const uint64_t shape[] = {2, 3};
    const char *folder = wn_test_folder();
    struct wn_sink_options o = {.metadata = metadata};
    struct wn_err err;
    struct wn_sink *s = wn_sink_new(WN_CONTAINER_SAFETENSORS, folder, &o, &err);
    char *header;

    (void)state;
    CHECK_OK(wn_sink_declare(s, "z", WN_BF16, 2, shape, 0, &err), &err);
    CHECK_OK(wn_sink_declare(s, "a", WN_F32, 0, NULL, 0, &err), &err);
    CHECK_OK(wn_sink_begin(s, &err), &err);
    CHECK_OK(wn_sink_write(s, "0123456789ab", 12, &err), &err);
    CHECK_OK(wn_sink_write(s, "cdef", 4, &err), &err);
    CHECK_OK(wn_sink_commit(s, &err), &err);
    assert_int_equal(wn_sink_total_bytes(s), wn_sink_file_bytes(s, 0));
    wn_sink_free(s);
    header = header_of(folder, "model.safetensors");
    assert_string_equal(header, "{\"__metadata__\":{\"format\":\"pt\",\"by\":\"\\\"w\\\"\"},"
                                "\"z\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
                                "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[12,16]}}");
    free(header);
}

static void any_name_comes_back(void **state)
{
    static const char *const names[] = {"plain", "q\"b\\s/", "\b\f\n\r\t\x01\x1f\x7f", "\xc3\xa9\xf0\x9f\x98\x80", " "};
    const uint64_t shape[] = {1};
    const char *folder = wn_test_folder();
    struct wn_sink_options o = {.write_index = true};
    struct wn_err err;
    struct wn_sink *s = wn_sink_new(WN_CONTAINER_SAFETENSORS, folder, &o, &err);
    struct wn_source *source;

    (void)state;
    for (size_t i = 0; i < 5; i++)
        CHECK_OK(wn_sink_declare(s, names[i], WN_U8, 1, shape, 0, &err), &err);
    CHECK_OK(wn_sink_begin(s, &err), &err);
    for (size_t i = 0; i < 5; i++)
        CHECK_OK(wn_sink_write(s, &"abcde"[i], 1, &err), &err);
    CHECK_OK(wn_sink_commit(s, &err), &err);
    wn_sink_free(s);
    source = wn_source_open(folder, &err);
    CHECK_OK(source, &err);
    for (size_t i = 0; i < 5; i++) {
        const struct wn_tensor *t = wn_source_find(source, names[i]);
        char c;

        assert_non_null(t);
        CHECK_OK(wn_source_read(source, t, 0, &c, 1, &err), &err);
        assert_int_equal(c, "abcde"[i]);
    }
    wn_source_close(source);
    assert_true(wn_path_exists(wn_test_path(folder, "model-00001-of-000001.safetensors")));
}

static bool declares(const char *name, enum wn_type type, struct wn_err *err)
{
    const uint64_t shape[] = {32};
    struct wn_sink *s = wn_sink_new(WN_CONTAINER_SAFETENSORS, "x", &plain, err);
    bool ok = s && wn_sink_declare(s, name, type, 1, shape, 0, err);

    wn_sink_free(s);
    return ok;
}

static void what_safetensors_cannot_hold_is_refused_when_declared(void **state)
{
    struct wn_err err;

    (void)state;
    CHECK_FAILS(declares("x", WN_MXFP4, &err), &err, "tensor 'x': safetensors has no type MXFP4");
    CHECK_FAILS(declares("", WN_U8, &err), &err, "cannot have a tensor of that name");
    CHECK_FAILS(declares("__metadata__", WN_U8, &err), &err, "cannot have a tensor of that name");
    CHECK_FAILS(declares("\xff", WN_U8, &err), &err, "cannot have a tensor of that name");
    CHECK_OK(declares("x", WN_F8_E8M0, &err), &err);
}

static bool begins_with(const char *folder, uint32_t files, struct wn_sink_options o, struct wn_err *err)
{
    const uint64_t shape[] = {1};
    struct wn_sink *s = wn_sink_new(WN_CONTAINER_SAFETENSORS, folder, &o, err);
    bool ok = wn_sink_declare(s, "x", WN_U8, 1, shape, files - 1, err) && wn_sink_begin(s, err);

    wn_sink_free(s);
    return ok;
}

static bool begins(const char *folder, uint32_t files, struct wn_err *err)
{
    return begins_with(folder, files, plain, err);
}

/*
 * A single file would be read together with what lies beside it, shards with an index by loaders that do not look at
 * it.
 */
static void nothing_is_put_beside_another_model(void **state)
{
    const char *folder = wn_test_folder();
    struct wn_sink_options over = {.overwrite = true};
    struct wn_err err;

    (void)state;
    CHECK_OK(begins(folder, 1, &err), &err);
    made_safetensors(folder, "config.json", "{}", 0);
    CHECK_OK(begins(folder, 1, &err), &err);
    made_safetensors(folder, "other.safetensors", "{}", 0);
    CHECK_FAILS(begins(folder, 1, &err), &err, "holds 'other.safetensors'");
    CHECK_FAILS(begins(folder, 2, &err), &err, "holds 'other.safetensors'");
    CHECK_FAILS(begins_with(folder, 1, over, &err), &err, "holds 'other.safetensors'");
    CHECK_OK(begins_with(folder, 2, over, &err), &err); /* the index hides it, and its name is none that is globbed */
    assert_int_equal(made_count_names(folder), 2);
}

/* A tensor of one byte in each of so many files; what is in the folder goes. */
static bool replace(const char *folder, uint32_t files, struct wn_sink_options o, struct wn_err *err)
{
    const uint64_t shape[] = {1};
    struct wn_sink *s;
    bool ok = true;

    o.overwrite = true;
    s = wn_sink_new(WN_CONTAINER_SAFETENSORS, folder, &o, err);
    for (uint32_t f = 0; ok && f < files; f++) {
        char name[16];

        snprintf(name, sizeof name, "t%u", f);
        ok = wn_sink_declare(s, name, WN_U8, 1, shape, f, err);
    }
    ok = ok && wn_sink_begin(s, err);
    for (uint32_t f = 0; ok && f < files; f++)
        ok = wn_sink_write(s, "x", 1, err);
    ok = ok && wn_sink_commit(s, err);
    wn_sink_free(s);
    return ok;
}

static void old_shards_of_another_number_go_when_they_are_replaced(void **state)
{
    static const struct {
        uint32_t files;
        size_t names; /* with the index */
    } steps[] = {{3, 4}, {2, 3}, {5, 6}, {1, 1}, {2, 3}};
    const char *folder = wn_test_folder();
    struct wn_err err;

    (void)state;
    made_safetensors(folder, "config.json", "{}", 0);
    made_safetensors(folder, "model-00001-of-00002.safetensors", "{}", 0); /* of another writer */
    made_safetensors(folder, "model-x-of-2.safetensors.bak", "{}", 0);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct wn_source *s;

        CHECK_OK(replace(folder, steps[i].files, plain, &err), &err);
        assert_int_equal(made_count_names(folder), steps[i].names + 2);
        s = wn_source_open(folder, &err);
        CHECK_OK(s, &err);
        assert_int_equal(wn_source_tensor_count(s), steps[i].files);
        wn_source_close(s);
    }
}

/*
 * Whatever write fails, a folder never holds an index and shards of two models, and the index never before its shards.
 */
static void a_failure_while_replacing_leaves_no_mixture(void **state)
{
    const struct wn_sink_options named = {.metadata = (const char *const[]){"new", "yes", NULL}};
    bool ok = false;

    (void)state;
    for (long n = 0; !ok && n < 100; n++) {
        const char *folder = wn_test_folder();
        struct wn_err err;
        struct wn_source *s;

        CHECK_OK(replace(folder, 3, plain, &err), &err);
        wn_file_fail_writes_after(n);
        ok = replace(folder, 3, named, &err);
        wn_file_fail_writes_after(-1);
        s = wn_source_open(folder, &err);
        if (!s) {
            assert_false(wn_path_exists(wn_test_path(folder, "model.safetensors.index.json")));
            continue;
        }
        /* whole: all the old ones or all the new ones */
        assert_int_equal(wn_source_file_count(s), 3);
        for (size_t f = 1; f < 3; f++)
            assert_int_equal(wn_source_file_at(s, f)->file.bytes, wn_source_file_at(s, 0)->file.bytes);
        assert_int_equal(wn_source_metadata(s) != NULL, ok);
        wn_source_close(s);
    }
    assert_true(ok);
}

static void shards_may_have_names_of_their_own(void **state)
{
    static const char *const names[] = {"a-1.safetensors", "b-2.safetensors"};
    struct wn_sink_options o = {.file_names = names, .file_name_count = 2};
    const char *folder = wn_test_folder();
    struct wn_source *s;
    struct wn_err err;

    (void)state;
    CHECK_OK(replace(folder, 2, o, &err), &err);
    assert_int_equal(made_count_names(folder), 3);
    assert_true(wn_path_exists(wn_test_path(folder, "b-2.safetensors")));
    s = wn_source_open(folder, &err);
    CHECK_OK(s, &err);
    wn_source_close(s);
    CHECK_FAILS(replace(folder, 3, o, &err), &err, "names for 2 files, there are 3");
    o.file_name_count = 1;
    folder = wn_test_folder();
    CHECK_OK(replace(folder, 1, o, &err), &err);
    assert_int_equal(made_count_names(folder), 1);
    assert_true(wn_path_exists(wn_test_path(folder, "a-1.safetensors")));
}

/* macOS lets a process have 256 files open unless told otherwise, and K3 has 96 on either side. */
static void few_files_are_open_however_many_are_written(void **state)
{
    const char *folder = wn_test_folder();
    struct rlimit before, few;
    struct wn_err err;
    bool ok;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 24;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    ok = replace(folder, 100, plain, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    CHECK_OK(ok, &err);
    assert_int_equal(made_count_names(folder), 101);
}

static void a_folder_made_for_nothing_goes_away(void **state)
{
    const char *folder = wn_test_path(wn_test_folder(), "new");
    struct wn_err err;

    (void)state;
    CHECK_OK(begins(folder, 2, &err), &err);
    assert_false(wn_path_exists(folder));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_identity_copy_of_a_folder_is_the_same_folder),
        cmocka_unit_test(an_identity_copy_of_one_file_needs_no_index),
        cmocka_unit_test(headers_are_compact_json_in_the_order_declared),
        cmocka_unit_test(any_name_comes_back),
        cmocka_unit_test(what_safetensors_cannot_hold_is_refused_when_declared),
        cmocka_unit_test(nothing_is_put_beside_another_model),
        cmocka_unit_test(old_shards_of_another_number_go_when_they_are_replaced),
        cmocka_unit_test(a_failure_while_replacing_leaves_no_mixture),
        cmocka_unit_test(shards_may_have_names_of_their_own),
        cmocka_unit_test(few_files_are_open_however_many_are_written),
        cmocka_unit_test(a_folder_made_for_nothing_goes_away),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
