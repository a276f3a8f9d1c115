/*
 * exp and what is made of it. poly.h says how each value is found; this is the text that the variants follow step by
 * step. An argument that is a NaN gives a NaN everywhere: it fails each comparison and runs through the arithmetic.
 */
#include "base/bits.h"
#include "kernels/poly.h"
#include "kernels/scalar/scalar.h"

/* 2^n, -126 <= n <= 127 */
static float power_of_two(int32_t n)
{
    return wn_f32_of_bits((uint32_t)(n + 127) << 23);
}

float wn_expf(float x)
{
    float rounded, n, r, q;
    int32_t whole, half;

    if (!(x == x))
        return x;
    x = x < WN_EXP_LOW ? WN_EXP_LOW : x;
    x = x > WN_EXP_HIGH ? WN_EXP_HIGH : x;

    rounded = fmaf(x, WN_LOG2E, WN_ROUNDER);
    n = rounded - WN_ROUNDER;
    r = fmaf(n, -WN_LN2_HIGH, x);
    r = fmaf(n, -WN_LN2_LOW, r);

    q = fmaf(r, WN_EXP_Q4, WN_EXP_Q3);
    q = fmaf(r, q, WN_EXP_Q2);
    q = fmaf(r, q, WN_EXP_Q1);
    q = fmaf(r, q, WN_EXP_Q0);
    q = fmaf(r * r, q, r) + 1;

    whole = (int32_t)(wn_bits_of_f32(rounded) - wn_bits_of_f32(WN_ROUNDER)); /* n as an integer */
    half = whole >= 0 ? whole / 2 : -((1 - whole) / 2);                      /* rounded down */
    return q * power_of_two(half) * power_of_two(whole - half);
}

/* With e = exp(-|x|) <= 1 nothing overflows: 1 / (1 + e) on the right, e / (1 + e) on the left. */
float wn_sigmoidf(float x)
{
    float e = wn_expf(-fabsf(x));

    return (x < 0 ? e : 1) / (1 + e);
}

float wn_siluf(float x)
{
    return x * wn_sigmoidf(x);
}

float wn_tanhf(float x)
{
    float a = fabsf(x), z = a * a, t;

    if (a < WN_TANH_SPLIT) {
        t = fmaf(z, WN_TANH_T4, WN_TANH_T3);
        t = fmaf(z, t, WN_TANH_T2);
        t = fmaf(z, t, WN_TANH_T1);
        t = fmaf(z, t, WN_TANH_T0);
        t = fmaf(a * z, t, a);
    } else {
        t = 1 - 2 / (wn_expf(a + a) + 1);
    }
    return copysignf(t, x);
}

static float softplus_of(float x)
{
    float e, s, z, a;

    if (x > WN_SOFTPLUS_SPLIT)
        return x;
    e = wn_expf(-fabsf(x));
    s = e / (2 + e);
    z = s * s;
    a = fmaf(z, WN_ATANH_A3, WN_ATANH_A2);
    a = fmaf(z, a, WN_ATANH_A1);
    a = fmaf(z, a, WN_ATANH_A0);
    a = fmaf(s * z, a, s);
    return (x > 0 ? x : 0) + (a + a);
}

static void exp_all(const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = wn_expf(x[i]);
}

static void sigmoid_all(const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = wn_sigmoidf(x[i]);
}

static void silu_all(const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = wn_siluf(x[i]);
}

static void softplus_all(const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = softplus_of(x[i]);
}

static void situ(const float *g, const float *u, float beta, float linear_beta, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float gate = beta * wn_tanhf(g[i] / beta) * wn_sigmoidf(g[i]);
        float up = linear_beta != 0 ? linear_beta * wn_tanhf(u[i] / linear_beta) : u[i];

        y[i] = gate * up;
    }
}

static void swiglu(const float *g, const float *u, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = wn_siluf(g[i]) * u[i];
}

static void softmax(float *x, size_t n)
{
    struct lanes l = {{0}};
    float most = wn_max_f32(x, n), total;

    for (size_t i = 0; i < n; i++) {
        x[i] = wn_expf(x[i] - most);
        l.at[i % LANES] += x[i];
    }
    total = lanes_sum(&l);
    for (size_t i = 0; i < n; i++)
        x[i] /= total;
}

void wn_scalar_fill_math(struct wn_kernels *k)
{
    k->exp = exp_all;
    k->sigmoid = sigmoid_all;
    k->silu = silu_all;
    k->softplus = softplus_all;
    k->situ = situ;
    k->swiglu = swiglu;
    k->softmax = softmax;
}
