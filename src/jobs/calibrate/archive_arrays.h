/*
 * Arrays of a saliency archive, taken out of an npz and put into one: each by its key and in the shape that the archive
 * must have.
 */
#ifndef WN_JOBS_CALIBRATE_ARCHIVE_ARRAYS_H
#define WN_JOBS_CALIBRATE_ARCHIVE_ARRAYS_H

#include "formats/npz.h"

/*
 * Taking. A key that is absent is no error, and leaves NULL; another shape, text instead of numbers, and entries out of
 * range are WN_ERR_FORMAT, with the key and the entry's number. What is made is the caller's, also after a failure.
 */

/* The array, and room for its entries of `size` bytes each. */
WN_CHECKED bool wn_archive_find_room(const struct wn_npz *z, const char *key, uint32_t dims, const uint64_t *shape,
                                     size_t size, const struct wn_npy **a, void **room, struct wn_err *err);
/* Finite numbers >= 0. */
WN_CHECKED bool wn_archive_take_sums(const struct wn_npz *z, const char *key, uint32_t dims, const uint64_t *shape,
                                     double **dst, struct wn_err *err);
/* Whole numbers >= 0. */
WN_CHECKED bool wn_archive_take_counts(const struct wn_npz *z, const char *key, uint32_t dims, const uint64_t *shape,
                                       uint64_t **dst, struct wn_err *err);
/* One number, a scalar or an array of one; absent: `value` keeps what it had. */
WN_CHECKED bool wn_archive_take_number(const struct wn_npz *z, const char *key, uint64_t *value, struct wn_err *err);
/* Text of ours, or "": something else of that name in an archive by others is left alone. */
WN_CHECKED bool wn_archive_take_text(const struct wn_npz *z, const char *key, char *out, size_t size,
                                     struct wn_err *err);

/* Putting: a copy of the values under that key. NULL, and an empty text, put nothing. */
WN_CHECKED bool wn_archive_put_f64(struct wn_npz *z, const char *key, const double *values, uint32_t dims,
                                   const uint64_t *shape, struct wn_err *err);
WN_CHECKED bool wn_archive_put_i64(struct wn_npz *z, const char *key, const uint64_t *values, uint32_t dims,
                                   const uint64_t *shape, struct wn_err *err);
WN_CHECKED bool wn_archive_put_flags(struct wn_npz *z, const char *key, const uint8_t *values, uint32_t dims,
                                     const uint64_t *shape, struct wn_err *err);
/* As floats, which counts are in the archives that exist; all that can occur are exact in one. */
WN_CHECKED bool wn_archive_put_counts(struct wn_npz *z, const char *key, const uint64_t *values, uint32_t dims,
                                      const uint64_t *shape, struct wn_err *err);
WN_CHECKED bool wn_archive_put_number(struct wn_npz *z, const char *key, uint64_t value, struct wn_err *err);
WN_CHECKED bool wn_archive_put_texts(struct wn_npz *z, const char *key, const char *const *texts, uint32_t dims,
                                     const uint64_t *shape, struct wn_err *err);
WN_CHECKED bool wn_archive_put_text(struct wn_npz *z, const char *key, const char *text, struct wn_err *err);

#endif
