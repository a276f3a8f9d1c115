/*
 * Sums that do not depend on their order, so that parts that were summed apart can be put together to the bit.
 *
 * A sum is two doubles on fixed grids: `whole` in steps of 2^-6, `part` in steps of 2^-58 and never beyond 2^-7. An
 * addend is rounded to a step of 2^-58 (3.5e-18) first; after that every addition is exact while addends stay below
 * 2^45 and sums below 2^47 (1.4e14). Larger ones lose that, not their place: the result is then as good as a sum in
 * f64.
 *
 * wn_exact_settle turns the two into the number that is nearest to the sum and what that leaves out; both can be added
 * again.
 */
#ifndef WN_JOBS_EXACT_SUM_H
#define WN_JOBS_EXACT_SUM_H

/* v to the nearest step; adding and taking away again a number whose last place is the step rounds to it */
#define WN_EXACT_COARSE 0x1.8p46 /* 2^-6 */
#define WN_EXACT_FINE   0x1.8p-6 /* 2^-58 */

static inline void wn_exact_add(double *whole, double *part, double v)
{
    double coarse = (v + WN_EXACT_COARSE) - WN_EXACT_COARSE;
    double fine = ((v - coarse) + WN_EXACT_FINE) - WN_EXACT_FINE;
    double sum = *part + fine, carry = (sum + WN_EXACT_COARSE) - WN_EXACT_COARSE;

    *part = sum - carry;
    *whole = (*whole + coarse) + carry;
}

/* *sum becomes the nearest double, *low the rest: their sum is what it was (Knuth's two-sum). */
static inline void wn_exact_settle(double *sum, double *low)
{
    double whole = *sum, part = *low, total = whole + part, back = total - whole;

    *sum = total;
    *low = (whole - (total - back)) + (part - back);
}

#endif
