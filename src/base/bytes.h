/*
 * Byte strings: a pointer and a length, never dependent on a NUL; and a buffer that grows.
 */
#ifndef WN_BASE_BYTES_H
#define WN_BASE_BYTES_H

#include <winnow/error.h>
#include <string.h>

/* Borrowed bytes. */
struct wn_bytes {
    const char *at;
    size_t n;
};

static inline struct wn_bytes wn_bytes_of(const char *s)
{
    return (struct wn_bytes){s, strlen(s)};
}

static inline bool wn_bytes_equal(struct wn_bytes a, struct wn_bytes b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.at, b.at, a.n) == 0);
}

static inline bool wn_bytes_is(struct wn_bytes a, const char *s)
{
    return wn_bytes_equal(a, wn_bytes_of(s));
}

static inline bool wn_starts_with(const char *s, const char *start)
{
    return strncmp(s, start, strlen(start)) == 0;
}

static inline bool wn_ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && memcmp(s + n - m, end, m) == 0;
}

/* FNV-1a, for hash tables; not for trust. */
static inline uint64_t wn_bytes_hash(struct wn_bytes b)
{
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < b.n; i++)
        h = (h ^ (unsigned char)b.at[i]) * 1099511628211u;
    return h ^ (h >> 32);
}

/* A growing buffer. All zero is an empty one; release with wn_buf_release. Whoever holds the struct owns `at`. */
struct wn_buf {
    char *at;
    size_t n, room;
};

WN_CHECKED bool wn_buf_reserve(struct wn_buf *b, size_t more, struct wn_err *err);
WN_CHECKED bool wn_buf_add(struct wn_buf *b, const void *bytes, size_t n, struct wn_err *err);
WN_CHECKED bool wn_buf_printf(struct wn_buf *b, struct wn_err *err, const char *fmt, ...) WN_PRINTF(3, 4);
void wn_buf_release(struct wn_buf *b);

#endif
