/*
 * wn_matrix_mul_rows: each number is the dot of the decoded row with the token, in the summing order, whatever the
 * type, the table, the cut into rows and the count of tokens. And decode_row has the bits of quant/.
 */
#include "support.h"

#include "quant/quant.h"
#include "wn_test.h"

#include <math.h>
#include <string.h>

/* group and the type of scales: of affine rows */
static const struct kind {
    enum wn_type type;
    uint32_t group;
    enum wn_type scale_type;
} kinds[] = {
    {WN_F32, 0, WN_F32},        {WN_BF16, 0, WN_F32},        {WN_F16, 0, WN_F32},       {WN_Q8_0, 0, WN_F32},
    {WN_MXFP4, 0, WN_F32},      {WN_MXFP4_SPLIT, 0, WN_F32}, {WN_Q4_0, 0, WN_F32},      {WN_IQ4_NL, 0, WN_F32},
    {WN_Q2_K, 0, WN_F32},       {WN_Q3_K, 0, WN_F32},        {WN_Q4_K, 0, WN_F32},      {WN_Q5_K, 0, WN_F32},
    {WN_Q6_K, 0, WN_F32},       {WN_IQ4_XS, 0, WN_F32},      {WN_IQ3_S, 0, WN_F32},     {WN_AFFINE2, 32, WN_BF16},
    {WN_AFFINE2, 64, WN_BF16},  {WN_AFFINE2, 128, WN_BF16},  {WN_AFFINE2, 64, WN_F16},  {WN_AFFINE2, 64, WN_F32},
    {WN_AFFINE4, 32, WN_BF16},  {WN_AFFINE4, 64, WN_BF16},   {WN_AFFINE4, 128, WN_F16}, {WN_AFFINE8, 32, WN_F32},
    {WN_AFFINE8, 64, WN_BF16},  {WN_AFFINE8, 128, WN_BF16},  {WN_AFFINE3, 64, WN_BF16}, {WN_AFFINE5, 32, WN_BF16},
    {WN_AFFINE6, 128, WN_BF16}, {WN_AFFINE8, 64, WN_F16},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* A row is a whole number of these. */
static size_t unit_of(const struct kind *kind)
{
    return kind->group ? kind->group : wn_type_info(kind->type)->block_elements;
}

static struct wn_matrix matrix_make(const struct kind *kind, size_t rows, size_t cols, enum mood mood)
{
    const struct wn_type_info *info = wn_type_info(kind->type);
    struct wn_matrix m = {.type = kind->type, .rows = rows, .cols = cols};
    uint8_t *data, *scales = NULL, *biases;

    m.row_bytes = cols / info->block_elements * info->block_bytes;
    data = guarded(0, rows * m.row_bytes);
    if (kind->type == WN_MXFP4_SPLIT) {
        m.scale_row_bytes = cols / 32;
        m.scales = scales = guarded(1, rows * m.scale_row_bytes);
    }
    numbers_fill(kind->type, data, rows * cols, mood);
    if (scales)
        stored_fill(kind->type, data, scales, rows * cols, mood);
    m.data = data;
    if (kind->group) {
        size_t groups = rows * (cols / kind->group), step = wn_type_info(kind->scale_type)->block_bytes;

        m.group = kind->group;
        m.scale_type = kind->scale_type;
        m.scale_row_bytes = cols / kind->group * step;
        m.scales = scales = guarded(1, groups * step);
        m.biases = biases = guarded(6, groups * step);
        numbers_fill(kind->scale_type, scales, groups, mood);
        numbers_fill(kind->scale_type, biases, groups, mood);
    }
    return m;
}

/* want [tokens][rows] by the definition: quant's row, scalar's dot */
static void product_by_definition(const struct wn_matrix *m, const float *x, size_t x_stride, size_t tokens,
                                  float *want)
{
    float *row = guarded(2, m->cols * sizeof(*row));

    for (size_t r = 0; r < m->rows; r++) {
        wn_quant_decode_row(m, r, row);
        for (size_t t = 0; t < tokens; t++)
            want[t * m->rows + r] = scalar.dot_f32(row, x + t * x_stride, m->cols);
    }
}

static void product_check(const struct wn_kernels *k, const struct wn_matrix *m, const float *x, size_t x_stride,
                          size_t tokens, const float *want)
{
    size_t rows = m->rows, cut = rows / 3, count = tokens * rows;
    float *got = guarded(5, count * sizeof(*got));

    memset(got, 0xff, count * sizeof(*got));
    wn_matrix_mul_rows(k, m, 0, rows, x, x_stride, tokens, got, rows);
    check_same(wn_type_info(m->type)->name, k->name, m->cols, want, got, count);
    memset(got, 0xff, count * sizeof(*got));
    wn_matrix_mul_rows(k, m, 0, cut, x, x_stride, tokens, got, rows);
    wn_matrix_mul_rows(k, m, cut, rows - cut, x, x_stride, tokens, got + cut, rows);
    check_same("cut rows", k->name, m->cols, want, got, count);
    memset(got, 0xff, count * sizeof(*got));
    for (size_t t = 0; t < tokens; t++)
        wn_matrix_mul_rows(k, m, 0, rows, x + t * x_stride, x_stride, 1, got + t * rows, rows);
    check_same("token by token", k->name, m->cols, want, got, count);
}

static void product_once(const struct kind *kind, size_t rows, size_t cols, size_t tokens, enum mood mood)
{
    struct wn_matrix m = matrix_make(kind, rows, cols, mood);
    size_t x_stride = cols + 5, x_floats = (tokens - 1) * x_stride + cols;
    float *x = guarded(3, x_floats * sizeof(*x)), *want = guarded(4, tokens * rows * sizeof(*want));

    floats_fill(x, x_floats, mood);
    product_by_definition(&m, x, x_stride, tokens, want);
    product_check(&scalar, &m, x, x_stride, tokens, want);
    for (size_t v = 0; v < variant_count; v++)
        product_check(&variants[v], &m, x, x_stride, tokens, want);
}

static void a_product_has_the_same_bits_for_any_cut_type_and_table(void **state)
{
    static const size_t tokens[] = {1, 2, 3, 4, 5, 9, 65};
    static const size_t blocks[] = {1, 2, 5}; /* of 256 columns */

    (void)state;
    for (size_t i = 0; i < KINDS; i++)
        for (size_t t = 0; t < sizeof(tokens) / sizeof(tokens[0]); t++) {
            size_t unit = unit_of(&kinds[i]);

            product_once(&kinds[i], 1 + wn_rng_below(&rng, 14), 256 * blocks[t % 3], tokens[t], (enum mood)(t % MOODS));
            if (unit < 256)
                product_once(&kinds[i], 1 + wn_rng_below(&rng, 9), unit * (1 + wn_rng_below(&rng, 1800 / unit)),
                             tokens[t], (enum mood)(t % 2));
        }
    product_once(&(struct kind){.type = WN_MXFP4}, 13, 1792, 30, TAME);
    product_once(&(struct kind){.type = WN_BF16}, 7, 2048, 7, WILD);
}

static void store_u16(const uint8_t *numbers, size_t i, uint16_t bits)
{
    memcpy((uint8_t *)(uintptr_t)numbers + 2 * i, &bits, sizeof(bits));
}

/* 192 * 2^121 is infinite, and stays so with a bias of -1.5 * 2^127; rounded together they would be 1.5 * 2^127. */
static void a_product_of_code_and_scale_that_overflows_is_infinite_whatever_the_bias(void **state)
{
    const struct kind kind = {WN_AFFINE8, 64, WN_BF16};
    const size_t cols = 7168, groups = cols / 64;

    (void)state;
    for (size_t g = 0; g < groups; g += 37) {
        struct wn_matrix m = matrix_make(&kind, 4, cols, TAME);
        float *x = guarded(3, cols * sizeof(*x)), want[4];
        uint8_t *codes = (uint8_t *)(uintptr_t)m.data + m.row_bytes + g * 64;

        for (size_t i = 0; i < cols; i++)
            x[i] = i == g * 64 ? 1 : 0;
        memset(codes, 1, 64);
        codes[0] = 192;
        store_u16(m.scales, groups + g, 0x7c00);
        store_u16(m.biases, groups + g, 0xff40);
        product_by_definition(&m, x, cols, 1, want);
        assert_true(want[1] == INFINITY);
        for (size_t v = 0; v < variant_count; v++)
            product_check(&variants[v], &m, x, cols, 1, want);
    }
}

static void nothing_is_written_for_no_rows_or_no_tokens(void **state)
{
    struct wn_matrix m = matrix_make(&(struct kind){.type = WN_BF16}, 4, 64, TAME);
    float x[64] = {0}, y = 7;

    (void)state;
    wn_matrix_mul_rows(&scalar, &m, 0, 4, x, 64, 0, &y, 4);
    wn_matrix_mul_rows(&scalar, &m, 4, 0, x, 64, 3, &y, 4);
    wn_matrix_mul_rows(&scalar, &m, 2, 0, x, 64, 1, &y, 4);
    assert_true(y == 7);
}

static void decoding_a_row_has_the_bits_of_quant(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++)
        for (size_t n = 1; n <= 40; n++) {
            size_t cols = n * unit_of(&kinds[i]);
            struct wn_matrix m = matrix_make(&kinds[i], 3, cols, (enum mood)(n % MOODS));
            float *want = guarded(3, cols * sizeof(*want)), *got = guarded(4, cols * sizeof(*got));

            wn_quant_decode_row(&m, n % 3, want);
            for (size_t v = 0; v < variant_count; v++) {
                variants[v].decode_row(&m, n % 3, got);
                check_same(wn_type_info(m.type)->name, variants[v].name, cols, want, got, cols);
            }
        }
}

/* A row taken from a neighbour is noticed. */
static void another_row_has_another_product(void **state)
{
    struct wn_matrix m = matrix_make(&(struct kind){.type = WN_Q8_0}, 2, 256, TAME);
    float x[256], y[2];

    (void)state;
    floats_fill(x, 256, TAME);
    wn_matrix_mul_rows(&scalar, &m, 0, 2, x, 256, 1, y, 2);
    assert_true(y[0] != y[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_has_the_same_bits_for_any_cut_type_and_table),
        cmocka_unit_test(a_product_of_code_and_scale_that_overflows_is_infinite_whatever_the_bias),
        cmocka_unit_test(nothing_is_written_for_no_rows_or_no_tokens),
        cmocka_unit_test(decoding_a_row_has_the_bits_of_quant),
        cmocka_unit_test(another_row_has_another_product),
    };

    return cmocka_run_group_tests(tests, kernels_set_up, kernels_tear_down);
}
