/*
 * Small made-up weights for tests of single blocks: f32 matrices of seeded random numbers, a context to run them in,
 * and plain double-precision arithmetic to compare with.
 */
#ifndef SMALL_H
#define SMALL_H

#include "wn_test.h"

#include "base/rng.h"
#include "graph/blocks.h"

struct small {
    struct wn_config config;
    struct wn_layer_config layers[2];
    struct wn_kernels kernels;
    struct wn_ctx ctx;
    struct wn_arena arena;
    struct wn_rng rng;
    void *made[256]; /* freed by small_release */
    size_t made_n;
};

/* Config with small coherent sizes, two layers (KDA and MLA, both MoE), `threads` workers, scalar kernels. */
void small_init(struct small *s, unsigned threads);
/* Sizes the scratch; call after changing config. */
void small_scratch(struct small *s, size_t tokens, size_t context);
void small_release(struct small *s);

float *small_floats(struct small *s, size_t n, float scale); /* uniform in -scale .. scale */
float *small_zeros(struct small *s, size_t n);
struct wn_matrix small_matrix(struct small *s, size_t rows, size_t cols);
struct wn_kda_weights small_kda(struct small *s);
struct wn_mla_weights small_mla(struct small *s);
struct wn_moe_weights small_moe(struct small *s);

/* y[rows] = m x */
void small_mul(const struct wn_matrix *m, const double *x, double *y);
double small_sigmoid(double x);
void small_norm(const double *x, const float *w, double eps, double *y, size_t n);
/* Widens n floats. */
void small_widen(const float *x, double *y, size_t n);
/* Fails unless all n are within `most` of each other. */
void small_close(const float *got, const double *wanted, size_t n, double most);

#endif
