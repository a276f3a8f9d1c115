/* The forms of 256 elements with small scales under one or two f16: a span each. */
#ifndef WN_KERNELS_VARIANT_FORMS_K_H
#define WN_KERNELS_VARIANT_FORMS_K_H

/*
 * Lets the compiler forget what it has just stored: a number is spread over a register for nothing while it is loaded,
 * but taken out of another register by a shuffle, the dearest of operations here.
 */
#define FROM_MEMORY(array) __asm__("" : "+m"(array))

/* out[i] = d * ((byte i >> shift & mask) - zero) for the 16 bytes of two words */
INLINE void scales_unpack(uint64_t low, uint64_t high, float d, int shift, uint32_t mask, uint32_t zero,
                          float (*out)[16])
{
    for (size_t i = 0; i < 16 / WIDTH; i++)
        vf_store(*out + i * WIDTH, vf_mul(vf_set(d), vf_of_vi((vi_of_words(low, high, i) >> shift & mask) - zero)));
    FROM_MEMORY(*out);
}

INLINE uint64_t word_of(const uint8_t *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof(word));
    return word;
}

INLINE void span_q2_k(const struct stored *w, const uint8_t *p, size_t s, struct shared *h)
{
    (void)w, (void)s;
    scales_unpack(word_of(p), word_of(p + 8), float_of_f16(p + 80), 0, 15, 0, &h->scales);
    scales_unpack(word_of(p), word_of(p + 8), -float_of_f16(p + 82), 4, 15, 0, &h->biases);
}

/* The bytes of 32 elements in planes of two bits: vi number i of them, its codes lowest. */
INLINE vi plane_of(const uint8_t *planes, size_t j, size_t i)
{
    return vi_of_u8(planes + j / 4 * 32 + i * WIDTH) >> (int)(2 * (j % 4));
}

/* Which 16 of block j's elements register i has: the number of their scale. */
INLINE size_t scale_of(size_t j, size_t i)
{
    return 2 * j + (i >= REGS / 2);
}

INLINE vf part_q2_k(const uint8_t *p, const struct shared *h, size_t j, size_t i)
{
    return four_at(four_of(vf_set(h->scales[scale_of(j, i)]), vf_set(h->biases[scale_of(j, i)])),
                   plane_of(p + 16, j, i));
}

/* code - zero, times the scale of its 16 */
INLINE vf vf_of_code(vi code, uint32_t zero, const struct shared *h, size_t j, size_t i)
{
    return vf_mul(vf_of_vi(code - zero), vf_set(h->scales[scale_of(j, i)]));
}

/* Six bits each in 12 bytes: low four in nibbles of 8, high two in 4; 32 stands for zero. */
INLINE void span_q3_k(const struct stored *w, const uint8_t *p, size_t s, struct shared *h)
{
    const uint64_t nibbles = 0x0f0f0f0f0f0f0f0f, pairs = 0x3030303030303030;
    uint64_t low = word_of(p + 96), top = word_of(p + 100) >> 32, high;

    (void)w, (void)s;
    high = (low >> 4 & nibbles) | ((top | top << 30) & pairs);
    low = (low & nibbles) | ((top << 4 | top << 34) & pairs);
    scales_unpack(low, high, float_of_f16(p + 108), 0, 63, 32, &h->scales);
}

INLINE vf part_q3_k(const uint8_t *p, const struct shared *h, size_t j, size_t i)
{
    vi code = (plane_of(p + 32, j, i) & 3) | (vi_of_u8(p + i * WIDTH) >> (int)j & 1) << 2;

    return vf_of_code(code, 4, h, j, i);
}

/* Eight scales and eight minima of six bits in 12 bytes; those of group g land in scales[g] and biases[g]. */
INLINE void span_q4_k(const struct stored *w, const uint8_t *p, size_t s, struct shared *h)
{
    uint64_t first = word_of(p + 4), last = word_of(p + 8) >> 32, scales, mins;

    (void)w, (void)s;
    scales = (first & 0x3f3f3f3f) | (last & 0x0f0f0f0f) << 32 | (first << 30 & 0x3030303000000000);
    mins = (first >> 32 & 0x3f3f3f3f) | (last << 28 & 0x0f0f0f0f00000000) | (first >> 2 & 0x3030303000000000);
    scales_unpack(scales, 0, float_of_f16(p), 0, 63, 0, &h->scales);
    scales_unpack(mins, 0, -float_of_f16(p + 2), 0, 63, 0, &h->biases);
}

/* The bytes whose low or high nibbles are block j's codes: vi number i, the nibbles lowest. */
INLINE vi nibbles_of(const uint8_t *p, size_t j, size_t i)
{
    return vi_of_u8(p + j / 2 * 32 + i * WIDTH) >> (int)(4 * (j % 2));
}

INLINE vf part_q4_k(const uint8_t *p, const struct shared *h, size_t j, size_t i)
{
    const line l = line_of_4_bits(vf_set(h->scales[j]), vf_set(h->biases[j]));

    return line_at_4_bits(l, nibbles_of(p + 16, j, i));
}

INLINE vf part_q5_k(const uint8_t *p, const struct shared *h, size_t j, size_t i)
{
    vi code = (nibbles_of(p + 48, j, i) & 15) | (vi_of_u8(p + 16 + i * WIDTH) >> (int)j & 1) << 4;

    return vf_add(vf_mul(vf_of_vi(code), vf_set(h->scales[j])), vf_set(h->biases[j]));
}

/* Signed bytes: the sign bit turned over, a byte counts from -128. */
INLINE void span_q6_k(const struct stored *w, const uint8_t *p, size_t s, struct shared *h)
{
    const uint64_t signs = 0x8080808080808080;

    (void)w, (void)s;
    scales_unpack(word_of(p + 192) ^ signs, word_of(p + 200) ^ signs, float_of_f16(p + 208), 0, 255, 128, &h->scales);
}

INLINE vf part_q6_k(const uint8_t *p, const struct shared *h, size_t j, size_t i)
{
    const uint8_t *low = p + j / 4 * 64 + j % 2 * 32;
    vi code = (vi_of_u8(low + i * WIDTH) >> (int)(j % 4 / 2 * 4) & 15) | (plane_of(p + 128, j, i) & 3) << 4;

    return vf_of_code(code, 32, h, j, i);
}

INLINE void span_iq4_xs(const struct stored *w, const uint8_t *p, size_t s, struct shared *h)
{
    const float d = float_of_f16(p);
    const unsigned high = p[2] | (unsigned)p[3] << 8;

    (void)w, (void)s;
    UNROLL
    for (int g = 0; g < 8; g++)
        h->scales[g] = d * (float)((int)((p[4 + g / 2] >> g % 2 * 4 & 15) | (high >> 2 * g & 3) << 4) - 32);
}

PART(iq4_xs, v32_of_book(p + 8 + 16 * j, wn_iq4nl_values, h->scales[j]))

#endif
