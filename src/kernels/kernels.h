/*
 * Numbers in registers. One table of functions, filled once at start for the processor and then only read. Scalar code
 * in kernels/scalar/ IS the meaning; every variant gives the same bits (a NaN stays some NaN), checked with memcmp.
 *
 * THE SUMMING ORDER. Every sum over n elements (dot products, sums of squares, of exponentials) has 32 lanes: element i
 * is added to lane i mod 32, in rising i, with a fused multiply-add where there is a product; then lanes fold in
 * halves: lane j += lane j + 16, then + 8, + 4, + 2, + 1. Lanes start at +0. So one token or many, any processor: the
 * same bits. exp, tanh, sigmoid are our own polynomials, the same steps in every variant.
 *
 * Element-wise kernels round each element by itself. Tails never read or write past the end. Pointers need no
 * alignment.
 */
#ifndef WN_KERNELS_KERNELS_H
#define WN_KERNELS_KERNELS_H

#include "tensor/tensor.h"
#include <winnow/error.h>

/*
 * Decoded rows times tokens, w [rows] and x [tokens] so many floats apart: y[t * y_stride + r]. Where rows are cut by
 * columns, parts but the last are a multiple of 32 wide, and the lanes wait in between.
 */
struct wn_tile {
    const float *w, *x;
    float *y;
    float *lanes; /* rows * tokens * 32, in an order of the table's own; unused by a tile that is first and last */
    size_t rows, tokens, cols;
    size_t w_stride, x_stride, y_stride;
    bool first, last; /* part of the rows: lanes start at +0; lanes are folded into y, which no other part touches */
};

struct wn_kernels {
    const char *name; /* "scalar", "avx2", "avx512", "neon" */

    /* sum of w[i] * x[i] */
    float (*dot_f32)(const float *w, const float *x, size_t n);
    void (*mul_tile)(const struct wn_tile *tile);
    /* The same sums straight from a row's stored form (n a multiple of the type's block). */
    float (*dot_bf16)(const uint8_t *w, const float *x, size_t n);
    float (*dot_f16)(const uint8_t *w, const float *x, size_t n);
    float (*dot_q8_0)(const uint8_t *w, const float *x, size_t n);
    float (*dot_mxfp4)(const uint8_t *w, const float *x, size_t n);
    float (*dot_mxfp4_split)(const uint8_t *packed, const uint8_t *scales, const float *x, size_t n);

    /*
     * y[i] = row first + i of m times x, i < n, several rows side by side. False, and nothing done, for a type that the
     * variant has no dot for (or f32 rows that are not aligned).
     */
    bool (*dot_rows)(const struct wn_matrix *m, uint64_t first, size_t n, const float *x, float *y);

    /* One row to f32, the bits of quant/. Types without a fast variant go through wn_quant_decode_row. */
    void (*decode_row)(const struct wn_matrix *m, uint64_t row, float *dst);

    /* y[i] = fma(a, x[i], y[i]) */
    void (*axpy)(float a, const float *x, float *y, size_t n);
    /* y[i] = a[i] + b[i]; y may be a or b. And y[i] = a[i] * b[i]. */
    void (*add)(const float *a, const float *b, float *y, size_t n);
    void (*mul)(const float *a, const float *b, float *y, size_t n);
    /* y[i] = s * x[i] */
    void (*scale)(float s, const float *x, float *y, size_t n);

    /* sums of x[i]^2 and of x[i], in the summing order */
    float (*sum_squares)(const float *x, size_t n);
    float (*sum)(const float *x, size_t n);
    float (*max)(const float *x, size_t n); /* n > 0; -inf for no larger; NaN elements are passed over */

    /* y = w * (x * r), r = 1 / sqrt(sum_squares / n + eps); w NULL: all ones; y may be x. Returns r. (RMSNorm) */
    float (*rms_norm)(const float *x, const float *w, float eps, float *y, size_t n);
    /* y = (x * r) * scale, r = 1 / sqrt(sum_squares + eps): KDA's l2norm. y may be x. */
    void (*l2_norm)(const float *x, float eps, float scale, float *y, size_t n);

    /* Element-wise; y may be x. */
    void (*exp)(const float *x, float *y, size_t n);
    void (*sigmoid)(const float *x, float *y, size_t n);  /* 1 / (1 + exp(-x)) */
    void (*silu)(const float *x, float *y, size_t n);     /* x * sigmoid(x) */
    void (*softplus)(const float *x, float *y, size_t n); /* log(1 + exp(x)); x where x > 20 */
    /*
     * y = (beta * tanh(g / beta) * sigmoid(g)) * (linear_beta * tanh(u / linear_beta)); linear_beta 0: times u. (SiTU)
     */
    void (*situ)(const float *g, const float *u, float beta, float linear_beta, float *y, size_t n);
    /* y = silu(g) * u */
    void (*swiglu)(const float *g, const float *u, float *y, size_t n);

    /* x becomes exp(x - max) / sum, in place; n > 0 */
    void (*softmax)(float *x, size_t n);

    /*
     * One KDA step of one head. s: state [k_dim][v_dim], row = key channel. decay[k] = exp(g[k]); beta a scalar.
     *   s[k][v] *= decay[k];  d[v] = beta * (v[v] - sum_k s[k][v] k[k]);
     *   s[k][v] += k[k] d[v];  o[v] = sum_k s[k][v] q[k]
     * sums over k run in rising k from +0 with fused multiply-adds, one accumulator per v. d: scratch of v_dim floats.
     */
    void (*kda_step)(float *s, const float *q, const float *k, const float *v, const float *decay, float beta, float *o,
                     float *d, size_t k_dim, size_t v_dim);

    /*
     * One step of the depthwise causal convolution of n channels, kernel width taps (2 .. 8), then SiLU.
     *   tail [taps - 1][n]: previous inputs, oldest first, moved on by one; w [n][taps], w's last tap meets x.
     *   y[c] = silu(sum over taps in rising order, from +0, fused)
     */
    void (*conv_step)(float *tail, const float *x, const float *w, float *y, size_t n, size_t taps);
};

/* Fills the table: scalar, then overwritten by what `cpu` (sys/cpu.h bits) does better. */
void wn_kernels_init(struct wn_kernels *k, unsigned cpu);

/* The table for this process: detected, narrowed by WINNOW_CPU. Made once; NULL and *err for a wrong WINNOW_CPU. */
WN_CHECKED const struct wn_kernels *wn_kernels_get(struct wn_err *err);

/*
 * y[t * y_stride + r - first] = row r of m . (x + t * x_stride), for rows first .. first + n - 1 and t < tokens. The
 * same bits for any cut of rows or tokens. Rows of many tokens are read again for each few dozen: n rows should fit a
 * cache.
 */
void wn_matrix_mul_rows(const struct wn_kernels *k, const struct wn_matrix *m, uint64_t first, uint64_t n,
                        const float *x, size_t x_stride, size_t tokens, float *y, size_t y_stride);

/* Single values by the same polynomials as the table's. */
float wn_expf(float x);
float wn_sigmoidf(float x);

#endif
