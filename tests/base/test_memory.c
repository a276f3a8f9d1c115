/* Allocation that can be refused, the arena, random numbers and error messages. */
#include "wn_test.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

static void new_memory_is_zero_and_aligned_where_promised(void **state)
{
    struct wn_err err;
    unsigned char *p = wn_alloc(100, 3, &err), *q = wn_alloc_aligned(1000, &err);

    (void)state;
    CHECK_OK(p && q, &err);
    for (int i = 0; i < 300; i++)
        assert_int_equal(p[i], 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(q[i], 0);
    assert_int_equal((uintptr_t)q % 64, 0);
    free(p);
    wn_free_aligned(q);
}

static void a_request_for_nothing_can_be_freed(void **state)
{
    struct wn_err err;
    void *p = wn_alloc(0, 8, &err), *q = wn_alloc_aligned(0, &err), *r = wn_realloc(NULL, 0, 8, &err);

    (void)state;
    CHECK_OK(p && q && r, &err);
    free(p);
    free(r);
    wn_free_aligned(q);
}

static void more_than_a_size_holds_is_refused_with_the_figures(void **state)
{
    struct wn_err err;

    (void)state;
    CHECK_FAILS(wn_alloc(SIZE_MAX / 2, 3, &err), &err, "objects of 3 bytes");
    assert_int_equal(err.code, WN_ERR_NOMEM);
    CHECK_FAILS(wn_realloc(NULL, 2, SIZE_MAX, &err), &err, "do not fit");
    CHECK_FAILS(wn_alloc_aligned(SIZE_MAX - 3, &err), &err, "refused");
    CHECK_FAILS(wn_alloc_unset(SIZE_MAX - 3, &err), &err, "refused");
}

static void an_array_grows_and_keeps_what_it_holds(void **state)
{
    struct wn_err err;
    uint32_t *p = NULL, *q;
    size_t room = 0, moves = 0;

    (void)state;
    for (uint32_t i = 0; i < 1000; i++) {
        size_t before = room;

        p = wn_grow(p, &room, i + 1, sizeof *p, &err);
        CHECK_OK(p, &err);
        moves += room != before;
        p[i] = i;
    }
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(p[i], i);
    assert_true(moves < 12);
    q = wn_grow(p, &room, SIZE_MAX / 2, sizeof *p, &err);
    CHECK_FAILS(q, &err, "do not fit");
    assert_null(q);
    assert_true(room >= 1000 && p[999] == 999);
    free(p);
}

static void a_test_can_refuse_the_nth_allocation_and_all_after(void **state)
{
    struct wn_err err;
    void *a, *b;

    (void)state;
    wn_alloc_fail_after(1);
    a = wn_alloc(1, 1, &err);
    b = wn_alloc(1, 1, &err);
    assert_non_null(a);
    assert_null(b);
    CHECK_FAILS(wn_strdup("x", &err), &err, "out of memory: 2 bytes");
    CHECK_FAILS(wn_asprintf(&err, "%d", 1234), &err, "out of memory: 5 bytes");
    wn_alloc_fail_after(-1);
    b = wn_alloc(1, 1, &err);
    assert_non_null(b);
    free(a);
    free(b);
}

static void strings_are_copied_with_a_nul_behind_them(void **state)
{
    struct wn_err err;
    char *s = wn_strndup("abcdef", 3, &err), *t = wn_asprintf(&err, "%s/%d", "layer", 12);

    (void)state;
    CHECK_OK(s && t, &err);
    assert_string_equal(s, "abc");
    assert_string_equal(t, "layer/12");
    free(s);
    free(t);
}

static void an_arena_gives_aligned_room_back_in_order(void **state)
{
    struct wn_arena a;
    struct wn_err err;
    size_t mark;
    float *x, *y;

    (void)state;
    CHECK_OK(wn_arena_init(&a, wn_arena_need(4) + wn_arena_need(100), &err), &err);
    x = wn_arena_f32(&a, 1);
    mark = wn_arena_mark(&a);
    y = wn_arena_take(&a, 100);
    assert_int_equal((uintptr_t)x % 64, 0);
    assert_int_equal((uintptr_t)y % 64, 0);
    assert_int_equal((char *)y - (char *)x, 64);
    wn_arena_rewind(&a, mark);
    assert_ptr_equal(wn_arena_take(&a, 128), y); /* the same room again */
    wn_arena_rewind(&a, 0);
    assert_int_equal(a.peak, 64 + 128);
    wn_arena_release(&a);
}

static void random_numbers_repeat_and_stay_in_range(void **state)
{
    /* SplitMix64 from state 1234567, as its authors' program prints it */
    static const uint64_t known[3] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                      UINT64_C(9817491932198370423)};
    struct wn_rng r = {1234567};
    unsigned seen[7] = {0};

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_true(wn_rng_u64(&r) == known[i]);
    for (int i = 0; i < 7000; i++) {
        double u = wn_rng_unit(&r);

        assert_true(u >= 0 && u < 1);
        seen[wn_rng_below(&r, 7)]++;
    }
    for (int i = 0; i < 7; i++)
        assert_true(seen[i] > 850 && seen[i] < 1150); /* 1000 expected, standard deviation 29 */
}

static void an_error_tells_where_before_what(void **state)
{
    struct wn_err err;

    (void)state;
    assert_false(wn_fail(&err, WN_ERR_FORMAT, "%d bytes", 7));
    assert_false(wn_fail_in(&err, "'%s'", "a.gguf"));
    assert_false(wn_fail_in(&err, "pruning layer %d", 12));
    assert_string_equal(err.msg, "pruning layer 12: 'a.gguf': 7 bytes");
    assert_int_equal(err.code, WN_ERR_FORMAT);
}

static void too_long_an_error_is_cut_and_not_overrun(void **state)
{
    char longest[1000];
    struct wn_err err;

    (void)state;
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    wn_fail(&err, WN_ERR_IO, "%s", longest);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    wn_fail_in(&err, "here");
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    assert_memory_equal(err.msg, "here: xxx", 9);
    wn_fail_in(&err, "%s", longest);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
}

static void room_is_counted_as_it_is_taken(void **state)
{
    struct wn_room count = {0}, take = {0};
    struct wn_arena a;
    struct wn_err err;

    (void)state;
    assert_null(wn_room_f32(&count, 3, 7));
    assert_null(wn_room_take(&count, 5, 1, 8));
    assert_int_equal(count.bytes, 128 + 64);
    CHECK_OK(wn_arena_init(&a, count.bytes, &err), &err);
    take.arena = &a;
    assert_non_null(wn_room_f32(&take, 3, 7));
    assert_non_null(wn_room_take(&take, 5, 1, 8));
    assert_int_equal(a.used, count.bytes);
    assert_int_equal(take.bytes, count.bytes);
    wn_arena_release(&a);
}

static void room_beyond_64_bits_does_not_wrap_round(void **state)
{
    static const uint64_t large[][2] = {
        {1ull << 40, 1ull << 40}, {1ull << 32, 1ull << 30}, {UINT64_MAX, 1}, {UINT64_MAX / 4 - 3, 1}};
    struct wn_arena a;
    struct wn_err err;

    (void)state;
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        struct wn_room count = {0};

        assert_null(wn_room_f32(&count, 16, 1));
        assert_null(wn_room_f32(&count, large[i][0], large[i][1]));
        assert_null(wn_room_f32(&count, 16, 1));
        assert_true(count.bytes == UINT64_MAX);
        CHECK_FAILS(wn_arena_init(&a, count.bytes, &err), &err, "more than a process can have");
        assert_int_equal(err.code, WN_ERR_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_memory_is_zero_and_aligned_where_promised),
        cmocka_unit_test(a_request_for_nothing_can_be_freed),
        cmocka_unit_test(more_than_a_size_holds_is_refused_with_the_figures),
        cmocka_unit_test(an_array_grows_and_keeps_what_it_holds),
        cmocka_unit_test(a_test_can_refuse_the_nth_allocation_and_all_after),
        cmocka_unit_test(strings_are_copied_with_a_nul_behind_them),
        cmocka_unit_test(an_arena_gives_aligned_room_back_in_order),
        cmocka_unit_test(room_is_counted_as_it_is_taken),
        cmocka_unit_test(room_beyond_64_bits_does_not_wrap_round),
        cmocka_unit_test(random_numbers_repeat_and_stay_in_range),
        cmocka_unit_test(an_error_tells_where_before_what),
        cmocka_unit_test(too_long_an_error_is_cut_and_not_overrun),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
