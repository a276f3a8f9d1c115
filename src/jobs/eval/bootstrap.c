/* See bootstrap.h. */
#include "jobs/eval/bootstrap.h"

#include "base/alloc.h"
#include "base/order.h"

#include <stdlib.h>
#include <string.h>

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

void wn_bootstrap_draw(struct wn_rng *rng, uint32_t *drawn, size_t n)
{
    memset(drawn, 0, n * sizeof *drawn);
    for (size_t i = 0; i < n; i++)
        drawn[wn_rng_below(rng, n)]++;
}

/* ---- quantiles ---- */

/* A block costs as much to search as the documents' counts at its edge. */
static void cut(struct wn_bootstrap_pool *p, size_t documents, size_t each)
{
    p->documents = documents;
    p->n = documents * each;
    p->block_size = documents;
    p->blocks = each;
}

uint64_t wn_bootstrap_pool_bytes(uint64_t documents, uint64_t each)
{
    /* sorting takes a copy */
    return documents * each * 2 * sizeof(struct wn_bootstrap_value) + documents * (each + 1) * sizeof(uint32_t);
}

static void count_before(struct wn_bootstrap_pool *p)
{
    uint32_t *row = p->before;

    for (size_t b = 0; b < p->blocks; b++, row += p->documents) {
        memcpy(row + p->documents, row, p->documents * sizeof *row);
        for (size_t i = b * p->block_size; i < (b + 1) * p->block_size; i++)
            row[p->documents + p->sorted[i].document]++;
    }
}

bool wn_bootstrap_pool_init(struct wn_bootstrap_pool *p, const double *x, size_t documents, size_t each,
                            struct wn_err *err)
{
    *p = (struct wn_bootstrap_pool){0};
    cut(p, documents, each);
    p->sorted = wn_alloc(p->n, sizeof *p->sorted, err);
    p->before = p->sorted ? wn_alloc((p->blocks + 1) * p->documents, sizeof *p->before, err) : NULL;
    if (!p->before) {
        wn_bootstrap_pool_release(p);
        return false;
    }
    for (size_t i = 0; i < p->n; i++)
        p->sorted[i] = (struct wn_bootstrap_value){x[i], (uint32_t)(i / each)};
    qsort(p->sorted, p->n, sizeof *p->sorted, wn_rising_f64);
    count_before(p);
    return true;
}

void wn_bootstrap_pool_release(struct wn_bootstrap_pool *p)
{
    free(p->sorted);
    free(p->before);
    *p = (struct wn_bootstrap_pool){0};
}

/* Values of the draw before a block. */
static uint64_t drawn_before(const struct wn_bootstrap_pool *p, const uint32_t *drawn, size_t block)
{
    const uint32_t *row = p->before + block * p->documents;
    uint64_t sum = 0;

    for (size_t d = 0; d < p->documents; d++)
        sum += (uint64_t)drawn[d] * row[d];
    return sum;
}

double wn_bootstrap_quantile(const struct wn_bootstrap_pool *p, const uint32_t *drawn, double q)
{
    uint64_t count = drawn_before(p, drawn, p->blocks), low = (uint64_t)((double)(count - 1) * q), past;
    double part = (double)(count - 1) * q - (double)low, value;
    size_t first = 0, end = p->blocks, i;

    /* the last block with no more than `low` values of the draw before it */
    while (end - first > 1) {
        size_t middle = first + (end - first) / 2;

        if (drawn_before(p, drawn, middle) <= low)
            first = middle;
        else
            end = middle;
    }
    past = drawn_before(p, drawn, first);
    for (i = first * p->block_size; past + drawn[p->sorted[i].document] <= low; i++)
        past += drawn[p->sorted[i].document];
    value = p->sorted[i].value;
    past += drawn[p->sorted[i].document];
    if (past > low + 1 || past == count)
        return value;
    while (drawn[p->sorted[++i].document] == 0)
        ;
    return value + (p->sorted[i].value - value) * part;
}

/* ---- sorted numbers ---- */

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
