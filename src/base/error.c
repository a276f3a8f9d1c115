/*
 * Messages of struct wn_err: see winnow/error.h. Too long a message loses the middle of its longest name, which tells
 * least, so that the reason behind it stays.
 */
#include <winnow/error.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOTS      "..."
#define DOTS_LEN  (sizeof DOTS - 1)
#define NAME_KEPT 40 /* bytes of a shortened name that are worth having */

/* The longest text[*from .. *to) between single quotes; the whole text when there is none. */
static void longest_name(const char *text, size_t n, size_t *from, size_t *to)
{
    const char *open = strchr(text, '\''), *close;
    size_t best = 0;

    *from = 0;
    *to = n;
    for (; open && (close = strchr(open + 1, '\'')); open = close) {
        if ((size_t)(close - open) > best) {
            best = (size_t)(close - open);
            *from = (size_t)(open + 1 - text);
            *to = (size_t)(close - text);
        }
    }
}

static bool inside_character(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Puts dots in the place of `gone` bytes, or a few more, in the middle of text[from .. to); returns the new length. */
static size_t cut_middle(char *text, size_t n, size_t from, size_t to, size_t gone)
{
    size_t head = from + (to - from - gone) / 2, tail = head + gone;

    while (head > from && inside_character(text[head]))
        head--;
    while (tail < to && inside_character(text[tail]))
        tail++;
    memcpy(text + head, DOTS, DOTS_LEN);
    memmove(text + head + DOTS_LEN, text + tail, n - tail + 1);
    return n - (tail - head) + DOTS_LEN;
}

/* text[n] and its NUL into the message, shortened until it fits. */
static void set_message(struct wn_err *err, char *text, size_t n)
{
    const size_t most = sizeof err->msg - 1;

    while (n > most) {
        size_t from, to, gone = n - most + DOTS_LEN;

        longest_name(text, n, &from, &to);
        if (to - from <= NAME_KEPT + DOTS_LEN) { /* it is not a name that makes it long */
            from = 0;
            to = n;
        }
        if (gone > to - from - NAME_KEPT)
            gone = to - from - NAME_KEPT;
        n = cut_middle(text, n, from, to, gone);
    }
    memcpy(err->msg, text, n + 1);
}

void wn_err_set(struct wn_err *err, enum wn_code code, const char *fmt, ...)
{
    va_list ap, again;
    char *text;
    int n;

    err->code = code;
    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    if (n < 0) {
        err->msg[0] = '\0';
    } else if ((size_t)n >= sizeof err->msg && (text = malloc((size_t)n + 1))) { /* without it: cut at its end */
        (void)vsnprintf(text, (size_t)n + 1, fmt, again);
        set_message(err, text, (size_t)n);
        free(text);
    }
    va_end(again);
    va_end(ap);
}

void wn_err_put_before(struct wn_err *err, const char *fmt, ...)
{
    size_t rest = strlen(err->msg);
    va_list ap, again;
    char *text;
    int n;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    text = n < 0 ? NULL : malloc((size_t)n + 2 + rest + 1);
    if (text) { /* without it: what happened, but not where */
        (void)vsnprintf(text, (size_t)n + 1, fmt, again);
        text[n] = ':';
        text[n + 1] = ' ';
        memcpy(text + n + 2, err->msg, rest + 1);
        set_message(err, text, (size_t)n + 2 + rest);
        free(text);
    }
    va_end(again);
    va_end(ap);
}
