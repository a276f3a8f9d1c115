/*
 * The stored forms that a variant reads fast. A form is a function from a block of 32 elements to a register of their
 * values; the loops around it are in dot.h. A register at a time, so that it is multiplied where it is made: whole
 * blocks of rows side by side would not fit AVX2's registers. Blocks whose scales lie together form a span, which has a
 * second function that unpacks them once. Forms of 256 elements are in forms_k.h, the list of all in forms_all.h.
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

#define SIDE 64 /* spans whose scales are unpacked at a time: those of a row of K3's experts */

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

/* Of elements 32 j .. 32 j + 31 of the span at p, register i. */
typedef vf part_fn(const uint8_t *p, const struct shared *h, size_t j, size_t i);
/* Fills what the blocks of span s of w, at p, share. */
typedef void span_fn(const struct stored *w, const uint8_t *p, size_t s, struct shared *h);

struct form {
    part_fn *part;
    span_fn *span;
    size_t blocks, bytes; /* of a span */
};

/* A part function by what gives all 32 values, which compilers work out once. */
#define PART(name, value)                                                                                              \
    INLINE vf part_##name(const uint8_t *p, const struct shared *h, size_t j, size_t i)                                \
    {                                                                                                                  \
        (void)h, (void)j;                                                                                              \
        return (value).at[i];                                                                                          \
    }

/* ---- floats: any number of elements ---- */

INLINE void span_plain(const struct stored *w, const uint8_t *p, size_t s, struct shared *h)
{
    (void)w, (void)p, (void)s, (void)h;
}

PART(f32, v32_load((const float *)(const void *)p))
PART(bf16, v32_of_bf16(p))
PART(f16, v32_of_f16(p))

/* ---- one scale for 32 ---- */

INLINE void span_f16_scale(const struct stored *w, const uint8_t *p, size_t s, struct shared *h)
{
    (void)w, (void)s;
    h->d = float_of_f16(p);
}

static const int8_t q4_0_values[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};

PART(q8_0, v32_of_i8(p + 2, h->d))
PART(q4_0, v32_of_book(p + 2, q4_0_values, h->d))
PART(iq4_nl, v32_of_book(p + 2, wn_iq4nl_values, h->d))

/* The values of FP4, doubled; d is half the scale, so that the product is exact or overflows. */
static const int8_t doubled_fp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

INLINE void span_mxfp4(const struct stored *w, const uint8_t *p, size_t s, struct shared *h)
{
    (void)w, (void)s;
    h->d = e8m0_half(p[0]);
}

INLINE void span_mxfp4_split(const struct stored *w, const uint8_t *p, size_t s, struct shared *h)
{
    (void)p;
    h->d = e8m0_half(w->scales[s]);
}

PART(mxfp4, v32_of_book(p + 1, doubled_fp4, h->d))
PART(mxfp4_split, v32_of_book_pairs(p, doubled_fp4, h->d))

/* ---- affine: a scale and a bias for a span ---- */

INLINE vf vf_of_f32(const uint8_t *p, size_t n)
{
    return vf_load_first((const float *)(const void *)p, n);
}

/* n numbers of `bytes` bytes each to floats, a register at a time: the loops cannot wait for one after the other. */
INLINE void numbers_unpack(vf (*unpack)(const uint8_t *p, size_t n), const uint8_t *p, size_t bytes, size_t n,
                           float *out)
{
    size_t i = 0;

    for (; n - i >= WIDTH; i += WIDTH)
        vf_store(out + i, unpack(p + i * bytes, WIDTH));
    if (i < n)
        vf_store_first(out + i, unpack(p + i * bytes, n - i), n - i);
}

#define SMALL 0x1p119f /* times a code of 8 bits it does not overflow */

/* True if all n numbers are small: no infinity, no NaN. */
INLINE bool all_small(const float *p, size_t n)
{
    vf large = vf_set(0);

    for (size_t i = 0; i < n; i += WIDTH) {
        vf size = vf_abs(n - i < WIDTH ? vf_load_first(p + i, n - i) : vf_load(p + i));

        large = vf_add(large, vf_pick(vf_less(size, vf_set(SMALL)), vf_set(0), vf_set(1)));
    }
    return vf_fold(large) == 0;
}

/*
 * Those of span s and on, `left` more spans of the row at most. Asks for those `ahead` bytes further on. True if the
 * products of scales and codes are exact: scales of 16 bits have 11 that count at most and codes 8, so that they fit a
 * float unless they overflow.
 */
INLINE bool side_unpack(const struct stored *w, size_t s, size_t left, size_t ahead, struct side *side)
{
    const size_t n = left < SIDE ? left : SIDE, step = w->scale_type == WN_F32 ? 4 : 2;
    const uint8_t *scales = w->scales + s * step, *biases = w->biases + s * step;

    __builtin_prefetch(scales + ahead);
    __builtin_prefetch(biases + ahead);
    if (w->scale_type == WN_BF16) {
        numbers_unpack(vf_of_bf16, scales, 2, n, side->scale);
        numbers_unpack(vf_of_bf16, biases, 2, n, side->bias);
    } else if (w->scale_type == WN_F16) {
        numbers_unpack(vf_of_f16, scales, 2, n, side->scale);
        numbers_unpack(vf_of_f16, biases, 2, n, side->bias);
    } else {
        numbers_unpack(vf_of_f32, scales, 4, n, side->scale);
        numbers_unpack(vf_of_f32, biases, 4, n, side->bias);
    }
    return w->scale_type == WN_F16 || (w->scale_type == WN_BF16 && all_small(side->scale, n));
}

INLINE void span_affine(const struct stored *w, const uint8_t *p, size_t s, struct shared *h)
{
    (void)p;
    h->d = w->side->scale[s % SIDE];
    h->bias = w->side->bias[s % SIDE];
}

INLINE vf part_affine2(const uint8_t *p, const struct shared *h, size_t j, size_t i)
{
    return four_at(four_of(vf_set(h->d), vf_set(h->bias)), vi_of_2_bits(p + 8 * j, i));
}

INLINE vf part_affine4(const uint8_t *p, const struct shared *h, size_t j, size_t i)
{
    return line_at_4_bits(line_of_4_bits(vf_set(h->d), vf_set(h->bias)), vi_of_4_bits(p + 16 * j, i));
}

INLINE vf part_affine8(const uint8_t *p, const struct shared *h, size_t j, size_t i)
{
    return vf_add(vf_mul(vf_of_vi(vi_of_u8(p + 32 * j + i * WIDTH)), vf_set(h->d)), vf_set(h->bias));
}

/* The same bits where the products are exact. */
INLINE vf part_affine8_exact(const uint8_t *p, const struct shared *h, size_t j, size_t i)
{
    return vf_fma(vf_of_vi(vi_of_u8(p + 32 * j + i * WIDTH)), vf_set(h->d), vf_set(h->bias));
}

#endif
