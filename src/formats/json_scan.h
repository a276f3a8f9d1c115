/*
 * A strict JSON scanner for texts of tens of megabytes whose schema is known: it walks the text once, unescapes strings
 * where they stand (a string is a NUL-terminated piece of the text afterwards) and allocates nothing.
 *
 * The functions that take something skip white space before it and answer false with the place in *err when something
 * else stands there. Objects are walked with wn_json_object, arrays so:
 *
 *     wn_json_take(j, '[')
 *     for (bool first = true, more; (ok = wn_json_more(j, ']', &first, &more)) && more;)
 *         ... the value
 *
 * Not jansson: it makes a tree of blocks of such a text, several times its size.
 */
#ifndef WN_FORMATS_JSON_SCAN_H
#define WN_FORMATS_JSON_SCAN_H

#include "base/bytes.h"

struct wn_json {
    char *text, *at, *end; /* the caller's bytes, which are changed */
    struct wn_err *err;
};

static inline struct wn_json wn_json_of(char *text, size_t n, struct wn_err *err)
{
    return (struct wn_json){text, text, text + n, err};
}

WN_CHECKED bool wn_json_take(struct wn_json *j, char c);
/* *more = false and the bracket taken when `close` comes; otherwise a comma is taken (but for the first). */
WN_CHECKED bool wn_json_more(struct wn_json *j, char close, bool *first, bool *more);
/* Called behind each key's colon; must take the value. */
typedef bool wn_json_member(void *arg, struct wn_bytes key);
/* A whole object. */
WN_CHECKED bool wn_json_object(struct wn_json *j, wn_json_member *member, void *arg);
/* Valid UTF-8 without a NUL; s->at[s->n] is NUL. */
WN_CHECKED bool wn_json_string(struct wn_json *j, struct wn_bytes *s);
/* A whole number 0 .. 2^64 - 1 in digits alone: no sign, fraction, exponent or leading zero. */
WN_CHECKED bool wn_json_u64(struct wn_json *j, uint64_t *v);
/* Any value, whatever it is; nested at most 64 deep. */
WN_CHECKED bool wn_json_skip(struct wn_json *j);
/* Nothing but white space is left. */
WN_CHECKED bool wn_json_end(struct wn_json *j);

#endif
