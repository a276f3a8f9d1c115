/*
 * Digests of a file that is still being written: SHA-256 of all of it, XXH3-128 of some of its parts. The bytes of a
 * copy are moved by the system and never pass through this process, so hashing means reading: a thread follows the
 * writer, while what it wrote is still in the page cache, and looks at each byte once for both.
 */
#ifndef WN_JOBS_HASHING_H
#define WN_JOBS_HASHING_H

#include "jobs/checksum.h"
#include "jobs/fingerprint.h"
#include "sys/file.h"

struct wn_hash_part {
    uint64_t at, bytes; /* in the file; rising, and no two of them share bytes */
};

/* What is wanted of a file, and where it goes; all is the caller's until the end. */
struct wn_hash_wanted {
    uint64_t bytes;  /* of the file, when it is complete */
    uint8_t *sha256; /* [WN_DIGEST_BYTES] */
    const struct wn_hash_part *part;
    size_t n;
    uint8_t *sum; /* [n][WN_CHECKSUM_BYTES] */
};

struct wn_hashing;

/* Memory of one, its buffer: what stays in a core's own cache between the two. */
#define WN_HASHING_BYTES ((size_t)256 << 10)

/* NULL on failure. */
WN_CHECKED struct wn_hashing *wn_hashing_start(const char *path, const struct wn_hash_wanted *w, struct wn_err *err);
/*
 * The first `bytes` of the file may be read. Waits while the thread is far behind, so that what it will read has not
 * been driven out of memory.
 */
void wn_hashing_feed(struct wn_hashing *h, uint64_t bytes);
/* All of the file may be read (it is complete): waits for the digests, and frees. */
WN_CHECKED bool wn_hashing_end(struct wn_hashing *h, struct wn_err *err);
/* Gives up and frees; NULL is fine. */
void wn_hashing_stop(struct wn_hashing *h);

/* SHA-256 of a whole file, and of n bytes. */
WN_CHECKED bool wn_hash_file(const char *path, uint8_t digest[WN_DIGEST_BYTES], struct wn_err *err);
WN_CHECKED bool wn_hash_bytes(const void *bytes, size_t n, uint8_t digest[WN_DIGEST_BYTES], struct wn_err *err);
/* XXH3-128 of a part of a file. */
WN_CHECKED bool wn_hash_file_part(const struct wn_file *f, const struct wn_hash_part *part,
                                  uint8_t sum[WN_CHECKSUM_BYTES], struct wn_err *err);
/* All digits of n bytes, and NUL. */
void wn_hash_text(const uint8_t *bytes, size_t n, char *out);
/* The other way; false when it is not n bytes in small hex digits. */
bool wn_hash_parse(const char *text, size_t digits, uint8_t *bytes, size_t n);

#endif
