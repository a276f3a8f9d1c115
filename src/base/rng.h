/*
 * Random numbers that repeat: SplitMix64 (Steele, Lea and Flood 2014), the same on every machine. For sampling and
 * tests, never for secrets.
 */
#ifndef WN_BASE_RNG_H
#define WN_BASE_RNG_H

#include <stdint.h>

struct wn_rng {
    uint64_t state;
};

static inline uint64_t wn_rng_u64(struct wn_rng *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform in [0, 1), 53 bits. */
static inline double wn_rng_unit(struct wn_rng *r)
{
    return (double)(wn_rng_u64(r) >> 11) * 0x1p-53;
}

/* Uniform in [0, n), n > 0. */
static inline uint64_t wn_rng_below(struct wn_rng *r, uint64_t n)
{
    uint64_t limit = UINT64_MAX - UINT64_MAX % n, x;

    do
        x = wn_rng_u64(r);
    while (x >= limit);
    return x % n;
}

#endif
