/*
 * npz: a zip of npy arrays, as numpy writes and reads them (stored or deflated). Also single npy files.
 * libzip does the zip. Reading trusts nothing: the header's shape and dtype are checked against the entry's size.
 */
#ifndef WN_FORMATS_NPZ_H
#define WN_FORMATS_NPZ_H

#include "sys/file.h"

#define WN_NPY_DIMS 8

/* WN_NPY_F16 is for what is written and for parts; whole arrays of it are read as WN_NPY_F32. */
enum wn_npy_kind { WN_NPY_F64, WN_NPY_F32, WN_NPY_F16, WN_NPY_I64, WN_NPY_I32, WN_NPY_U8, WN_NPY_BOOL, WN_NPY_UNICODE };

/*
 * One array, C order, in memory. data is owned. WN_NPY_UNICODE: fixed-width UCS-4 strings of `width` characters
 * ('<Un').
 */
struct wn_npy {
    enum wn_npy_kind kind;
    uint32_t width; /* WN_NPY_UNICODE only */
    uint32_t dims;
    uint64_t shape[WN_NPY_DIMS];
    uint64_t elements;
    void *data;
};

void wn_npy_release(struct wn_npy *a);
/* Allocates zeroed data. shape: dims numbers (may be NULL for dims 0). WN_ERR_ARG for more than WN_NPY_DIMS or 2^64. */
WN_CHECKED bool wn_npy_init(struct wn_npy *a, enum wn_npy_kind kind, uint32_t width, uint32_t dims,
                            const uint64_t *shape, struct wn_err *err);
/* The same without data. */
WN_CHECKED bool wn_npy_shape(struct wn_npy *a, enum wn_npy_kind kind, uint32_t width, uint32_t dims,
                             const uint64_t *shape, struct wn_err *err);
/* Element i of a WN_NPY_UNICODE array as UTF-8 into out[size]; and the reverse. */
WN_CHECKED bool wn_npy_get_string(const struct wn_npy *a, uint64_t i, char *out, size_t size, struct wn_err *err);
WN_CHECKED bool wn_npy_set_string(struct wn_npy *a, uint64_t i, const char *utf8, struct wn_err *err);
/*
 * Elements of any numeric kind converted to double / int64 (i64 from floats: only whole numbers). False: it cannot be.
 */
WN_CHECKED bool wn_npy_as_f64(const struct wn_npy *a, uint64_t i, double *v);
WN_CHECKED bool wn_npy_as_i64(const struct wn_npy *a, uint64_t i, int64_t *v);

/*
 * A .npy file, format versions 1 to 3. Fortran order becomes C order; f2, i1, i2, u2, u4 and u8 numbers become the next
 * kind that holds them all (a u8 beyond int64 is an error); big-endian numbers, objects and structures are refused.
 */
WN_CHECKED bool wn_npy_read(struct wn_npy *a, const char *path, struct wn_err *err);
WN_CHECKED bool wn_npy_write(const struct wn_npy *a, const char *path, bool overwrite, struct wn_err *err);
/* The same from and to memory (used by the npz functions, fuzzed). */
WN_CHECKED bool wn_npy_parse(struct wn_npy *a, const void *bytes, size_t n, struct wn_err *err);

/* Gives bytes at .. at + n - 1 of an array's data, which are asked for from the first to the last. */
typedef bool wn_npz_fill_fn(void *arg, uint64_t at, void *dst, size_t n, struct wn_err *err);

/* An npz in memory: named arrays in file order. */
struct wn_npz {
    struct {
        char *name; /* owned, without ".npy" */
        struct wn_npy array;
        wn_npz_fill_fn *fill; /* wn_npz_add_filled; otherwise NULL */
        void *fill_arg;
    } * entry; /* owned */
    size_t n;
};

/*
 * Entries that are no arrays of such kinds (no ".npy" in the name, object or complex dtype ...) are passed over;
 * damage, encryption, a name that comes twice and big-endian numbers are errors.
 */
WN_CHECKED bool wn_npz_read(struct wn_npz *z, const char *path, struct wn_err *err);
/* The same, but that the array of this name comes without its data (NULL); its bytes are not looked at. */
WN_CHECKED bool wn_npz_read_but(struct wn_npz *z, const char *path, const char *but, struct wn_err *err);
/* The same from memory. */
WN_CHECKED bool wn_npz_parse(struct wn_npz *z, const void *bytes, size_t n, struct wn_err *err);
void wn_npz_release(struct wn_npz *z);
/* NULL when absent. */
const struct wn_npy *wn_npz_find(const struct wn_npz *z, const char *name);
/* Adds an array, taking its data over (a is emptied; on failure it is as before). Names are given once. */
WN_CHECKED bool wn_npz_add(struct wn_npz *z, const char *name, struct wn_npy *a, struct wn_err *err);
/*
 * Adds an array too large to be in memory: a has a shape and no data (wn_npy_shape). wn_npz_write asks `fill` for that.
 */
WN_CHECKED bool wn_npz_add_filled(struct wn_npz *z, const char *name, const struct wn_npy *a, wn_npz_fill_fn *fill,
                                  void *arg, struct wn_err *err);
/*
 * Whole or not at all; z has one array or more. The bytes depend on the contents only (fixed time stamps, nothing
 * deflated), so equal archives are cmp-equal.
 */
WN_CHECKED bool wn_npz_write(const struct wn_npz *z, const char *path, bool overwrite, struct wn_err *err);

/*
 * The same as a copy of the archive `from` with z's arrays behind its others, and in the place of those of their names.
 * Entries are copied whatever they hold, a piece at a time. path may be from, to be overwritten.
 */
WN_CHECKED bool wn_npz_extend(const char *from, const struct wn_npz *z, const char *path, bool overwrite,
                              struct wn_err *err);

/*
 * One array of an archive, of which no more is in memory than what is asked for.
 */
struct wn_npz_part {
    struct wn_npy array; /* kind and shape; no data */
    uint64_t bytes;      /* of all its data, in C order as the file has them (little-endian) */
    struct wn_file file;
    struct zip *zip;
    struct zip_file *entry;
    uint64_t index, head; /* which entry; what stands before the data */
    uint64_t at;          /* what comes next when the entry is read on */
};

/*
 * *there is false, and nothing is open, when the archive has no such array. The data are read through once, so that
 * damage is seen here and not later. Refused: kinds that reading changes, but for 16-bit floats, and Fortran order.
 */
WN_CHECKED bool wn_npz_part_open(struct wn_npz_part *p, const char *path, const char *name, bool *there,
                                 struct wn_err *err);
/* Bytes at .. at + n - 1 of the data. Going back in a deflated array reads it from its beginning. */
WN_CHECKED bool wn_npz_part_read(struct wn_npz_part *p, uint64_t at, void *dst, size_t n, struct wn_err *err);
/* Does nothing to a struct that is all zero. */
void wn_npz_part_close(struct wn_npz_part *p);

#endif
