/*
 * Q2_K written: own work from the format. 16 groups of 16 elements, each scale * q - min with q in 0 .. 3; scales and
 * minima are four-bit multiples of two f16 of the block, d and dmin.
 *
 * First each group by itself: from a few starting ranges, codes and line are fitted to each other in turn, as
 * affine_fit.c does it. Then the block: d and dmin from the largest scale and minimum; each group takes the best
 * multiples near its own line; d and dmin are fitted to the multiples and codes by least squares; again. The best block
 * of all that were tried is written, its error taken with every number as the file has it.
 *
 * The format lets dmin be negative. Where the groups' lines mostly start above zero it is, and minima are offsets.
 */
#include "quant/family.h"
#include "quant/f16.h"

#include <math.h>
#include <string.h>

#define BLOCK  256
#define GROUPS 16
#define SIZE   16 /* elements of a group */
#define BYTES  84
#define ROUNDS 3

struct group {
    const float *x, *weights;
    float scale, min; /* of its own best line */
};

/* A block as the file will have it, codes excepted: they are the nearest. */
struct choice {
    float d, dmin; /* values of f16 */
    uint8_t scale[GROUPS], min[GROUPS];
    float error;
};

/* Four numbers side by side; compilers have such types for every processor. The order of sums is the same on all. */
typedef float quad __attribute__((vector_size(16)));
typedef int32_t quad_bits __attribute__((vector_size(16)));

static inline quad quad_of(const float *x)
{
    quad q;

    memcpy(&q, x, sizeof(q));
    return q;
}

static inline float quad_sum(quad a)
{
    return (a[0] + a[1]) + (a[2] + a[3]);
}

/* The codes nearest to x, for inverse = 1 / scale or 0. The sum rounds to a whole number, halves to even. */
static inline quad codes_of(quad x, float min, float inverse)
{
    quad q = (x + min) * inverse, three = {3, 3, 3, 3};
    quad_bits below = q < three;

    q = (quad)(((quad_bits)q & below) | ((quad_bits)three & ~below));
    q = (quad)((quad_bits)q & (q > 0.0f));
    return (q + 0x1.8p23f) - 0x1.8p23f;
}

static float inverse_of(float scale)
{
    return fabsf(scale) > 1e-37f ? 1 / scale : 0;
}

static float error_of(const struct group *g, float scale, float min)
{
    float inverse = inverse_of(scale);
    quad sum = {0};

    for (int i = 0; i < SIZE; i += 4) {
        quad x = quad_of(g->x + i), off = scale * codes_of(x, min, inverse) - min - x;

        sum += off * off * quad_of(g->weights + i);
    }
    return quad_sum(sum);
}

/* Weighted sums over a group for the codes nearest to a line: of 1, q, q^2, x, q x. */
struct sums {
    float one, q, qq, x, qx;
};

static struct sums sums_of(const struct group *g, float scale, float min)
{
    float inverse = inverse_of(scale);
    quad one = {0}, sq = {0}, sqq = {0}, sx = {0}, sqx = {0};

    for (int i = 0; i < SIZE; i += 4) {
        quad x = quad_of(g->x + i), k = quad_of(g->weights + i), q = codes_of(x, min, inverse), kq = k * q;

        one += k;
        sq += kq;
        sqq += kq * q;
        sx += k * x;
        sqx += kq * x;
    }
    return (struct sums){quad_sum(one), quad_sum(sq), quad_sum(sqq), quad_sum(sx), quad_sum(sqx)};
}

/* ---- one group by itself ---- */

/* The line of least squares; sign 1: min >= 0, -1: min <= 0, where the best is beyond, 0. False when there is none. */
static bool line_through(const struct sums *s, float sign, float *scale, float *min)
{
    float det = s->one * s->qq - s->q * s->q;

    if (!(s->qq > 0))
        return false;
    *min = det > 0 ? (s->q * s->qx - s->qq * s->x) / det : 0;
    *scale = det > 0 ? (s->one * s->qx - s->q * s->x) / det : 0;
    if (!(det > 0) || *min * sign < 0) {
        *min = 0;
        *scale = s->qx / s->qq;
    }
    return *scale > 0;
}

static void group_try(struct group *g, float sign, float scale, float min, float *least)
{
    for (int round = 0; round < ROUNDS; round++) {
        float error = error_of(g, scale, min);
        struct sums sums;

        if (error < *least) {
            *least = error;
            g->scale = scale;
            g->min = min;
        }
        sums = sums_of(g, scale, min);
        if (!line_through(&sums, sign, &scale, &min))
            return;
    }
}

/* Its best line with a minimum of the sign. */
static void group_fit(struct group *g, float sign)
{
    static const float shares[] = {1, 0.85f, 0.7f}; /* of the range: the few outermost may be clipped */
    float lo = g->x[0], hi = g->x[0], least;

    for (int i = 1; i < SIZE; i++) {
        lo = g->x[i] < lo ? g->x[i] : lo;
        hi = g->x[i] > hi ? g->x[i] : hi;
    }
    lo = lo * sign > 0 ? 0 : lo;
    hi = hi > lo ? hi : lo;
    g->scale = 0;
    g->min = -lo;
    least = error_of(g, 0, -lo);
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
        float middle = lo + (hi - lo) / 2, half = (hi - lo) / 2 * shares[i];
        float min = half - middle;

        group_try(g, sign, 2 * half / 3, min * sign > 0 ? min : 0, &least);
    }
    /* three levels over the range, with the fourth above or below: the range of 0, a, 2 a is met exactly */
    group_try(g, sign, (hi - lo) / 2, -lo, &least);
    group_try(g, sign, (hi - lo) / 2, sign > 0 ? (hi - lo) / 2 - lo : -lo, &least);
}

/* ---- the block ---- */

static int nearest(float x, int most)
{
    return x > 0 ? x < (float)most ? (int)(x + 0.5f) : most : 0;
}

/* The multiples for group i at given d and dmin that are best among those next to its own line. */
static void multiples_choose(const struct group *g, struct choice *c, int i)
{
    int at = nearest(g->scale * inverse_of(c->d), 15), from = at > 0 ? at - 1 : 0, to = at < 15 ? at + 1 : 15;
    float inverse = inverse_of(c->dmin), least = INFINITY;

    for (int s = from; s <= to; s++) {
        float scale = c->d * (float)s;
        struct sums sums = sums_of(g, scale, g->min);
        int m = nearest((scale * sums.q - sums.x) / (sums.one > 0 ? sums.one : 1) * inverse, 15),
            m_to = m < 15 ? m + 1 : 15;

        for (m = m > 0 ? m - 1 : 0; m <= m_to; m++) {
            float error = error_of(g, scale, c->dmin * (float)m);

            if (error < least) {
                least = error;
                c->scale[i] = (uint8_t)s;
                c->min[i] = (uint8_t)m;
            }
        }
    }
    c->error += least;
}

/* d and dmin of least squares for the multiples and the codes that go with them. */
static bool block_refit(const struct group *g, struct choice *c)
{
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0, det;

    for (int i = 0; i < GROUPS; i++) {
        double s = c->scale[i], m = c->min[i];
        struct sums sums = sums_of(&g[i], c->d * (float)c->scale[i], c->dmin * (float)c->min[i]);

        aa += s * s * (double)sums.qq;
        ab -= s * m * (double)sums.q;
        bb += m * m * (double)sums.one;
        ax += s * (double)sums.qx;
        bx -= m * (double)sums.x;
    }
    det = aa * bb - ab * ab;
    if (det > 0) {
        c->d = (float)((bb * ax - ab * bx) / det);
        c->dmin = (float)((aa * bx - ab * ax) / det);
    } else if (aa > 0) {
        c->d = (float)(ax / aa);
    }
    return isfinite(c->d) && isfinite(c->dmin);
}

static void block_try(const struct group *g, float d, float dmin, struct choice *best)
{
    struct choice c = {.d = d, .dmin = dmin};

    for (int round = 0; round < ROUNDS; round++) {
        c.d = wn_f16_to_f32(wn_f32_to_f16(c.d));
        c.dmin = wn_f16_to_f32(wn_f32_to_f16(c.dmin));
        c.error = 0;
        for (int i = 0; i < GROUPS; i++)
            multiples_choose(&g[i], &c, i);
        if (c.error < best->error)
            *best = c;
        if (!block_refit(g, &c))
            return;
    }
}

/* The sign of dmin: of most of the groups' own minima. */
static float sign_of(const float *x)
{
    float sum = 0;

    for (int i = 0; i < BLOCK; i += SIZE) {
        float lo = x[i];

        for (int j = 1; j < SIZE; j++)
            lo = x[i + j] < lo ? x[i + j] : lo;
        sum += lo;
    }
    return sum > 0 ? -1 : 1;
}

static void block_write(const struct group *g, const struct choice *c, uint8_t *b)
{
    memset(b, 0, BYTES);
    for (int i = 0; i < BLOCK; i += 4) {
        int n = i / SIZE;
        float scale = c->d * (float)c->scale[n];
        quad q = codes_of(quad_of(g[n].x + i % SIZE), c->dmin * (float)c->min[n], inverse_of(scale));

        for (int j = 0; j < 4; j++)
            b[16 + i / 128 * 32 + i % 32 + j] |= (uint8_t)((int)q[j] << 2 * (i / 32 % 4));
    }
    for (int i = 0; i < GROUPS; i++)
        b[i] = (uint8_t)(c->scale[i] | c->min[i] << 4);
    wn_store16(b + 80, wn_f32_to_f16(c->d));
    wn_store16(b + 82, wn_f32_to_f16(c->dmin));
}

/* A block that decodes to NaN throughout: a fault in the source must not become harmless numbers. */
static void block_give_up(uint8_t *b)
{
    memset(b, 0, BYTES);
    wn_store16(b + 80, 0x7e00);
}

static bool all_finite(const float *x)
{
    float sum = 0;

    for (int i = 0; i < BLOCK; i++)
        sum += x[i] * 0;
    return sum == 0;
}

static void block_encode(const float *x, const float *weights, uint8_t *b)
{
    struct group g[GROUPS];
    struct choice best = {.error = INFINITY};
    float sign = sign_of(x), scale = 0, min = 0;

    if (!all_finite(x)) {
        block_give_up(b);
        return;
    }
    for (int i = 0; i < GROUPS; i++) {
        g[i] = (struct group){.x = x + i * SIZE, .weights = weights + i * SIZE};
        group_fit(&g[i], sign);
        scale = fmaxf(scale, g[i].scale);
        min = fmaxf(min, g[i].min * sign);
    }
    block_try(g, scale / 15, min / 15 * sign, &best);
    if (!(best.error < INFINITY)) /* out of the reach of f16 */
        block_give_up(b);
    else
        block_write(g, &best, b);
}

void wn_encode_q2_k_weighted(const float *src, const float *weights, uint8_t *blocks, size_t n)
{
    float ones[BLOCK];

    for (int i = 0; i < BLOCK; i++)
        ones[i] = 1;
    for (size_t at = 0; at < n; at += BLOCK, blocks += BYTES)
        block_encode(src + at, weights ? weights + at : ones, blocks);
}

void wn_encode_q2_k(const float *src, uint8_t *blocks, size_t n)
{
    wn_encode_q2_k_weighted(src, NULL, blocks, n);
}
