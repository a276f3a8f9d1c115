/* See html.h. */
#include "jobs/report/html.h"

#include "base/utf8.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#define DIGITS_BYTES 32

static void add(struct wn_html *h, const char *s, size_t n)
{
    if (!h->failed && !wn_buf_add(&h->b, s, n, h->err))
        h->failed = true;
}

static void add_escaped(struct wn_html *h, uint32_t code, const char *s, size_t n)
{
    static const struct {
        uint32_t code;
        const char *escaped;
    } table[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].code == code) {
            add(h, table[i].escaped, strlen(table[i].escaped));
            return;
        }
    }
    if (h->markdown && code < 0x80 && code > 0 && strchr("\\`*_[]#!|~$^@:", (int)code))
        add(h, "\\", 1);
    /* controls (C0, DEL, C1) and non-characters may not stand in a page in any form */
    if (code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) == 0xfffe)
        add(h, "\xef\xbf\xbd", 3);
    else
        add(h, s, n);
}

static void add_text(struct wn_html *h, const char *s)
{
    size_t left = strlen(s);

    while (left > 0) {
        uint32_t code;
        size_t n = wn_utf8_decode(s, left, &code);

        if (n == 0) {
            add(h, "\xef\xbf\xbd", 3);
            n = 1;
        } else {
            add_escaped(h, code, s, n);
        }
        s += n;
        left -= n;
    }
}

static void add_whole(struct wn_html *h, uint64_t v, bool separated)
{
    char digits[DIGITS_BYTES];
    size_t n = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, v);

    for (size_t i = 0; i < n; i++) {
        if (separated && i > 0 && (n - i) % 3 == 0)
            add(h, ",", 1);
        add(h, digits + i, 1);
    }
}

/* By whole numbers: printf's point is a comma in half of the world's locales. */
static void add_decimals(struct wn_html *h, double v, unsigned decimals)
{
    uint64_t scale = 1, all;

    if (!isfinite(v) || fabs(v) >= 1e15) {
        add_text(h, "not measured");
        return;
    }
    /* fewer decimals where there are more digits than a double has */
    while (decimals > 0 && fabs(v) * pow(10, decimals) >= 1e18)
        decimals--;
    for (unsigned i = 0; i < decimals; i++)
        scale *= 10;
    all = (uint64_t)llround(fabs(v) * (double)scale);
    if (v < 0 && all > 0)
        add(h, "-", 1);
    add_whole(h, all / scale, false);
    if (decimals > 0) {
        char part[DIGITS_BYTES];
        int n = snprintf(part, sizeof(part), ".%0*" PRIu64, (int)decimals, all % scale);

        add(h, part, (size_t)n);
    }
}

_Static_assert(sizeof(size_t) == sizeof(unsigned long), "%zu is taken as %lu");

/* One conversion that starts behind the %; returns what stands behind it. */
static const char *put_one(struct wn_html *h, const char *p, va_list *ap)
{
    bool separated = *p == '\'';
    unsigned decimals = 0, longs = 0;

    p += separated;
    if (*p == '.') {
        decimals = (unsigned)(p[1] - '0');
        assert(decimals <= 9);
        p += 2;
    }
    for (; *p == 'l' || *p == 'z'; p++)
        longs++;
    switch (*p) {
    case 's':
        add_text(h, va_arg(*ap, const char *));
        break;
    case 'f':
        add_decimals(h, va_arg(*ap, double), decimals);
        break;
    case 'u':
        add_whole(h,
                  longs == 2   ? va_arg(*ap, unsigned long long)
                  : longs == 1 ? va_arg(*ap, unsigned long)
                               : va_arg(*ap, unsigned),
                  separated);
        break;
    default:
        assert(*p == '%');
        add(h, "%", 1);
    }
    return p + 1;
}

void wn_html_markup(struct wn_html *h, const char *markup)
{
    add(h, markup, strlen(markup));
}

void wn_html_put(struct wn_html *h, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    while (*fmt && !h->failed) {
        size_t n = strcspn(fmt, "%");

        add(h, fmt, n);
        fmt += n;
        if (*fmt == '%')
            fmt = put_one(h, fmt + 1, &ap);
    }
    va_end(ap);
}
