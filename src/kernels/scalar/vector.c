/*
 * Arithmetic on whole vectors: element by element, sums, and the two norms.
 */
#include "kernels/scalar/scalar.h"

static void axpy(float a, const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf(a, x[i], y[i]);
}

static void add(const float *a, const float *b, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

static void mul(const float *a, const float *b, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

static void scale(float s, const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = s * x[i];
}

static float sum_squares(const float *x, size_t n)
{
    struct lanes l = {{0}};

    lanes_add_products(&l, x, x, n);
    return lanes_sum(&l);
}

static float sum(const float *x, size_t n)
{
    struct lanes l = {{0}};

    for (size_t i = 0; i < n; i++)
        l.at[i % LANES] += x[i];
    return lanes_sum(&l);
}

/*
 * In lanes as well: which of +0 and -0 comes out is part of the meaning. A NaN is never greater, so it is passed over.
 */
float wn_max_f32(const float *x, size_t n)
{
    struct lanes l;

    for (size_t j = 0; j < LANES; j++)
        l.at[j] = -INFINITY;
    for (size_t i = 0; i < n; i++)
        if (x[i] > l.at[i % LANES])
            l.at[i % LANES] = x[i];
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            if (l.at[j + half] > l.at[j])
                l.at[j] = l.at[j + half];
    return l.at[0];
}

static float rms_norm(const float *x, const float *w, float eps, float *y, size_t n)
{
    float r = 1 / sqrtf(sum_squares(x, n) / (float)n + eps);

    for (size_t i = 0; i < n; i++)
        y[i] = w ? w[i] * (x[i] * r) : x[i] * r;
    return r;
}

static void l2_norm(const float *x, float eps, float scale_by, float *y, size_t n)
{
    float r = 1 / sqrtf(sum_squares(x, n) + eps);

    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * r * scale_by;
}

void wn_scalar_fill_vector(struct wn_kernels *k)
{
    k->axpy = axpy;
    k->add = add;
    k->mul = mul;
    k->scale = scale;
    k->sum_squares = sum_squares;
    k->sum = sum;
    k->max = wn_max_f32;
    k->rms_norm = rms_norm;
    k->l2_norm = l2_norm;
}
