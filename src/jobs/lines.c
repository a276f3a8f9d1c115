/* See lines.h. */
#include "jobs/lines.h"
#include "base/checked.h"

#include <inttypes.h>

#define READ_BYTES ((size_t)1 << 20)
#define LINE_LIMIT ((size_t)1 << 30)

bool wn_lines_open(struct wn_lines *l, const char *path, struct wn_err *err)
{
    *l = (struct wn_lines){0};
    return wn_file_open(&l->file, path, err);
}

void wn_lines_close(struct wn_lines *l)
{
    wn_buf_release(&l->held);
    wn_file_close(&l->file);
}

void wn_lines_rewind(struct wn_lines *l)
{
    l->at = l->number = 0;
    l->held.n = l->start = 0;
}

static bool lines_fill(struct wn_lines *l, struct wn_err *err)
{
    size_t n = (size_t)wn_min_u64(READ_BYTES, l->file.bytes - l->at);

    if (l->start > 0) {
        memmove(l->held.at, l->held.at + l->start, l->held.n - l->start);
        l->held.n -= l->start;
        l->start = 0;
    }
    if (l->held.n > LINE_LIMIT)
        return wn_fail(err, WN_ERR_FORMAT, "line %" PRIu64 ": longer than %zu bytes", l->number + 1, LINE_LIMIT);
    if (!wn_buf_reserve(&l->held, n, err) || !wn_file_read(&l->file, l->at, l->held.at + l->held.n, n, err))
        return false;
    l->held.n += n;
    l->at += n;
    return true;
}

bool wn_lines_next(struct wn_lines *l, struct wn_bytes *line, struct wn_err *err)
{
    size_t seen = 0; /* bytes of this line known to hold no newline */

    for (;;) {
        size_t have = l->held.n - l->start;
        const char *from = have > 0 ? l->held.at + l->start : NULL; /* at first nothing has been read */
        const char *end = have > seen ? memchr(from + seen, '\n', have - seen) : NULL;

        if (end || (l->at == l->file.bytes && have > 0)) {
            size_t n = end ? (size_t)(end - from) : have;

            *line = (struct wn_bytes){from, n};
            l->start += n + (end != NULL);
            l->number++;
            return true;
        }
        if (l->at == l->file.bytes) {
            *line = (struct wn_bytes){NULL, 0};
            return true;
        }
        seen = have;
        if (!lines_fill(l, err))
            return false;
    }
}
