/*
 * Rows of a matrix times tokens. One token, or two, take the dots of the stored form. More share a decoding: a few rows by a
 * few hundred columns are decoded into the scratch, where the first-level cache holds them, and meet TOKENS tokens, each
 * product's lanes waiting in between. By the law of the summing order both ways give the same bits, so where one hands
 * over to the other is only a matter of speed.
 */
#include "kernels/kernels.h"

#include <assert.h>
#include <string.h>

#define LANES     32
#define TOKENS    64  /* met by one decoding; their lanes take 48 KiB of stack */
#define ROWS      6   /* a whole number of the variants' tiles */
#define FEW       3   /* tokens up to which the dots of the stored form are faster */
#define NEAR_ROWS 16  /* whose bytes the second-level cache keeps for the next token */
#define STEP      256 /* columns that are whole blocks of every type, and whole rounds of lanes */

/* Columns first .. first + n - 1 of m as a matrix of their own; first a multiple of STEP. */
static struct wn_matrix columns(const struct wn_matrix *m, size_t first, size_t n)
{
    const struct wn_type_info *info = wn_type_info(m->type);
    struct wn_matrix part = *m;

    part.cols = n;
    part.data += first / info->block_elements * info->block_bytes;
    if (part.scales)
        part.scales += first / 32;
    return part;
}

/* Asks for a row's bytes before they are needed, while the multipliers work. What is not there is not fetched. */
static void row_ask(const struct wn_matrix *m, uint64_t row)
{
    const struct wn_type_info *info = wn_type_info(m->type);
    size_t bytes = (size_t)m->cols / info->block_elements * info->block_bytes;

    if (row < m->rows)
        for (size_t i = 0; i < bytes; i += 64)
            __builtin_prefetch(m->data + row * m->row_bytes + i);
}

/* Up to ROWS rows from row on, and up to TOKENS tokens; scratch holds rows * width floats. */
static void mul_tile(const struct wn_kernels *k, const struct wn_matrix *m, uint64_t row, size_t rows, size_t width,
                     const float *x, size_t x_stride, size_t tokens, float *y, size_t y_stride, float *scratch)
{
    float lanes[ROWS * TOKENS * LANES], sums[ROWS * TOKENS];
    size_t cols = (size_t)m->cols;

    memset(lanes, 0, rows * tokens * LANES * sizeof(*lanes));
    for (size_t c = 0; c < cols; c += width) {
        size_t n = cols - c < width ? cols - c : width;
        struct wn_matrix part = columns(m, c, n);

        for (size_t r = 0; r < rows; r++)
            k->decode_row(&part, row + r, scratch + r * width);
        for (size_t r = 0; r < rows; r++)
            row_ask(&part, row + rows + r);
        k->lanes_add(scratch, width, rows, x + c, x_stride, tokens, n, lanes);
    }
    k->lanes_fold(lanes, rows * tokens, sums);
    for (size_t t = 0; t < tokens; t++)
        for (size_t r = 0; r < rows; r++)
            y[t * y_stride + r] = sums[r * tokens + t];
}

static void mul_decoded(const struct wn_kernels *k, const struct wn_matrix *m, uint64_t first, uint64_t n,
                        const float *x, size_t x_stride, size_t tokens, float *y, size_t y_stride, float *scratch)
{
    /* a tile of rows * width floats must fit into the scratch of cols floats */
    size_t cols = (size_t)m->cols, fit = cols / STEP, rows = fit < 1 ? 1 : fit < ROWS ? fit : ROWS;
    size_t width = rows == 1 ? cols : cols / rows / STEP * STEP;

    for (uint64_t r = 0; r < n; r += rows) {
        size_t some = n - r < rows ? (size_t)(n - r) : rows;

        for (size_t t = 0; t < tokens; t += TOKENS)
            mul_tile(k, m, first + r, some, width, x + t * x_stride, x_stride,
                     tokens - t < TOKENS ? tokens - t : TOKENS, y + t * y_stride + r, y_stride, scratch);
    }
}

/* By the dots of the stored form, a few rows at a time so that they are still near for the next token. */
static bool mul_stored(const struct wn_kernels *k, const struct wn_matrix *m, uint64_t first, uint64_t n,
                       const float *x, size_t x_stride, size_t tokens, float *y, size_t y_stride)
{
    uint64_t rows = tokens > 1 ? NEAR_ROWS : n;

    for (uint64_t r = 0; r < n; r += rows)
        for (size_t t = 0; t < tokens; t++)
            if (!k->dot_rows(m, first + r, (size_t)(n - r < rows ? n - r : rows), x + t * x_stride,
                             y + t * y_stride + r))
                return false;
    return true;
}

void wn_matrix_mul_rows(const struct wn_kernels *k, const struct wn_matrix *m, uint64_t first, uint64_t n,
                        const float *x, size_t x_stride, size_t tokens, float *y, size_t y_stride, float *scratch)
{
    assert(first <= m->rows && n <= m->rows - first);
    if (tokens > FEW || !mul_stored(k, m, first, n, x, x_stride, tokens, y, y_stride))
        mul_decoded(k, m, first, n, x, x_stride, tokens, y, y_stride, scratch);
}
