/* Messages of struct wn_err: see winnow/error.h. Too long a message is cut, never overrun. */
#include <winnow/error.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void wn_err_set(struct wn_err *err, enum wn_code code, const char *fmt, ...)
{
    va_list ap;

    err->code = code;
    va_start(ap, fmt);
    if (vsnprintf(err->msg, sizeof err->msg, fmt, ap) < 0)
        err->msg[0] = '\0';
    va_end(ap);
}

void wn_err_put_before(struct wn_err *err, const char *fmt, ...)
{
    char where[sizeof err->msg];
    char what[sizeof err->msg];
    va_list ap;
    size_t used;

    va_start(ap, fmt);
    if (vsnprintf(where, sizeof where, fmt, ap) < 0)
        where[0] = '\0';
    va_end(ap);
    memcpy(what, err->msg, sizeof what);
    used = strlen(where);
    memcpy(err->msg, where, used);
    if (used < sizeof err->msg - 1)
        (void)snprintf(err->msg + used, sizeof err->msg - used, ": %s", what);
    else
        err->msg[used] = '\0';
}
