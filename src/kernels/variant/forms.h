/*
 * The stored forms that a variant reads fast. A form is a function from a block of 32 elements to their values; the
 * loops around it are in dot.h. Blocks whose scales lie together form a span, which has a second function that unpacks
 * them once. Forms of 256 elements are in forms_k.h, the list of all in forms_all.h.
 * The order of operations is that of quant/ (docs/formats/quants.md).
 */
#ifndef WN_KERNELS_VARIANT_FORMS_H
#define WN_KERNELS_VARIANT_FORMS_H

#include "kernels/kernels.h"
#include "quant/grids.h"
#include "quant/quant.h"

/*
 * Half of the e8m0 scale 2^(s - 127) as the bits of a float, the way ggml counts it: 2^-128 and 2^-127 are denormal,
 * 255 is half of 2^128. A table, because working it out took longer than the rest of a block.
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

#define SIDE 32 /* spans whose scales are unpacked at a time */

/* Scales and biases of SIDE spans: of spans s / SIDE * SIDE and on. */
struct side {
    float scale[SIDE], bias[SIDE];
};

/* A row in some stored form. */
struct stored {
    const uint8_t *data, *scales, *biases; /* the latter two of the types that have them apart */
    enum wn_type scale_type;
    const struct side *side; /* of affine rows */
};

/*
 * What the blocks of a span share; each form uses a part, and the rest costs nothing. Spread over a register while they
 * are loaded from memory, they are free.
 */
struct shared {
    float d, bias;
    float scales[16], biases[16]; /* of 16 elements each, or of 32 */
};

/* Elements 32 j .. 32 j + 31 of the span at p. */
typedef v32 block_fn(const uint8_t *p, const struct shared *h, size_t j);
/* Fills what the blocks of span s of w, at p, share. */
typedef void span_fn(const struct stored *w, const uint8_t *p, size_t s, struct shared *h);

struct form {
    block_fn *block;
    span_fn *span;
    size_t blocks, bytes; /* of a span */
};

/* ---- floats: any number of elements ---- */

INLINE void span_plain(const struct stored *w, const uint8_t *p, size_t s, struct shared *h)
{
    (void)w, (void)p, (void)s, (void)h;
}

INLINE v32 block_f32(const uint8_t *p, const struct shared *h, size_t j)
{
    (void)h, (void)j;
    return v32_load((const float *)(const void *)p);
}

INLINE v32 block_bf16(const uint8_t *p, const struct shared *h, size_t j)
{
    (void)h, (void)j;
    return v32_of_bf16(p);
}

INLINE v32 block_f16(const uint8_t *p, const struct shared *h, size_t j)
{
    (void)h, (void)j;
    return v32_of_f16(p);
}

/* ---- one scale for 32 ---- */

INLINE void span_f16_scale(const struct stored *w, const uint8_t *p, size_t s, struct shared *h)
{
    (void)w, (void)s;
    h->d = float_of_f16(p);
}

INLINE v32 block_q8_0(const uint8_t *p, const struct shared *h, size_t j)
{
    (void)j;
    return v32_of_i8(p + 2, h->d);
}

INLINE v32 block_q4_0(const uint8_t *p, const struct shared *h, size_t j)
{
    static const int8_t values[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};

    (void)j;
    return v32_of_book(p + 2, values, h->d);
}

INLINE v32 block_iq4_nl(const uint8_t *p, const struct shared *h, size_t j)
{
    (void)j;
    return v32_of_book(p + 2, wn_iq4nl_values, h->d);
}

/* The values of FP4, doubled; d is half the scale, so that the product is exact or overflows. */
static const int8_t doubled_fp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

INLINE void span_mxfp4(const struct stored *w, const uint8_t *p, size_t s, struct shared *h)
{
    (void)w, (void)s;
    h->d = e8m0_half(p[0]);
}

INLINE v32 block_mxfp4(const uint8_t *p, const struct shared *h, size_t j)
{
    (void)j;
    return v32_of_book(p + 1, doubled_fp4, h->d);
}

INLINE void span_mxfp4_split(const struct stored *w, const uint8_t *p, size_t s, struct shared *h)
{
    (void)p;
    h->d = e8m0_half(w->scales[s]);
}

INLINE v32 block_mxfp4_split(const uint8_t *p, const struct shared *h, size_t j)
{
    (void)j;
    return v32_of_book_pairs(p, doubled_fp4, h->d);
}

/* ---- affine: a scale and a bias for a span ---- */

INLINE float float_of_bf16(const uint8_t *p)
{
    uint32_t bits = (uint32_t)(p[0] | p[1] << 8) << 16;
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* n numbers of a type, to floats: eight at a time, as the loops cannot wait for one after the other. */
INLINE void numbers_unpack(const uint8_t *p, enum wn_type type, size_t n, float *out)
{
    size_t i = 0;

    if (type == WN_F32) {
        memcpy(out, p, n * sizeof(*out));
        return;
    }
    for (; n - i >= 8; i += 8)
        if (type == WN_BF16)
            eight_of_bf16(p + 2 * i, out + i);
        else
            eight_of_f16(p + 2 * i, out + i);
    for (; i < n; i++)
        out[i] = type == WN_BF16 ? float_of_bf16(p + 2 * i) : float_of_f16(p + 2 * i);
}

/* Those of span s and on, `left` more spans of the row at most. Asks for those `ahead` bytes further on. */
INLINE void side_unpack(const struct stored *w, size_t s, size_t left, size_t ahead, struct side *side)
{
    size_t n = left < SIDE ? left : SIDE, step = w->scale_type == WN_F32 ? 4 : 2;

    __builtin_prefetch(w->scales + s * step + ahead);
    __builtin_prefetch(w->biases + s * step + ahead);
    numbers_unpack(w->scales + s * step, w->scale_type, n, side->scale);
    numbers_unpack(w->biases + s * step, w->scale_type, n, side->bias);
}

INLINE void span_affine(const struct stored *w, const uint8_t *p, size_t s, struct shared *h)
{
    (void)p;
    h->d = w->side->scale[s % SIDE];
    h->bias = w->side->bias[s % SIDE];
}

INLINE v32 block_affine2(const uint8_t *p, const struct shared *h, size_t j)
{
    const line l = line_of_2_bits(vf_set(h->d), vf_set(h->bias));
    v32 r;

#define STEP(i) r.at[i] = line_at_2_bits(l, vi_of_2_bits(p + 8 * j, i));
    EACH(STEP)
#undef STEP
    return r;
}

INLINE v32 block_affine4(const uint8_t *p, const struct shared *h, size_t j)
{
    const line l = line_of_4_bits(vf_set(h->d), vf_set(h->bias));
    v32 r;

#define STEP(i) r.at[i] = line_at_4_bits(l, vi_of_4_bits(p + 16 * j, i));
    EACH(STEP)
#undef STEP
    return r;
}

INLINE v32 block_affine8(const uint8_t *p, const struct shared *h, size_t j)
{
    v32 r;

#define STEP(i) r.at[i] = vf_add(vf_mul(vf_of_vi(vi_of_u8(p + 32 * j + (i)*WIDTH)), vf_set(h->d)), vf_set(h->bias));
    EACH(STEP)
#undef STEP
    return r;
}

#endif
