/*
 * The text at the start of an npy file: a Python dict with dtype, order and shape. Parsed by a grammar of its own that
 * knows what numpy writes and nothing more. For npy.c and its fuzz target.
 */
#ifndef WN_FORMATS_NPY_HEADER_H
#define WN_FORMATS_NPY_HEADER_H

#include "base/bytes.h"
#include "formats/npz.h"

/* Numbers as the file has them, where wn_npy_kind has no room for the difference. */
enum wn_npy_stored {
    WN_NPY_AS_IS,
    WN_NPY_FROM_F16,
    WN_NPY_FROM_I8,
    WN_NPY_FROM_I16,
    WN_NPY_FROM_U16,
    WN_NPY_FROM_U32,
    WN_NPY_FROM_U64
};

struct wn_npy_header {
    /* False: a dtype that winnow has no use for (objects, structures, complex ...); then only descr is set besides. */
    bool known;
    char descr[24]; /* as written, perhaps cut, for messages */
    enum wn_npy_kind kind;
    enum wn_npy_stored stored;
    uint64_t item_bytes; /* of one element in the file */
    uint32_t width;      /* WN_NPY_UNICODE only */
    bool fortran;
    uint32_t dims;
    uint64_t shape[WN_NPY_DIMS];
    uint64_t elements, bytes; /* all of them, in the file; bytes is at most 2^40 */
};

/* Bytes of one element in memory. */
uint64_t wn_npy_item_bytes(enum wn_npy_kind kind, uint32_t width);

/* *elements = product of the shape; false when it overflows. */
WN_CHECKED bool wn_npy_count(uint32_t dims, const uint64_t *shape, uint64_t *elements);

/* text: the dict alone, without the magic. Big-endian numbers are refused here. */
WN_CHECKED bool wn_npy_header_parse(struct wn_npy_header *h, struct wn_bytes text, struct wn_err *err);

/* Kind, shape and number of elements, without data; 16-bit floats as what they are in the file. */
struct wn_npy wn_npy_of_header(const struct wn_npy_header *h);

/* Appends magic, version, length and dict as numpy.save writes them for a, padded to a multiple of 64. */
WN_CHECKED bool wn_npy_header_make(const struct wn_npy *a, struct wn_buf *out, struct wn_err *err);

#endif
