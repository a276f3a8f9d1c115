/*
 * The percentile bootstrap (Efron 1979) of means over documents.
 *
 * Of n documents, each with k figures, n are drawn with replacement; the mean of each figure over the drawn ones is one
 * resampled mean. All figures see the same draws, so what is computed from several of them (a ratio of two models'
 * perplexities) is paired. An interval's ends are quantiles of the resampled means.
 */
#ifndef WN_JOBS_EVAL_BOOTSTRAP_H
#define WN_JOBS_EVAL_BOOTSTRAP_H

#include <stddef.h>
#include <stdint.h>

/* x [n][k], n > 0; means [k][resamples]. The same seed draws the same. */
void wn_bootstrap_means(const double *x, size_t n, size_t k, uint64_t seed, size_t resamples, double *means);

/* Sorts n numbers upwards. */
void wn_sort_f64(double *x, size_t n);
/*
 * The q-quantile, 0 <= q <= 1, of n > 0 sorted numbers: between two of them by straight line, at (n - 1) q from the
 * first.
 */
double wn_quantile(const double *sorted, size_t n, double q);

#endif
