/*
 * Affine quantisation as MLX directories hold it: the columns of a row in groups of 32, 64 or 128, each with a scale
 * and a bias of its own; value = scale * code + bias, codes of 2, 3, 4, 5, 6 or 8 bits. A row's codes are one
 * little-endian stream of bits. Scales and biases have the type of the weights that were quantised: BF16, F16 or F32.
 * docs/formats/mlx.md has the rules; golden/mlx the numbers.
 */
#ifndef WN_QUANT_AFFINE_H
#define WN_QUANT_AFFINE_H

#include "tensor/tensor.h"

/* How codes are found. Readers need not know. */
enum wn_affine_rule {
    WN_AFFINE_MINMAX,       /* MLX's own rule, bit for bit */
    WN_AFFINE_LEAST_SQUARES /* never a larger squared error than MINMAX's: see affine_fit.c */
};

struct wn_affine_form {
    unsigned bits;       /* 2, 3, 4, 5, 6 or 8 */
    unsigned group;      /* 32, 64 or 128 */
    enum wn_type stored; /* of scales and biases: WN_BF16, WN_F16 or WN_F32 */
};

/* The type of codes of so many bits, WN_TYPE_COUNT when there is none; and its bits, 0 when t is not affine. */
enum wn_type wn_affine_type(unsigned bits);
unsigned wn_affine_bits(enum wn_type t);

/* True when MLX knows the form and n columns are whole groups of it. */
bool wn_affine_fits(const struct wn_affine_form *f, uint64_t n);

/*
 * One row of n columns, n a multiple of the group. codes: n * bits / 8 bytes; scales, biases: n / group of f->stored
 * each. weights: how much an error of each column counts, n of them, for LEAST_SQUARES; NULL: all the same. Values that
 * are not finite give codes without meaning, never a trap.
 */
void wn_affine_encode_row(const struct wn_affine_form *f, enum wn_affine_rule rule, const float *src,
                          const float *weights, size_t n, uint8_t *codes, uint8_t *scales, uint8_t *biases);

/* Row of a matrix of an affine type, all its columns: the product and the sum are each rounded to f32. */
void wn_affine_decode_row(const struct wn_matrix *m, uint64_t row, float *dst);

#endif
