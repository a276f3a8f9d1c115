/* See bootstrap.h. */
#include "jobs/eval/bootstrap.h"

#include "base/rng.h"

#include <stdlib.h>

void wn_bootstrap_means(const double *x, size_t n, size_t k, uint64_t seed, size_t resamples, double *means)
{
    struct wn_rng rng = {seed};

    for (size_t r = 0; r < resamples; r++) {
        for (size_t j = 0; j < k; j++)
            means[j * resamples + r] = 0;
        for (size_t i = 0; i < n; i++) {
            const double *drawn = x + wn_rng_below(&rng, n) * k;

            for (size_t j = 0; j < k; j++)
                means[j * resamples + r] += drawn[j];
        }
        for (size_t j = 0; j < k; j++)
            means[j * resamples + r] /= (double)n;
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void wn_sort_f64(double *x, size_t n)
{
    qsort(x, n, sizeof *x, by_size);
}

double wn_quantile(const double *sorted, size_t n, double q)
{
    double at = (double)(n - 1) * q;
    size_t i = (size_t)at;

    if (i + 1 >= n)
        return sorted[n - 1];
    return sorted[i] + (sorted[i + 1] - sorted[i]) * (at - (double)i);
}
