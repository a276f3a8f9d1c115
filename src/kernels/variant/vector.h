/*
 * Whole vectors in a variant: one loop for all element-wise kernels, sums in lanes, norms, and the recurrent steps.
 */
#ifndef WN_KERNELS_VARIANT_VECTOR_H
#define WN_KERNELS_VARIANT_VECTOR_H

#include <math.h>

/* y = f(c, a, b) element by element; c: what is the same for all; y may be a or b. */
typedef vf map_fn(const vf *c, vf a, vf b);

INLINE void map(map_fn *f, const vf *c, const float *a, const float *b, float *y, size_t n)
{
    size_t i = 0;

    for (; n - i >= WIDTH; i += WIDTH)
        vf_store(y + i, f(c, vf_load(a + i), vf_load(b + i)));
    if (i < n)
        vf_store_first(y + i, f(c, vf_load_first(a + i, n - i), vf_load_first(b + i, n - i)), n - i);
}

#define MAPPED(name, value)                                                                                            \
    INLINE vf name(const vf *c, vf a, vf b)                                                                            \
    {                                                                                                                  \
        (void)c, (void)a, (void)b;                                                                                     \
        return value;                                                                                                  \
    }

MAPPED(one_axpy, vf_fma(c[0], a, b))
MAPPED(one_add, vf_add(a, b))
MAPPED(one_mul, vf_mul(a, b))
MAPPED(one_scale, vf_mul(c[0], a))
MAPPED(one_scale_twice, vf_mul(vf_mul(a, c[0]), c[1]))
MAPPED(one_norm, vf_mul(b, vf_mul(a, c[0])))
MAPPED(one_exp, vf_exp(a))
MAPPED(one_exp_less, vf_exp(vf_sub(a, c[0])))
MAPPED(one_div, vf_div(a, c[0]))
MAPPED(one_sigmoid, vf_sigmoid(a))
MAPPED(one_silu, vf_silu(a))
MAPPED(one_softplus, vf_softplus(a))
MAPPED(one_swiglu, vf_mul(vf_silu(a), b))
MAPPED(one_situ_gate, vf_mul(vf_mul(c[0], vf_tanh(vf_div(a, c[0]))), vf_sigmoid(a)))
MAPPED(one_situ_plain, vf_mul(one_situ_gate(c, a, b), b))
MAPPED(one_situ, vf_mul(one_situ_gate(c, a, b), vf_mul(c[1], vf_tanh(vf_div(b, c[1])))))

static void axpy(float a, const float *x, float *y, size_t n)
{
    const vf c = vf_set(a);

    map(one_axpy, &c, x, y, y, n);
}

static void add(const float *a, const float *b, float *y, size_t n)
{
    map(one_add, NULL, a, b, y, n);
}

static void mul(const float *a, const float *b, float *y, size_t n)
{
    map(one_mul, NULL, a, b, y, n);
}

static void scale(float s, const float *x, float *y, size_t n)
{
    const vf c = vf_set(s);

    map(one_scale, &c, x, x, y, n);
}

static void exp_all(const float *x, float *y, size_t n)
{
    map(one_exp, NULL, x, x, y, n);
}

static void sigmoid_all(const float *x, float *y, size_t n)
{
    map(one_sigmoid, NULL, x, x, y, n);
}

static void silu_all(const float *x, float *y, size_t n)
{
    map(one_silu, NULL, x, x, y, n);
}

static void softplus_all(const float *x, float *y, size_t n)
{
    map(one_softplus, NULL, x, x, y, n);
}

static void swiglu(const float *g, const float *u, float *y, size_t n)
{
    map(one_swiglu, NULL, g, u, y, n);
}

static void situ(const float *g, const float *u, float beta, float linear_beta, float *y, size_t n)
{
    const vf c[2] = {vf_set(beta), vf_set(linear_beta)};

    if (linear_beta != 0)
        map(one_situ, c, g, u, y, n);
    else
        map(one_situ_plain, c, g, u, y, n);
}

static float sum_squares(const float *x, size_t n)
{
    return dot_f32(x, x, n);
}

static float sum(const float *x, size_t n)
{
    v32 lanes = v32_set(0);
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        lanes = v32_add(lanes, v32_load(x + i));
    if (i < n)
        lanes = v32_first(n - i, v32_add(lanes, v32_load_first(x + i, n - i)), lanes);
    return v32_fold(lanes);
}

static float max(const float *x, size_t n)
{
    v32 lanes = v32_set(-INFINITY);
    float at[LANES];
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        lanes = v32_greater(lanes, v32_load(x + i));
    if (i < n)
        lanes = v32_first(n - i, v32_greater(lanes, v32_load_first(x + i, n - i)), lanes);
    v32_store(at, lanes);
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            if (at[j + half] > at[j])
                at[j] = at[j + half];
    return at[0];
}

static float rms_norm(const float *x, const float *w, float eps, float *y, size_t n)
{
    float r = 1 / sqrtf(sum_squares(x, n) / (float)n + eps);
    const vf c = vf_set(r);

    if (w)
        map(one_norm, &c, x, w, y, n);
    else
        map(one_scale, &c, x, x, y, n);
    return r;
}

static void l2_norm(const float *x, float eps, float scale_by, float *y, size_t n)
{
    const vf c[2] = {vf_set(1 / sqrtf(sum_squares(x, n) + eps)), vf_set(scale_by)};

    map(one_scale_twice, c, x, x, y, n);
}

static void softmax(float *x, size_t n)
{
    vf c = vf_set(max(x, n));

    map(one_exp_less, &c, x, x, x, n);
    c = vf_set(sum(x, n));
    map(one_div, &c, x, x, x, n);
}

/* n <= 32 columns of kda_step, with all pointers moved to the first of them. n is a constant where it is 32. */
INLINE void kda_columns(float *s, const float *q, const float *k, const float *v, const float *decay, float beta,
                        float *o, float *d, size_t k_dim, size_t v_dim, const size_t n)
{
    v32 sum = v32_set(0), out = v32_set(0), row;

    for (size_t i = 0; i < k_dim; i++) {
        row = n == LANES ? v32_load(s + i * v_dim) : v32_load_first(s + i * v_dim, n);
        row = v32_mul(row, v32_set(decay[i]));
        sum = v32_fma(row, v32_set(k[i]), sum);
        v32_store_first(s + i * v_dim, row, n);
    }
    sum = v32_mul(v32_set(beta), v32_sub(v32_load_first(v, n), sum));
    v32_store_first(d, sum, n);
    for (size_t i = 0; i < k_dim; i++) {
        row = n == LANES ? v32_load(s + i * v_dim) : v32_load_first(s + i * v_dim, n);
        row = v32_fma(v32_set(k[i]), sum, row);
        out = v32_fma(row, v32_set(q[i]), out);
        v32_store_first(s + i * v_dim, row, n);
    }
    v32_store_first(o, out, n);
}

static void kda_step(float *s, const float *q, const float *k, const float *v, const float *decay, float beta, float *o,
                     float *d, size_t k_dim, size_t v_dim)
{
    size_t j = 0;

    for (; v_dim - j >= LANES; j += LANES)
        kda_columns(s + j, q, k, v + j, decay, beta, o + j, d + j, k_dim, v_dim, LANES);
    if (j < v_dim)
        kda_columns(s + j, q, k, v + j, decay, beta, o + j, d + j, k_dim, v_dim, v_dim - j);
}

/* p[0], p[stride], ..., n of them, n <= WIDTH, the others 0 */
INLINE vf load_strided(const float *p, size_t stride, const size_t n)
{
    float at[WIDTH] = {0};

    if (n == WIDTH)
        return vf_load_strided(p, stride);

    for (size_t i = 0; i < n; i++)
        at[i] = p[i * stride];
    return vf_load(at);
}

/* n <= WIDTH channels of conv_step, from channel c on */
INLINE void conv_channels(const float *tail, const float *x, const float *w, float *y, size_t channels, size_t taps,
                          size_t c, const size_t n)
{
    vf sum = vf_set(0);

    for (size_t t = 0; t < taps; t++) {
        const float *in = t < taps - 1 ? tail + t * channels + c : x + c;

        sum = vf_fma(load_strided(w + c * taps + t, taps, n), vf_load_first(in, n), sum);
    }
    vf_store_first(y + c, vf_silu(sum), n);
}

static void conv_step(float *tail, const float *x, const float *w, float *y, size_t n, size_t taps)
{
    size_t c = 0;

    for (; n - c >= WIDTH; c += WIDTH)
        conv_channels(tail, x, w, y, n, taps, c, WIDTH);
    if (c < n)
        conv_channels(tail, x, w, y, n, taps, c, n - c);
    memmove(tail, tail + n, (taps - 2) * n * sizeof(*tail));
    memcpy(tail + (taps - 2) * n, x, n * sizeof(*tail));
}

#endif
