/* Every weight type decodes to the reference floats, bit for bit, whatever the bytes. */
#include "golden.h"
#include "quant/quant.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Buffers of just the right size, so that a sanitizer sees one byte too many. */
static void *exactly(size_t n)
{
    void *p = malloc(n);

    assert_non_null(p);
    return p;
}

static void every_type_has_the_block_size_of_the_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < golden_type_count; i++) {
        const struct wn_type_info *info = wn_type_info(golden_types[i]);
        struct golden g;

        golden_open(&g, golden_types[i]);
        assert_int_equal(g.id, info->gguf_id);
        assert_int_equal(g.block_elements, info->block_elements);
        assert_int_equal(g.block_bytes, info->block_bytes);
        golden_close(&g);
    }
}

static void rows_decode_to_the_reference_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < golden_type_count; i++) {
        struct golden g;

        golden_open(&g, golden_types[i]);
        struct wn_matrix m = {
            .type = golden_types[i], .rows = g.rows, .cols = g.cols, .data = g.row_blocks, .row_bytes = g.row_bytes};
        float *row = exactly(g.cols * sizeof *row);

        for (uint32_t r = 0; r < g.rows; r++) {
            wn_quant_decode_row(&m, r, row);
            check_same_floats(wn_type_info(golden_types[i])->name, row, g.row_values + (size_t)r * g.cols, g.cols);
        }
        free(row);
        golden_close(&g);
    }
}

static void any_bytes_decode_to_the_reference_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < golden_type_count; i++) {
        struct golden g;

        golden_open(&g, golden_types[i]);
        uint8_t *blocks = exactly(g.random_bytes);
        float *values = exactly(g.random_elements * sizeof *values);

        memcpy(blocks, g.random, g.random_bytes);
        wn_quant_decoder(golden_types[i])(blocks, values, g.random_elements);
        check_same_floats(wn_type_info(golden_types[i])->name, values, g.random_values, g.random_elements);
        free(blocks);
        free(values);
        golden_close(&g);
    }
}

/* The NaN rule must not hide a difference: one flipped bit in any byte of a row's first block changes some float. */
static void a_changed_byte_is_noticed(void **state)
{
    (void)state;
    for (size_t i = 0; i < golden_type_count; i++) {
        struct golden g;
        uint8_t block[256];
        float was[256], is[256];
        wn_decode_fn *decode = wn_quant_decoder(golden_types[i]);
        size_t changed = 0;

        golden_open(&g, golden_types[i]);
        decode(g.row_blocks, was, g.block_elements);
        for (uint32_t b = 0; b < g.block_bytes; b++) {
            memcpy(block, g.row_blocks, g.block_bytes);
            block[b] ^= 0x41;
            decode(block, is, g.block_elements);
            changed += memcmp(was, is, g.block_elements * sizeof *was) != 0;
        }
        if (changed != g.block_bytes)
            fail_msg("%s: %zu of %u bytes matter", wn_type_info(golden_types[i])->name, changed, g.block_bytes);
        golden_close(&g);
    }
}

static void decoded_rows_have_the_reference_dot_products(void **state)
{
    (void)state;
    for (size_t i = 0; i < golden_type_count; i++) {
        struct golden g;

        golden_open(&g, golden_types[i]);
        struct wn_matrix m = {
            .type = golden_types[i], .rows = g.rows, .cols = g.cols, .data = g.row_blocks, .row_bytes = g.row_bytes};
        float *row = exactly(g.cols * sizeof *row);

        for (uint32_t r = 0; r < g.rows; r++) {
            float dot = 0;

            wn_quant_decode_row(&m, r, row);
            for (uint32_t c = 0; c < g.cols; c++)
                dot = fmaf(row[c], g.activation[c], dot);
            if (!(fabs((double)dot - g.dots[r]) <= 1e-6 * g.magnitudes[r]))
                fail_msg("%s row %u: dot %.9g, wanted %.9g within 1e-6 of %.9g", wn_type_info(golden_types[i])->name, r,
                         (double)dot, g.dots[r], g.magnitudes[r]);
        }
        free(row);
        golden_close(&g);
    }
}

/* Bytes of one value everywhere reach the ends of every index range; then random ones. */
static void no_bytes_lead_a_decoder_astray(void **state)
{
    struct wn_rng rng = {1};

    (void)state;
    for (size_t i = 0; i < golden_type_count; i++) {
        const struct wn_type_info *info = wn_type_info(golden_types[i]);
        uint8_t *block = exactly(info->block_bytes);
        float *values = exactly(info->block_elements * sizeof *values);

        for (int v = 0; v < 256; v++) {
            memset(block, v, info->block_bytes);
            wn_quant_decoder(golden_types[i])(block, values, info->block_elements);
        }
        for (int round = 0; round < 2000; round++) {
            for (uint32_t b = 0; b < info->block_bytes; b++)
                block[b] = (uint8_t)wn_rng_u64(&rng);
            wn_quant_decoder(golden_types[i])(block, values, info->block_elements);
        }
        free(block);
        free(values);
    }
}

static void types_that_are_no_weights_have_no_decoder(void **state)
{
    size_t with = 0;

    (void)state;
    for (int t = 0; t < WN_TYPE_COUNT; t++)
        with += wn_quant_can_decode((enum wn_type)t);
    assert_int_equal(with, golden_type_count + 1 + 6); /* and the split packing, and the affine ones */
    assert_true(wn_quant_can_decode(WN_MXFP4_SPLIT));
    assert_null(wn_quant_decoder(WN_MXFP4_SPLIT));
    assert_null(wn_quant_decoder(WN_I8));
    assert_null(wn_quant_decoder(WN_F8_E8M0));
    assert_false(wn_quant_can_decode(WN_I64));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_has_the_block_size_of_the_reference),
        cmocka_unit_test(rows_decode_to_the_reference_bits),
        cmocka_unit_test(any_bytes_decode_to_the_reference_bits),
        cmocka_unit_test(a_changed_byte_is_noticed),
        cmocka_unit_test(decoded_rows_have_the_reference_dot_products),
        cmocka_unit_test(no_bytes_lead_a_decoder_astray),
        cmocka_unit_test(types_that_are_no_weights_have_no_decoder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
