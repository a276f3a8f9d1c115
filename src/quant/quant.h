/*
 * The block formats of weights in plain C: the definition that kernels are checked against. One function per type and
 * direction; every operation is rounded to f32 in the order that docs/formats/quants.md gives, so decoded values have
 * the same bits everywhere.
 */
#ifndef WN_QUANT_QUANT_H
#define WN_QUANT_QUANT_H

#include "tensor/tensor.h"

/*
 * blocks: n / block_elements blocks; dst: n floats; n a multiple of the type's block elements. Never traps on any
 * bytes.
 */
typedef void wn_decode_fn(const uint8_t *blocks, float *dst, size_t n);
typedef void wn_encode_fn(const float *src, uint8_t *blocks, size_t n);

/* NULL for types that are no weights (integers) and for those whose scales lie apart: MXFP4_SPLIT, affine. */
wn_decode_fn *wn_quant_decoder(enum wn_type t);
/* F32, F16 (round to nearest even), BF16 (nearest even, NaN stays NaN), Q8_0 and Q2_K; NULL for the others. */
wn_encode_fn *wn_quant_encoder(enum wn_type t);

/* Q2_K with a weight for how much an error of each column counts, n of them, none negative; NULL: all the same. */
void wn_encode_q2_k_weighted(const float *src, const float *weights, uint8_t *blocks, size_t n);

/* Row of the HF manner: packed n / 2 bytes, scales n / 32 bytes. */
void wn_decode_mxfp4_split(const uint8_t *packed, const uint8_t *scales, float *dst, size_t n);

/* One row of any matrix, all its columns. m->type must have a decoder. */
void wn_quant_decode_row(const struct wn_matrix *m, uint64_t row, float *dst);
/* True when wn_quant_decode_row knows the type. */
bool wn_quant_can_decode(enum wn_type t);

/* Exact moves of MXFP4 bits between the two packings; n elements, a multiple of 32. */
void wn_mxfp4_split_to_blocks(const uint8_t *packed, const uint8_t *scales, uint8_t *blocks, size_t n);
void wn_mxfp4_blocks_to_split(const uint8_t *blocks, uint8_t *packed, uint8_t *scales, size_t n);

float wn_f16_to_f32(uint16_t h);
uint16_t wn_f32_to_f16(float f);
float wn_bf16_to_f32(uint16_t h);
uint16_t wn_f32_to_bf16(float f);

#endif
