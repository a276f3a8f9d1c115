/*
 * Bits and bytes that the block decoders share: little-endian loads, f32 seen as its bits, f16 widened. All inline and
 * free of assumptions about the host's byte order or alignment.
 */
#ifndef WN_QUANT_BITS_H
#define WN_QUANT_BITS_H

#include <winnow/common.h>
#include <string.h>

static inline uint16_t wn_load16(const uint8_t *b)
{
    return (uint16_t)(b[0] | b[1] << 8);
}

static inline uint32_t wn_load32(const uint8_t *b)
{
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline void wn_store16(uint8_t *b, uint16_t v)
{
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
}

static inline void wn_store32(uint8_t *b, uint32_t v)
{
    wn_store16(b, (uint16_t)v);
    wn_store16(b + 2, (uint16_t)(v >> 16));
}

static inline float wn_f32_of_bits(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint32_t wn_bits_of_f32(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    return u;
}

/* Exact for every finite value. A NaN keeps its payload and becomes quiet, as the F16C and NEON instructions do it. */
static inline float wn_f16_widen(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;

    if (rest < 0x0400) /* zero or subnormal: rest * 2^-24 is a normal f32 */
        return wn_f32_of_bits(sign | wn_bits_of_f32((float)rest * 0x1p-24f));
    if (rest < 0x7c00) /* the exponent's bias goes from 15 to 127 */
        return wn_f32_of_bits(sign | ((rest << 13) + ((127 - 15) << 23)));
    return wn_f32_of_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13 | (rest > 0x7c00 ? 0x00400000 : 0));
}

/* The f16 at b. */
static inline float wn_f16_at(const uint8_t *b)
{
    return wn_f16_widen(wn_load16(b));
}

#endif
