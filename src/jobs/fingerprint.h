/*
 * SHA-256 of bytes as they come: the name of an archive or a corpus, and the proof that what was stored is what is
 * read.
 */
#ifndef WN_JOBS_FINGERPRINT_H
#define WN_JOBS_FINGERPRINT_H

#include <winnow/error.h>

#define WN_DIGEST_BYTES 32

/* Released ones and all zero ones are the same. */
struct wn_fingerprint {
    void *state; /* owned */
};

WN_CHECKED bool wn_fingerprint_begin(struct wn_fingerprint *f, struct wn_err *err);
WN_CHECKED bool wn_fingerprint_add(struct wn_fingerprint *f, const void *bytes, size_t n, struct wn_err *err);
/* The digest of all that was added; nothing more may be. */
WN_CHECKED bool wn_fingerprint_end(struct wn_fingerprint *f, uint8_t digest[WN_DIGEST_BYTES], struct wn_err *err);
void wn_fingerprint_release(struct wn_fingerprint *f);

/* The head of a digest as 16 hex digits. */
void wn_fingerprint_text(const uint8_t digest[WN_DIGEST_BYTES], char out[17]);

#endif
