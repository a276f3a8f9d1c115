/*
 * 4-bit floats E2M1 in two block formats: MXFP4 (32 elements under a power of two, the experts of K3) and NVFP4 (16
 * under an 8-bit float, four such groups in a block). And MXFP4's two packings, which differ in places only.
 *
 * Values are doubled and scales halved, so that the table is whole numbers. Code 8, the negative zero, decodes to +0.0
 * in both packings, and scale byte 255 is 2^128: so one weight has the same bits in a GGUF and in an HF folder.
 */
#include "quant/family.h"
#include "quant/f16.h"

#include <assert.h>

#define GROUP 32

/* Twice the value of each code. */
static const int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* 2^(e - 128). For e = 0 and 1 that is subnormal: its bits, not a product, so that no rounding mode can lose it. */
static inline float half_scale(uint8_t e)
{
    return wn_f32_of_bits(e < 2 ? (uint32_t)0x00200000 << e : (uint32_t)(e - 1) << 23);
}

void wn_decode_mxfp4(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= GROUP, b += 17, y += GROUP) {
        float d = half_scale(b[0]);

        for (int j = 0; j < 16; j++) {
            y[j] = (float)doubled[b[1 + j] & 15] * d;
            y[j + 16] = (float)doubled[b[1 + j] >> 4] * d;
        }
    }
}

void wn_decode_mxfp4_split(const uint8_t *packed, const uint8_t *scales, float *y, size_t n)
{
    assert(n % GROUP == 0);
    for (; n > 0; n -= GROUP, packed += 16, y += GROUP) {
        float d = half_scale(*scales++);

        for (int k = 0; k < 16; k++) {
            y[2 * k] = (float)doubled[packed[k] & 15] * d;
            y[2 * k + 1] = (float)doubled[packed[k] >> 4] * d;
        }
    }
}

/* Source byte k holds elements 2k and 2k + 1; block byte j holds elements j and j + 16, which is source byte k + 8. */
void wn_mxfp4_split_to_blocks(const uint8_t *packed, const uint8_t *scales, uint8_t *blocks, size_t n)
{
    assert(n % GROUP == 0);
    for (; n > 0; n -= GROUP, packed += 16, blocks += 17) {
        blocks[0] = *scales++;
        for (int k = 0; k < 8; k++) {
            blocks[1 + 2 * k] = (uint8_t)((packed[k] & 15) | (packed[k + 8] & 15) << 4);
            blocks[2 + 2 * k] = (uint8_t)(packed[k] >> 4 | (packed[k + 8] & 0xf0));
        }
    }
}

void wn_mxfp4_blocks_to_split(const uint8_t *blocks, uint8_t *packed, uint8_t *scales, size_t n)
{
    assert(n % GROUP == 0);
    for (; n > 0; n -= GROUP, packed += 16, blocks += 17) {
        *scales++ = blocks[0];
        for (int k = 0; k < 8; k++) {
            packed[k] = (uint8_t)((blocks[1 + 2 * k] & 15) | (blocks[2 + 2 * k] & 15) << 4);
            packed[k + 8] = (uint8_t)(blocks[1 + 2 * k] >> 4 | (blocks[2 + 2 * k] & 0xf0));
        }
    }
}

/*
 * Half of an unsigned E4M3 float. Byte 127, its NaN, stands for 0; bit 7 counts for nothing otherwise, so that 255 is
 * 480 (encoders write neither).
 */
static float half_ue4m3(uint8_t byte)
{
    int e = byte >> 3 & 15, m = byte & 7;

    if (byte == 127)
        return 0;
    if (e == 0)
        return (float)m * 0x1p-10f;
    return (float)(8 + m) * wn_f32_of_bits((uint32_t)(e - 7 - 3 - 1 + 127) << 23);
}

void wn_decode_nvfp4(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= 64, b += 36, y += 64) {
        for (int g = 0; g < 4; g++) {
            const uint8_t *codes = b + 4 + 8 * g;
            float d = half_ue4m3(b[g]), *group = y + 16 * g;

            for (int j = 0; j < 8; j++) {
                group[j] = (float)doubled[codes[j] & 15] * d;
                group[j + 8] = (float)doubled[codes[j] >> 4] * d;
            }
        }
    }
}
