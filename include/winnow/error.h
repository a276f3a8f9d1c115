/*
 * Errors are values: a code for programs and one sentence for a person.
 *
 * A struct wn_err lives on the caller's stack and owns nothing. Functions that can fail return true (or a pointer)
 * when they worked; only otherwise does *err hold a promise. err is never NULL. The library never prints, never
 * exits and never aborts on bad input.
 *
 * Style of a message: lower case, no full stop, names in single quotes, what was wanted and what was found. The
 * innermost function says what happened with the figures; each caller that knows more puts where in front.
 */
#ifndef WINNOW_ERROR_H
#define WINNOW_ERROR_H

#include <winnow/common.h>

enum wn_code {
    WN_OK = 0,
    WN_ERR_IO,        /* the operating system refused or a file shrank */
    WN_ERR_FORMAT,    /* a file or its contents are not what they claim to be */
    WN_ERR_NOMEM,     /* memory could not be had */
    WN_ERR_ARG,       /* the caller asked for something that does not exist or does not fit */
    WN_ERR_CANCELED,  /* a progress callback asked to stop */
    WN_ERR_DIFFERENT, /* verify: the two sides differ */
    WN_ERR_BUSY       /* another run is at work there */
};

struct wn_err {
    enum wn_code code;
    char msg[480];
};

/*
 * A message that does not fit is cut where it hurts least: the longest name in quotes keeps its ends
 * ("'/mnt/...gguf'").
 *
 * wn_fail sets *err to a fresh message; wn_fail_in puts "fmt: " before the message that is already there, and keeps its
 * code. Both are false, so that a caller can write `return wn_fail(...)`. They are macros around a function for the
 * value's sake: a compiler that sees it knows that what a failed call leaves unset is never read.
 */
#define wn_fail(...)    (wn_err_set(__VA_ARGS__), wn_failed())
#define wn_fail_in(...) (wn_err_put_before(__VA_ARGS__), wn_failed())

WN_API void wn_err_set(struct wn_err *err, enum wn_code code, const char *fmt, ...) WN_PRINTF(3, 4);
WN_API void wn_err_put_before(struct wn_err *err, const char *fmt, ...) WN_PRINTF(2, 3);

/*
 * For whoever prints: a message (or a name, a label, a token) carries bytes of a file as they are, and a terminal obeys
 * some. Writes s[n] to out with each control character (C0, DEL, C1; but those in keep, a string like "\n\t") and each
 * byte that is not UTF-8 as \x1b; returns the bytes written, at most n * WN_VISIBLE_GROWTH. out is not NUL-terminated.
 */
#define WN_VISIBLE_GROWTH 4
WN_API size_t wn_visible(const char *s, size_t n, const char *keep, char *out);

/* A call, not a constant: wn_fail may stand alone as a statement. */
static inline bool wn_failed(void)
{
    return false;
}

#endif
