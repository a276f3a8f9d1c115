/*
 * Blocks of 256 elements whose codes are rows of a code book (grids.h): IQ1_S and IQ1_M add a small delta to rows of
 * -1, 0, 1; IQ2 and IQ3 give each element of a row its sign. Indices have as many bits as their book has rows, so no
 * bytes can point outside.
 */
#include "quant/family.h"
#include "quant/f16.h"
#include "quant/grids.h"

#define BLOCK 256

/* Seven stored sign bits and the eighth, which makes the number of minus signs even. */
static inline unsigned with_parity(unsigned seven)
{
    /* bit v of 0x6996 is the parity of the nibble v */
    return seven | (0x6996u >> ((seven ^ seven >> 4) & 15) & 1) << 7;
}

/* Bit j of signs negates; without a branch, as signs are random. */
static inline float signed_level(float scale, int level, unsigned signs, int j)
{
    int minus = -(int)(signs >> j & 1);

    return scale * (float)((level ^ minus) - minus);
}

/* Eight elements from one row of an IQ2 book. */
static inline void put_eight(float *y, float scale, unsigned row, unsigned signs)
{
    for (int j = 0; j < 8; j++)
        y[j] = signed_level(scale, wn_iq2_levels[row >> 2 * j & 3], signs, j);
}

/* Eight elements from two rows of an IQ3 book. */
static inline void put_two_fours(float *y, float scale, const int8_t *levels, unsigned row0, unsigned row1,
                                 unsigned signs)
{
    for (int j = 0; j < 4; j++) {
        y[j] = signed_level(scale, levels[row0 >> 3 * j & 7], signs, j);
        y[j + 4] = signed_level(scale, levels[row1 >> 3 * j & 7], signs, j + 4);
    }
}

void wn_decode_iq2_xxs(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= BLOCK, b += 66, y += BLOCK) {
        float d = wn_f16_at(b);

        for (int g = 0; g < 8; g++) {
            const uint8_t *index = b + 2 + 8 * g;
            uint32_t word = wn_load32(index + 4);
            float scale = d * (0.5f + (float)(word >> 28)) * 0.25f;

            for (int l = 0; l < 4; l++)
                put_eight(y + 32 * g + 8 * l, scale, wn_iq2xxs_grid[index[l]], with_parity(word >> 7 * l & 127));
        }
    }
}

/* Scale of the 8 elements of subgroup l (0..31): a nibble for each two subgroups. IQ2_XS and IQ2_S. */
static inline float iq2_scale(float d, const uint8_t *scales, int l)
{
    int nibble = scales[l / 4] >> l / 2 % 2 * 4 & 15;

    return d * (0.5f + (float)nibble) * 0.25f;
}

void wn_decode_iq2_xs(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= BLOCK, b += 74, y += BLOCK) {
        float d = wn_f16_at(b);

        for (int l = 0; l < 32; l++) {
            unsigned code = wn_load16(b + 2 + 2 * l);

            put_eight(y + 8 * l, iq2_scale(d, b + 66, l), wn_iq2xs_grid[code & 511], with_parity(code >> 9));
        }
    }
}

void wn_decode_iq2_s(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= BLOCK, b += 82, y += BLOCK) {
        const uint8_t *low = b + 2, *signs = b + 34, *high = b + 66;
        float d = wn_f16_at(b);

        for (int l = 0; l < 32; l++) {
            unsigned index = low[l] | (high[l / 4] >> 2 * (l % 4) & 3u) << 8;

            put_eight(y + 8 * l, iq2_scale(d, b + 74, l), wn_iq2s_grid[index], signs[l]);
        }
    }
}

void wn_decode_iq3_xxs(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= BLOCK, b += 98, y += BLOCK) {
        float d = wn_f16_at(b);

        for (int g = 0; g < 8; g++) {
            const uint8_t *index = b + 2 + 8 * g;
            uint32_t word = wn_load32(b + 66 + 4 * g);
            float scale = d * (0.5f + (float)(word >> 28)) * 0.5f;

            for (int l = 0; l < 4; l++)
                put_two_fours(y + 32 * g + 8 * l, scale, wn_iq3xxs_levels, wn_iq3xxs_grid[index[2 * l]],
                              wn_iq3xxs_grid[index[2 * l + 1]], with_parity(word >> 7 * l & 127));
        }
    }
}

/* Row e (0..7) of group g: bit 8 of its index comes from one byte for the eight. */
static inline unsigned iq3_s_row(const uint8_t *b, int g, int e)
{
    return wn_iq3s_grid[b[2 + 8 * g + e] | (b[66 + g] >> e & 1u) << 8];
}

void wn_decode_iq3_s(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= BLOCK, b += 110, y += BLOCK) {
        const uint8_t *signs = b + 74, *scales = b + 106;
        float d = wn_f16_at(b);

        for (int g = 0; g < 8; g++) {
            float scale = d * (float)(1 + 2 * (scales[g / 2] >> g % 2 * 4 & 15));

            for (int l = 0; l < 4; l++)
                put_two_fours(y + 32 * g + 8 * l, scale, wn_iq3s_levels, iq3_s_row(b, g, 2 * l),
                              iq3_s_row(b, g, 2 * l + 1), signs[4 * g + l]);
        }
    }
}

/* Eight elements from one row of IQ1's book, moved by an eighth up or down. */
static inline void put_moved_eight(float *y, float scale, unsigned row, bool down)
{
    float delta = down ? -0.125f : 0.125f;

    for (int j = 0; j < 8; j++)
        y[j] = scale * ((float)wn_iq1_levels[row >> 2 * j & 3] + delta);
}

void wn_decode_iq1_s(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= BLOCK, b += 50, y += BLOCK) {
        const uint8_t *low = b + 2;
        float d = wn_f16_at(b);

        for (int g = 0; g < 8; g++) {
            unsigned high = wn_load16(b + 34 + 2 * g);
            float scale = d * (float)(2 * (high >> 12 & 7) + 1);

            for (int l = 0; l < 4; l++)
                put_moved_eight(y + 32 * g + 8 * l, scale, wn_iq1s_grid[low[4 * g + l] | (high >> 3 * l & 7) << 8],
                                high >> 15);
        }
    }
}

/* The f16 scale is spread over the top nibbles of four words, lowest nibble first. */
static inline float iq1_m_d(const uint8_t *words)
{
    unsigned bits = 0;

    for (int i = 0; i < 4; i++)
        bits |= (unsigned)(words[2 * i + 1] >> 4) << 4 * i;
    return wn_f16_widen((uint16_t)bits);
}

void wn_decode_iq1_m(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= BLOCK, b += 56, y += BLOCK) {
        const uint8_t *words = b + 48;
        float d = iq1_m_d(words);

        for (int l = 0; l < 32; l++) {
            unsigned nibble = b[32 + l / 2] >> l % 2 * 4 & 15;
            int g = l / 2; /* a scale for each 16 elements */
            unsigned s = wn_load16(words + g / 4 * 2) >> 3 * (g % 4) & 7;

            put_moved_eight(y + 8 * l, d * (float)(2 * s + 1), wn_iq1s_grid[b[l] | (nibble & 7) << 8], nibble >> 3);
        }
    }
}
