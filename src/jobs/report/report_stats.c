/*
 * The statistics of a report that are about numbers alone: medians, rank correlation, concentration.
 */
#include "base/alloc.h"
#include "jobs/plan/plan_rank.h"
#include "jobs/report/report_stats.h"

#include <math.h>
#include <stdlib.h>

static int rising(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

double wn_report_median(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), rising);
    return n == 0 ? NAN : (v[(n - 1) / 2] + v[n / 2]) / 2;
}

/* rank[expert], counted from 1; equal scores share the mean of their places. r [n] is scratch. */
static void mean_ranks(const double *v, uint32_t n, struct wn_ranked *r, double *rank)
{
    for (uint32_t i = 0; i < n; i++)
        r[i] = (struct wn_ranked){v[i], i};
    wn_rank(r, n);
    for (uint32_t i = 0, end; i < n; i = end) {
        end = i + 1;
        while (end < n && r[end].score == r[i].score)
            end++;
        for (uint32_t k = i; k < end; k++)
            rank[r[k].expert] = (i + 1 + end) / 2.0;
    }
}

/* Pearson's correlation. Both have the mean (n + 1) / 2, being ranks. */
static double correlation(const double *a, const double *b, uint32_t n)
{
    double mean = (n + 1) / 2.0, ab = 0, aa = 0, bb = 0;

    for (uint32_t i = 0; i < n; i++) {
        ab += (a[i] - mean) * (b[i] - mean);
        aa += (a[i] - mean) * (a[i] - mean);
        bb += (b[i] - mean) * (b[i] - mean);
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : NAN;
}

bool wn_report_rank_correlation(const double *a, const double *b, uint32_t n, double *rho, struct wn_err *err)
{
    struct wn_ranked *r = wn_alloc(n, sizeof(*r), err);
    double *ranks = r ? wn_alloc((size_t)n * 2, sizeof(*ranks), err) : NULL;

    if (ranks) {
        mean_ranks(a, n, r, ranks);
        mean_ranks(b, n, r, ranks + n);
        *rho = correlation(ranks, ranks + n, n);
    }
    free(r);
    free(ranks);
    return ranks != NULL;
}

double wn_report_effective(const struct wn_ranked *r, uint32_t n, double sum)
{
    double entropy = 0;

    if (!(sum > 0))
        return NAN;
    for (uint32_t i = 0; i < n; i++)
        if (r[i].score > 0)
            entropy -= r[i].score / sum * log(r[i].score / sum);
    return exp(entropy);
}

/* G = 2 sum_i i x_i / (n sum x) - (n + 1) / n with x rising; r falls, so its place i is n - i. */
double wn_report_gini(const struct wn_ranked *r, uint32_t n, double sum)
{
    double weighted = 0;

    if (!(sum > 0))
        return NAN;
    for (uint32_t i = 0; i < n; i++)
        weighted += (double)(n - i) * (r[i].score / sum);
    return fmax(0, (2 * weighted - (n + 1)) / n);
}
