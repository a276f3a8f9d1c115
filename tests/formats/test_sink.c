/* What both writers have in common: whole or not at all, the account of bytes, dry runs, and failures at every step. */
#include "base/alloc.h"
#include "made.h"

#include <stdio.h>
#include <stdlib.h>

#define GGUF_SET "golden/text/tiny-b/gguf/split/tiny-b-IQ1_S-00001-of-00003.gguf"
#define HF       "golden/text/tiny-a/hf"

static const enum wn_container both[] = {WN_CONTAINER_GGUF, WN_CONTAINER_SAFETENSORS};

/* Two files of one F32 tensor of 4 each, begun. folder: a new one; the outputs lie in it. */
static struct wn_sink *new_sink(enum wn_container c, const char *folder, struct wn_sink_options o, struct wn_err *err)
{
    const uint64_t shape[] = {4};
    struct wn_sink *s = wn_sink_new(c, c == WN_CONTAINER_GGUF ? wn_test_path(folder, "m") : folder, &o, err);

    CHECK_OK(s, err);
    CHECK_OK(wn_sink_declare(s, "a", WN_F32, 1, shape, 0, err), err);
    CHECK_OK(wn_sink_declare(s, "b", WN_F32, 1, shape, 1, err), err);
    return s;
}

static void nothing_stands_under_its_name_before_commit(void **state)
{
    (void)state;
    for (int c = 0; c < 2; c++) {
        const char *folder = wn_test_folder();
        struct wn_sink_options o = {0};
        struct wn_err err;
        struct wn_sink *s = new_sink(both[c], folder, o, &err);

        CHECK_OK(wn_sink_begin(s, &err), &err);
        CHECK_OK(wn_sink_write(s, "0123456789abcdef", 16, &err), &err);
        CHECK_OK(wn_sink_write(s, "0123456789abcdef", 16, &err), &err);
        for (uint32_t f = 0; f < 2; f++)
            assert_false(wn_path_exists(wn_sink_file_path(s, f)));
        CHECK_OK(wn_sink_commit(s, &err), &err);
        for (uint32_t f = 0; f < 2; f++)
            assert_true(wn_path_exists(wn_sink_file_path(s, f)));
        wn_sink_free(s);
        assert_int_equal(made_count_names(folder), c == 0 ? 2 : 3);
    }
}

static void what_is_not_committed_leaves_nothing(void **state)
{
    (void)state;
    for (int c = 0; c < 2; c++) {
        const char *folder = wn_test_folder();
        struct wn_sink_options o = {0};
        struct wn_err err;
        struct wn_sink *s = new_sink(both[c], folder, o, &err);

        CHECK_OK(wn_sink_begin(s, &err), &err);
        CHECK_OK(wn_sink_write(s, "0123456789abcdef", 16, &err), &err);
        assert_int_equal(made_count_names(folder), c == 0 ? 2 : 3);
        wn_sink_free(s);
        assert_int_equal(made_count_names(folder), 0);
    }
}

static void the_account_of_bytes_is_kept(void **state)
{
    (void)state;
    for (int c = 0; c < 2; c++) {
        const char *folder = wn_test_folder();
        struct wn_sink_options o = {0};
        struct wn_err err;
        struct wn_sink *s = new_sink(both[c], folder, o, &err);

        CHECK_FAILS(wn_sink_write(s, "0", 1, &err), &err, "was not begun");
        CHECK_FAILS(wn_sink_commit(s, &err), &err, "was not begun");
        CHECK_OK(wn_sink_begin(s, &err), &err);
        CHECK_FAILS(wn_sink_commit(s, &err), &err, "tensor 'a' has 0 of its 16 bytes");
        CHECK_OK(wn_sink_write(s, "0123", 4, &err), &err);
        CHECK_FAILS(wn_sink_write(s, "0123456789abcdef", 16, &err), &err, "tensor 'a': 16 bytes, only 12 of its 16");
        CHECK_OK(wn_sink_write(s, "456789abcdef", 12, &err), &err);
        CHECK_OK(wn_sink_write(s, NULL, 0, &err), &err);
        CHECK_OK(wn_sink_write(s, "0123456789abcde", 15, &err), &err);
        CHECK_FAILS(wn_sink_commit(s, &err), &err, "tensor 'b' has 15 of its 16 bytes");
        CHECK_OK(wn_sink_write(s, "f", 1, &err), &err);
        CHECK_FAILS(wn_sink_write(s, "x", 1, &err), &err, "1 bytes behind the last tensor");
        CHECK_OK(wn_sink_commit(s, &err), &err);
        CHECK_FAILS(wn_sink_commit(s, &err), &err, "was not begun");
        wn_sink_free(s);
    }
}

static void files_may_not_fall_and_names_not_repeat(void **state)
{
    const uint64_t shape[] = {4};

    (void)state;
    for (int c = 0; c < 2; c++) {
        struct wn_sink_options o = {0};
        struct wn_err err;
        const char *folder = wn_test_folder();
        struct wn_sink *s = new_sink(both[c], folder, o, &err);

        CHECK_FAILS(wn_sink_declare(s, "c", WN_F32, 1, shape, 0, &err), &err, "file 0 after a tensor of file 1");
        CHECK_FAILS(wn_sink_declare(s, "c", WN_F32, 1, shape, 70000, &err), &err, "beyond the last possible");
        CHECK_OK(wn_sink_declare(s, "a", WN_F32, 1, shape, 1, &err), &err);
        CHECK_FAILS(wn_sink_begin(s, &err), &err, "tensor 'a' was declared twice");
        CHECK_FAILS(wn_sink_write(s, "0", 1, &err), &err, "has failed");
        wn_sink_free(s);
        assert_int_equal(made_count_names(folder), 0);
    }
}

static void nothing_is_overwritten_unasked(void **state)
{
    (void)state;
    for (int c = 0; c < 2; c++) {
        const char *folder = wn_test_folder(), *second;
        struct wn_sink_options o = {0};
        struct wn_buf b = {0};
        struct wn_err err;
        struct wn_sink *s;
        size_t n;
        char *text;

        made_zeros(&b, 3);
        second = made_file(folder, c == 0 ? "m-00002-of-00002.gguf" : "model-00002-of-000002.safetensors", &b);
        s = new_sink(both[c], folder, o, &err);
        CHECK_FAILS(wn_sink_begin(s, &err), &err, "exists already");
        wn_sink_free(s);
        assert_int_equal(made_count_names(folder), 1);

        o.overwrite = true;
        s = new_sink(both[c], folder, o, &err);
        CHECK_OK(wn_sink_begin(s, &err), &err);
        wn_sink_free(s);
        text = wn_file_slurp(second, 100, &n, &err);
        CHECK_OK(text, &err);
        assert_int_equal(n, 3);
        free(text);
    }
}

/* The sizes that a dry run tells are those of the real one, and it touches nothing. */
static void a_dry_run_tells_the_exact_sizes_and_touches_nothing(void **state)
{
    static const char *const names[] = {GGUF_SET, HF};

    (void)state;
    for (int c = 0; c < 2; c++) {
        struct wn_err err;
        const char *folder = wn_test_folder();
        struct wn_source *from = wn_source_open(wn_test_need_data(names[c]), &err);
        struct wn_sink_options o = {.dry_run = true};
        struct wn_sink *s;
        uint64_t total = 0;

        CHECK_OK(from, &err);
        if (both[c] == WN_CONTAINER_GGUF) {
            o.kv = wn_source_gguf(from)->kv;
            o.kv_count = wn_source_gguf(from)->n;
        }
        s = wn_sink_new(both[c], wn_test_path(folder, "new"), &o, &err);
        CHECK_OK(made_declare_all(s, from, &err), &err);
        CHECK_OK(wn_sink_begin(s, &err), &err);
        assert_int_equal(made_count_names(folder), 0);
        assert_int_equal(wn_sink_file_count(s), wn_source_file_count(from));
        for (uint32_t f = 0; f < wn_sink_file_count(s); f++) {
            assert_int_equal(wn_sink_file_bytes(s, f), wn_source_file_at(from, f)->file.bytes);
            total += wn_sink_file_bytes(s, f);
        }
        if (both[c] == WN_CONTAINER_SAFETENSORS) {
            struct wn_file index;

            CHECK_OK(wn_file_open(&index, wn_test_need_data(HF "/model.safetensors.index.json"), &err), &err);
            total += index.bytes;
            wn_file_close(&index);
        }
        assert_int_equal(wn_sink_total_bytes(s), total);
        CHECK_FAILS(wn_sink_write(s, "x", 1, &err), &err, "a dry run");
        CHECK_FAILS(wn_sink_commit(s, &err), &err, "a dry run");
        wn_sink_free(s);
        wn_source_close(from);
        assert_int_equal(made_count_names(folder), 0);
    }
}

/* A small model with an awkward name, for the tests that repeat a copy dozens of times. */
static const char *make_small(enum wn_container c)
{
    const char *folder = wn_test_folder();
    struct wn_sink_options o = {0};
    struct wn_err err;
    struct wn_sink *s = new_sink(c, folder, o, &err);

    CHECK_OK(wn_sink_begin(s, &err), &err);
    CHECK_OK(wn_sink_write(s, "0123456789abcdef", 16, &err), &err);
    CHECK_OK(wn_sink_write(s, "0123456789abcdef", 16, &err), &err);
    CHECK_OK(wn_sink_commit(s, &err), &err);
    wn_sink_free(s);
    return c == WN_CONTAINER_GGUF ? wn_test_path(folder, "m-00001-of-00002.gguf") : folder;
}

typedef void fail_after_fn(long n);

/* Lets the first, second, third ... step of a kind fail until the copy gets through; each failure leaves nothing. */
static void fail_each_step(fail_after_fn *fail_after, enum wn_code code, long at_least)
{
    for (int c = 0; c < 2; c++) {
        char from[4096], to_folder[4000], to[4096];
        bool ok = false;
        long n = 0;

        snprintf(to_folder, sizeof to_folder, "%s", wn_test_folder());
        snprintf(to, sizeof to, "%s%s", to_folder, both[c] == WN_CONTAINER_GGUF ? "/n" : "");
        snprintf(from, sizeof from, "%s", make_small(both[c]));
        for (; !ok && n < 500; n++) {
            struct wn_err err = {0};

            fail_after(n);
            ok = made_identity(from, to, &err);
            fail_after(-1);
            if (!ok && err.code != code)
                fail_msg("step %ld: %s", n, err.msg);
            assert_int_equal(made_count_names(to_folder), ok ? (c == 0 ? 2 : 3) : 0);
        }
        assert_true(ok);
        assert_true(n > at_least);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fail_each_step(wn_alloc_fail_after, WN_ERR_NOMEM, 20);
}

static void a_full_disk_at_any_write_leaves_nothing(void **state)
{
    (void)state;
    fail_each_step(wn_file_fail_writes_after, WN_ERR_IO, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_stands_under_its_name_before_commit),
        cmocka_unit_test(what_is_not_committed_leaves_nothing),
        cmocka_unit_test(the_account_of_bytes_is_kept),
        cmocka_unit_test(files_may_not_fall_and_names_not_repeat),
        cmocka_unit_test(nothing_is_overwritten_unasked),
        cmocka_unit_test(a_dry_run_tells_the_exact_sizes_and_touches_nothing),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_full_disk_at_any_write_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
