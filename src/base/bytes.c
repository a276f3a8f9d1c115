/* See bytes.h. */
#include "base/bytes.h"
#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool wn_buf_reserve(struct wn_buf *b, size_t more, struct wn_err *err)
{
    size_t room = b->room ? b->room : 64;
    char *p;

    if (more > SIZE_MAX / 2 - b->n)
        return wn_fail(err, WN_ERR_NOMEM, "a buffer of %zu and %zu bytes is too large", b->n, more);
    while (room < b->n + more)
        room *= 2;
    if (room == b->room)
        return true;
    p = wn_realloc(b->at, room, 1, err);
    if (!p)
        return false;
    b->at = p;
    b->room = room;
    return true;
}

bool wn_buf_add(struct wn_buf *b, const void *bytes, size_t n, struct wn_err *err)
{
    if (!wn_buf_reserve(b, n, err))
        return false;
    if (n)
        memcpy(b->at + b->n, bytes, n);
    b->n += n;
    return true;
}

bool wn_buf_printf(struct wn_buf *b, struct wn_err *err, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return wn_fail(err, WN_ERR_ARG, "a message could not be formatted");
    if (!wn_buf_reserve(b, (size_t)n + 1, err))
        return false;
    va_start(ap, fmt);
    (void)vsnprintf(b->at + b->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->n += (size_t)n;
    return true;
}

void wn_buf_release(struct wn_buf *b)
{
    free(b->at);
    *b = (struct wn_buf){0};
}
