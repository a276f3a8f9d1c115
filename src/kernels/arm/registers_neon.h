/* The register operations that variant/ is written in, for Advanced SIMD on aarch64: 4 floats a register. */
#ifndef WN_KERNELS_REGISTERS_NEON_H
#define WN_KERNELS_REGISTERS_NEON_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

#define WIDTH      4
#define REGS       8
#define EACH(step) step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7)
/* accumulators of one tile, TILE_ROWS of these, and the operands fit the 32 registers */
#define TILE_TOKENS 6
/* rows whose lanes fit the registers side by side, with those of x */
#define DOT_ROWS 2

typedef float32x4_t vf;                               /* WIDTH floats */
typedef uint32x4_t vm;                                /* WIDTH truths: all bits or none */
typedef uint32_t vi __attribute__((vector_size(16))); /* WIDTH whole numbers: shifts and bits by C's own operators */
typedef struct {
    vf at[REGS]; /* the 32 lanes */
} v32;

INLINE vf vf_set(float f)
{
    return vdupq_n_f32(f);
}

INLINE vf vf_load(const float *p)
{
    return vld1q_f32(p);
}

/* p[0], p[stride], ... */
INLINE vf vf_load_strided(const float *p, size_t stride)
{
    vf a = vld1q_lane_f32(p, vdupq_n_f32(0), 0);

    a = vld1q_lane_f32(p + stride, a, 1);
    a = vld1q_lane_f32(p + 2 * stride, a, 2);
    return vld1q_lane_f32(p + 3 * stride, a, 3);
}

INLINE void vf_store(float *p, vf a)
{
    vst1q_f32(p, a);
}

/* The first n lanes (n may be WIDTH or more: all). */
INLINE vm vf_first(size_t n)
{
    static const uint32_t number[WIDTH] = {0, 1, 2, 3};

    return vcltq_u32(vld1q_u32(number), vdupq_n_u32(n < WIDTH ? (uint32_t)n : WIDTH));
}

/* Touches the first n floats only; the others load as 0. */
INLINE vf vf_load_first(const float *p, size_t n)
{
    float copy[WIDTH] = {0};

    memcpy(copy, p, (n < WIDTH ? n : WIDTH) * sizeof(*p));
    return vld1q_f32(copy);
}

INLINE void vf_store_first(float *p, vf a, size_t n)
{
    float copy[WIDTH];

    vst1q_f32(copy, a);
    memcpy(p, copy, (n < WIDTH ? n : WIDTH) * sizeof(*p));
}

INLINE vf vf_add(vf a, vf b)
{
    return vaddq_f32(a, b);
}

INLINE vf vf_sub(vf a, vf b)
{
    return vsubq_f32(a, b);
}

INLINE vf vf_mul(vf a, vf b)
{
    return vmulq_f32(a, b);
}

INLINE vf vf_div(vf a, vf b)
{
    return vdivq_f32(a, b);
}

/* a * b + c, rounded once */
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}

/* a < b; false where either is a NaN */
INLINE vm vf_less(vf a, vf b)
{
    return vcltq_f32(a, b);
}

/* m ? a : b */
INLINE vf vf_pick(vm m, vf a, vf b)
{
    return vbslq_f32(m, a, b);
}

INLINE vf vf_abs(vf a)
{
    return vabsq_f32(a);
}

/* |a| with the sign of b, for a without a sign of its own */
INLINE vf vf_give_sign(vf a, vf b)
{
    return vbslq_f32(vdupq_n_u32(0x80000000u), b, a);
}

/* q * 2^n in two halves (poly.h); n as its bits and those of `rounder` */
INLINE vf vf_times_power(vf q, vf n_rounded, vf rounder)
{
    const int32x4_t bias = vdupq_n_s32(127);
    int32x4_t n = vsubq_s32(vreinterpretq_s32_f32(n_rounded), vreinterpretq_s32_f32(rounder));
    int32x4_t half = vshrq_n_s32(n, 1);
    int32x4_t a = vshlq_n_s32(vaddq_s32(half, bias), 23);
    int32x4_t b = vshlq_n_s32(vaddq_s32(vsubq_s32(n, half), bias), 23);

    return vmulq_f32(vmulq_f32(q, vreinterpretq_f32_s32(a)), vreinterpretq_f32_s32(b));
}

/* Folds the lanes of one register in halves. */
INLINE float vf_fold(vf a)
{
    float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));

    return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}

/* Lanes 0 and 1 of a's fold, then of b's. */
INLINE vf vf_fold_to_halves(vf a, vf b)
{
    return vaddq_f32(vcombine_f32(vget_low_f32(a), vget_low_f32(b)), vcombine_f32(vget_high_f32(a), vget_high_f32(b)));
}

/* y[0 .. 3] = the folds of a, b, c, d */
INLINE void vf_fold_4(vf a, vf b, vf c, vf d, float *y)
{
    vst1q_f32(y, vpaddq_f32(vf_fold_to_halves(a, b), vf_fold_to_halves(c, d)));
}

/* 32 stored weights to floats. */
INLINE uint16x4_t load_u16(const uint8_t *p)
{
    return vreinterpret_u16_u8(vld1_u8(p));
}

INLINE v32 v32_of_bf16(const uint8_t *p)
{
    v32 r;

#define STEP(i) r.at[i] = vreinterpretq_f32_u32(vshll_n_u16(load_u16(p + 8 * (i)), 16));
    EACH(STEP)
#undef STEP
    return r;
}

INLINE v32 v32_of_f16(const uint8_t *p)
{
    v32 r;

#define STEP(i) r.at[i] = vcvt_f32_f16(vreinterpret_f16_u16(load_u16(p + 8 * (i))));
    EACH(STEP)
#undef STEP
    return r;
}

INLINE float float_of_f16(const uint8_t *p)
{
    uint16_t h;

    memcpy(&h, p, sizeof(h));
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h))), 0);
}

/* Two registers of 16 bytes, as integers times d. */
INLINE v32 v32_of_byte_pair(int8x16_t a, int8x16_t b, float d)
{
    const int16x8_t wide[4] = {vmovl_s8(vget_low_s8(a)), vmovl_s8(vget_high_s8(a)), vmovl_s8(vget_low_s8(b)),
                               vmovl_s8(vget_high_s8(b))};
    v32 r;

#define STEP(i)                                                                                                        \
    r.at[i] = vmulq_n_f32(                                                                                             \
        vcvtq_f32_s32(vmovl_s16((i) % 2 ? vget_high_s16(wide[(i) / 2]) : vget_low_s16(wide[(i) / 2]))), d);
    EACH(STEP)
#undef STEP
    return r;
}

INLINE v32 v32_of_i8(const uint8_t *p, float d)
{
    return v32_of_byte_pair(vreinterpretq_s8_u8(vld1q_u8(p)), vreinterpretq_s8_u8(vld1q_u8(p + 16)), d);
}

/* The book's values of the codes. */
INLINE int8x16_t book_at(const int8_t *book, uint8x16_t codes)
{
    return vqtbl1q_s8(vld1q_s8(book), codes);
}

/* Byte j holds the codes of elements j and j + 16; the book's values are taken times d. */
INLINE v32 v32_of_book(const uint8_t *p, const int8_t *book, float d)
{
    uint8x16_t b = vld1q_u8(p);

    return v32_of_byte_pair(book_at(book, vandq_u8(b, vdupq_n_u8(15))), book_at(book, vshrq_n_u8(b, 4)), d);
}

/* Byte j holds those of elements 2 j and 2 j + 1. */
INLINE v32 v32_of_book_pairs(const uint8_t *p, const int8_t *book, float d)
{
    uint8x16_t b = vld1q_u8(p);
    int8x16_t low = book_at(book, vandq_u8(b, vdupq_n_u8(15))), high = book_at(book, vshrq_n_u8(b, 4));

    return v32_of_byte_pair(vzip1q_s8(low, high), vzip2q_s8(low, high), d);
}

/* To the order in which elements of pairs come, and back: none of its own here. */
INLINE v32 v32_apart(v32 a)
{
    return a;
}

INLINE v32 v32_together(v32 a)
{
    return a;
}

INLINE vi vi_of_4_bytes(uint32_t bytes)
{
    return (vi)vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(bytes)))));
}

/* WIDTH bytes as numbers. */
INLINE vi vi_of_u8(const uint8_t *p)
{
    uint32_t bytes;

    memcpy(&bytes, p, sizeof(bytes));
    return vi_of_4_bytes(bytes);
}

/* Bytes i WIDTH .. of the 16 of two words. */
INLINE vi vi_of_words(uint64_t low, uint64_t high, size_t i)
{
    return vi_of_4_bytes((uint32_t)((i < 2 ? low : high) >> i % 2 * 32));
}

/* Elements i WIDTH .. of a stream of two-bit codes, one in the low bits of each lane, others above it. */
INLINE vi vi_of_2_bits(const uint8_t *p, size_t i)
{
    static const int32_t shift[WIDTH] = {0, -2, -4, -6};

    return (vi)vshlq_u32(vdupq_n_u32(p[i]), vld1q_s32(shift));
}

/* The same of four-bit codes. */
INLINE vi vi_of_4_bits(const uint8_t *p, size_t i)
{
    static const int32_t shift[WIDTH] = {0, -4, -8, -12};

    return (vi)vshlq_u32(vdupq_n_u32(p[2 * i] | (uint32_t)p[2 * i + 1] << 8), vld1q_s32(shift));
}

/* Signed. */
INLINE vf vf_of_vi(vi a)
{
    return vcvtq_f32_s32((int32x4_t)a);
}

/* The four values scale * number + bias, the product rounded, looked up by the low two bits of each lane. */
typedef uint8x16_t four;

INLINE four four_of(vf scale, vf bias)
{
    static const float q[WIDTH] = {0, 1, 2, 3};

    return vreinterpretq_u8_f32(vaddq_f32(vmulq_f32(vld1q_f32(q), scale), bias));
}

INLINE vf four_at(four values, vi number)
{
    /* bytes 4 q to 4 q + 3 are those of value q */
    const uint32x4_t bytes = vmlaq_u32(vdupq_n_u32(0x03020100), (uint32x4_t)(number & 3), vdupq_n_u32(0x04040404));

    return vreinterpretq_f32_u8(vqtbl1q_u8(values, vreinterpretq_u8_u32(bytes)));
}

/* scale * q + bias, the product rounded */
typedef struct {
    vf scale, bias;
} line;

INLINE line line_of_4_bits(vf scale, vf bias)
{
    return (line){scale, bias};
}

/* The low bits of each lane count. */
INLINE vf line_at_4_bits(line l, vi code)
{
    return vaddq_f32(vmulq_f32(vf_of_vi(code & 15), l.scale), l.bias);
}

/* The first n of WIDTH stored numbers of two bytes, the others 0. */
INLINE uint16x4_t halves_first(const uint8_t *p, size_t n)
{
    uint8_t copy[8] = {0};

    memcpy(copy, p, 2 * (n < WIDTH ? n : WIDTH));
    return load_u16(copy);
}

INLINE vf vf_of_bf16(const uint8_t *p, size_t n)
{
    return vreinterpretq_f32_u32(vshll_n_u16(halves_first(p, n), 16));
}

INLINE vf vf_of_f16(const uint8_t *p, size_t n)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(halves_first(p, n)));
}

#endif
