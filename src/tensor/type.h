/*
 * The table of tensor types: how many elements and bytes make a block, and what each file format calls it.
 *
 * K3's MXFP4 exists twice: WN_MXFP4 is GGUF's interleaved block (scale byte, then 16 bytes that hold elements j and
 * j + 16 together); WN_MXFP4_SPLIT is the HF manner, two arrays: packed codes with neighbours together, and e8m0
 * scales.
 */
#ifndef WN_TENSOR_TYPE_H
#define WN_TENSOR_TYPE_H

#include <winnow/common.h>

enum wn_type {
    WN_F32,
    WN_F16,
    WN_BF16,
    WN_F64,
    WN_Q4_0,
    WN_Q4_1,
    WN_Q5_0,
    WN_Q5_1,
    WN_Q8_0,
    WN_Q2_K,
    WN_Q3_K,
    WN_Q4_K,
    WN_Q5_K,
    WN_Q6_K,
    WN_IQ1_S,
    WN_IQ1_M,
    WN_IQ2_XXS,
    WN_IQ2_XS,
    WN_IQ2_S,
    WN_IQ3_XXS,
    WN_IQ3_S,
    WN_IQ4_NL,
    WN_IQ4_XS,
    WN_TQ1_0,
    WN_TQ2_0,
    WN_MXFP4,
    WN_NVFP4,
    WN_Q1_0,
    WN_Q2_0,
    WN_MXFP4_SPLIT, /* data: 16 bytes a block of 32; the scale byte lies in an array of its own */
    WN_AFFINE2,     /* codes only, as MLX packs them; scales and biases lie in arrays of their own (quant/affine.h) */
    WN_AFFINE3,
    WN_AFFINE4,
    WN_AFFINE5,
    WN_AFFINE6,
    WN_AFFINE8,
    WN_I8,
    WN_I16,
    WN_I32,
    WN_I64,
    WN_U8,
    WN_U16,
    WN_U32,
    WN_U64,
    WN_BOOL,
    WN_F8_E4M3,
    WN_F8_E5M2,
    WN_F8_E8M0,
    WN_C64,
    WN_TYPE_COUNT
};

struct wn_type_info {
    const char *name;        /* as GGUF tools print it, e.g. "Q4_K"; never NULL */
    uint32_t block_elements; /* elements of one block, >= 1 */
    uint32_t block_bytes;    /* bytes of one block, >= 1 */
    int gguf_id;             /* ggml's type number, -1 where GGUF has none */
    const char *safetensors; /* dtype name there, NULL where it has none */
};

/* The row of a type; t must be below WN_TYPE_COUNT. */
const struct wn_type_info *wn_type_info(enum wn_type t);

/* True and *t set when the id or name is known. */
WN_CHECKED bool wn_type_from_gguf(uint32_t id, enum wn_type *t);
WN_CHECKED bool wn_type_from_safetensors(const char *dtype, size_t n, enum wn_type *t);
WN_CHECKED bool wn_type_from_name(const char *name, enum wn_type *t);

/* *bytes = bytes of n elements in a row; false when n is not whole blocks or the product overflows. */
WN_CHECKED bool wn_type_bytes(enum wn_type t, uint64_t n, uint64_t *bytes);

#endif
