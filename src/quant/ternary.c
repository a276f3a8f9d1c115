/* Codes -1, 0, 1 under one f16 scale: TQ1_0 keeps five in a byte (base 3), TQ2_0 four. Blocks of 256. */
#include "quant/family.h"
#include "quant/f16.h"

#define BLOCK 256

/*
 * The byte is a fraction v / 256, its base-3 digits are the codes: times 3^k shifts k digits out, the next is on top of
 * the wrapped byte. Bytes that no encoder writes (above 242) still give digits 0..2.
 */
static inline int trit(uint8_t v, int k)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};

    return (uint8_t)(v * power[k]) * 3 >> 8;
}

/* Digit k of each of `bytes` bytes, then digit k + 1 ... : digits * bytes elements. */
static float *put_trits(float *y, float d, const uint8_t *qs, int bytes, int digits)
{
    for (int k = 0; k < digits; k++)
        for (int l = 0; l < bytes; l++)
            *y++ = (float)(trit(qs[l], k) - 1) * d;
    return y;
}

void wn_decode_tq1_0(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= BLOCK, b += 54) {
        float d = wn_f16_at(b + 52);

        y = put_trits(y, d, b, 32, 5);      /* 160 elements */
        y = put_trits(y, d, b + 32, 16, 5); /* 80 */
        y = put_trits(y, d, b + 48, 4, 4);  /* 16 */
    }
}

/* Planes as in Q2_K: 32 bytes hold 128 elements, element 32 * p + l in bits 2p and 2p + 1 of byte l. */
void wn_decode_tq2_0(const uint8_t *b, float *y, size_t n)
{
    for (; n > 0; n -= BLOCK, b += 66, y += BLOCK) {
        float d = wn_f16_at(b + 64);

        for (int i = 0; i < BLOCK; i++)
            y[i] = (float)((b[i / 128 * 32 + i % 32] >> 2 * (i / 32 % 4) & 3) - 1) * d;
    }
}
