/*
 * Short blocks under one f16 scale d: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL (32 elements), Q2_0 (64), Q1_0 (128).
 * The 4-bit types keep element j and element j + 16 in one byte, low nibble first.
 */
#include "quant/family.h"
#include "quant/f16.h"
#include "quant/grids.h"

#include <math.h>

#define HALF 16 /* elements from the low nibbles, then as many from the high ones */

void wn_decode_q4_0(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= 32, b += 18, y += 32) {
        float d = wn_f16_at(b);

        for (int j = 0; j < HALF; j++) {
            y[j] = (float)((b[2 + j] & 15) - 8) * d;
            y[j + HALF] = (float)((b[2 + j] >> 4) - 8) * d;
        }
    }
}

void wn_decode_q4_1(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= 32, b += 20, y += 32) {
        float d = wn_f16_at(b), m = wn_f16_at(b + 2);

        for (int j = 0; j < HALF; j++) {
            y[j] = (float)(b[4 + j] & 15) * d + m;
            y[j + HALF] = (float)(b[4 + j] >> 4) * d + m;
        }
    }
}

/* The fifth bit of element j is bit j of `high`. */
static inline int with_fifth(int nibble, uint32_t high, int j)
{
    return nibble | (int)(high >> j & 1) << 4;
}

void wn_decode_q5_0(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= 32, b += 22, y += 32) {
        float d = wn_f16_at(b);
        uint32_t high = wn_load32(b + 2);

        for (int j = 0; j < HALF; j++) {
            y[j] = (float)(with_fifth(b[6 + j] & 15, high, j) - 16) * d;
            y[j + HALF] = (float)(with_fifth(b[6 + j] >> 4, high, j + HALF) - 16) * d;
        }
    }
}

void wn_decode_q5_1(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= 32, b += 24, y += 32) {
        float d = wn_f16_at(b), m = wn_f16_at(b + 2);
        uint32_t high = wn_load32(b + 4);

        for (int j = 0; j < HALF; j++) {
            y[j] = (float)with_fifth(b[8 + j] & 15, high, j) * d + m;
            y[j + HALF] = (float)with_fifth(b[8 + j] >> 4, high, j + HALF) * d + m;
        }
    }
}

void wn_decode_q8_0(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= 32, b += 34, y += 32) {
        float d = wn_f16_at(b);

        for (int j = 0; j < 32; j++)
            y[j] = (float)(int8_t)b[2 + j] * d;
    }
}

void wn_decode_iq4_nl(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= 32, b += 18, y += 32) {
        float d = wn_f16_at(b);

        for (int j = 0; j < HALF; j++) {
            y[j] = d * (float)wn_iq4nl_values[b[2 + j] & 15];
            y[j + HALF] = d * (float)wn_iq4nl_values[b[2 + j] >> 4];
        }
    }
}

void wn_decode_q1_0(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= 128, b += 18, y += 128) {
        const float value[2] = {-wn_f16_at(b), wn_f16_at(b)};

        for (int j = 0; j < 128; j++)
            y[j] = value[b[2 + j / 8] >> j % 8 & 1];
    }
}

void wn_decode_q2_0(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= 64, b += 18, y += 64) {
        float d = wn_f16_at(b);

        for (int j = 0; j < 64; j++)
            y[j] = (float)((b[2 + j / 4] >> 2 * (j % 4) & 3) - 1) * d;
    }
}

/* Nearest whole number, halves away from zero, held within +-127; a NaN gives 0. */
static int8_t to_int8(float x)
{
    float r = roundf(x);

    if (r >= 127)
        return 127;
    if (r <= -127)
        return -127;
    return r == r ? (int8_t)r : 0;
}

/* The largest |x|, or NaN when there is one: a block with a fault in it must not decode to harmless numbers. */
static float largest(const float *x, int n)
{
    float max = 0;

    for (int i = 0; i < n; i++) {
        float size = fabsf(x[i]);

        if (size != size)
            return size;
        if (size > max)
            max = size;
    }
    return max;
}

/* The codes come from the unrounded f32 scale, the f16 beside them is its rounding. */
void wn_encode_q8_0(const float *x, uint8_t *b, size_t n)
{
    for (; n > 0; n -= 32, b += 34, x += 32) {
        float d = largest(x, 32) / 127;
        float inverse = d != 0 ? 1 / d : 0;

        wn_store16(b, wn_f32_to_f16(d));
        for (int j = 0; j < 32; j++)
            b[2 + j] = (uint8_t)to_int8(x[j] * inverse);
    }
}
