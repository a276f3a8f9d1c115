/*
 * Dot products of a row of weights with activations, and the row's decoding. A stored weight is decoded, by the
 * definition in quant/, to the f32 value that it stands for, and that value is multiplied: a dot of the stored form is
 * the dot of the decoded row.
 */
#include "kernels/scalar/scalar.h"
#include "quant/quant.h"

#include <string.h>

static float dot_f32(const float *w, const float *x, size_t n)
{
    struct lanes l = {{0}};

    lanes_add_products(&l, w, x, n);
    return lanes_sum(&l);
}

static void mul_tile(const struct wn_tile *p)
{
    for (size_t r = 0; r < p->rows; r++)
        for (size_t t = 0; t < p->tokens; t++) {
            size_t place = (r * p->tokens + t) * LANES;
            struct lanes l = {{0}};

            if (!p->first)
                memcpy(l.at, p->lanes + place, sizeof(l.at));
            lanes_add_products(&l, p->w + r * p->w_stride, p->x + t * p->x_stride, p->cols);
            if (p->last)
                p->y[t * p->y_stride + r] = lanes_sum(&l);
            else
                memcpy(p->lanes + place, l.at, sizeof(l.at));
        }
}

/* 32 elements at a time, which is a whole number of blocks of each type here. */
static float dot_stored(enum wn_type type, const uint8_t *w, const float *x, size_t n)
{
    const struct wn_type_info *info = wn_type_info(type);
    wn_decode_fn *decode = wn_quant_decoder(type);
    struct lanes l = {{0}};
    float value[LANES];

    for (size_t i = 0; i < n; i += LANES) {
        size_t part = n - i < LANES ? n - i : LANES;

        decode(w + i / info->block_elements * info->block_bytes, value, part);
        lanes_add_products(&l, value, x + i, part);
    }
    return lanes_sum(&l);
}

static float dot_bf16(const uint8_t *w, const float *x, size_t n)
{
    return dot_stored(WN_BF16, w, x, n);
}

static float dot_f16(const uint8_t *w, const float *x, size_t n)
{
    return dot_stored(WN_F16, w, x, n);
}

static float dot_q8_0(const uint8_t *w, const float *x, size_t n)
{
    return dot_stored(WN_Q8_0, w, x, n);
}

static float dot_mxfp4(const uint8_t *w, const float *x, size_t n)
{
    return dot_stored(WN_MXFP4, w, x, n);
}

static float dot_mxfp4_split(const uint8_t *packed, const uint8_t *scales, const float *x, size_t n)
{
    struct lanes l = {{0}};
    float value[LANES];

    for (size_t i = 0; i < n; i += LANES) {
        wn_decode_mxfp4_split(packed + i / 2, scales + i / LANES, value, LANES);
        lanes_add_products(&l, value, x + i, LANES);
    }
    return lanes_sum(&l);
}

#define SPAN 256 /* whole blocks and groups of every type, and whole rounds of lanes */

static float dot_row(const struct wn_matrix *m, uint64_t row, const float *x)
{
    struct lanes l = {{0}};
    float value[SPAN];

    for (uint64_t c = 0; c < m->cols; c += SPAN) {
        struct wn_matrix part = wn_matrix_columns(m, c, m->cols - c < SPAN ? m->cols - c : SPAN);

        wn_quant_decode_row(&part, row, value);
        lanes_add_products(&l, value, x + c, (size_t)part.cols);
    }
    return lanes_sum(&l);
}

static bool dot_rows(const struct wn_matrix *m, uint64_t first, size_t n, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = dot_row(m, first + i, x);
    return true;
}

void wn_scalar_fill_dot(struct wn_kernels *k)
{
    k->dot_f32 = dot_f32;
    k->mul_tile = mul_tile;
    k->dot_bf16 = dot_bf16;
    k->dot_f16 = dot_f16;
    k->dot_q8_0 = dot_q8_0;
    k->dot_mxfp4 = dot_mxfp4;
    k->dot_mxfp4_split = dot_mxfp4_split;
    k->dot_rows = dot_rows;
    k->decode_row = wn_quant_decode_row;
}
