/*
 * What the files of npz archives share: for those that read (npz.c, npz_part.c, npz_extend.c) libzip behind a few
 * functions, for those that write (npz_write.c, npz_extend.c) an array as an entry.
 */
#ifndef WN_FORMATS_NPZ_PARTS_H
#define WN_FORMATS_NPZ_PARTS_H

#include "formats/npz.h"
#include "formats/zip_out.h"

#include <zip.h>

/* libzip's words, as an error of ours. */
bool wn_npz_fail(struct wn_err *err, zip_error_t *e);
/* A zip in memory, which must stay; NULL on failure. Ended by zip_discard. */
WN_CHECKED zip_t *wn_npz_open_zip(const void *bytes, size_t n, struct wn_err *err);
/* The size that an entry claims must be one that its bytes in the archive can have. */
WN_CHECKED bool wn_npz_check_claims(const zip_stat_t *st, size_t archive_bytes, struct wn_err *err);
/* The next n bytes of an entry, a zip_file_t; for struct wn_npy_input. */
WN_CHECKED bool wn_npz_entry_bytes(void *arg, void *dst, size_t n, struct wn_err *err);
/* An entry that was read from its first byte has ended, and is what its checksum says. */
WN_CHECKED bool wn_npz_check_end(zip_file_t *f, struct wn_err *err);

/* Array i of z as the next entry. */
WN_CHECKED bool wn_npz_put_entry(struct wn_zip_out *out, const struct wn_npz *z, size_t i, struct wn_err *err);

#endif
