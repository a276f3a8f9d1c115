/*
 * Blocks of 256 elements whose groups of 16 or 32 have small integer scales under one f16 (Q3_K, Q6_K, IQ4_XS) or two,
 * the second for the groups' minima (Q2_K, Q4_K, Q5_K).
 */
#include "quant/family.h"
#include "quant/f16.h"
#include "quant/grids.h"

#define BLOCK 256

/* Two-bit codes in planes: 32 bytes hold 128 elements, element 32 * p + l in bits 2p and 2p + 1 of byte l. */
static inline int planar_code(const uint8_t *qs, int i)
{
    return qs[i / 128 * 32 + i % 32] >> 2 * (i / 32 % 4) & 3;
}

void wn_decode_q2_k(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= BLOCK, b += 84, y += BLOCK) {
        float d = wn_f16_at(b + 80), dmin = wn_f16_at(b + 82);

        for (int g = 0; g < 16; g++) {
            float scale = d * (float)(b[g] & 15), min = dmin * (float)(b[g] >> 4);

            for (int i = 16 * g; i < 16 * g + 16; i++)
                y[i] = scale * (float)planar_code(b + 16, i) - min;
        }
    }
}

/* Scale g of 16, six bits with 32 for zero: low four in nibbles of s[0..7], high two in s[8..11]. */
static inline int q3_k_scale(const uint8_t *s, int g)
{
    int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4;

    return (low | (s[8 + g % 4] >> 2 * (g / 4) & 3) << 4) - 32;
}

void wn_decode_q3_k(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= BLOCK, b += 110, y += BLOCK) {
        const uint8_t *high = b, *low = b + 32, *s = b + 96;
        float d = wn_f16_at(b + 108);

        for (int g = 0; g < 16; g++) {
            float scale = d * (float)q3_k_scale(s, g);

            for (int i = 16 * g; i < 16 * g + 16; i++) {
                int third = high[i % 32] >> i / 32 & 1;

                y[i] = scale * (float)(planar_code(low, i) - (third ? 0 : 4));
            }
        }
    }
}

/* Scale and minimum of group g of 8, six bits each in 12 bytes; Q4_K and Q5_K. */
static inline void q4_k_scale(const uint8_t *s, int g, int *scale, int *min)
{
    if (g < 4) {
        *scale = s[g] & 63;
        *min = s[g + 4] & 63;
    } else {
        *scale = (s[g + 4] & 15) | s[g - 4] >> 6 << 4;
        *min = s[g + 4] >> 4 | s[g] >> 6 << 4;
    }
}

void wn_decode_q4_k(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= BLOCK, b += 144, y += BLOCK) {
        float d = wn_f16_at(b), dmin = wn_f16_at(b + 2);

        for (int g = 0; g < 8; g++) {
            const uint8_t *qs = b + 16 + g / 2 * 32;
            int shift = g % 2 * 4, s, m;

            q4_k_scale(b + 4, g, &s, &m);
            float scale = d * (float)s, min = dmin * (float)m;

            for (int l = 0; l < 32; l++)
                y[32 * g + l] = scale * (float)(qs[l] >> shift & 15) - min;
        }
    }
}

void wn_decode_q5_k(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= BLOCK, b += 176, y += BLOCK) {
        const uint8_t *high = b + 16;
        float d = wn_f16_at(b), dmin = wn_f16_at(b + 2);

        for (int g = 0; g < 8; g++) {
            const uint8_t *qs = b + 48 + g / 2 * 32;
            int shift = g % 2 * 4, s, m;

            q4_k_scale(b + 4, g, &s, &m);
            float scale = d * (float)s, min = dmin * (float)m;

            for (int l = 0; l < 32; l++)
                y[32 * g + l] = scale * (float)((qs[l] >> shift & 15) | (high[l] >> g & 1) << 4) - min;
        }
    }
}

void wn_decode_q6_k(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= BLOCK, b += 210, y += BLOCK) {
        float d = wn_f16_at(b + 208);

        for (int g = 0; g < 16; g++) {
            float scale = d * (float)(int8_t)b[192 + g];

            for (int i = 16 * g; i < 16 * g + 16; i++) {
                /* element 128 * half + 32 * k + l */
                int half = i / 128, k = i / 32 % 4, l = i % 32;
                int low = b[64 * half + 32 * (k % 2) + l] >> (k < 2 ? 0 : 4) & 15;
                int high = b[128 + 32 * half + l] >> 2 * k & 3;

                y[i] = scale * (float)((low | high << 4) - 32);
            }
        }
    }
}

void wn_decode_iq4_xs(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= BLOCK, b += 136, y += BLOCK) {
        float d = wn_f16_at(b);
        unsigned scales_high = wn_load16(b + 2);

        for (int g = 0; g < 8; g++) {
            const uint8_t *qs = b + 8 + 16 * g;
            int low = b[4 + g / 2] >> g % 2 * 4 & 15, high = scales_high >> 2 * g & 3;
            float scale = d * (float)((low | high << 4) - 32);

            for (int j = 0; j < 16; j++) {
                y[32 * g + j] = scale * (float)wn_iq4nl_values[qs[j] & 15];
                y[32 * g + 16 + j] = scale * (float)wn_iq4nl_values[qs[j] >> 4];
            }
        }
    }
}
