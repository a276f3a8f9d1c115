/*
 * XXH3-128 of bytes as they come: which of many pieces of a file has other bytes than it had. It proves nothing against
 * somebody who wants two pieces to look alike; a file's SHA-256 does (fingerprint.h), at a tenth of the speed.
 */
#ifndef WN_JOBS_CHECKSUM_H
#define WN_JOBS_CHECKSUM_H

#include <winnow/error.h>

#define WN_CHECKSUM_BYTES 16

/* Released ones and all zero ones are the same. */
struct wn_checksum {
    void *state; /* owned */
};

/* One that was begun before begins anew. */
WN_CHECKED bool wn_checksum_begin(struct wn_checksum *c, struct wn_err *err);
void wn_checksum_add(struct wn_checksum *c, const void *bytes, size_t n);
/* Of all that was added, in the order in which it is written in hex (the library's canonical form). */
void wn_checksum_end(const struct wn_checksum *c, uint8_t sum[WN_CHECKSUM_BYTES]);
void wn_checksum_release(struct wn_checksum *c);

#endif
