/* F32, F16 and BF16: plain little-endian floats, and the roundings between them. */
#include "quant/family.h"
#include "quant/f16.h"

float wn_f16_to_f32(uint16_t h)
{
    return wn_f16_widen(h);
}

float wn_bf16_to_f32(uint16_t h)
{
    return wn_f32_of_bits((uint32_t)h << 16);
}

/* Adds half of the last kept place, one less when that place is even: nearest, ties to even. */
static uint32_t round_off(uint32_t bits, unsigned dropped)
{
    return (bits + (1u << (dropped - 1)) - 1 + (bits >> dropped & 1)) >> dropped;
}

uint16_t wn_f32_to_f16(float f)
{
    uint32_t bits = wn_bits_of_f32(f), rest = bits & 0x7fffffff;
    uint32_t sign = bits >> 16 & 0x8000;

    if (rest > 0x7f800000) /* a NaN stays one even when its payload has only low bits */
        return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x47800000) /* 2^16 and more */
        return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000) /* below 2^-14: one f32 addition rounds to a multiple of 2^-24, the last place of 0.5 */
        return (uint16_t)(sign | (wn_bits_of_f32(wn_f32_of_bits(rest) + 0.5f) - wn_bits_of_f32(0.5f)));
    return (uint16_t)(sign | round_off(rest - ((127 - 15) << 23), 13));
}

uint16_t wn_f32_to_bf16(float f)
{
    uint32_t bits = wn_bits_of_f32(f);

    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)round_off(bits, 16);
}

void wn_decode_f32(const uint8_t *b, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = wn_f32_of_bits(wn_load32(b + 4 * i));
}

void wn_decode_f16(const uint8_t *b, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = wn_f16_at(b + 2 * i);
}

void wn_decode_bf16(const uint8_t *b, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = wn_f32_of_bits((uint32_t)wn_load16(b + 2 * i) << 16);
}

void wn_encode_f32(const float *x, uint8_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        wn_store32(b + 4 * i, wn_bits_of_f32(x[i]));
}

void wn_encode_f16(const float *x, uint8_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        wn_store16(b + 2 * i, wn_f32_to_f16(x[i]));
}

void wn_encode_bf16(const float *x, uint8_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        wn_store16(b + 2 * i, wn_f32_to_bf16(x[i]));
}
