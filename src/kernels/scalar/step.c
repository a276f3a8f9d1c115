/*
 * Steps of the two recurrences: the delta rule of KDA, and the short convolution in front of it.
 */
#include "kernels/scalar/scalar.h"

#include <string.h>

static void kda_step(float *s, const float *q, const float *k, const float *v, const float *decay, float beta, float *o,
                     float *d, size_t k_dim, size_t v_dim)
{
    for (size_t j = 0; j < v_dim; j++)
        d[j] = 0;
    for (size_t i = 0; i < k_dim; i++)
        for (size_t j = 0; j < v_dim; j++) {
            s[i * v_dim + j] *= decay[i];
            d[j] = fmaf(s[i * v_dim + j], k[i], d[j]);
        }
    for (size_t j = 0; j < v_dim; j++) {
        d[j] = beta * (v[j] - d[j]);
        o[j] = 0;
    }
    for (size_t i = 0; i < k_dim; i++)
        for (size_t j = 0; j < v_dim; j++) {
            s[i * v_dim + j] = fmaf(k[i], d[j], s[i * v_dim + j]);
            o[j] = fmaf(s[i * v_dim + j], q[i], o[j]);
        }
}

static void conv_step(float *tail, const float *x, const float *w, float *y, size_t n, size_t taps)
{
    for (size_t c = 0; c < n; c++) {
        float sum = 0;

        for (size_t t = 0; t < taps - 1; t++)
            sum = fmaf(w[c * taps + t], tail[t * n + c], sum);
        y[c] = wn_siluf(fmaf(w[c * taps + taps - 1], x[c], sum));
    }
    memmove(tail, tail + n, (taps - 2) * n * sizeof(*tail));
    memcpy(tail + (taps - 2) * n, x, n * sizeof(*tail));
}

void wn_scalar_fill_step(struct wn_kernels *k)
{
    k->kda_step = kda_step;
    k->conv_step = conv_step;
}
