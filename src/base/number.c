/* See number.h. */
#include "base/number.h"

#include <assert.h>
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
