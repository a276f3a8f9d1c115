/* See base64.h. */
#include "text/base64.h"

/* 0..63, or -1 for a character outside the alphabet. */
static int digit_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool wn_base64_decode(struct wn_bytes s, char *out, size_t *n)
{
    size_t digits = s.n;
    uint32_t bits = 0;

    if (s.n % 4 != 0)
        return false;
    while (digits > 0 && s.n - digits < 2 && s.at[digits - 1] == '=')
        digits--;
    *n = 0;
    for (size_t i = 0; i < digits; i++) {
        int d = digit_of(s.at[i]);

        if (d < 0)
            return false;
        bits = bits << 6 | (uint32_t)d;
        if (i % 4 > 0)
            out[(*n)++] = (char)(bits >> (6 - 2 * (i % 4)));
    }
    /* digits % 4 is now 0, 2 or 3; after 2 digits 4 bits are left over, after 3 digits 2 */
    return digits % 4 == 0 || (bits & (digits % 4 == 2 ? 15u : 3u)) == 0;
}
