/*
 * Rows of a matrix times tokens. A single token takes the dot of the stored form; more share one decoding of each row. By
 * the law of the summing order both give the same bits, so where one hands over to the other is only a matter of speed.
 */
#include "kernels/kernels.h"

#include <assert.h>

/* The dot of a row as it is stored; false when the type has none. */
static bool dot_row(const struct wn_kernels *k, const struct wn_matrix *m, uint64_t row, const float *x, float *y)
{
    const uint8_t *w = m->data + row * m->row_bytes;
    size_t n = (size_t)m->cols;

    switch (m->type) {
    case WN_BF16:
        *y = k->dot_bf16(w, x, n);
        return true;
    case WN_F16:
        *y = k->dot_f16(w, x, n);
        return true;
    case WN_Q8_0:
        *y = k->dot_q8_0(w, x, n);
        return true;
    case WN_MXFP4:
        *y = k->dot_mxfp4(w, x, n);
        return true;
    case WN_MXFP4_SPLIT:
        *y = k->dot_mxfp4_split(w, m->scales + row * m->scale_row_bytes, x, n);
        return true;
    default:
        return false;
    }
}

void wn_matrix_mul_rows(const struct wn_kernels *k, const struct wn_matrix *m, uint64_t first, uint64_t n,
                        const float *x, size_t x_stride, size_t tokens, float *y, size_t y_stride, float *scratch)
{
    assert(first <= m->rows && n <= m->rows - first);
    for (uint64_t r = 0; r < n; r++) {
        if (tokens == 1 && dot_row(k, m, first + r, x, y + r))
            continue;
        k->decode_row(m, first + r, scratch);
        k->dot_f32_tokens(scratch, x, x_stride, tokens, (size_t)m->cols, y + r, y_stride);
    }
}
