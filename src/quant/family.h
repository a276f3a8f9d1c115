/*
 * The decoders and encoders of all block types, as the table in quant.c sees them. Layouts and the order of operations:
 * docs/formats/quants.md. Outside this folder ask wn_quant_decoder.
 */
#ifndef WN_QUANT_FAMILY_H
#define WN_QUANT_FAMILY_H

#include "quant/quant.h"

/* float.c */
wn_decode_fn wn_decode_f32, wn_decode_f16, wn_decode_bf16;
wn_encode_fn wn_encode_f32, wn_encode_f16, wn_encode_bf16;

/* legacy.c: one f16 scale for a short block */
wn_decode_fn wn_decode_q4_0, wn_decode_q4_1, wn_decode_q5_0, wn_decode_q5_1, wn_decode_q8_0, wn_decode_iq4_nl;
wn_decode_fn wn_decode_q1_0, wn_decode_q2_0;
wn_encode_fn wn_encode_q8_0;

/* kquant.c: 256 elements, small integer scales under one or two f16 */
wn_decode_fn wn_decode_q2_k, wn_decode_q3_k, wn_decode_q4_k, wn_decode_q5_k, wn_decode_q6_k, wn_decode_iq4_xs;

/* kquant_encode.c */
wn_encode_fn wn_encode_q2_k;

/* iquant.c: 256 elements, codes are rows of a code book */
wn_decode_fn wn_decode_iq1_s, wn_decode_iq1_m, wn_decode_iq2_xxs, wn_decode_iq2_xs, wn_decode_iq2_s;
wn_decode_fn wn_decode_iq3_xxs, wn_decode_iq3_s;

/* ternary.c */
wn_decode_fn wn_decode_tq1_0, wn_decode_tq2_0;

/* mxfp4.c: 4-bit floats */
wn_decode_fn wn_decode_mxfp4, wn_decode_nvfp4;

#endif
