/* See utf8.h. Table 3-7 of the Unicode standard, as comparisons. */
#include "base/utf8.h"

static size_t length_of_lead(unsigned char c)
{
    if (c < 0x80)
        return 1;
    if (c >= 0xc2 && c <= 0xdf)
        return 2;
    if (c >= 0xe0 && c <= 0xef)
        return 3;
    if (c >= 0xf0 && c <= 0xf4)
        return 4;
    return 0;
}

/* The second byte has a narrower range after some leads: it keeps out overlong forms, surrogates and > U+10FFFF. */
static bool second_ok(unsigned char lead, unsigned char c)
{
    unsigned char lo = 0x80, hi = 0xbf;

    if (lead == 0xe0)
        lo = 0xa0;
    else if (lead == 0xed)
        hi = 0x9f;
    else if (lead == 0xf0)
        lo = 0x90;
    else if (lead == 0xf4)
        hi = 0x8f;
    return c >= lo && c <= hi;
}

static bool continuation(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

/* How many of the first n bytes agree with a character led by s[0], whose full length is len. */
static size_t valid_prefix(const unsigned char *s, size_t n, size_t len)
{
    size_t i = 1;

    for (; i < len && i < n; i++)
        if (i == 1 ? !second_ok(s[0], s[1]) : !continuation(s[i]))
            break;
    return i;
}

size_t wn_utf8_decode(const char *text, size_t n, uint32_t *code)
{
    const unsigned char *s = (const unsigned char *)text;
    static const unsigned char mask[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    size_t len = length_of_lead(s[0]);

    *code = 0xfffd;
    if (len == 0 || len > n || valid_prefix(s, n, len) < len)
        return 0;
    *code = s[0] & mask[len];
    for (size_t i = 1; i < len; i++)
        *code = *code << 6 | (s[i] & 0x3f);
    return len;
}

bool wn_utf8_is_valid(const char *s, size_t n)
{
    for (size_t at = 0, step; at < n; at += step) {
        uint32_t code;

        step = wn_utf8_decode(s + at, n - at, &code);
        if (step == 0)
            return false;
    }
    return true;
}

size_t wn_utf8_tail(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;

    for (size_t back = 1; back <= 3 && back <= n; back++) {
        const unsigned char *p = s + n - back;
        size_t len = length_of_lead(*p);

        if (len > back)
            return valid_prefix(p, back, len) == back ? back : 0;
        if (len != 0)
            return 0;
    }
    return 0;
}

size_t wn_utf8_encode(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}
