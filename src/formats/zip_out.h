/*
 * A zip, written from its first byte to its last: entries stored, not deflated, of a known size. The bytes depend on
 * names and contents only. Sizes and offsets of 4 GiB and more are told in the zip64 form, which every reader of npz
 * archives knows.
 *
 * Not libzip: it takes the bytes of all entries when it closes the archive; here they are written as they are computed.
 */
#ifndef WN_FORMATS_ZIP_OUT_H
#define WN_FORMATS_ZIP_OUT_H

#include "base/bytes.h"
#include "sys/file.h"

struct wn_zip_out {
    struct wn_outfile file;
    struct wn_buf directory; /* entries of the central directory so far; owned */
    uint64_t entries;
    /* the entry at hand */
    uint64_t header_at, left; /* where it begins; bytes that are still to come */
    size_t in_directory;      /* where its entry there begins */
    uint32_t crc;
    uint64_t most; /* larger numbers have the zip64 form; for tests, which lower it */
};

/* Opened as wn_outfile_open has it. What fails later is to be abandoned. */
WN_CHECKED bool wn_zip_out_open(struct wn_zip_out *z, const char *path, bool overwrite, struct wn_err *err);
/* An entry of `bytes` bytes, all of which wn_zip_out_add brings before the next entry begins. name: ASCII. */
WN_CHECKED bool wn_zip_out_begin(struct wn_zip_out *z, const char *name, uint64_t bytes, struct wn_err *err);
WN_CHECKED bool wn_zip_out_add(struct wn_zip_out *z, const void *bytes, size_t n, struct wn_err *err);
/* The directory, and the file under its name. The struct is released either way. */
WN_CHECKED bool wn_zip_out_commit(struct wn_zip_out *z, struct wn_err *err);
/* Leaves nothing; does nothing to a struct that is committed or all zero. */
void wn_zip_out_abandon(struct wn_zip_out *z);

#endif
