/*
 * Arithmetic on sizes that came from a file. Each function answers false instead of wrapping round; the result is
 * then not set. Those called capped stop at UINT64_MAX, for sums that are only compared with a limit in the end.
 */
#ifndef WN_BASE_CHECKED_H
#define WN_BASE_CHECKED_H

#include <winnow/common.h>

WN_CHECKED static inline bool wn_add_u64(uint64_t a, uint64_t b, uint64_t *sum)
{
    if (a > UINT64_MAX - b)
        return false;
    *sum = a + b;
    return true;
}

WN_CHECKED static inline bool wn_mul_u64(uint64_t a, uint64_t b, uint64_t *product)
{
    if (b != 0 && a > UINT64_MAX / b)
        return false;
    *product = a * b;
    return true;
}

static inline uint64_t wn_add_capped(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline uint64_t wn_mul_capped(uint64_t a, uint64_t b)
{
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

/* Rounds x up to a multiple of align, a power of two. */
WN_CHECKED static inline bool wn_align_u64(uint64_t x, uint64_t align, uint64_t *up)
{
    if (!wn_add_u64(x, align - 1, up))
        return false;
    *up &= ~(align - 1);
    return true;
}

/* True when [at, at + bytes) lies within [0, limit). */
static inline bool wn_span_fits(uint64_t at, uint64_t bytes, uint64_t limit)
{
    return at <= limit && bytes <= limit - at;
}

static inline size_t wn_min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline uint64_t wn_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t wn_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
