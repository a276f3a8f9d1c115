/*
 * Little-endian numbers in byte strings, at any alignment and on any host; and floats seen as their bits.
 */
#ifndef WN_BASE_BITS_H
#define WN_BASE_BITS_H

#include <stdint.h>
#include <string.h>

/* A number of n <= 8 bytes. */
static inline uint64_t wn_load_le(const void *bytes, unsigned n)
{
    const unsigned char *p = bytes;
    uint64_t v = 0;

    while (n-- > 0)
        v = v << 8 | p[n];
    return v;
}

static inline void wn_store_le(void *bytes, unsigned n, uint64_t v)
{
    unsigned char *p = bytes;

    for (unsigned i = 0; i < n; i++, v >>= 8)
        p[i] = (unsigned char)v;
}

/* Those of a fixed length are written out, so that any compiler makes one load or store of each. */
static inline uint16_t wn_load16(const void *bytes)
{
    const unsigned char *p = bytes;

    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t wn_load32(const void *bytes)
{
    const unsigned char *p = bytes;

    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t wn_load64(const void *bytes)
{
    const unsigned char *p = bytes;

    return wn_load32(p) | (uint64_t)wn_load32(p + 4) << 32;
}

static inline void wn_store16(void *bytes, uint16_t v)
{
    unsigned char *p = bytes;

    p[0] = (unsigned char)v;
    p[1] = (unsigned char)(v >> 8);
}

static inline void wn_store32(void *bytes, uint32_t v)
{
    unsigned char *p = bytes;

    wn_store16(p, (uint16_t)v);
    wn_store16(p + 2, (uint16_t)(v >> 16));
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

static inline double wn_f64_of_bits(uint64_t u)
{
    double d;

    memcpy(&d, &u, sizeof d);
    return d;
}

static inline uint64_t wn_bits_of_f64(double d)
{
    uint64_t u;

    memcpy(&u, &d, sizeof u);
    return u;
}

#endif
