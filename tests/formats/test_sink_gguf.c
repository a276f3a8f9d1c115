/* GGUF written: identity to the byte, split and joined. */
#include "made.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define SINGLE "golden/text/tiny-b/gguf/tiny-b-IQ1_S.gguf"
#define SPLIT  "golden/text/tiny-b/gguf/split/tiny-b-IQ1_S-0000%d-of-00003.gguf"

static const char *split_path(int i)
{
    char name[128];

    snprintf(name, sizeof name, SPLIT, i);
    return wn_test_need_data(name);
}

/* Needs data that not every checkout has; says so and goes on with the others. */
static void an_identity_copy_is_the_same_file(void **state)
{
    static const char *const names[] = {
        SINGLE,
        "golden/text/tiny-a/gguf/tiny-a-BF16-MXFP4.gguf",
        "golden/text/tiny-b/gguf/tiny-b-BF16-MXFP4.gguf",
        "golden/text/tiny-b/gguf/tiny-b-IQ2_XXS.gguf",
        "golden/text/tiny-b/gguf/tiny-b-MXFP4_MOE.gguf",
        "golden/text/tiny-b/gguf/tiny-b-Q2_K.gguf",
        "golden/text/tiny-b/gguf/tiny-b-Q4_K_M.gguf",
        "golden/text/tiny-b/gguf/tiny-b-Q8_0.gguf",
    };
    const char *folder = wn_test_folder();
    struct wn_err err;
    int done = 0;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *from = wn_test_data(names[i]), *to = wn_test_path(folder, "copy.gguf");

        if (!from)
            continue;
        CHECK_OK(made_identity(from, to, &err), &err);
        wn_test_same_file(from, to);
        assert_int_equal(remove(to), 0);
        done++;
    }
    assert_true(done >= 2);
}

static void an_identity_copy_of_a_set_is_the_same_set(void **state)
{
    const char *folder = wn_test_folder();
    struct wn_err err;
    char name[64];

    (void)state;
    CHECK_OK(made_identity(split_path(1), wn_test_path(folder, "x-00001-of-00003.gguf"), &err), &err);
    for (int i = 1; i <= 3; i++) {
        snprintf(name, sizeof name, "x-%05d-of-00003.gguf", i);
        wn_test_same_file(split_path(i), wn_test_path(folder, name));
    }
    assert_int_equal(made_count_names(folder), 3);
}

/* Copies one source by the file numbers of another. */
static void copy_as(const char *from_path, const char *like_path, const char *out)
{
    struct wn_err err;
    struct wn_source *from = wn_source_open(from_path, &err), *like = wn_source_open(like_path, &err);
    struct wn_sink_options o = {0};
    struct wn_sink *s;

    assert_non_null(from);
    assert_non_null(like);
    o.kv = wn_source_gguf(from)->kv;
    o.kv_count = wn_source_gguf(from)->n;
    s = wn_sink_new(WN_CONTAINER_GGUF, out, &o, &err);
    CHECK_OK(s, &err);
    for (size_t i = 0; i < wn_source_tensor_count(from); i++) {
        const struct wn_tensor *t = wn_source_tensor_at(from, i);
        uint32_t file = wn_source_file_count(like) == 1 ? 0 : wn_source_find(like, t->name)->file;

        CHECK_OK(wn_sink_declare(s, t->name, t->type, t->dims, t->shape, file, &err), &err);
    }
    CHECK_OK(wn_sink_begin(s, &err), &err);
    CHECK_OK(made_copy_all(s, from, &err), &err);
    CHECK_OK(wn_sink_commit(s, &err), &err);
    wn_sink_free(s);
    wn_source_close(from);
    wn_source_close(like);
}

static void a_file_split_like_the_published_set_becomes_it(void **state)
{
    static const char *const outs[] = {"set", "set.gguf", "set-00001-of-00003.gguf"};
    char name[64];

    (void)state;
    for (size_t o = 0; o < 3; o++) {
        const char *folder = wn_test_folder();

        copy_as(wn_test_need_data(SINGLE), split_path(1), wn_test_path(folder, outs[o]));
        for (int i = 1; i <= 3; i++) {
            snprintf(name, sizeof name, "set-%05d-of-00003.gguf", i);
            wn_test_same_file(split_path(i), wn_test_path(folder, name));
        }
    }
}

static void a_set_joined_becomes_the_published_file(void **state)
{
    const char *out = wn_test_path(wn_test_folder(), "joined.gguf");

    (void)state;
    copy_as(split_path(1), wn_test_need_data(SINGLE), out);
    wn_test_same_file(wn_test_need_data(SINGLE), out);
}

/* What the copies above would not notice, they would not test: one value in the wrong place is another file. */
static void a_copy_with_another_key_order_is_another_file(void **state)
{
    const char *from = wn_test_need_data(SINGLE), *out = wn_test_path(wn_test_folder(), "a.gguf");
    struct wn_err err;
    struct wn_source *source = wn_source_open(from, &err);
    const struct wn_gguf_meta *m = wn_source_gguf(source);
    struct wn_gguf_kv *kv = malloc(m->n * sizeof *kv);
    struct wn_sink_options o = {.kv = kv, .kv_count = m->n};
    struct wn_sink *s;
    size_t n_a, n_b;
    char *a, *b;

    (void)state;
    memcpy(kv, m->kv, m->n * sizeof *kv);
    kv[1] = m->kv[2];
    kv[2] = m->kv[1];
    s = wn_sink_new(WN_CONTAINER_GGUF, out, &o, &err);
    CHECK_OK(made_declare_all(s, source, &err) && wn_sink_begin(s, &err) && made_copy_all(s, source, &err) &&
                 wn_sink_commit(s, &err),
             &err);
    wn_sink_free(s);
    wn_source_close(source);
    free(kv);
    a = wn_file_slurp(from, 1 << 24, &n_a, &err);
    b = wn_file_slurp(out, 1 << 24, &n_b, &err);
    assert_int_equal(n_a, n_b);
    assert_true(memcmp(a, b, n_a) != 0);
    free(a);
    free(b);
}

static void identical(const char *from, const char *to_name)
{
    const char *to = wn_test_path(wn_test_folder(), to_name);
    struct wn_err err;

    CHECK_OK(made_identity(from, to, &err), &err);
    wn_test_same_file(from, to);
}

/* Tensors that are not whole multiples of the alignment, in a file that pads all of them, the last one too. */
static const char *make_aligned(unsigned version, uint32_t alignment, const char *name)
{
    const uint64_t five[] = {5}, three[] = {3, 1, 1, 1}, none[] = {0, 4};
    const uint64_t second = (20 + alignment - 1) / alignment * alignment;
    const uint64_t third = second + (6 + alignment - 1) / alignment * alignment;
    struct wn_buf b = {0};

    made_gguf(&b, 4, 3);
    b.at[4] = (char)version;
    made_kv_string(&b, "general.architecture", "none");
    made_kv_number(&b, "general.alignment", WN_GGUF_U32, alignment);
    made_kv_number(&b, "twice", WN_GGUF_I16, 7);
    made_info(&b, "a", 1, five, 0, 0);
    made_info(&b, "empty", 2, none, 0, second);
    made_info(&b, "b", 4, three, 1, second);
    made_info(&b, "c", 0, NULL, 24, third);
    made_pad(&b, alignment);
    for (unsigned i = 0; i < 20; i++)
        made_number(&b, 1, i + 1);
    made_pad(&b, alignment);
    for (unsigned i = 0; i < 6; i++)
        made_number(&b, 1, i + 101);
    made_pad(&b, alignment);
    made_number(&b, 1, 99);
    made_pad(&b, alignment);
    return made_file(wn_test_folder(), name, &b);
}

static void any_alignment_and_both_versions_are_kept(void **state)
{
    (void)state;
    for (uint32_t alignment = 1; alignment <= 4096; alignment *= 2)
        for (unsigned version = 2; version <= 3; version++)
            identical(make_aligned(version, alignment, "a.gguf"), "b.gguf");
}

static void an_alignment_that_no_record_states_is_stated_in_every_file(void **state)
{
    const uint64_t shape[] = {5};
    const char *folder = wn_test_folder();
    struct wn_sink_options o = {.gguf_alignment = 128};
    const float five[5] = {1, 2, 3, 4, 5};
    struct wn_source *source;
    struct wn_err err;
    struct wn_sink *s = wn_sink_new(WN_CONTAINER_GGUF, wn_test_path(folder, "a"), &o, &err);

    (void)state;
    CHECK_OK(wn_sink_declare(s, "first", WN_F32, 1, shape, 0, &err), &err);
    CHECK_OK(wn_sink_declare(s, "second", WN_F32, 1, shape, 1, &err), &err);
    CHECK_OK(wn_sink_begin(s, &err), &err);
    CHECK_OK(wn_sink_write(s, five, sizeof five, &err), &err);
    CHECK_OK(wn_sink_write(s, five, sizeof five, &err), &err);
    CHECK_OK(wn_sink_commit(s, &err), &err);
    wn_sink_free(s);
    source = wn_source_open(wn_test_path(folder, "a-00001-of-00002.gguf"), &err);
    CHECK_OK(source, &err);
    assert_int_equal(wn_source_gguf(source)->alignment, 128);
    assert_int_equal(wn_source_find(source, "second")->at % 128, 0);
    assert_int_equal(wn_source_file_at(source, 1)->file.bytes % 128, 0);
    wn_source_close(source);
}

static void sets_keep_a_first_file_without_tensors_and_files_without_any(void **state)
{
    static const uint32_t files[][2] = {{1, 2}, {0, 2}, {0, 1}, {1, 1}};
    const uint64_t shape[] = {8};
    const float eight[8] = {1, 2, 3, 4, 5, 6, 7, 8};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const char *folder = wn_test_folder(), *copies = wn_test_folder();
        struct wn_sink_options o = {0};
        struct wn_err err;
        struct wn_sink *s = wn_sink_new(WN_CONTAINER_GGUF, wn_test_path(folder, "a"), &o, &err);
        struct wn_source *source;

        wn_sink_file_count_at_least(s, 3);
        CHECK_OK(wn_sink_declare(s, "x", WN_F32, 1, shape, files[i][0], &err), &err);
        CHECK_OK(wn_sink_declare(s, "y", WN_F32, 1, shape, files[i][1], &err), &err);
        CHECK_OK(wn_sink_begin(s, &err), &err);
        assert_int_equal(wn_sink_file_count(s), 3);
        CHECK_OK(wn_sink_write(s, eight, sizeof eight, &err), &err);
        CHECK_OK(wn_sink_write(s, eight, sizeof eight, &err), &err);
        CHECK_OK(wn_sink_commit(s, &err), &err);
        wn_sink_free(s);
        source = wn_source_open(wn_test_path(folder, "a-00001-of-00003.gguf"), &err);
        CHECK_OK(source, &err);
        assert_int_equal(wn_source_find(source, "x")->file, files[i][0]);
        assert_int_equal(wn_source_find(source, "y")->file, files[i][1]);
        wn_source_close(source);
        CHECK_OK(made_identity(wn_test_path(folder, "a-00001-of-00003.gguf"), wn_test_path(copies, "a"), &err), &err);
        for (int f = 1; f <= 3; f++) {
            char name[64];

            snprintf(name, sizeof name, "a-%05d-of-00003.gguf", f);
            wn_test_same_file(wn_test_path(folder, name), wn_test_path(copies, name));
        }
    }
}

/* gguf-split writes such a thing when everything fits one file. */
static void a_set_of_one_keeps_its_keys_under_such_a_name_only(void **state)
{
    const uint64_t one[] = {1};
    const char *folder = wn_test_folder(), *from = wn_test_path(folder, "a-00001-of-00001.gguf");
    struct wn_buf b = {0};
    struct wn_source *source;
    struct wn_err err;

    (void)state;
    made_gguf(&b, 1, 4);
    made_kv_number(&b, "split.count", WN_GGUF_U16, 1);
    made_kv_string(&b, "general.architecture", "none");
    made_kv_number(&b, "split.tensors.count", WN_GGUF_I32, 1);
    made_kv_number(&b, "split.no", WN_GGUF_U16, 0);
    made_info(&b, "x", 1, one, 0, 0);
    made_pad(&b, 32);
    made_zeros(&b, 32);
    made_file(folder, "a-00001-of-00001.gguf", &b);
    identical(from, "b-00001-of-00001.gguf");
    CHECK_OK(made_identity(from, wn_test_path(folder, "b.gguf"), &err), &err);
    source = wn_source_open(wn_test_path(folder, "b.gguf"), &err);
    CHECK_OK(source, &err);
    assert_int_equal(wn_source_gguf(source)->n, 1);
    wn_source_close(source);
}

static bool declares(const char *name, enum wn_type type, uint32_t dims, const uint64_t *shape, struct wn_err *err)
{
    struct wn_sink_options o = {.dry_run = true};
    struct wn_sink *s = wn_sink_new(WN_CONTAINER_GGUF, "a.gguf", &o, err);
    bool ok = s && wn_sink_declare(s, name, type, dims, shape, 0, err);

    wn_sink_free(s);
    return ok;
}

static void what_gguf_cannot_hold_is_refused_when_declared(void **state)
{
    const uint64_t shape[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, ragged[] = {256, 128},
                   huge[] = {UINT64_C(1) << 40, UINT64_C(1) << 40};
    char name[65];
    struct wn_err err;

    (void)state;
    memset(name, 'n', 64);
    name[64] = '\0';
    CHECK_FAILS(declares(name, WN_F32, 1, shape, &err), &err, "a name of 64 bytes");
    CHECK_OK(declares(name + 1, WN_F32, 1, shape, &err), &err);
    CHECK_FAILS(declares("", WN_F32, 1, shape, &err), &err, "a name of 0 bytes");
    CHECK_FAILS(declares("x", WN_F32, 5, shape, &err), &err, "at most 4");
    CHECK_FAILS(declares("x", WN_F32, 9, shape, &err), &err, "at most 8");
    CHECK_FAILS(declares("x", WN_U8, 1, shape, &err), &err, "tensor 'x': GGUF has no type U8");
    CHECK_FAILS(declares("x", WN_Q4_K, 2, ragged, &err), &err, "rows of 128 elements are not whole blocks of Q4_K");
    CHECK_FAILS(declares("x", WN_F32, 2, huge, &err), &err, "overflows 63 bits");
}

static void a_name_that_promises_another_set_is_refused(void **state)
{
    const uint64_t shape[] = {1};
    struct wn_sink_options o = {.dry_run = true};
    static const char *const outs[] = {"a-00002-of-00002.gguf", "a-00001-of-00003.gguf"};
    struct wn_err err;

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct wn_sink *s = wn_sink_new(WN_CONTAINER_GGUF, outs[i], &o, &err);

        CHECK_OK(wn_sink_declare(s, "x", WN_F32, 1, shape, 1, &err), &err);
        CHECK_FAILS(wn_sink_begin(s, &err), &err, "but the first of 2 is to be written");
        wn_sink_free(s);
    }
}

/* A tensor of more than 4 GiB that is nearly all hole stays one, with its few bytes in the right places. */
static void holes_stay_holes_beyond_4_gib(void **state)
{
    const uint64_t ne[] = {1 << 20, 1280}, bytes = UINT64_C(5) << 30;
    const char *folder = wn_test_folder(), *path, *copy = wn_test_path(folder, "copy.gguf");
    struct wn_buf b = {0};
    struct wn_source *s;
    struct stat st;
    struct wn_err err;
    char found[8];

    (void)state;
    made_gguf(&b, 1, 0);
    made_info(&b, "x", 2, ne, 0, 0);
    made_pad(&b, 32);
    path = made_file(folder, "a.gguf", &b);
    made_longer(path, 96 + bytes);
    made_write_at(path, 96 + (UINT64_C(4) << 30) + 5, "in here", 7);
    made_write_at(path, 96 + bytes - 3, "end", 3);
    CHECK_OK(made_identity(path, copy, &err), &err);
    assert_int_equal(stat(copy, &st), 0);
    assert_int_equal((uint64_t)st.st_size, 96 + bytes);
    assert_true(st.st_blocks < 1 << 17);
    s = wn_source_open(copy, &err);
    CHECK_OK(s, &err);
    CHECK_OK(wn_source_read(s, wn_source_tensor_at(s, 0), (UINT64_C(4) << 30) + 5, found, 7, &err), &err);
    assert_memory_equal(found, "in here", 7);
    CHECK_OK(wn_source_read(s, wn_source_tensor_at(s, 0), bytes - 3, found, 3, &err), &err);
    assert_memory_equal(found, "end", 3);
    wn_source_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_identity_copy_is_the_same_file),
        cmocka_unit_test(an_identity_copy_of_a_set_is_the_same_set),
        cmocka_unit_test(a_file_split_like_the_published_set_becomes_it),
        cmocka_unit_test(a_set_joined_becomes_the_published_file),
        cmocka_unit_test(a_copy_with_another_key_order_is_another_file),
        cmocka_unit_test(any_alignment_and_both_versions_are_kept),
        cmocka_unit_test(an_alignment_that_no_record_states_is_stated_in_every_file),
        cmocka_unit_test(sets_keep_a_first_file_without_tensors_and_files_without_any),
        cmocka_unit_test(a_set_of_one_keeps_its_keys_under_such_a_name_only),
        cmocka_unit_test(what_gguf_cannot_hold_is_refused_when_declared),
        cmocka_unit_test(a_name_that_promises_another_set_is_refused),
        cmocka_unit_test(holes_stay_holes_beyond_4_gib),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
