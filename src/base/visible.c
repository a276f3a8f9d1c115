/* See winnow/error.h. */
#include <winnow/error.h>

#include "base/utf8.h"

#include <string.h>

/* C0, DEL and C1: what a terminal obeys instead of showing it. */
static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

static size_t escape(unsigned char byte, char *out)
{
    static const char digit[] = "0123456789abcdef";

    out[0] = '\\';
    out[1] = 'x';
    out[2] = digit[byte >> 4];
    out[3] = digit[byte & 15];
    return WN_VISIBLE_GROWTH;
}

size_t wn_visible(const char *s, size_t n, const char *keep, char *out)
{
    size_t used = 0;

    for (size_t at = 0, step; at < n; at += step) {
        uint32_t code;

        step = wn_utf8_decode(s + at, n - at, &code);
        if (step > 0 && (!is_control(code) || (code < 0x80 && code != 0 && strchr(keep, (int)code)))) {
            memcpy(out + used, s + at, step);
            used += step;
        } else {
            used += escape(step > 0 ? (unsigned char)code : (unsigned char)s[at], out + used);
            step += step == 0;
        }
    }
    return used;
}
