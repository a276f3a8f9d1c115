/*
 * A text file or a pipe, read once: line by line, or as much of it at a time as is wanted. One line and a read ahead
 * are in memory, however long the file.
 */
#ifndef WN_JOBS_LINES_H
#define WN_JOBS_LINES_H

#include "base/bytes.h"
#include "jobs/fingerprint.h"
#include "sys/infile.h"

#define WN_LINE_MOST   ((size_t)16 << 20) /* bytes; a longer line is refused */
#define WN_LINES_AHEAD ((size_t)1 << 20)  /* bytes read at a time */

struct wn_lines {
    struct wn_infile in;
    struct wn_fingerprint print; /* of what has been read */
    struct wn_buf held;          /* what has been read and not been passed over */
    size_t start;                /* of the next line in `held` */
    uint64_t number;             /* of the line last given, from 1 */
    bool ended;                  /* all is read */
};

WN_CHECKED bool wn_lines_open(struct wn_lines *l, const char *path, struct wn_err *err);
void wn_lines_close(struct wn_lines *l);
/* The next line without its newline, borrowed until the next call; line->at NULL at the end of the file. */
WN_CHECKED bool wn_lines_next(struct wn_lines *l, struct wn_bytes *line, struct wn_err *err);
/* What comes next, n bytes of it or more, fewer only at the end; borrowed until the next call, and not passed over. */
WN_CHECKED bool wn_lines_want(struct wn_lines *l, size_t n, struct wn_bytes *next, struct wn_err *err);
/* Refuses what has a zero byte in its first WN_LINES_AHEAD bytes: an archive or a model, taken for text by mistake. */
WN_CHECKED bool wn_lines_check_text(struct wn_lines *l, struct wn_err *err);
/* Passes over n bytes of what wn_lines_want has given. */
void wn_lines_pass(struct wn_lines *l, size_t n);
/* The whole file's SHA-256, or 16 hex digits of it. To be called last: what is left is read. */
WN_CHECKED bool wn_lines_digest(struct wn_lines *l, uint8_t digest[WN_DIGEST_BYTES], struct wn_err *err);
WN_CHECKED bool wn_lines_fingerprint(struct wn_lines *l, char out[17], struct wn_err *err);

#endif
