/*
 * A better scale and bias for one group, in the same format. MLX's rule spends one of its codes on an exact zero, so of
 * a group that is symmetric about zero (those of K3 nearly are) it clips one side: at 2 bits the levels are hi, hi/2,
 * 0, -hi/2.
 *
 * Here: from a few starting ranges, codes and line are fitted to each other in turn (the codes nearest to a line; the
 * line of least squares through the codes), with scale and bias rounded as the file will hold them. The best of all
 * that were tried is taken, MLX's own among them, so the error is never larger than its.
 */
#include "quant/affine_parts.h"

#include <math.h>
#include <string.h>

#define ROUNDS 3

struct fit {
    const struct wn_affine_form *form;
    const float *w, *weights;
    size_t n;
    float most;
};

static float squared_error(const struct fit *f, const struct wn_affine_group *g)
{
    float sum = 0;

    for (size_t i = 0; i < f->n; i++) {
        float d = g->scale * (float)g->codes[i] + g->bias - f->w[i];

        sum += d * d * (f->weights ? f->weights[i] : 1);
    }
    return sum;
}

/* Rounds the line as the file will hold it, and gives each weight its nearest code. False for a line that has none. */
static bool settle(const struct fit *f, struct wn_affine_group *g)
{
    g->scale = wn_affine_as_stored(f->form->stored, g->scale);
    g->bias = wn_affine_as_stored(f->form->stored, g->bias);
    if (!(fabsf(g->scale) > 0) || !isfinite(g->scale) || !isfinite(g->bias))
        return false;
    wn_affine_quantise(f->w, f->n, g->scale, g->bias, f->most, g->codes);
    return true;
}

/* The line of least (weighted) squares through (code, weight). False when all codes are the same. */
static bool line_through(const struct fit *f, struct wn_affine_group *g)
{
    double s = 0, sq = 0, sqq = 0, sw = 0, sqw = 0, det;

    for (size_t i = 0; i < f->n; i++) {
        double k = f->weights ? (double)f->weights[i] : 1, q = g->codes[i], w = (double)f->w[i];

        s += k;
        sq += k * q;
        sqq += k * q * q;
        sw += k * w;
        sqw += k * q * w;
    }
    det = s * sqq - sq * sq;
    if (!(det > 0))
        return false;
    g->scale = (float)((s * sqw - sq * sw) / det);
    g->bias = (float)((sqq * sw - sq * sqw) / det);
    return true;
}

static void try_line(const struct fit *f, float scale, float bias, struct wn_affine_group *best, float *least)
{
    struct wn_affine_group g = {.scale = scale, .bias = bias};

    for (int round = 0; round < ROUNDS && settle(f, &g); round++) {
        float error = squared_error(f, &g);

        if (error < *least) {
            *least = error;
            *best = g;
        }
        if (!line_through(f, &g))
            break;
    }
}

void wn_affine_fit(const struct wn_affine_form *form, const float *w, const float *weights, struct wn_affine_group *g)
{
    static const float shares[] = {1, 0.85f, 0.7f, 0.55f}; /* of the range: the few outermost may be clipped */
    struct fit f = {form, w, weights, form->group, (float)((1u << form->bits) - 1)};
    struct wn_affine_group best = *g;
    float least, lo = w[0], hi = w[0];

    best.scale = wn_affine_as_stored(form->stored, g->scale);
    best.bias = wn_affine_as_stored(form->stored, g->bias);
    least = squared_error(&f, &best);
    for (size_t i = 1; i < f.n; i++) {
        lo = fminf(lo, w[i]);
        hi = fmaxf(hi, w[i]);
    }
    if (lo == hi) /* MLX has it exactly */
        return;
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        float middle = lo + (hi - lo) / 2, half = (hi - lo) / 2 * shares[i];

        try_line(&f, 2 * half / f.most, middle - half, &best, &least);
    }
    try_line(&f, best.scale, best.bias, &best, &least);
    *g = best;
}
