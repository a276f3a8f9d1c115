/*
 * f16 widened to f32, inline for the block decoders.
 */
#ifndef WN_QUANT_F16_H
#define WN_QUANT_F16_H

#include "base/bits.h"

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
