/*
 * Q2_K as winnow writes it: on no row worse than the reference's rows, and what is at hand where a block has a fault.
 */
#include "golden.h"
#include "quant/affine.h"
#include "quant/quant.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 256
#define BYTES 84

static double error_of(const float *y, const float *x, const float *weights, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)(y[i] - x[i]) * (double)(y[i] - x[i]) * (weights ? (double)weights[i] : 1);
    return sum;
}

/* The error of a row, encoded and decoded. */
static double error_made(const float *x, const float *weights, size_t n)
{
    uint8_t *blocks = malloc(n / BLOCK * BYTES);
    float *y = malloc(n * sizeof(*y));
    double error;

    assert_non_null(blocks);
    assert_non_null(y);
    if (weights)
        wn_encode_q2_k_weighted(x, weights, blocks, n);
    else
        wn_quant_encoder(WN_Q2_K)(x, blocks, n);
    wn_quant_decoder(WN_Q2_K)(blocks, y, n);
    error = error_of(y, x, weights, n);
    free(y);
    free(blocks);
    return error;
}

/* Rows 0 to 14 are of the usual distributions, the others traps: zeros, constants, ternary, outliers. */
static void no_row_has_a_larger_error_than_the_reference(void **state)
{
    struct golden g;
    size_t n;
    float *source = (float *)golden_file("source.f32", &n), *importance = (float *)golden_file("importance.f32", &n);
    double plain = 0, weighted = 0;

    (void)state;
    golden_open(&g, WN_Q2_K);
    assert_int_equal(n, g.cols * sizeof(float));
    for (size_t r = 0; r < g.rows; r++) {
        const float *x = source + r * g.cols, *theirs = g.row_values + r * g.cols;
        double a = error_made(x, NULL, g.cols), b = error_of(theirs, x, NULL, g.cols);
        double aw = error_made(x, importance, g.cols), bw = error_of(theirs, x, importance, g.cols);

        if (a > b * 1.001 || aw > bw * 1.001)
            fail_msg("row %zu: error %g (the reference %g), weighted %g (%g)", r, a, b, aw, bw);
        if (r < 15) {
            plain += sqrt(a / b) / 15;
            weighted += sqrt(aw / bw) / 15;
        }
    }
    if (getenv("WINNOW_TEST_SHOW"))
        printf("Q2_K: error x %.3f of the reference's, weighted by importance x %.3f\n", plain, weighted);
    assert_true(plain < 0.9);
    assert_true(weighted < 0.95);
    free(importance);
    free(source);
    golden_close(&g);
}

static double affine_error(enum wn_affine_rule rule, const float *x, size_t n)
{
    const struct wn_affine_form form = {2, 64, WN_BF16};
    uint8_t codes[BLOCK / 4], scales[BLOCK / 32], biases[BLOCK / 32];
    struct wn_matrix m = {.type = WN_AFFINE2, .rows = 1, .cols = n, .data = codes, .row_bytes = n / 4};
    float y[BLOCK];

    assert_true(n == BLOCK);
    m.scales = scales;
    m.biases = biases;
    m.scale_row_bytes = n / 32;
    m.group = form.group;
    m.scale_type = form.stored;
    wn_affine_encode_row(&form, rule, x, NULL, n, codes, scales, biases);
    wn_quant_decode_row(&m, 0, y);
    return error_of(y, x, NULL, n);
}

/* Rows 4 .. 9 of golden/mlx are decoded MXFP4 with scales as K3 has them. */
static void at_an_eighth_of_a_bit_more_it_is_nearer_to_k3_than_affine_rows(void **state)
{
    size_t n;
    uint8_t *file = golden_file("../mlx/affine.safetensors", &n);
    static float input[24 * BLOCK]; /* the file aligns nothing */
    double size = 0, k = 0, fitted = 0, common = 0;

    (void)state;
    memcpy(input, golden_array(file, n, "input.f32", sizeof(input)), sizeof(input));
    for (size_t r = 4; r <= 9; r++) {
        const float *x = input + r * BLOCK;
        static const float zeros[BLOCK];

        size += error_of(zeros, x, NULL, BLOCK);
        k += error_made(x, NULL, BLOCK);
        fitted += affine_error(WN_AFFINE_LEAST_SQUARES, x, BLOCK);
        common += affine_error(WN_AFFINE_MINMAX, x, BLOCK);
    }
    if (getenv("WINNOW_TEST_SHOW"))
        printf("relative error: Q2_K %.4f, affine 2-bit, group 64: least squares %.4f, MLX's rule %.4f\n",
               sqrt(k / size), sqrt(fitted / size), sqrt(common / size));
    assert_true(k < 0.7 * fitted);
    free(file);
}

static void weights_move_the_error_to_where_it_counts_less(void **state)
{
    struct wn_rng rng = {5};
    float x[4 * BLOCK], weights[4 * BLOCK];
    uint8_t blocks[4 * BYTES];
    float y[4 * BLOCK];

    (void)state;
    for (size_t i = 0; i < 4 * BLOCK; i++) {
        x[i] = (float)(wn_rng_unit(&rng) - 0.5);
        weights[i] = i % 4 == 0 ? 20 : 0.5f;
    }
    wn_quant_encoder(WN_Q2_K)(x, blocks, 4 * BLOCK);
    wn_quant_decoder(WN_Q2_K)(blocks, y, 4 * BLOCK);
    assert_true(error_made(x, weights, 4 * BLOCK) < 0.7 * error_of(y, x, weights, 4 * BLOCK));
}

static void zeros_and_constants_come_back(void **state)
{
    float x[BLOCK] = {0};

    (void)state;
    assert_true(error_made(x, NULL, BLOCK) == 0);
    for (int i = 0; i < BLOCK; i++)
        x[i] = i < 100 ? 0.75f : 0;
    assert_true(error_made(x, NULL, BLOCK) < 1e-4);
    for (int i = 0; i < BLOCK; i++)
        x[i] = -1;
    assert_true(error_made(x, NULL, BLOCK) < 1e-4);
}

/* And so does one whose numbers no f16 scale reaches; its neighbours do not suffer. */
static void a_block_with_a_fault_decodes_to_nan(void **state)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 1e9f, 3e38f};
    float x[2 * BLOCK], y[2 * BLOCK];
    uint8_t blocks[2 * BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        for (int j = 0; j < 2 * BLOCK; j++)
            x[j] = (float)(j % 7 - 3);
        x[5 + 50 * i] = odd[i];
        wn_quant_encoder(WN_Q2_K)(x, blocks, 2 * BLOCK);
        wn_quant_decoder(WN_Q2_K)(blocks, y, 2 * BLOCK);
        for (int j = 0; j < BLOCK; j++) {
            assert_true(isnan(y[j]));
            assert_false(isnan(y[BLOCK + j]));
        }
    }
}

static void any_bits_survive(void **state)
{
    struct wn_rng rng = {9};
    float x[BLOCK], weights[BLOCK];
    uint8_t block[BYTES];

    (void)state;
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < BLOCK; i++) {
            uint32_t bits = (uint32_t)wn_rng_u64(&rng) & (round % 2 ? 0xffffffff : 0xbfffffff);

            memcpy(&x[i], &bits, 4);
            weights[i] = round % 3 ? (float)wn_rng_below(&rng, 2) : 0;
        }
        wn_quant_encoder(WN_Q2_K)(x, block, BLOCK);
        wn_encode_q2_k_weighted(x, weights, block, BLOCK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_row_has_a_larger_error_than_the_reference),
        cmocka_unit_test(at_an_eighth_of_a_bit_more_it_is_nearer_to_k3_than_affine_rows),
        cmocka_unit_test(weights_move_the_error_to_where_it_counts_less),
        cmocka_unit_test(zeros_and_constants_come_back),
        cmocka_unit_test(a_block_with_a_fault_decodes_to_nan),
        cmocka_unit_test(any_bits_survive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
