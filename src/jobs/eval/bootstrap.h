/*
 * The percentile bootstrap (Efron 1979) of means over documents, and of quantiles over what they hold.
 *
 * Of n documents, each with k figures, n are drawn with replacement; the mean of each figure over the drawn ones is one
 * resampled mean. All figures see the same draws, so what is computed from several of them (a ratio of two models'
 * perplexities) is paired. An interval's ends are quantiles of the resampled means.
 */
#ifndef WN_JOBS_EVAL_BOOTSTRAP_H
#define WN_JOBS_EVAL_BOOTSTRAP_H

#include "base/rng.h"
#include <winnow/error.h>

/* x [n][k], n > 0; means [k][resamples]. The same seed draws the same. */
void wn_bootstrap_means(const double *x, size_t n, size_t k, uint64_t seed, size_t resamples, double *means);

/* One draw of n documents: how often each was drawn. A generator of that seed gives the draws of the means, in turn. */
void wn_bootstrap_draw(struct wn_rng *rng, uint32_t *drawn, size_t n);

/*
 * Values of all documents in one pool, of which the draws' quantiles are told: there a value stands as often as its
 * document was drawn, so that documents weigh by their values.
 *
 * A quantile is found without going through the pool: cut into as many blocks as a document has values, it says for
 * each how many values of each document lie before it.
 */
struct wn_bootstrap_value {
    double value;
    uint32_t document;
};
struct wn_bootstrap_pool {
    struct wn_bootstrap_value *sorted; /* [n], upwards; owned, as is the next */
    uint32_t *before;                  /* [block][documents], and one behind the last block: all of each */
    size_t n, documents, block_size, blocks;
};
/* x [documents][each], both > 0 and below 2^32. All zero on failure. */
WN_CHECKED bool wn_bootstrap_pool_init(struct wn_bootstrap_pool *p, const double *x, size_t documents, size_t each,
                                       struct wn_err *err);
void wn_bootstrap_pool_release(struct wn_bootstrap_pool *p);
/* Bytes that it takes at most, while it is made, too. */
uint64_t wn_bootstrap_pool_bytes(uint64_t documents, uint64_t each);
/* wn_quantile of the draw, which has at least one value. drawn [documents]. */
double wn_bootstrap_quantile(const struct wn_bootstrap_pool *p, const uint32_t *drawn, double q);

/* Sorts n numbers upwards. */
void wn_sort_f64(double *x, size_t n);
/*
 * The q-quantile, 0 <= q <= 1, of n > 0 sorted numbers: between two of them by straight line, at (n - 1) q from the
 * first.
 */
double wn_quantile(const double *sorted, size_t n, double q);

#endif
