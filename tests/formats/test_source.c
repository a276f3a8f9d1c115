/* What all sources have in common: views, reads, threads, fingerprints, and running out of memory. */
#include "base/alloc.h"
#include "formats/tensor_list.h"
#include "made.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define GGUF "golden/text/tiny-b/gguf/tiny-b-IQ1_S.gguf"
#define SET  "golden/text/tiny-b/gguf/split/tiny-b-IQ1_S-00001-of-00003.gguf"
#define HF   "golden/text/tiny-a/hf"

static struct wn_source *open_data(const char *name)
{
    struct wn_err err;
    struct wn_source *s = wn_source_open(wn_test_need_data(name), &err);

    CHECK_OK(s, &err);
    return s;
}

static void a_path_that_is_no_model_is_refused_in_a_sentence(void **state)
{
    const char *folder = wn_test_folder();
    struct wn_buf b = {0};
    struct wn_err err;

    (void)state;
    CHECK_FAILS(wn_source_open(wn_test_path(folder, "absent"), &err), &err, "absent': No such file");
    CHECK_FAILS(wn_source_open(folder, &err), &err, "holds no *.safetensors file");
    made_zeros(&b, 100);
    CHECK_FAILS(wn_source_open(made_file(folder, "a.bin", &b), &err), &err, "is neither a GGUF");
    CHECK_FAILS(wn_source_open(made_file(folder, "empty.gguf", &b), &err), &err, "is neither a GGUF");
}

static void path_folder_and_container_are_told(void **state)
{
    struct wn_source *s = open_data(GGUF);

    (void)state;
    assert_int_equal(wn_source_container(s), WN_CONTAINER_GGUF);
    assert_true(wn_test_contains(wn_source_path(s), GGUF));
    assert_true(wn_test_contains(wn_source_folder(s), "tiny-b/gguf"));
    assert_false(wn_test_contains(wn_source_folder(s), "IQ1_S"));
    wn_source_close(s);
    s = open_data(HF);
    assert_int_equal(wn_source_container(s), WN_CONTAINER_SAFETENSORS);
    assert_string_equal(wn_source_folder(s), wn_source_path(s));
    assert_null(wn_source_gguf(s));
    wn_source_close(s);
}

static void opening_maps_nothing_and_a_view_maps_one_file(void **state)
{
    struct wn_source *s = open_data(HF);
    struct wn_err err;

    (void)state;
    for (size_t f = 0; f < wn_source_file_count(s); f++)
        assert_null(wn_source_file_at(s, f)->file.map);
    CHECK_OK(wn_source_view(s, wn_source_tensor_at(s, 0), &err), &err);
    wn_source_will_need(s, wn_source_tensor_at(s, 0));
    wn_source_dont_need(s, wn_source_tensor_at(s, 0));
    wn_source_dont_need(s, wn_source_tensor_at(s, wn_source_tensor_count(s) - 1));
    assert_non_null(wn_source_file_at(s, 0)->file.map);
    for (size_t f = 1; f < wn_source_file_count(s); f++)
        assert_null(wn_source_file_at(s, f)->file.map);
    wn_source_close(s);
}

static void a_view_and_a_read_give_the_same_bytes(void **state)
{
    struct wn_source *s = open_data(HF);
    uint64_t files = 0;
    struct wn_err err;

    (void)state;
    for (size_t f = 0; f < wn_source_file_count(s); f++)
        files += wn_source_file_at(s, f)->tensor_count;
    assert_int_equal(files, wn_source_tensor_count(s));
    for (size_t i = 0; i < wn_source_tensor_count(s); i++) {
        const struct wn_tensor *t = wn_source_tensor_at(s, i);
        const uint8_t *view = wn_source_view(s, t, &err);
        char *bytes = malloc(t->bytes);

        assert_ptr_equal(wn_source_find(s, t->name), t);
        CHECK_OK(view, &err);
        CHECK_OK(wn_source_read(s, t, 0, bytes, t->bytes, &err), &err);
        assert_memory_equal(bytes, view, t->bytes);
        CHECK_OK(wn_source_read(s, t, t->bytes - 1, bytes, 1, &err), &err);
        assert_memory_equal(bytes, view + t->bytes - 1, 1);
        free(bytes);
    }
    wn_source_close(s);
}

static void a_read_beyond_a_tensor_is_refused(void **state)
{
    struct wn_source *s = open_data(HF);
    const struct wn_tensor *t = wn_source_tensor_at(s, 0);
    struct wn_err err;
    char byte[2];

    (void)state;
    CHECK_FAILS(wn_source_read(s, t, t->bytes, byte, 1, &err), &err, "1 bytes at");
    CHECK_FAILS(wn_source_read(s, t, t->bytes - 1, byte, 2, &err), &err, "2 bytes at");
    CHECK_FAILS(wn_source_read(s, t, UINT64_MAX, byte, 2, &err), &err, "2 bytes at");
    wn_source_close(s);
}

struct walk {
    const struct wn_source *s;
    uint64_t sum;
};

static void *walk_views(void *arg)
{
    struct walk *w = arg;

    for (size_t i = 0; i < wn_source_tensor_count(w->s); i++) {
        const struct wn_tensor *t = wn_source_tensor_at(w->s, i);
        struct wn_err err;
        const uint8_t *view = wn_source_view(w->s, t, &err);

        if (view && t->bytes)
            w->sum = w->sum * 31 + view[0] + view[t->bytes - 1];
    }
    return NULL;
}

static void threads_share_an_open_source(void **state)
{
    struct wn_source *s = open_data(HF);
    struct walk walks[8];
    pthread_t threads[8];

    (void)state;
    for (int i = 0; i < 8; i++) {
        walks[i] = (struct walk){s, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, walk_views, &walks[i]), 0);
    }
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 1; i < 8; i++)
        assert_true(walks[i].sum == walks[0].sum);
    assert_true(walks[0].sum != 0);
    wn_source_close(s);
}

static void fingerprint_of(const char *json, char out[17])
{
    struct wn_err err;
    struct wn_source *s = wn_source_open(made_safetensors(wn_test_folder(), "a.safetensors", json, 64), &err);

    CHECK_OK(s, &err);
    wn_source_fingerprint(s, out);
    wn_source_close(s);
}

static void the_fingerprint_tells_names_types_shapes_and_order(void **state)
{
    static const char *const others[] = {
        "{\"b\":{\"dtype\":\"BF16\",\"shape\":[2,4],\"data_offsets\":[0,16]}}",
        "{\"a\":{\"dtype\":\"F16\",\"shape\":[2,4],\"data_offsets\":[0,16]}}",
        "{\"a\":{\"dtype\":\"BF16\",\"shape\":[4,2],\"data_offsets\":[0,16]}}",
        "{\"a\":{\"dtype\":\"BF16\",\"shape\":[8],\"data_offsets\":[0,16]}}",
        "{\"a\":{\"dtype\":\"BF16\",\"shape\":[2,4],\"data_offsets\":[0,16]},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[16,17]}}",
        "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
        "\"a\":{\"dtype\":\"BF16\",\"shape\":[2,4],\"data_offsets\":[16,32]}}",
    };
    char first[17], again[17], seen[6][17];

    (void)state;
    fingerprint_of("{\"a\":{\"dtype\":\"BF16\",\"shape\":[2,4],\"data_offsets\":[0,16]}}", first);
    fingerprint_of(" {\"a\":{\"shape\":[2,4],\"data_offsets\":[8,24],\"dtype\":\"BF16\"}}", again);
    assert_string_equal(first, again);
    assert_int_equal(strlen(first), 16);
    for (int i = 0; i < 6; i++) {
        fingerprint_of(others[i], seen[i]);
        assert_string_not_equal(first, seen[i]);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(seen[k], seen[i]);
    }
}

/* Fails the first, second, third ... allocation of an open until one gets through; a sanitizer looks for leaks. */
static void every_allocation_may_fail(void **state)
{
    static const char *const names[] = {GGUF, SET, HF, "golden/text/tiny-a/ref/greedy.safetensors"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = wn_test_need_data(names[i]);
        struct wn_source *s = NULL;
        struct wn_err err;
        long n = 0;

        for (; !s && n < 1000; n++) {
            err.code = WN_OK;
            wn_alloc_fail_after(n);
            s = wn_source_open(path, &err);
            wn_alloc_fail_after(-1);
            if (!s && err.code != WN_ERR_NOMEM)
                fail_msg("allocation %ld of '%s': %s", n, path, err.msg);
        }
        assert_non_null(s);
        assert_true(n > 5);
        wn_source_close(s);
    }
}

/*
 * The released checkpoint in full size, as holes (`make sparse`): 96 headers of 75.8 MB and an index of 59.8 MB, read
 * and compared in under 3 s.
 */
static void the_full_size_checkpoint_opens_in_three_seconds(void **state)
{
    const char *folder = wn_test_need_sparse("hf");
    struct timespec from, to;
    struct wn_source *s;
    struct wn_err err;
    double seconds;

    (void)state;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    s = wn_source_open(folder, &err);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    CHECK_OK(s, &err);
    assert_int_equal(wn_source_file_count(s), 96);
    assert_int_equal(wn_source_tensor_count(s), 497220);
    seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
    printf("96 headers and the index in %.2f s of one processor\n", seconds);
    assert_true(seconds < 3);
    wn_source_close(s);
}

/* Names whose hashes agree in the bits that a table for so many uses; found by trying. */
static size_t find_colliding(char (*names)[12], size_t wanted, size_t mask)
{
    size_t n = 0;

    for (unsigned i = 0; n < wanted; i++) {
        snprintf(names[n], sizeof names[n], "%u", i);
        n += (wn_bytes_hash(wn_bytes_of(names[n])) & mask) == 1;
    }
    return n;
}

/* Filling the table must not become quadratic: half a million such names would keep a reader busy for minutes. */
static void names_made_to_collide_are_refused_and_honest_ones_are_not(void **state)
{
    enum { N = 1000 };
    static char names[N + 1][12];
    struct wn_tensor t[N] = {0};

    (void)state;
    for (int made = 0; made <= 1; made++) {
        struct wn_name_table table;
        struct wn_err err;
        size_t i = 0, before;
        bool ok = true;

        CHECK_OK(wn_name_table_init(&table, N, &err), &err);
        if (made)
            find_colliding(names, N, table.mask);
        for (; ok && i < N; i++) {
            if (!made)
                snprintf(names[i], sizeof names[i], "%zu", i);
            t[i].name = names[i];
            ok = wn_name_table_add(&table, t, i, &before, &err);
            assert_int_equal(before, WN_NAME_NONE);
        }
        if (made)
            CHECK_FAILS(ok, &err, "made to collide");
        else
            CHECK_OK(ok, &err);
        assert_true(made ? i < N / 2 : i == N);
        wn_name_table_release(&table);
    }
}

static void an_unfinished_output_is_told_as_one(void **state)
{
    const char *folder = wn_test_folder(), *shard = "model-00001-of-00002.safetensors";
    struct wn_source *s;
    struct wn_err err;
    char path[512];

    (void)state;
    s = wn_source_open(folder, &err);
    CHECK_FAILS(s, &err, "holds no *.safetensors file");
    assert_false(wn_test_contains(err.msg, "unfinished"));
    CHECK_OK(wn_file_put(wn_test_path(folder, WN_PROGRESS_NAME), "", 0, false, &err), &err);
    s = wn_source_open(folder, &err);
    CHECK_FAILS(s, &err, "/progress.part' is there: the command that made it goes on if given again): folder '");
    CHECK_OK(wn_file_put(wn_test_path(folder, WN_PLACING_NAME), "", 0, false, &err), &err);
    s = wn_source_open(folder, &err);
    CHECK_FAILS(s, &err, "/placing.part' is there");
    snprintf(path, sizeof path, "%s/%s.%s", folder, shard, WN_PROGRESS_NAME);
    CHECK_OK(wn_file_put(path, "", 0, false, &err), &err);
    s = wn_source_open(wn_test_path(folder, shard), &err);
    CHECK_FAILS(s, &err, "00002.safetensors.progress.part' is there");
}

/* A hole is told of both or not at all, and no byte that is stored is part of one. */
static void a_common_hole_ends_where_either_file_has_data(void **state)
{
    static const char json[] = "{\"t\":{\"dtype\":\"U8\",\"shape\":[4194304],\"data_offsets\":[0,4194304]}}";
    const uint64_t bytes = 4194304, far = 3000000;
    const char *folder = wn_test_folder();
    const char *one = made_safetensors(folder, "a.safetensors", json, bytes),
               *two = made_safetensors(folder, "b.safetensors", json, bytes);
    struct wn_err err;
    struct wn_source *a = wn_source_open(one, &err), *b = wn_source_open(two, &err);
    const struct wn_tensor *s, *t;
    uint64_t n;

    (void)state;
    CHECK_OK(a && b, &err);
    s = wn_source_find(a, "t");
    t = wn_source_find(b, "t");
    if (wn_source_common_hole(a, s, 1000000, b, t, 1000000) == 0) {
        print_message("holes are not told here\n");
    } else {
        assert_int_equal(wn_source_common_hole(a, s, 1000000, b, t, 1000000), bytes - 1000000);
        assert_int_equal(wn_source_common_hole(a, s, bytes - 10, b, t, 1000000), 10);
        made_write_at(two, t->at + far, "x", 1);
        n = wn_source_common_hole(a, s, 1000000, b, t, 1000000);
        assert_true(n > 0 && n <= far - 1000000);
        assert_int_equal(wn_source_common_hole(b, t, 1000000, a, s, 1000000), n);
        assert_int_equal(wn_source_common_hole(a, s, 0, b, t, far), 0);
        assert_int_equal(wn_source_common_hole(a, s, far, b, t, far + 1000000), bytes - far - 1000000);
    }
    wn_source_close(a);
    wn_source_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_that_is_no_model_is_refused_in_a_sentence),
        cmocka_unit_test(an_unfinished_output_is_told_as_one),
        cmocka_unit_test(path_folder_and_container_are_told),
        cmocka_unit_test(opening_maps_nothing_and_a_view_maps_one_file),
        cmocka_unit_test(a_view_and_a_read_give_the_same_bytes),
        cmocka_unit_test(a_read_beyond_a_tensor_is_refused),
        cmocka_unit_test(threads_share_an_open_source),
        cmocka_unit_test(a_common_hole_ends_where_either_file_has_data),
        cmocka_unit_test(the_fingerprint_tells_names_types_shapes_and_order),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(the_full_size_checkpoint_opens_in_three_seconds),
        cmocka_unit_test(names_made_to_collide_are_refused_and_honest_ones_are_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
