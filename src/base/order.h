/* Orders for qsort. */
#ifndef WN_BASE_ORDER_H
#define WN_BASE_ORDER_H

/* Rising doubles, or structs that begin with one; none is NaN. */
static inline int wn_rising_f64(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

#endif
