/* Byte strings, the growing buffer, and sizes that do not wrap round. */
#include "wn_test.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/bytes.h"
#include "base/checked.h"

#include <stdlib.h>

static void byte_strings_compare_by_length_and_bytes(void **state)
{
    (void)state;
    assert_true(wn_bytes_equal((struct wn_bytes){"a\0b", 3}, (struct wn_bytes){"a\0b", 3}));
    assert_false(wn_bytes_equal((struct wn_bytes){"a\0b", 3}, (struct wn_bytes){"a\0c", 3}));
    assert_false(wn_bytes_equal((struct wn_bytes){"ab", 2}, (struct wn_bytes){"ab", 1}));
    assert_true(wn_bytes_equal((struct wn_bytes){NULL, 0}, (struct wn_bytes){"x", 0}));
    assert_true(wn_bytes_is(wn_bytes_of("name"), "name"));
    assert_false(wn_bytes_is(wn_bytes_of("name"), "names"));
}

static void a_suffix_is_the_end_of_a_string(void **state)
{
    (void)state;
    assert_true(wn_ends_with("a.part", ".part"));
    assert_true(wn_ends_with(".part", ".part"));
    assert_true(wn_ends_with("a", ""));
    assert_false(wn_ends_with("part", ".part"));
    assert_false(wn_ends_with("a.parts", ".part"));
}

static void numbers_are_little_endian_at_any_alignment(void **state)
{
    unsigned char b[9] = {0xff, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x88}, out[9] = {0};

    (void)state;
    assert_int_equal(wn_load16(b + 1), 0x0201);
    assert_int_equal(wn_load32(b + 1), 0x04030201);
    assert_true(wn_load64(b + 1) == 0x8807060504030201u);
    assert_true(wn_load_le(b + 1, 3) == 0x030201);
    assert_true(wn_load_le(b + 1, 8) == wn_load64(b + 1));
    wn_store16(out + 1, 0x0201);
    wn_store32(out + 3, 0x06050403);
    assert_memory_equal(out, "\0\1\2\3\4\5\6\0\0", 9);
    wn_store_le(out + 1, 8, 0x8807060504030201u);
    assert_memory_equal(out + 1, b + 1, 8);
    assert_int_equal(wn_bits_of_f32(wn_f32_of_bits(0x7fc12345)), 0x7fc12345);
    assert_true(wn_f32_of_bits(0x3f800000) == 1.0f);
    assert_true(wn_bits_of_f64(wn_f64_of_bits(0xbff0000000000000u)) == 0xbff0000000000000u);
    assert_true(wn_f64_of_bits(0xbff0000000000000u) == -1.0);
}

static void the_hash_depends_on_every_byte(void **state)
{
    char s[16] = "fifteen letters";
    uint64_t before = wn_bytes_hash((struct wn_bytes){s, 15});

    (void)state;
    for (int i = 0; i < 15; i++) {
        s[i] ^= 1;
        assert_true(wn_bytes_hash((struct wn_bytes){s, 15}) != before);
        s[i] ^= 1;
    }
    assert_true(wn_bytes_hash((struct wn_bytes){s, 15}) == before);
}

static void a_buffer_grows_and_keeps_what_is_in_it(void **state)
{
    struct wn_buf b = {0};
    struct wn_err err;

    (void)state;
    for (unsigned i = 0; i < 1000; i++)
        CHECK_OK(wn_buf_add(&b, &(char){(char)i}, 1, &err), &err);
    assert_int_equal(b.n, 1000);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal((unsigned char)b.at[i], i % 256);
    CHECK_OK(wn_buf_printf(&b, &err, "%s-%d", "seven", 7), &err);
    assert_int_equal(b.n, 1007);
    assert_string_equal(b.at + 1000, "seven-7"); /* the NUL is there, but not counted */
    CHECK_OK(wn_buf_add(&b, NULL, 0, &err), &err);
    wn_buf_release(&b);
    assert_null(b.at);
    wn_buf_release(&b);
}

static void a_buffer_that_cannot_grow_stays_as_it_was(void **state)
{
    struct wn_buf b = {0};
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_buf_add(&b, "kept", 4, &err), &err);
    wn_alloc_fail_after(0);
    CHECK_FAILS(wn_buf_reserve(&b, 1000, &err), &err, "refused");
    wn_alloc_fail_after(-1);
    assert_int_equal(err.code, WN_ERR_NOMEM);
    CHECK_FAILS(wn_buf_reserve(&b, SIZE_MAX - 1, &err), &err, "too large");
    assert_memory_equal(b.at, "kept", 4);
    assert_int_equal(b.n, 4);
    wn_buf_release(&b);
}

static void sums_products_and_alignments_do_not_wrap_round(void **state)
{
    uint64_t x = 0;

    (void)state;
    assert_true(wn_add_u64(UINT64_MAX - 1, 1, &x) && x == UINT64_MAX);
    assert_false(wn_add_u64(UINT64_MAX, 1, &x));
    assert_true(wn_mul_u64(UINT32_MAX, UINT32_MAX, &x) && x == UINT64_C(0xfffffffe00000001));
    assert_true(wn_mul_u64(UINT64_MAX, 1, &x) && x == UINT64_MAX);
    assert_true(wn_mul_u64(0, UINT64_MAX, &x) && x == 0);
    assert_true(wn_mul_u64(UINT64_MAX, 0, &x) && x == 0);
    assert_false(wn_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &x));
    assert_true(wn_align_u64(65, 64, &x) && x == 128);
    assert_true(wn_align_u64(64, 64, &x) && x == 64);
    assert_false(wn_align_u64(UINT64_MAX - 3, 64, &x));
}

static void a_span_must_lie_within_its_limit(void **state)
{
    (void)state;
    assert_true(wn_span_fits(0, 10, 10));
    assert_true(wn_span_fits(10, 0, 10));
    assert_false(wn_span_fits(11, 0, 10));
    assert_false(wn_span_fits(1, 10, 10));
    assert_false(wn_span_fits(8, UINT64_MAX - 4, 10)); /* the sum wraps to 3 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_strings_compare_by_length_and_bytes),
        cmocka_unit_test(a_suffix_is_the_end_of_a_string),
        cmocka_unit_test(numbers_are_little_endian_at_any_alignment),
        cmocka_unit_test(the_hash_depends_on_every_byte),
        cmocka_unit_test(a_buffer_grows_and_keeps_what_is_in_it),
        cmocka_unit_test(a_buffer_that_cannot_grow_stays_as_it_was),
        cmocka_unit_test(sums_products_and_alignments_do_not_wrap_round),
        cmocka_unit_test(a_span_must_lie_within_its_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
