/* What the two rules of affine encoding share. */
#ifndef WN_QUANT_AFFINE_PARTS_H
#define WN_QUANT_AFFINE_PARTS_H

#include "quant/affine.h"

#define WN_AFFINE_GROUP 128 /* the largest */

struct wn_affine_group {
    float scale, bias;
    uint8_t codes[WN_AFFINE_GROUP];
};

/* v rounded to the stored type and widened again. */
float wn_affine_as_stored(enum wn_type t, float v);

/* q[i] = (w[i] - bias) / scale, rounded half to even and kept within 0 .. most. */
void wn_affine_quantise(const float *w, size_t n, float scale, float bias, float most, uint8_t *q);

/*
 * Replaces g, an encoding of the group w, by one of smaller (weighted) squared error where it finds one. affine_fit.c
 */
void wn_affine_fit(const struct wn_affine_form *f, const float *w, const float *weights, struct wn_affine_group *g);

#endif
