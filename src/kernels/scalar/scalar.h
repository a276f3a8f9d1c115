/*
 * What the scalar files share: the 32 lanes of the summing order, and single values of our functions. Only scalar files
 * and kernels.c include this.
 */
#ifndef WN_KERNELS_SCALAR_H
#define WN_KERNELS_SCALAR_H

#include "kernels/kernels.h"

#include <math.h>

#define LANES 32

struct lanes {
    float at[LANES];
};

/* Adds the products of n elements, the first of which goes to lane 0. */
static inline void lanes_add_products(struct lanes *l, const float *w, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        l->at[i % LANES] = fmaf(w[i], x[i], l->at[i % LANES]);
}

static inline float lanes_sum(struct lanes *l)
{
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            l->at[j] += l->at[j + half];
    return l->at[0];
}

/* See poly.h. */
float wn_tanhf(float x);
float wn_siluf(float x);
/* The table's max. */
float wn_max_f32(const float *x, size_t n);

/* Each puts its file's kernels into the table. */
void wn_scalar_fill_dot(struct wn_kernels *k);
void wn_scalar_fill_vector(struct wn_kernels *k);
void wn_scalar_fill_math(struct wn_kernels *k);
void wn_scalar_fill_step(struct wn_kernels *k);

#endif
