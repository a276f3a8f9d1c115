/*
 * A tensor as a file holds it, and a matrix as arithmetic wants it.
 */
#ifndef WN_TENSOR_TENSOR_H
#define WN_TENSOR_TENSOR_H

#include "tensor/type.h"

#define WN_DIMS 8

/*
 * One tensor of an open source. The shape is OUTERMOST FIRST whatever the file's habit; absent dimensions are not
 * counted.
 */
struct wn_tensor {
    const char *name; /* NUL-terminated; borrowed from the source */
    enum wn_type type;
    uint32_t dims;           /* 0 (a scalar) .. WN_DIMS */
    uint64_t shape[WN_DIMS]; /* outermost first; entries at and beyond dims are 1 */
    uint32_t file;           /* which file of the source */
    uint64_t at;             /* absolute offset in that file */
    uint64_t bytes;
};

/* Elements; cannot overflow for a tensor that a source has accepted. */
static inline uint64_t wn_tensor_elements(const struct wn_tensor *t)
{
    uint64_t n = 1;

    for (uint32_t i = 0; i < t->dims; i++)
        n *= t->shape[i];
    return n;
}

/* Whether two shapes are the same but for dimensions of 1, which writers leave in or out. */
static inline bool wn_shape_is_alike(uint32_t a_dims, const uint64_t *a, uint32_t b_dims, const uint64_t *b)
{
    uint32_t i = 0, k = 0;

    for (;;) {
        while (i < a_dims && a[i] == 1)
            i++;
        while (k < b_dims && b[k] == 1)
            k++;
        if (i == a_dims || k == b_dims)
            return i == a_dims && k == b_dims;
        if (a[i++] != b[k++])
            return false;
    }
}

/*
 * A matrix in memory: rows of cols weights of one type, each row a whole number of blocks. A borrowed view; it owns
 * nothing. WN_MXFP4_SPLIT has one e8m0 byte per 32 columns in `scales`. Affine types have a scale and a bias per
 * `group` columns, both of type scale_type. All other types leave these fields 0.
 */
struct wn_matrix {
    enum wn_type type;
    uint64_t rows, cols;
    const uint8_t *data;
    size_t row_bytes;
    const uint8_t *scales;
    size_t scale_row_bytes; /* of biases too */
    const uint8_t *biases;
    uint32_t group;
    enum wn_type scale_type;
};

/* Rows first .. first + n - 1 of m as a matrix of their own. */
static inline struct wn_matrix wn_matrix_rows(const struct wn_matrix *m, uint64_t first, uint64_t n)
{
    struct wn_matrix part = *m;

    part.rows = n;
    part.data += first * m->row_bytes;
    if (part.scales)
        part.scales += first * m->scale_row_bytes;
    if (part.biases)
        part.biases += first * m->scale_row_bytes;
    return part;
}

/* Columns first .. first + n - 1; both whole blocks, and whole groups where the type has scales apart. */
static inline struct wn_matrix wn_matrix_columns(const struct wn_matrix *m, uint64_t first, uint64_t n)
{
    const struct wn_type_info *info = wn_type_info(m->type);
    struct wn_matrix part = *m;

    part.cols = n;
    part.data += first / info->block_elements * info->block_bytes;
    if (part.biases) {
        size_t skip = (size_t)(first / m->group) * wn_type_info(m->scale_type)->block_bytes;

        part.scales += skip;
        part.biases += skip;
    } else if (part.scales) {
        part.scales += first / info->block_elements;
    }
    return part;
}

#endif
