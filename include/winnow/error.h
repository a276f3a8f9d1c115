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
    WN_ERR_IO,       /* the operating system refused or a file shrank */
    WN_ERR_FORMAT,   /* a file or its contents are not what they claim to be */
    WN_ERR_NOMEM,    /* memory could not be had */
    WN_ERR_ARG,      /* the caller asked for something that does not exist or does not fit */
    WN_ERR_CANCELED, /* a progress callback asked to stop */
    WN_ERR_DIFFERENT /* verify: the two sides differ */
};

struct wn_err {
    enum wn_code code;
    char msg[480];
};

/* Sets *err to a fresh message. Always false, so that a caller can write `return wn_fail(...)`. */
WN_API bool wn_fail(struct wn_err *err, enum wn_code code, const char *fmt, ...) WN_PRINTF(3, 4);

/* Puts "fmt: " before the message that is already in *err, and keeps its code. Always false. */
WN_API bool wn_fail_in(struct wn_err *err, const char *fmt, ...) WN_PRINTF(2, 3);

#endif
