/* Affine rows: MLX's own numbers to the bit, and an encoder that is never worse. */
#include "golden.h"
#include "quant/affine.h"
#include "quant/quant.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 24
#define COLS 256

struct vectors {
    uint8_t *file;
    size_t bytes;
    float input[2][ROWS * COLS]; /* f32; bf16 */
};

static const struct wn_affine_form *forms(size_t *n)
{
    static struct wn_affine_form all[36];
    static const unsigned widths[] = {2, 3, 4, 5, 6, 8}, groups[] = {32, 64, 128};

    *n = 0;
    for (int stored = 0; stored < 2; stored++)
        for (int g = 0; g < 3; g++)
            for (int b = 0; b < 6; b++)
                all[(*n)++] = (struct wn_affine_form){widths[b], groups[g], stored ? WN_BF16 : WN_F32};
    return all;
}

static void open_vectors(struct vectors *v)
{
    v->file = golden_file("../mlx/affine.safetensors", &v->bytes);
    memcpy(v->input[0], golden_array(v->file, v->bytes, "input.f32", sizeof v->input[0]), sizeof v->input[0]);
    wn_quant_decoder(WN_BF16)(golden_array(v->file, v->bytes, "input.bf16", ROWS * COLS * 2), v->input[1], ROWS * COLS);
}

static const float *input_of(const struct vectors *v, const struct wn_affine_form *f)
{
    return v->input[f->stored == WN_BF16];
}

static const uint8_t *array(const struct vectors *v, const struct wn_affine_form *f, const char *what, size_t bytes)
{
    char name[48];

    snprintf(name, sizeof name, "%s.g%u.b%u.%s", f->stored == WN_BF16 ? "bf16" : "f32", f->group, f->bits, what);
    return golden_array(v->file, v->bytes, name, bytes);
}

/* A row as the encoder makes it. */
struct row {
    uint8_t codes[COLS], scales[4 * COLS / 32], biases[4 * COLS / 32];
};

static struct wn_matrix matrix_of(const struct wn_affine_form *f, uint64_t rows, const uint8_t *codes,
                                  const uint8_t *scales, const uint8_t *biases)
{
    return (struct wn_matrix){.type = wn_affine_type(f->bits),
                              .rows = rows,
                              .cols = COLS,
                              .data = codes,
                              .row_bytes = COLS * f->bits / 8,
                              .scales = scales,
                              .scale_row_bytes = COLS / f->group * wn_type_info(f->stored)->block_bytes,
                              .biases = biases,
                              .group = f->group,
                              .scale_type = f->stored};
}

static void the_minmax_rule_writes_what_mlx_writes(void **state)
{
    struct vectors v;
    size_t n;
    const struct wn_affine_form *all = forms(&n);

    (void)state;
    open_vectors(&v);
    for (size_t i = 0; i < n; i++) {
        size_t row_bytes = COLS * all[i].bits / 8,
               side = COLS / all[i].group * wn_type_info(all[i].stored)->block_bytes;
        const uint8_t *codes = array(&v, &all[i], "weight", ROWS * row_bytes);
        const uint8_t *scales = array(&v, &all[i], "scales", ROWS * side);
        const uint8_t *biases = array(&v, &all[i], "biases", ROWS * side);

        for (size_t r = 0; r < ROWS; r++) {
            struct row made;

            wn_affine_encode_row(&all[i], WN_AFFINE_MINMAX, input_of(&v, &all[i]) + r * COLS, NULL, COLS, made.codes,
                                 made.scales, made.biases);
            assert_memory_equal(made.codes, codes + r * row_bytes, row_bytes);
            assert_memory_equal(made.scales, scales + r * side, side);
            assert_memory_equal(made.biases, biases + r * side, side);
        }
    }
    free(v.file);
}

/* MLX decodes in the stored type: of BF16 the product is rounded, then the sum. */
static float as_mlx(const struct wn_affine_form *f, float product, float bias)
{
    if (f->stored == WN_F32)
        return product + bias;
    return wn_bf16_to_f32(wn_f32_to_bf16(wn_bf16_to_f32(wn_f32_to_bf16(product)) + bias));
}

static void rows_decode_to_the_values_of_mlx(void **state)
{
    struct vectors v;
    size_t n;
    const struct wn_affine_form *all = forms(&n);
    static float found[COLS], wanted[ROWS * COLS], plain[COLS];

    (void)state;
    open_vectors(&v);
    for (size_t i = 0; i < n; i++) {
        const struct wn_affine_form *f = &all[i];
        size_t value = wn_type_info(f->stored)->block_bytes, side = COLS / f->group * value;
        const uint8_t *biases = array(&v, f, "biases", ROWS * side);
        static const uint8_t zeros[ROWS * 4 * COLS / 32];
        struct wn_matrix m = matrix_of(f, ROWS, array(&v, f, "weight", ROWS * COLS * f->bits / 8),
                                       array(&v, f, "scales", ROWS * side), biases);

        wn_quant_decoder(f->stored)(array(&v, f, "dequant", ROWS * COLS * value), wanted, ROWS * COLS);
        for (uint64_t r = 0; r < ROWS; r++) {
            struct wn_matrix products = m;

            wn_quant_decode_row(&m, r, found);
            products.biases = zeros;
            wn_quant_decode_row(&products, r, plain); /* scale * code alone */
            for (size_t c = 0; c < COLS; c++) {
                float bias;

                wn_quant_decoder(f->stored)(biases + r * side + c / f->group * value, &bias, 1);
                assert_true(found[c] == plain[c] + bias);
                found[c] = as_mlx(f, plain[c], bias);
            }
            check_same_floats("dequant", found, wanted + r * COLS, COLS);
        }
    }
    free(v.file);
}

static double error_of(const struct wn_affine_form *f, const struct row *made, const float *src, const float *weights)
{
    struct wn_matrix m = matrix_of(f, 1, made->codes, made->scales, made->biases);
    float y[COLS];
    double sum = 0;

    wn_quant_decode_row(&m, 0, y);
    for (size_t c = 0; c < COLS; c++)
        sum += (double)(y[c] - src[c]) * (double)(y[c] - src[c]) * (weights ? (double)weights[c] : 1);
    return sum;
}

/* The mean of the ratios of the errors' roots over rows 4 .. 9, which are like K3's; every row is checked. */
static double gain(const struct vectors *v, const struct wn_affine_form *f, const float *weights)
{
    double sum = 0;

    for (size_t r = 0; r < ROWS; r++) {
        const float *src = input_of(v, f) + r * COLS;
        struct row common, fitted;
        double a, b;

        wn_affine_encode_row(f, WN_AFFINE_MINMAX, src, NULL, COLS, common.codes, common.scales, common.biases);
        wn_affine_encode_row(f, WN_AFFINE_LEAST_SQUARES, src, weights, COLS, fitted.codes, fitted.scales,
                             fitted.biases);
        a = error_of(f, &common, src, weights);
        b = error_of(f, &fitted, src, weights);
        if (b > a * (1 + 1e-5))
            fail_msg("%u bits, group %u, row %zu: error %g, by the common rule %g", f->bits, f->group, r, b, a);
        if (r >= 4 && r <= 9)
            sum += sqrt(b / a) / 6;
    }
    return sum;
}

static void least_squares_is_never_worse_and_much_better_at_2_bits(void **state)
{
    struct vectors v;
    size_t n;
    const struct wn_affine_form *all = forms(&n);
    float weights[COLS];
    struct wn_rng rng = {3};

    (void)state;
    for (size_t i = 0; i < COLS; i++)
        weights[i] = (float)wn_rng_unit(&rng) + 0.05f;
    open_vectors(&v);
    for (size_t i = 0; i < n; i++) {
        double plain = gain(&v, &all[i], NULL), weighted = gain(&v, &all[i], weights);

        if (all[i].bits == 2) {
            assert_true(plain < 0.93);
            assert_true(weighted < 0.93);
        }
        if (getenv("WINNOW_TEST_SHOW"))
            printf("%u bits, group %3u, %-4s: error x %.3f, weighted x %.3f\n", all[i].bits, all[i].group,
                   wn_type_info(all[i].stored)->name, plain, weighted);
    }
    free(v.file);
}

static void any_bits_survive_being_encoded_and_decoded(void **state)
{
    struct wn_rng rng = {11};
    size_t n;
    const struct wn_affine_form *all = forms(&n);
    float src[COLS], y[COLS];
    struct row made;

    (void)state;
    for (int round = 0; round < 200; round++) {
        const struct wn_affine_form *f = &all[(size_t)round % n];

        for (size_t c = 0; c < COLS; c++) {
            uint32_t bits = (uint32_t)wn_rng_u64(&rng);

            memcpy(&src[c], &bits, 4);
        }
        src[0] = NAN;
        for (int rule = 0; rule < 2; rule++) {
            struct wn_matrix m = matrix_of(f, 1, made.codes, made.scales, made.biases);

            wn_affine_encode_row(f, (enum wn_affine_rule)rule, src, NULL, COLS, made.codes, made.scales, made.biases);
            wn_quant_decode_row(&m, 0, y);
        }
    }
}

static void forms_that_mlx_does_not_know_do_not_fit(void **state)
{
    (void)state;
    assert_true(wn_affine_fits(&(struct wn_affine_form){2, 64, WN_BF16}, 3072));
    assert_false(wn_affine_fits(&(struct wn_affine_form){7, 64, WN_BF16}, 3072));
    assert_false(wn_affine_fits(&(struct wn_affine_form){0, 64, WN_BF16}, 3072));
    assert_false(wn_affine_fits(&(struct wn_affine_form){2, 48, WN_BF16}, 3072));
    assert_false(wn_affine_fits(&(struct wn_affine_form){2, 64, WN_U8}, 3072));
    assert_false(wn_affine_fits(&(struct wn_affine_form){2, 64, WN_BF16}, 96));
    assert_int_equal(wn_affine_bits(WN_AFFINE6), 6);
    assert_int_equal(wn_affine_bits(WN_MXFP4_SPLIT), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_minmax_rule_writes_what_mlx_writes),
        cmocka_unit_test(rows_decode_to_the_values_of_mlx),
        cmocka_unit_test(least_squares_is_never_worse_and_much_better_at_2_bits),
        cmocka_unit_test(any_bits_survive_being_encoded_and_decoded),
        cmocka_unit_test(forms_that_mlx_does_not_know_do_not_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
