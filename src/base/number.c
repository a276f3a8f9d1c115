/* See number.h. */
#include "base/number.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MOST 17 /* enough for any double */

/* What is no part of a number in the C locale is this locale's decimal point, which may be several bytes. */
static void plain_point(char *text)
{
    size_t at = strspn(text, "+-0123456789eE"), n = strcspn(text + at, "+-0123456789eE");

    if (n == 0)
        return;
    text[at] = '.';
    memmove(text + at + 1, text + at + n, strlen(text + at + n) + 1);
}

const char *wn_number_text(double v, char out[WN_NUMBER_BYTES])
{
    assert(isfinite(v));
    for (int digits = 1; digits <= DIGITS_MOST; digits++) {
        (void)snprintf(out, WN_NUMBER_BYTES, "%.*g", digits, v);
        if (strtod(out, NULL) == v) /* of the same locale, so they understand each other */
            break;
    }
    plain_point(out);
    return out;
}

const char *wn_size_text(uint64_t bytes, char out[WN_SIZE_TEXT_BYTES])
{
    static const char units[] = "BKMGTPE";
    uint64_t unit = 1, step; /* step: what the last digit shown counts */
    size_t u = 0;
    int n = snprintf(out, WN_SIZE_TEXT_BYTES, "%" PRIu64 " bytes", bytes);

    while (bytes / unit >= 1000 && units[u + 1]) {
        unit *= 1000;
        u++;
    }
    if (u == 0)
        return out;
    step = bytes / unit >= 100 ? unit : bytes / unit >= 10 ? unit / 10 : unit / 100;
    bytes = bytes / step + (bytes % step != 0);
    if (step == unit)
        (void)snprintf(out + n, WN_SIZE_TEXT_BYTES - (size_t)n, " (%" PRIu64 " %cB)", bytes, units[u]);
    else
        (void)snprintf(out + n, WN_SIZE_TEXT_BYTES - (size_t)n, " (%" PRIu64 ".%0*" PRIu64 " %cB)",
                       bytes / (unit / step), step == unit / 10 ? 1 : 2, bytes % (unit / step), units[u]);
    return out;
}
