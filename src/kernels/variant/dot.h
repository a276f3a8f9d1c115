/*
 * Dot products and row decoding of a variant. Each stored type is a function from a block's place to its 32 values; the
 * loop around it is written once.
 */
#ifndef WN_KERNELS_VARIANT_DOT_H
#define WN_KERNELS_VARIANT_DOT_H

#include "kernels/kernels.h"
#include "quant/quant.h"

#define MXFP4_BYTES 17 /* scale, then codes */
#define Q8_0_BYTES  34 /* f16 scale, then signed bytes */

/*
 * Half of the e8m0 scale 2^(s - 127) as the bits of a float, the way ggml counts it: 2^-128 and 2^-127 are denormal, 255 is
 * half of 2^128. A table, because working it out took longer than the rest of a block.
 */
#define HALF_1(s)  (uint32_t)((s)-1) << 23
#define HALF_2(s)  HALF_1(s), HALF_1((s) + 1)
#define HALF_4(s)  HALF_2(s), HALF_2((s) + 2)
#define HALF_16(s) HALF_4(s), HALF_4((s) + 4), HALF_4((s) + 8), HALF_4((s) + 12)
#define HALF_64(s) HALF_16(s), HALF_16((s) + 16), HALF_16((s) + 32), HALF_16((s) + 48)
static const uint32_t e8m0_halves[256] = {
    0x00200000,  0x00400000,  HALF_2(2),   HALF_4(4),   HALF_4(8),    HALF_4(12),
    HALF_16(16), HALF_16(32), HALF_16(48), HALF_64(64), HALF_64(128), HALF_64(192),
};

INLINE float e8m0_half(uint8_t s)
{
    float f;

    memcpy(&f, &e8m0_halves[s], sizeof(f));
    return f;
}

/* A row in some stored form; `scales` for WN_MXFP4_SPLIT only. */
struct stored {
    const uint8_t *data, *scales;
};

/* Elements 32 b .. 32 b + 31 of a row. */
typedef v32 block_fn(struct stored w, size_t b);

INLINE v32 block_f32(struct stored w, size_t b)
{
    return v32_load((const float *)(const void *)w.data + b * LANES);
}

INLINE v32 block_bf16(struct stored w, size_t b)
{
    return v32_of_bf16(w.data + b * 2 * LANES);
}

INLINE v32 block_f16(struct stored w, size_t b)
{
    return v32_of_f16(w.data + b * 2 * LANES);
}

INLINE v32 block_q8_0(struct stored w, size_t b)
{
    const uint8_t *p = w.data + b * Q8_0_BYTES;

    return v32_of_i8(p + 2, float_of_f16(p));
}

INLINE v32 block_mxfp4(struct stored w, size_t b)
{
    const uint8_t *p = w.data + b * MXFP4_BYTES;

    return v32_of_fp4(p + 1, e8m0_half(p[0]));
}

INLINE v32 block_mxfp4_split(struct stored w, size_t b)
{
    return v32_of_fp4_pairs(w.data + b * LANES / 2, e8m0_half(w.scales[b]));
}

/* How many elements stand behind the last block of 32: none where a type's own blocks have 32. */
INLINE size_t tail_of(size_t n, const size_t block_bytes)
{
    return block_bytes % LANES == 0 ? n % LANES : 0;
}

/* The last n < 32 elements of a row, from block b on, the others 0. */
INLINE v32 block_tail(block_fn *block, const size_t block_bytes, struct stored w, size_t b, size_t n)
{
    const size_t element_bytes = block_bytes / LANES;
    uint8_t copy[sizeof(float) * LANES] __attribute__((aligned(64))) = {0};

    memcpy(copy, w.data + b * LANES * element_bytes, n * element_bytes);
    return block((struct stored){copy, NULL}, 0);
}

/*
 * y[i] = row i . x for `rows` rows, a constant. One row alone waits for its own sums: a lane's next addition needs the one
 * before. Rows side by side fill those waits and share the loads of x.
 *
 * The row `ahead` bytes further on is asked for meanwhile: a row of 4-bit weights is shorter than a page, and a processor
 * that reads ahead by itself starts anew in each. Asking for what is not there does nothing.
 */
INLINE void dot_side_by_side(block_fn *block, const size_t block_bytes, const struct stored *w, size_t ahead,
                             const float *x, size_t n, float *y, const size_t rows)
{
    v32 lanes[DOT_ROWS];
    size_t b = 0, tail = tail_of(n, block_bytes);

    UNROLL
    for (size_t r = 0; r < rows; r++)
        lanes[r] = v32_set(0);
    for (; b < n / LANES; b++) {
        v32 value = v32_load(x + b * LANES);

        UNROLL
        for (size_t r = 0; r < rows; r++) {
            __builtin_prefetch(w[r].data + b * block_bytes + ahead);
            lanes[r] = v32_fma(block(w[r], b), value, lanes[r]);
        }
    }
    if (tail) {
        v32 value = v32_load_first(x + b * LANES, tail);

        UNROLL
        for (size_t r = 0; r < rows; r++)
            lanes[r] =
                v32_first(tail, v32_fma(block_tail(block, block_bytes, w[r], b, tail), value, lanes[r]), lanes[r]);
    }
    if (rows == 4)
        v32_fold_4(lanes, y);
    else
        UNROLL
    for (size_t r = 0; r < rows; r++)
        y[r] = v32_fold(lanes[r]);
}

INLINE float dot(block_fn *block, const size_t block_bytes, struct stored w, const float *x, size_t n)
{
    float y;

    dot_side_by_side(block, block_bytes, &w, 0, x, n, &y, 1);
    return y;
}

static float dot_f32(const float *w, const float *x, size_t n)
{
    return dot(block_f32, 4 * LANES, (struct stored){(const uint8_t *)w, NULL}, x, n);
}

static float dot_bf16(const uint8_t *w, const float *x, size_t n)
{
    return dot(block_bf16, 2 * LANES, (struct stored){w, NULL}, x, n);
}

static float dot_f16(const uint8_t *w, const float *x, size_t n)
{
    return dot(block_f16, 2 * LANES, (struct stored){w, NULL}, x, n);
}

static float dot_q8_0(const uint8_t *w, const float *x, size_t n)
{
    return dot(block_q8_0, Q8_0_BYTES, (struct stored){w, NULL}, x, n);
}

static float dot_mxfp4(const uint8_t *w, const float *x, size_t n)
{
    return dot(block_mxfp4, MXFP4_BYTES, (struct stored){w, NULL}, x, n);
}

static float dot_mxfp4_split(const uint8_t *packed, const uint8_t *scales, const float *x, size_t n)
{
    return dot(block_mxfp4_split, LANES / 2, (struct stored){packed, scales}, x, n);
}

static struct stored stored_row(const struct wn_matrix *m, uint64_t row)
{
    struct stored w = {m->data + row * m->row_bytes, NULL};

    if (m->scales)
        w.scales = m->scales + row * m->scale_row_bytes;
    return w;
}

INLINE void dot_all_rows(block_fn *block, const size_t block_bytes, const struct wn_matrix *m, uint64_t first, size_t n,
                         const float *x, float *y)
{
    struct stored w[DOT_ROWS];
    size_t i = 0;

    for (; n - i >= DOT_ROWS; i += DOT_ROWS) {
        for (size_t r = 0; r < DOT_ROWS; r++)
            w[r] = stored_row(m, first + i + r);
        dot_side_by_side(block, block_bytes, w, DOT_ROWS * m->row_bytes, x, (size_t)m->cols, y + i, DOT_ROWS);
    }
    for (; i < n; i++)
        y[i] = dot(block, block_bytes, stored_row(m, first + i), x, (size_t)m->cols);
}

static bool dot_rows(const struct wn_matrix *m, uint64_t first, size_t n, const float *x, float *y)
{
    switch (m->type) {
    case WN_F32:
        if (((uintptr_t)m->data | m->row_bytes) % _Alignof(float) != 0)
            return false;
        dot_all_rows(block_f32, 4 * LANES, m, first, n, x, y);
        return true;
    case WN_BF16:
        dot_all_rows(block_bf16, 2 * LANES, m, first, n, x, y);
        return true;
    case WN_F16:
        dot_all_rows(block_f16, 2 * LANES, m, first, n, x, y);
        return true;
    case WN_Q8_0:
        dot_all_rows(block_q8_0, Q8_0_BYTES, m, first, n, x, y);
        return true;
    case WN_MXFP4:
        dot_all_rows(block_mxfp4, MXFP4_BYTES, m, first, n, x, y);
        return true;
    case WN_MXFP4_SPLIT:
        dot_all_rows(block_mxfp4_split, LANES / 2, m, first, n, x, y);
        return true;
    default:
        return false;
    }
}

INLINE void decode(block_fn *block, const size_t block_bytes, struct stored w, float *dst, size_t n)
{
    size_t b = 0, tail = tail_of(n, block_bytes);

    for (; b < n / LANES; b++)
        v32_store(dst + b * LANES, block(w, b));
    if (tail)
        v32_store_first(dst + b * LANES, block_tail(block, block_bytes, w, b, tail), tail);
}

static void decode_row(const struct wn_matrix *m, uint64_t row, float *dst)
{
    struct stored w = stored_row(m, row);
    size_t n = (size_t)m->cols;

    switch (m->type) {
    case WN_BF16:
        decode(block_bf16, 2 * LANES, w, dst, n);
        break;
    case WN_F16:
        decode(block_f16, 2 * LANES, w, dst, n);
        break;
    case WN_Q8_0:
        decode(block_q8_0, Q8_0_BYTES, w, dst, n);
        break;
    case WN_MXFP4:
        decode(block_mxfp4, MXFP4_BYTES, w, dst, n);
        break;
    case WN_MXFP4_SPLIT:
        decode(block_mxfp4_split, LANES / 2, w, dst, n);
        break;
    default:
        wn_quant_decode_row(m, row, dst);
    }
}

#endif
