/* The table from type to decoder and encoder, and the decoding of one row of a matrix. */
#include "quant/quant.h"
#include "quant/affine.h"
#include "quant/family.h"

#include <assert.h>

static wn_decode_fn *const decoders[WN_TYPE_COUNT] = {
    [WN_F32] = wn_decode_f32,         [WN_F16] = wn_decode_f16,       [WN_BF16] = wn_decode_bf16,
    [WN_Q4_0] = wn_decode_q4_0,       [WN_Q4_1] = wn_decode_q4_1,     [WN_Q5_0] = wn_decode_q5_0,
    [WN_Q5_1] = wn_decode_q5_1,       [WN_Q8_0] = wn_decode_q8_0,     [WN_Q2_K] = wn_decode_q2_k,
    [WN_Q3_K] = wn_decode_q3_k,       [WN_Q4_K] = wn_decode_q4_k,     [WN_Q5_K] = wn_decode_q5_k,
    [WN_Q6_K] = wn_decode_q6_k,       [WN_IQ1_S] = wn_decode_iq1_s,   [WN_IQ1_M] = wn_decode_iq1_m,
    [WN_IQ2_XXS] = wn_decode_iq2_xxs, [WN_IQ2_XS] = wn_decode_iq2_xs, [WN_IQ2_S] = wn_decode_iq2_s,
    [WN_IQ3_XXS] = wn_decode_iq3_xxs, [WN_IQ3_S] = wn_decode_iq3_s,   [WN_IQ4_NL] = wn_decode_iq4_nl,
    [WN_IQ4_XS] = wn_decode_iq4_xs,   [WN_TQ1_0] = wn_decode_tq1_0,   [WN_TQ2_0] = wn_decode_tq2_0,
    [WN_MXFP4] = wn_decode_mxfp4,     [WN_NVFP4] = wn_decode_nvfp4,   [WN_Q1_0] = wn_decode_q1_0,
    [WN_Q2_0] = wn_decode_q2_0,
};

wn_decode_fn *wn_quant_decoder(enum wn_type t)
{
    assert(t < WN_TYPE_COUNT);
    return decoders[t];
}

wn_encode_fn *wn_quant_encoder(enum wn_type t)
{
    switch (t) {
    case WN_F32:
        return wn_encode_f32;
    case WN_F16:
        return wn_encode_f16;
    case WN_BF16:
        return wn_encode_bf16;
    case WN_Q8_0:
        return wn_encode_q8_0;
    case WN_Q2_K:
        return wn_encode_q2_k;
    default:
        return NULL;
    }
}

bool wn_quant_can_decode(enum wn_type t)
{
    return t == WN_MXFP4_SPLIT || wn_affine_bits(t) || wn_quant_decoder(t) != NULL;
}

void wn_quant_decode_row(const struct wn_matrix *m, uint64_t row, float *dst)
{
    const uint8_t *data = m->data + row * m->row_bytes;
    size_t cols = (size_t)m->cols;

    assert(row < m->rows);
    assert(cols % wn_type_info(m->type)->block_elements == 0);
    if (m->type == WN_MXFP4_SPLIT)
        wn_decode_mxfp4_split(data, m->scales + row * m->scale_row_bytes, dst, cols);
    else if (wn_affine_bits(m->type))
        wn_affine_decode_row(m, row, dst);
    else
        wn_quant_decoder(m->type)(data, dst, cols);
}
