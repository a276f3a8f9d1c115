/*
 * Little-endian numbers in byte strings, at any alignment.
 */
#ifndef WN_FORMATS_LE_H
#define WN_FORMATS_LE_H

#include <stdint.h>

static inline uint64_t wn_le_get(const void *bytes, unsigned n)
{
    const unsigned char *p = bytes;
    uint64_t v = 0;

    while (n-- > 0)
        v = v << 8 | p[n];
    return v;
}

static inline void wn_le_put(void *bytes, unsigned n, uint64_t v)
{
    unsigned char *p = bytes;

    for (unsigned i = 0; i < n; i++, v >>= 8)
        p[i] = (unsigned char)v;
}

static inline uint16_t wn_le_u16(const void *bytes)
{
    return (uint16_t)wn_le_get(bytes, 2);
}

static inline uint32_t wn_le_u32(const void *bytes)
{
    return (uint32_t)wn_le_get(bytes, 4);
}

static inline uint64_t wn_le_u64(const void *bytes)
{
    return wn_le_get(bytes, 8);
}

#endif
