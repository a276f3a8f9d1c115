/*
 * exp and log in f64 that give the same bits with every compiler, C library and processor: libm's differ in the last
 * place. Only +, -, *, / and bits; errors stay below 2 units in the last place over the ranges given.
 */
#ifndef WN_JOBS_EXACT_MATH_H
#define WN_JOBS_EXACT_MATH_H

#include "base/bits.h"

#include <stddef.h>

/*
 * e^x for x in -708 .. 709 (outside, the nearer end's value). x = k ln 2 + r with |r| <= ln 2 / 2; e^r by Taylor to
 * r^13 (the next term is 4e-18); 2^k goes into the exponent bits. No branch, so that loops over it can be vectorised.
 */
static inline double wn_exact_exp(double x)
{
    const double magic = 0x1.8p52; /* adding it rounds to a whole number, which then stands in the low bits */
    double shifted, k, r, p;

    x = x < -708.0 ? -708.0 : x;
    x = x > 709.0 ? 709.0 : x;
    shifted = x * 0x1.71547652b82fep0 + magic;
    k = shifted - magic;
    r = (x - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33; /* ln 2 in two parts; k times the first is exact */
    p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    return wn_f64_of_bits(wn_bits_of_f64(p) + (wn_bits_of_f64(shifted) << 52));
}

/*
 * ln x for normal x > 0. x = 2^k m with m in sqrt(1/2) .. sqrt(2); ln m = 2 (s + s^3/3 + s^5/5 ...), s = (m-1)/(m+1),
 * to s^21 (|s| <= 0.172: the next term is 1e-19).
 */
static inline double wn_exact_log(double x)
{
    uint64_t bits = wn_bits_of_f64(x);
    int64_t k = (int64_t)(bits >> 52) - 1023;
    double m = wn_f64_of_bits((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u), s, s2, sum = 0;

    if (m > 0x1.6a09e667f3bcdp0) {
        m *= 0.5;
        k++;
    }
    s = (m - 1.0) / (m + 1.0);
    s2 = s * s;
    for (int i = 21; i >= 3; i -= 2)
        sum = (sum + 1.0 / i) * s2;
    return (double)k * 0x1.62e42fee00000p-1 + ((double)k * 0x1.a39ef35793c76p-33 + (2.0 * s + 2.0 * s * sum));
}

/* Partial sums that keep the adder busy, element i in lane i mod 8, and their total: one order for all machines. */
#define WN_EXACT_LANES 8

static inline double wn_exact_fold(double lane[WN_EXACT_LANES])
{
    for (size_t half = WN_EXACT_LANES / 2; half > 0; half /= 2)
        for (size_t k = 0; k < half; k++)
            lane[k] += lane[k + half];
    return lane[0];
}

#endif
