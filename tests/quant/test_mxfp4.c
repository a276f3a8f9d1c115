/* MXFP4: all scales with all codes in both packings, and the exact moves between the packings. */
#include "golden.h"
#include "quant/quant.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void all_scales_and_codes_decode_as_ggml_has_them(void **state)
{
    size_t n;
    uint8_t *file = golden_file("mxfp4_exhaustive.safetensors", &n);
    const float *wanted = golden_array(file, n, "values.ggml_f32", 256 * 32 * 4);
    float *y = malloc(256 * 32 * sizeof *y);

    (void)state;
    assert_non_null(y);
    wn_quant_decoder(WN_MXFP4)(golden_array(file, n, "gguf.blocks", 256 * 17), y, 256 * 32);
    check_same_floats("blocks", y, wanted, 256 * 32);
    memset(y, 0x55, 256 * 32 * sizeof *y);
    wn_decode_mxfp4_split(golden_array(file, n, "hf.weight_packed", 256 * 16),
                          golden_array(file, n, "hf.weight_scale", 256), y, 256 * 32);
    check_same_floats("split", y, wanted, 256 * 32);
    free(y);
    free(file);
}

static float value_of(uint8_t scale, uint8_t code)
{
    uint8_t block[17] = {scale, code};
    float y[32];

    wn_quant_decoder(WN_MXFP4)(block, y, 32);
    return y[0];
}

static void edge_scales_keep_their_meaning(void **state)
{
    (void)state;
    assert_true(value_of(0, 7) == 6 * 0x1p-127f);
    assert_true(value_of(0, 1) == 0x1p-128f);
    assert_true(value_of(1, 1) == 0x1p-127f);
    assert_true(value_of(127, 7) == 6);
    assert_true(value_of(127, 15) == -6);
    assert_true(value_of(253, 5) == 3 * 0x1p126f);
    assert_true(isinf(value_of(253, 6)));
    assert_true(isinf(value_of(254, 7)));
    assert_true(value_of(255, 1) == 0x1p127f);
    assert_true(value_of(255, 0) == 0);
    assert_false(signbit(value_of(127, 8)));
}

static void packings_move_both_ways_without_loss(void **state)
{
    size_t n;
    uint8_t *file = golden_file("mxfp4_map.safetensors", &n);
    const uint8_t *blocks = golden_array(file, n, "gguf.blocks", 24 * 51);
    const uint8_t *packed = golden_array(file, n, "hf.weight_packed", 24 * 48);
    const uint8_t *scales = golden_array(file, n, "hf.weight_scale", 24 * 3);
    uint8_t blocks_made[24 * 51], packed_made[24 * 48], scales_made[24 * 3];

    (void)state;
    wn_mxfp4_split_to_blocks(packed, scales, blocks_made, 24 * 96);
    assert_memory_equal(blocks_made, blocks, sizeof blocks_made);
    wn_mxfp4_blocks_to_split(blocks, packed_made, scales_made, 24 * 96);
    assert_memory_equal(packed_made, packed, sizeof packed_made);
    assert_memory_equal(scales_made, scales, sizeof scales_made);
    free(file);
}

static void rows_of_both_packings_have_the_same_bits(void **state)
{
    size_t n;
    uint8_t *file = golden_file("mxfp4_map.safetensors", &n);
    const float *wanted = golden_array(file, n, "values.f32", 24 * 96 * 4);
    struct wn_matrix split = {.type = WN_MXFP4_SPLIT,
                              .rows = 24,
                              .cols = 96,
                              .data = golden_array(file, n, "hf.weight_packed", 24 * 48),
                              .row_bytes = 48,
                              .scales = golden_array(file, n, "hf.weight_scale", 24 * 3),
                              .scale_row_bytes = 3};
    struct wn_matrix blocks = {.type = WN_MXFP4,
                               .rows = 24,
                               .cols = 96,
                               .data = golden_array(file, n, "gguf.blocks", 24 * 51),
                               .row_bytes = 51};
    float a[96], b[96];

    (void)state;
    for (uint64_t row = 0; row < 24; row++) {
        wn_quant_decode_row(&split, row, a);
        wn_quant_decode_row(&blocks, row, b);
        assert_memory_equal(a, b, sizeof a);
        for (int i = 0; i < 96; i++)
            assert_true(a[i] == wanted[96 * row + i]); /* == because code 8 is -0 there */
    }
    free(file);
}

static void a_code_in_the_wrong_place_is_noticed(void **state)
{
    size_t n;
    uint8_t *file = golden_file("mxfp4_map.safetensors", &n);
    uint8_t packed[16], blocks[17];
    const uint8_t *wanted = golden_array(file, n, "gguf.blocks", 24 * 51);
    const uint8_t *scales = golden_array(file, n, "hf.weight_scale", 24 * 3);

    (void)state;
    memcpy(packed, golden_array(file, n, "hf.weight_packed", 24 * 48), 16);
    packed[0] = (uint8_t)(packed[0] >> 4 | packed[0] << 4);
    wn_mxfp4_split_to_blocks(packed, scales, blocks, 32);
    assert_memory_not_equal(blocks, wanted, 17);
    free(file);
}

static void any_bytes_survive_the_round_trip(void **state)
{
    struct wn_rng rng = {7};
    uint8_t blocks[17 * 8], back[17 * 8], packed[16 * 8], scales[8];

    (void)state;
    for (int round = 0; round < 1000; round++) {
        for (size_t i = 0; i < sizeof blocks; i++)
            blocks[i] = (uint8_t)wn_rng_u64(&rng);
        wn_mxfp4_blocks_to_split(blocks, packed, scales, 32 * 8);
        wn_mxfp4_split_to_blocks(packed, scales, back, 32 * 8);
        assert_memory_equal(blocks, back, sizeof blocks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_scales_and_codes_decode_as_ggml_has_them),
        cmocka_unit_test(edge_scales_keep_their_meaning),
        cmocka_unit_test(packings_move_both_ways_without_loss),
        cmocka_unit_test(rows_of_both_packings_have_the_same_bits),
        cmocka_unit_test(a_code_in_the_wrong_place_is_noticed),
        cmocka_unit_test(any_bytes_survive_the_round_trip),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
