/*
 * wn_matrix_mul_rows: each number is the dot of the decoded row with the token, in the summing order, whatever the type, the
 * table, the cut into rows and the count of tokens. And decode_row has the bits of quant/.
 */
#include "support.h"

#include "quant/quant.h"
#include "wn_test.h"

#include <string.h>

static const enum wn_type types[] = {WN_F32, WN_BF16, WN_F16, WN_Q8_0, WN_MXFP4, WN_MXFP4_SPLIT, WN_Q4_K, WN_IQ4_NL};
enum { TYPES = sizeof(types) / sizeof(types[0]) };

static struct wn_matrix matrix_make(enum wn_type type, size_t rows, size_t cols, enum mood mood)
{
    const struct wn_type_info *info = wn_type_info(type);
    struct wn_matrix m = {.type = type, .rows = rows, .cols = cols};
    uint8_t *data, *scales = NULL;

    m.row_bytes = cols / info->block_elements * info->block_bytes;
    data = guarded(0, rows * m.row_bytes);
    if (type == WN_MXFP4_SPLIT) {
        m.scale_row_bytes = cols / 32;
        scales = guarded(1, rows * m.scale_row_bytes);
    }
    if (type == WN_F32)
        floats_fill((float *)(void *)data, rows * cols, mood);
    else
        stored_fill(type, data, scales, rows * cols, mood);
    m.data = data;
    m.scales = scales;
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

static void product_once(enum wn_type type, size_t rows, size_t cols, size_t tokens, enum mood mood)
{
    struct wn_matrix m = matrix_make(type, rows, cols, mood);
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
    for (size_t i = 0; i < TYPES; i++)
        for (size_t t = 0; t < sizeof(tokens) / sizeof(tokens[0]); t++) {
            size_t cols = 256 * blocks[t % 3];

            product_once(types[i], 1 + wn_rng_below(&rng, 14), cols, tokens[t], (enum mood)(t % MOODS));
            if (wn_type_info(types[i])->block_elements <= 32)
                product_once(types[i], 1 + wn_rng_below(&rng, 9), 32 * (1 + wn_rng_below(&rng, 60)), tokens[t], TAME);
            if (wn_type_info(types[i])->block_elements == 1)
                product_once(types[i], 1 + wn_rng_below(&rng, 9), 1 + wn_rng_below(&rng, 1700), tokens[t], MIXED);
        }
    product_once(WN_MXFP4, 13, 1792, 30, TAME);
    product_once(WN_BF16, 7, 2048, 7, WILD);
}

static void nothing_is_written_for_no_rows_or_no_tokens(void **state)
{
    struct wn_matrix m = matrix_make(WN_BF16, 4, 64, TAME);
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
    for (size_t i = 0; i < TYPES; i++)
        for (size_t n = 1; n <= 40; n++) {
            size_t cols = n * wn_type_info(types[i])->block_elements;
            struct wn_matrix m = matrix_make(types[i], 3, cols, WILD);
            float *want = guarded(3, cols * sizeof(*want)), *got = guarded(4, cols * sizeof(*got));

            wn_quant_decode_row(&m, n % 3, want);
            for (size_t v = 0; v < variant_count; v++) {
                variants[v].decode_row(&m, n % 3, got);
                check_same(wn_type_info(types[i])->name, variants[v].name, cols, want, got, cols);
            }
        }
}

/* A row taken from a neighbour is noticed. */
static void another_row_has_another_product(void **state)
{
    struct wn_matrix m = matrix_make(WN_Q8_0, 2, 256, TAME);
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
        cmocka_unit_test(nothing_is_written_for_no_rows_or_no_tokens),
        cmocka_unit_test(decoding_a_row_has_the_bits_of_quant),
        cmocka_unit_test(another_row_has_another_product),
    };

    return cmocka_run_group_tests(tests, kernels_set_up, kernels_tear_down);
}
