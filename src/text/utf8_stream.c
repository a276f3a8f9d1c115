/*
 * Text that comes in pieces, made presentable: see wn_utf8_stream in winnow/vocab.h.
 *
 * Bytes enter one at a time and leave as soon as what is held is a whole character or can no longer become one. What
 * comes out therefore depends only on the bytes, never on where the pieces were cut. An invalid stretch becomes one
 * U+FFFD per "maximal subpart" (Unicode standard, 3.9), as browsers and Python's decoder have it.
 */
#include "base/utf8.h"
#include <winnow/vocab.h>

#include <string.h>

/* How many of the held bytes one U+FFFD stands for: the longest start of a character, at least one byte. */
static size_t subpart(const struct wn_utf8_stream *s)
{
    size_t n = 1;

    while (n < s->held_n && wn_utf8_tail(s->held, n + 1) == n + 1)
        n++;
    return n;
}

static void drop(struct wn_utf8_stream *s, size_t n)
{
    s->held_n -= n;
    memmove(s->held, s->held + n, s->held_n);
}

static size_t replace(struct wn_utf8_stream *s, char *out)
{
    drop(s, subpart(s));
    return wn_utf8_encode(0xfffd, out);
}

/* Lets go of what is decided. Afterwards at most 3 bytes are held: the start of a character. */
static size_t drain(struct wn_utf8_stream *s, char *out)
{
    size_t written = 0;

    while (s->held_n > 0) {
        uint32_t code;
        size_t whole = wn_utf8_decode(s->held, s->held_n, &code);

        if (whole > 0) {
            memcpy(out + written, s->held, whole);
            written += whole;
            drop(s, whole);
        } else if (wn_utf8_tail(s->held, s->held_n) == s->held_n) {
            break;
        } else {
            written += replace(s, out + written);
        }
    }
    return written;
}

size_t wn_utf8_stream(struct wn_utf8_stream *s, const char *bytes, size_t n, char *out)
{
    size_t written = 0;

    for (size_t i = 0; i < n; i++) {
        s->held[s->held_n++] = bytes[i];
        written += drain(s, out + written);
    }
    while (n == 0 && s->held_n > 0)
        written += replace(s, out + written);
    return written;
}
