/* Encoders: roundings of f16 and bf16 to the last bit, Q8_0 byte for byte as the reference writes it. */
#include "golden.h"
#include "quant/quant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_rows(enum wn_type t)
{
    struct golden g;
    size_t n, bytes;
    float *source = (float *)golden_file("source.f32", &n);
    uint8_t *blocks;

    golden_open(&g, t);
    bytes = (size_t)g.rows * g.row_bytes;
    assert_int_equal(n, (size_t)g.rows * g.cols * 4);
    blocks = malloc(bytes);
    assert_non_null(blocks);
    wn_quant_encoder(t)(source, blocks, (size_t)g.rows * g.cols);
    assert_memory_equal(blocks, g.row_blocks, bytes);
    source[77] += 0.01f * fabsf(source[77]) + 1;
    wn_quant_encoder(t)(source, blocks, (size_t)g.rows * g.cols);
    assert_memory_not_equal(blocks, g.row_blocks, bytes);
    free(blocks);
    free(source);
    golden_close(&g);
}

static void encoded_rows_are_the_reference_bytes(void **state)
{
    (void)state;
    check_rows(WN_F32);
    check_rows(WN_F16);
    check_rows(WN_BF16);
    check_rows(WN_Q8_0);
}

static void only_five_types_have_an_encoder(void **state)
{
    int with = 0;

    (void)state;
    for (int t = 0; t < WN_TYPE_COUNT; t++)
        with += wn_quant_encoder((enum wn_type)t) != NULL;
    assert_int_equal(with, 5);
    assert_null(wn_quant_encoder(WN_Q4_K));
}

static void every_f16_comes_back_as_itself(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = wn_f16_to_f32((uint16_t)h);
        uint32_t exponent = h >> 10 & 31, fraction = h & 1023;

        if (exponent == 31 && fraction != 0) {
            assert_true(isnan(f));
            assert_int_equal(wn_f32_to_f16(f), h | 0x200); /* quiet, else itself */
            continue;
        }
        /* the definition, in double */
        double size = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, (int)exponent - 25);
        double value = exponent == 31 ? INFINITY : size;

        assert_true((double)f == (h >> 15 ? -value : value));
        assert_int_equal(signbit(f) != 0, h >> 15);
        assert_int_equal(wn_f32_to_f16(f), h);
    }
}

static void every_bf16_comes_back_as_itself(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = wn_bf16_to_f32((uint16_t)h);
        uint32_t bits;

        memcpy(&bits, &f, 4);
        assert_int_equal(bits, h << 16);
        assert_int_equal(wn_f32_to_bf16(f), isnan(f) ? h | 0x40 : h);
    }
}

/* Between each value h and the next: the middle goes to the even one, a hair beside it to the nearer one. */
static void check_middles(uint16_t narrow(float), float widen(uint16_t), uint32_t last_finite)
{
    for (uint32_t h = 0; h <= last_finite; h++) {
        double low = (double)widen((uint16_t)h);
        /* beyond the last finite value the next would be one step up */
        double next =
            h < last_finite ? (double)widen((uint16_t)(h + 1)) : low + (low - (double)widen((uint16_t)(h - 1)));
        float middle = (float)((low + next) / 2);

        assert_int_equal(narrow(middle), h + (h & 1));
        assert_int_equal(narrow(nextafterf(middle, 0)), h);
        assert_int_equal(narrow(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(narrow(-middle), (h + (h & 1)) | 0x8000);
    }
}

static void halves_between_f16_values_go_to_the_even_one(void **state)
{
    (void)state;
    check_middles(wn_f32_to_f16, wn_f16_to_f32, 0x7bff);
    assert_int_equal(wn_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(wn_f32_to_f16(65520), 0x7c00);
    assert_int_equal(wn_f32_to_f16(3e38f), 0x7c00);
    assert_int_equal(wn_f32_to_f16(-INFINITY), 0xfc00);
}

static void halves_between_bf16_values_go_to_the_even_one(void **state)
{
    (void)state;
    check_middles(wn_f32_to_bf16, wn_bf16_to_f32, 0x7f7f);
}

/* Payloads that live only in the bits that are cut off must not turn into infinities. */
static void a_nan_stays_a_nan(void **state)
{
    (void)state;
    for (uint32_t bits = 0x7f800001; bits < 0x7f800000u + 0x800000; bits += 0x1235) {
        float f;

        memcpy(&f, &bits, 4);
        assert_true(isnan(wn_f16_to_f32(wn_f32_to_f16(f))));
        assert_true(isnan(wn_bf16_to_f32(wn_f32_to_bf16(f))));
    }
}

static void q8_0_of_zeros_is_zeros(void **state)
{
    float x[32] = {0};
    uint8_t block[34], zeros[34] = {0};

    (void)state;
    wn_quant_encoder(WN_Q8_0)(x, block, 32);
    assert_memory_equal(block, zeros, 34);
}

static void q8_0_rounds_halves_away_from_zero(void **state)
{
    float x[32] = {127, 0.5f, -0.5f, 1.5f, 2.5f, -2.5f, 126.5f, -126.5f, 0.4999f};
    static const int8_t wanted[9] = {127, 1, -1, 2, 3, -3, 127, -127, 0};
    uint8_t block[34];

    (void)state;
    wn_quant_encoder(WN_Q8_0)(x, block, 32);
    assert_memory_equal(block + 2, wanted, 9);
}

/* A fault in the source stays visible: the whole block decodes to NaN. Tiny and huge numbers only lose precision. */
static void q8_0_of_a_fault_decodes_to_nan(void **state)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    float x[32], y[32];
    uint8_t block[34];

    (void)state;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        for (int place = 0; place < 32; place++) {
            for (int j = 0; j < 32; j++)
                x[j] = (float)(j - 16);
            x[place] = odd[i];
            wn_quant_encoder(WN_Q8_0)(x, block, 32);
            wn_quant_decoder(WN_Q8_0)(block, y, 32);
            for (int j = 0; j < 32; j++)
                assert_true(isnan(y[j]));
        }
    for (int j = 0; j < 32; j++)
        x[j] = (float)j * 1.4e-45f;
    wn_quant_encoder(WN_Q8_0)(x, block, 32);
    wn_quant_decoder(WN_Q8_0)(block, y, 32);
    for (int j = 0; j < 32; j++)
        assert_true(y[j] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoded_rows_are_the_reference_bytes),
        cmocka_unit_test(only_five_types_have_an_encoder),
        cmocka_unit_test(every_f16_comes_back_as_itself),
        cmocka_unit_test(every_bf16_comes_back_as_itself),
        cmocka_unit_test(halves_between_f16_values_go_to_the_even_one),
        cmocka_unit_test(halves_between_bf16_values_go_to_the_even_one),
        cmocka_unit_test(a_nan_stays_a_nan),
        cmocka_unit_test(q8_0_of_zeros_is_zeros),
        cmocka_unit_test(q8_0_rounds_halves_away_from_zero),
        cmocka_unit_test(q8_0_of_a_fault_decodes_to_nan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
