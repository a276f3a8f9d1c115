/* The register operations that variant/ is written in, for AVX2 with FMA and F16C: 8 floats a register. */
#ifndef WN_KERNELS_REGISTERS_AVX2_H
#define WN_KERNELS_REGISTERS_AVX2_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

#define WIDTH      8
#define REGS       4
#define EACH(step) step(0) step(1) step(2) step(3)
/* accumulators of one tile, TILE_ROWS of these, and the operands fit the 16 registers */
#define TILE_TOKENS 3
/* rows whose lanes fit the registers side by side, with those of x */
#define DOT_ROWS 2

typedef __m256 vf;                                    /* WIDTH floats */
typedef __m256 vm;                                    /* WIDTH truths: all bits or none */
typedef uint32_t vi __attribute__((vector_size(32))); /* WIDTH whole numbers: shifts and bits by C's own operators */
typedef struct {
    vf at[REGS]; /* the 32 lanes */
} v32;

INLINE vf vf_set(float f)
{
    return _mm256_set1_ps(f);
}

INLINE vf vf_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

/* p[0], p[stride], ...; stride < 2^28 */
INLINE vf vf_load_strided(const float *p, size_t stride)
{
    const __m256i number = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

    return _mm256_i32gather_ps(p, _mm256_mullo_epi32(number, _mm256_set1_epi32((int)stride)), sizeof(*p));
}

INLINE void vf_store(float *p, vf a)
{
    _mm256_storeu_ps(p, a);
}

/* The first n lanes (n may be WIDTH or more: all). */
INLINE vm vf_first(size_t n)
{
    const __m256i number = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n < WIDTH ? (int)n : WIDTH), number));
}

/* Touches the first n floats only; the others load as 0. */
INLINE vf vf_load_first(const float *p, size_t n)
{
    return _mm256_maskload_ps(p, _mm256_castps_si256(vf_first(n)));
}

INLINE void vf_store_first(float *p, vf a, size_t n)
{
    _mm256_maskstore_ps(p, _mm256_castps_si256(vf_first(n)), a);
}

INLINE vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}

INLINE vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}

INLINE vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}

INLINE vf vf_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}

/* a * b + c, rounded once */
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* a < b; false where either is a NaN */
INLINE vm vf_less(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}

/* m ? a : b */
INLINE vf vf_pick(vm m, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, m);
}

INLINE vf vf_abs(vf a)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}

/* |a| with the sign of b, for a without a sign of its own */
INLINE vf vf_give_sign(vf a, vf b)
{
    return _mm256_or_ps(a, _mm256_and_ps(_mm256_set1_ps(-0.0f), b));
}

/* q * 2^n in two halves (poly.h); n as its bits and those of `rounder` */
INLINE vf vf_times_power(vf q, vf n_rounded, vf rounder)
{
    const __m256i bias = _mm256_set1_epi32(127);
    __m256i n = _mm256_sub_epi32(_mm256_castps_si256(n_rounded), _mm256_castps_si256(rounder));
    __m256i half = _mm256_srai_epi32(n, 1);
    __m256i a = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    __m256i b = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(n, half), bias), 23);

    return _mm256_mul_ps(_mm256_mul_ps(q, _mm256_castsi256_ps(a)), _mm256_castsi256_ps(b));
}

/* Folds the lanes of one register in halves. */
INLINE float vf_fold(vf a)
{
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));

    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

/* The folds of a and b as far as four lanes each, beside each other. */
INLINE vf vf_fold_to_halves(vf a, vf b)
{
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

/* y[0 .. 3] = the folds of a, b, c, d */
INLINE void vf_fold_4(vf a, vf b, vf c, vf d, float *y)
{
    vf ac = vf_fold_to_halves(a, c), bd = vf_fold_to_halves(b, d);
    vf sum = _mm256_add_ps(_mm256_shuffle_ps(ac, bd, 0x44), _mm256_shuffle_ps(ac, bd, 0xee));

    sum = _mm256_add_ps(sum, _mm256_movehdup_ps(sum));
    _mm_storeu_ps(y, _mm_shuffle_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1), 0x88));
}

/* 32 stored weights to floats. */
INLINE v32 v32_of_bf16(const uint8_t *p)
{
    v32 r;

#define STEP(i)                                                                                                        \
    r.at[i] = _mm256_castsi256_ps(                                                                                     \
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p + 16 * (i)))), 16));
    EACH(STEP)
#undef STEP
    return r;
}

INLINE v32 v32_of_f16(const uint8_t *p)
{
    v32 r;

#define STEP(i) r.at[i] = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 16 * (i))));
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

INLINE vf vf_of_i8(__m128i bytes, vf d)
{
    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), d);
}

INLINE v32 v32_of_i8(const uint8_t *p, float d)
{
    v32 r;

#define STEP(i) r.at[i] = vf_of_i8(_mm_loadl_epi64((const __m128i *)(p + 8 * (i))), _mm256_set1_ps(d));
    EACH(STEP)
#undef STEP
    return r;
}

/* The book's values of the low nibbles. */
INLINE __m128i book_at(const int8_t *book, __m128i b)
{
    return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)book), _mm_and_si128(b, _mm_set1_epi8(15)));
}

INLINE v32 v32_of_byte_pair(__m128i a, __m128i b, vf d)
{
    v32 r = {{vf_of_i8(a, d), vf_of_i8(_mm_srli_si128(a, 8), d), vf_of_i8(b, d), vf_of_i8(_mm_srli_si128(b, 8), d)}};

    return r;
}

/* Byte j holds the codes of elements j and j + 16; the book's values are taken times d. */
INLINE v32 v32_of_book(const uint8_t *p, const int8_t *book, float d)
{
    __m128i b = _mm_loadu_si128((const __m128i *)p);

    return v32_of_byte_pair(book_at(book, b), book_at(book, _mm_srli_epi16(b, 4)), _mm256_set1_ps(d));
}

/* Byte j holds those of elements 2 j and 2 j + 1. */
INLINE v32 v32_of_book_pairs(const uint8_t *p, const int8_t *book, float d)
{
    __m128i b = _mm_loadu_si128((const __m128i *)p);
    __m128i low = book_at(book, b), high = book_at(book, _mm_srli_epi16(b, 4));

    return v32_of_byte_pair(_mm_unpacklo_epi8(low, high), _mm_unpackhi_epi8(low, high), _mm256_set1_ps(d));
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

/* WIDTH bytes as numbers. */
INLINE vi vi_of_u8(const uint8_t *p)
{
    return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}

INLINE __m256i word_everywhere(const uint8_t *p)
{
    int32_t word;

    memcpy(&word, p, sizeof(word));
    return _mm256_set1_epi32(word);
}

/* Elements i WIDTH .. of a stream of two-bit codes, one in the low bits of each lane, others above it. */
INLINE vi vi_of_2_bits(const uint8_t *p, size_t i)
{
    const __m256i shift =
        i % 2 ? _mm256_setr_epi32(16, 18, 20, 22, 24, 26, 28, 30) : _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);

    return (vi)_mm256_srlv_epi32(word_everywhere(p + i / 2 * 4), shift);
}

/* The same of four-bit codes. */
INLINE vi vi_of_4_bits(const uint8_t *p, size_t i)
{
    const __m256i shift = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);

    return (vi)_mm256_srlv_epi32(word_everywhere(p + 4 * i), shift);
}

/* Signed. */
INLINE vf vf_of_vi(vi a)
{
    return _mm256_cvtepi32_ps((__m256i)a);
}

/* The four values scale * number + bias, the product rounded, looked up by the low two bits of each lane. */
typedef vf four;

INLINE four four_of(vf scale, vf bias)
{
    const vf q = _mm256_setr_ps(0, 1, 2, 3, 0, 1, 2, 3);

    return _mm256_add_ps(_mm256_mul_ps(q, scale), bias);
}

INLINE vf four_at(four values, vi number)
{
    return _mm256_permutevar_ps(values, (__m256i)number);
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
    return _mm256_add_ps(_mm256_mul_ps(vf_of_vi(code & 15), l.scale), l.bias);
}

/* Bytes i WIDTH .. of the 16 of two words. */
INLINE vi vi_of_words(uint64_t low, uint64_t high, size_t i)
{
    return (vi)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)(i ? high : low)));
}

/* The first n of WIDTH stored numbers of two bytes, the others 0. */
INLINE __m128i halves_first(const uint8_t *p, size_t n)
{
    uint8_t copy[16] = {0};

    if (n >= WIDTH)
        return _mm_loadu_si128((const __m128i *)p);
    memcpy(copy, p, 2 * n);
    return _mm_loadu_si128((const __m128i *)copy);
}

INLINE vf vf_of_bf16(const uint8_t *p, size_t n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves_first(p, n)), 16));
}

INLINE vf vf_of_f16(const uint8_t *p, size_t n)
{
    return _mm256_cvtph_ps(halves_first(p, n));
}

#endif
