/*
 * A tensor as a file holds it, and a matrix as arithmetic wants it.
 */
#ifndef WN_TENSOR_TENSOR_H
#define WN_TENSOR_TENSOR_H

#include "tensor/type.h"

#define WN_DIMS 8

/* One tensor of an open source. The shape is OUTERMOST FIRST whatever the file's habit; absent dimensions are not counted. */
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

/*
 * A matrix in memory: rows of cols weights of one type, each row a whole number of blocks. A borrowed view; it owns
 * nothing. For WN_MXFP4_SPLIT `scales` holds one e8m0 byte per 32 columns; it is NULL for all other types.
 */
struct wn_matrix {
    enum wn_type type;
    uint64_t rows, cols;
    const uint8_t *data;
    size_t row_bytes;
    const uint8_t *scales;
    size_t scale_row_bytes;
};

/* Rows first .. first + n - 1 of m as a matrix of their own. */
static inline struct wn_matrix wn_matrix_rows(const struct wn_matrix *m, uint64_t first, uint64_t n)
{
    struct wn_matrix part = *m;

    part.rows = n;
    part.data += first * m->row_bytes;
    if (part.scales)
        part.scales += first * m->scale_row_bytes;
    return part;
}

#endif
