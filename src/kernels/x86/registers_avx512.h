/* The register operations that variant/ is written in, for AVX-512 F, BW, VL, DQ: 16 floats a register. */
#ifndef WN_KERNELS_REGISTERS_AVX512_H
#define WN_KERNELS_REGISTERS_AVX512_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

#define WIDTH      16
#define REGS       2
#define EACH(step) step(0) step(1)
/* accumulators of one tile, TILE_ROWS of these, and the operands fit the 32 registers */
#define TILE_TOKENS 6
/* rows whose lanes fit the registers side by side, with those of x */
#define DOT_ROWS 4

typedef __m512 vf;                                    /* WIDTH floats */
typedef __mmask16 vm;                                 /* WIDTH truths */
typedef uint32_t vi __attribute__((vector_size(64))); /* WIDTH whole numbers: shifts and bits by C's own operators */
typedef struct {
    vf at[REGS]; /* the 32 lanes */
} v32;

INLINE vf vf_set(float f)
{
    return _mm512_set1_ps(f);
}

INLINE vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

/* p[0], p[stride], ...; stride < 2^27 */
INLINE vf vf_load_strided(const float *p, size_t stride)
{
    const __m512i number = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);

    return _mm512_i32gather_ps(_mm512_mullo_epi32(number, _mm512_set1_epi32((int)stride)), p, sizeof(*p));
}

INLINE void vf_store(float *p, vf a)
{
    _mm512_storeu_ps(p, a);
}

/* The first n lanes (n may be WIDTH or more: all). */
INLINE vm vf_first(size_t n)
{
    return n >= WIDTH ? (vm)0xffff : (vm)((1u << n) - 1);
}

/* Touches the first n floats only; the others load as 0. */
INLINE vf vf_load_first(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps(vf_first(n), p);
}

INLINE void vf_store_first(float *p, vf a, size_t n)
{
    _mm512_mask_storeu_ps(p, vf_first(n), a);
}

INLINE vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

INLINE vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

INLINE vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

INLINE vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}

/* a * b + c, rounded once */
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* a < b; false where either is a NaN */
INLINE vm vf_less(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

/* m ? a : b */
INLINE vf vf_pick(vm m, vf a, vf b)
{
    return _mm512_mask_blend_ps(m, b, a);
}

INLINE vf vf_abs(vf a)
{
    return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a);
}

/* |a| with the sign of b, for a without a sign of its own */
INLINE vf vf_give_sign(vf a, vf b)
{
    return _mm512_or_ps(a, _mm512_and_ps(_mm512_set1_ps(-0.0f), b));
}

/* q * 2^n in two halves (poly.h); n as its bits and those of `rounder` */
INLINE vf vf_times_power(vf q, vf n_rounded, vf rounder)
{
    const __m512i bias = _mm512_set1_epi32(127);
    __m512i n = _mm512_sub_epi32(_mm512_castps_si512(n_rounded), _mm512_castps_si512(rounder));
    __m512i half = _mm512_srai_epi32(n, 1);
    __m512i a = _mm512_slli_epi32(_mm512_add_epi32(half, bias), 23);
    __m512i b = _mm512_slli_epi32(_mm512_add_epi32(_mm512_sub_epi32(n, half), bias), 23);

    return _mm512_mul_ps(_mm512_mul_ps(q, _mm512_castsi512_ps(a)), _mm512_castsi512_ps(b));
}

/* Folds the lanes of one register in halves. */
INLINE float vf_fold(vf a)
{
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));

    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

/* y[0 .. 3] = the folds of a, b, c, d. Halves of two registers share one, then quarters of four do. */
INLINE void vf_fold_4(vf a, vf b, vf c, vf d, float *y)
{
    vf ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    vf cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
    vf sum = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));

    sum = _mm512_add_ps(sum, _mm512_shuffle_ps(sum, sum, 0x4e));
    sum = _mm512_add_ps(sum, _mm512_movehdup_ps(sum));
    _mm_storeu_ps(y, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, sum)));
}

/* 32 stored weights to floats. */
INLINE v32 v32_of_bf16(const uint8_t *p)
{
    v32 r;

#define STEP(i)                                                                                                        \
    r.at[i] = _mm512_castsi512_ps(                                                                                     \
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(p + 32 * (i)))), 16));
    EACH(STEP)
#undef STEP
    return r;
}

INLINE v32 v32_of_f16(const uint8_t *p)
{
    v32 r;

#define STEP(i) r.at[i] = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p + 32 * (i))));
    EACH(STEP)
#undef STEP
    return r;
}

INLINE float float_of_f16(const uint8_t *p)
{
    uint16_t h;

    memcpy(&h, p, sizeof(h));
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}

INLINE v32 v32_of_i8(const uint8_t *p, float d)
{
    v32 r;

#define STEP(i)                                                                                                        \
    r.at[i] =                                                                                                          \
        _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(p + 16 * (i))))),      \
                      _mm512_set1_ps(d));
    EACH(STEP)
#undef STEP
    return r;
}

/* The sixteen values of a book times d. */
INLINE vf book_times(const int8_t *book, float d)
{
    __m512i values = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)book));

    return _mm512_mul_ps(_mm512_cvtepi32_ps(values), _mm512_set1_ps(d));
}

/* Byte j holds the codes of elements j and j + 16. vpermps looks at the low four bits of an index only. */
INLINE v32 v32_of_book(const uint8_t *p, const int8_t *book, float d)
{
    const vf table = book_times(book, d);
    __m512i codes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
    v32 r = {{_mm512_permutexvar_ps(codes, table), _mm512_permutexvar_ps(_mm512_srli_epi32(codes, 4), table)}};

    return r;
}

/*
 * Byte j holds those of elements 2 j and 2 j + 1. Even elements come in one register and odd ones in the other: putting
 * them in order would take four more operations for each row, x apart takes two for all.
 */
INLINE v32 v32_of_book_pairs(const uint8_t *p, const int8_t *book, float d)
{
    return v32_of_book(p, book, d);
}

/* To the order of pairs, and back. */
INLINE v32 v32_apart(v32 a)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    v32 r = {{_mm512_permutex2var_ps(a.at[0], even, a.at[1]), _mm512_permutex2var_ps(a.at[0], odd, a.at[1])}};

    return r;
}

INLINE v32 v32_together(v32 a)
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    v32 r = {{_mm512_permutex2var_ps(a.at[0], low, a.at[1]), _mm512_permutex2var_ps(a.at[0], high, a.at[1])}};

    return r;
}

/* WIDTH bytes as numbers. */
INLINE vi vi_of_u8(const uint8_t *p)
{
    return (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}

/* Elements i WIDTH .. of a stream of two-bit codes, one in the low bits of each lane, others above it. */
INLINE vi vi_of_2_bits(const uint8_t *p, size_t i)
{
    const __m512i shift = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    int32_t word;

    memcpy(&word, p + 4 * i, sizeof(word));
    return (vi)_mm512_srlv_epi32(_mm512_set1_epi32(word), shift);
}

/* The same of 32 four-bit codes, in the order of pairs. */
INLINE vi vi_of_4_bits(const uint8_t *p, size_t i)
{
    return vi_of_u8(p) >> (int)(4 * i);
}

/* Signed. */
INLINE vf vf_of_vi(vi a)
{
    return _mm512_cvtepi32_ps((__m512i)a);
}

/* The four values scale * number + bias, the product rounded, looked up by the low two bits of each lane. */
typedef vf four;

INLINE four four_of(vf scale, vf bias)
{
    const vf q = _mm512_setr_ps(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3);

    return _mm512_add_ps(_mm512_mul_ps(q, scale), bias);
}

INLINE vf four_at(four values, vi number)
{
    return _mm512_permutevar_ps(values, (__m512i)number);
}

/*
 * scale * q + bias, the product rounded, for the few q there are: looked up by vpermps, which takes the low four bits
 * of an index.
 */
typedef vf line;

INLINE line line_of_4_bits(vf scale, vf bias)
{
    const vf q = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);

    return _mm512_add_ps(_mm512_mul_ps(q, scale), bias);
}

/* The low bits of each lane count. */
INLINE vf line_at_4_bits(line l, vi code)
{
    return _mm512_permutexvar_ps((__m512i)code, l);
}

/* Bytes i WIDTH .. of the 16 of two words. */
INLINE vi vi_of_words(uint64_t low, uint64_t high, size_t i)
{
    (void)i;
    return (vi)_mm512_cvtepu8_epi32(_mm_set_epi64x((int64_t)high, (int64_t)low));
}

/* The first n of WIDTH stored numbers, the others 0. */
INLINE vf vf_of_bf16(const uint8_t *p, size_t n)
{
    __m256i half = _mm256_maskz_loadu_epi16(vf_first(n), p);

    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

INLINE vf vf_of_f16(const uint8_t *p, size_t n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(vf_first(n), p));
}

#endif
