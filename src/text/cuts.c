/* The masked copy and the cuts: see split.h. */
#include "base/alloc.h"
#include "base/utf8.h"
#include "text/split.h"

#define WINDOW_CHARS 400000
#define RUN_CHARS    25000
#define MASK         '\x01'

_Static_assert(WN_WINDOW_BYTES == 4 * WINDOW_CHARS, "a character has at most four bytes");

bool wn_split_mask(struct wn_bytes text, char **masked, struct wn_err *err)
{
    *masked = NULL;
    for (size_t at = 0; at < text.n;) {
        uint32_t code;
        size_t step = (unsigned char)text.at[at] < 0x80 ? 1 : wn_utf8_decode(text.at + at, text.n - at, &code);

        if (step == 0) {
            if (!*masked)
                *masked = wn_strndup(text.at, text.n, err);
            if (!*masked)
                return false;
            (*masked)[at] = MASK;
            step = 1;
        }
        at += step;
    }
    return true;
}

bool wn_is_space(uint32_t c)
{
    if (c < 0x80)
        return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

size_t wn_cuts_window(struct wn_bytes text)
{
    size_t at = 0;

    for (size_t chars = 0; chars < WINDOW_CHARS && at < text.n; chars++) {
        uint32_t code;
        size_t step = wn_utf8_decode(text.at + at, text.n - at, &code);

        at += step ? step : 1; /* a byte that is none will be masked by one of a character's own */
    }
    return at;
}

bool wn_cuts_next(struct wn_cuts *c, struct wn_bytes *part)
{
    size_t start = c->at, run = 0;
    bool space = false;

    if (c->at == c->text.n)
        return false;
    if (c->window_left == 0)
        c->window_left = WINDOW_CHARS;
    if (c->window_left == WINDOW_CHARS && c->text.n - c->at <= RUN_CHARS)
        c->at = c->text.n; /* too short for any cut */
    while (c->at < c->text.n && c->window_left > 0) {
        uint32_t code;
        size_t step = wn_utf8_decode(c->text.at + c->at, c->text.n - c->at, &code);
        bool was = space;

        space = wn_is_space(code);
        run = space == was ? run + 1 : 1;
        if (run > RUN_CHARS)
            break;
        c->at += step;
        c->window_left--;
    }
    *part = (struct wn_bytes){c->text.at + start, c->at - start};
    return true;
}
