/* See lines.h. */
#include "jobs/lines.h"

#include <assert.h>
#include <inttypes.h>

bool wn_lines_open(struct wn_lines *l, const char *path, struct wn_err *err)
{
    *l = (struct wn_lines){0};
    if (!wn_infile_open(&l->in, path, err))
        return false;
    if (wn_fingerprint_begin(&l->print, err))
        return true;
    wn_lines_close(l);
    return false;
}

void wn_lines_close(struct wn_lines *l)
{
    wn_buf_release(&l->held);
    wn_fingerprint_release(&l->print);
    wn_infile_close(&l->in);
}

static bool lines_fill(struct wn_lines *l, struct wn_err *err)
{
    size_t got;

    if (l->start > 0) {
        memmove(l->held.at, l->held.at + l->start, l->held.n - l->start);
        l->held.n -= l->start;
        l->start = 0;
    }
    if (!wn_buf_reserve(&l->held, WN_LINES_AHEAD, err) ||
        !wn_infile_read(&l->in, l->held.at + l->held.n, WN_LINES_AHEAD, &got, err) ||
        !wn_fingerprint_add(&l->print, l->held.at + l->held.n, got, err))
        return false;
    l->held.n += got;
    l->ended = got < WN_LINES_AHEAD;
    return true;
}

bool wn_lines_want(struct wn_lines *l, size_t n, struct wn_bytes *next, struct wn_err *err)
{
    while (!l->ended && l->held.n - l->start < n)
        if (!lines_fill(l, err))
            return false;
    /* at first nothing has been read */
    *next = (struct wn_bytes){l->held.at ? l->held.at + l->start : NULL, l->held.n - l->start};
    return true;
}

bool wn_lines_check_text(struct wn_lines *l, struct wn_err *err)
{
    struct wn_bytes next;
    const char *zero;

    if (!wn_lines_want(l, WN_LINES_AHEAD, &next, err))
        return false;
    zero = next.n ? memchr(next.at, 0, next.n) : NULL;
    return !zero || wn_fail(err, WN_ERR_FORMAT, "byte %zu is zero: this is no text", (size_t)(zero - next.at));
}

void wn_lines_pass(struct wn_lines *l, size_t n)
{
    assert(n <= l->held.n - l->start);
    l->start += n;
}

bool wn_lines_next(struct wn_lines *l, struct wn_bytes *line, struct wn_err *err)
{
    struct wn_bytes have;
    const char *end = NULL;
    size_t seen = 0; /* bytes of this line known to hold no newline */

    for (;;) {
        if (!wn_lines_want(l, seen + 1, &have, err))
            return false;
        end = have.at && have.n > seen ? memchr(have.at + seen, '\n', have.n - seen) : NULL;
        if (end || have.n == seen || have.n > WN_LINE_MOST)
            break;
        seen = have.n;
    }
    *line = (struct wn_bytes){have.at, end ? (size_t)(end - have.at) : have.n};
    if (line->n > WN_LINE_MOST)
        return wn_fail(err, WN_ERR_FORMAT, "line %" PRIu64 " is longer than %zu bytes", l->number + 1, WN_LINE_MOST);
    if (have.n == 0)
        line->at = NULL;
    else
        l->number++;
    wn_lines_pass(l, line->n + (end != NULL));
    return true;
}

bool wn_lines_digest(struct wn_lines *l, uint8_t digest[WN_DIGEST_BYTES], struct wn_err *err)
{
    while (!l->ended) {
        l->held.n = l->start = 0;
        if (!lines_fill(l, err))
            return false;
    }
    return wn_fingerprint_end(&l->print, digest, err);
}

bool wn_lines_fingerprint(struct wn_lines *l, char out[17], struct wn_err *err)
{
    uint8_t digest[WN_DIGEST_BYTES];

    if (!wn_lines_digest(l, digest, err))
        return false;
    wn_fingerprint_text(digest, out);
    return true;
}
