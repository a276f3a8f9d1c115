/*
 * Reads the reference vectors under golden/quants: the .bin file of one type (layout in the README.md there), and
 * single arrays of the few safetensors files. Small on purpose, so that these tests need nothing above the quant floor.
 */
#ifndef WN_TESTS_QUANT_GOLDEN_H
#define WN_TESTS_QUANT_GOLDEN_H

#include "wn_test.h"
#include "tensor/type.h"

struct golden {
    uint8_t *file; /* owned; the pointers below lie in it */
    uint32_t id, block_elements, block_bytes, rows, cols, row_bytes, random_elements, random_bytes;
    const uint8_t *row_blocks;  /* [rows][row_bytes] */
    const float *row_values;    /* [rows][cols] */
    const float *activation;    /* [cols] */
    const double *dots;         /* [rows]: exact sum of value x activation, rounded once */
    const double *magnitudes;   /* [rows]: the same of absolute values */
    const uint8_t *random;      /* [random_bytes]: any bytes at all */
    const float *random_values; /* [random_elements] */
};

/* Types that have vectors, in the order of enum wn_type. */
extern const enum wn_type golden_types[];
extern const size_t golden_type_count;

/* Skips the test when the data is not there. */
void golden_open(struct golden *g, enum wn_type t);
void golden_close(struct golden *g);

/* A whole file of golden/quants, *n bytes, to be freed. Skips when it is not there. */
uint8_t *golden_file(const char *name, size_t *n);

/* The bytes of one array of a safetensors file in memory; its size must be `bytes`. */
const void *golden_array(const uint8_t *file, size_t file_bytes, const char *name, size_t bytes);

/* Fails, saying where, unless both have the same bits, any NaN counting for any other. */
void check_same_floats(const char *what, const float *found, const float *wanted, size_t n);

#endif
