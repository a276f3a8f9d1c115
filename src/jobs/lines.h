/*
 * A text file line by line, however long the file: one line and a read ahead are in memory.
 */
#ifndef WN_JOBS_LINES_H
#define WN_JOBS_LINES_H

#include "base/bytes.h"
#include "sys/file.h"

struct wn_lines {
    struct wn_file file;
    uint64_t at;        /* of the next read */
    struct wn_buf held; /* what has been read and not been passed over */
    size_t start;       /* of the next line in `held` */
    uint64_t number;    /* of the line last given, from 1 */
};

WN_CHECKED bool wn_lines_open(struct wn_lines *l, const char *path, struct wn_err *err);
void wn_lines_close(struct wn_lines *l);
/* The next line without its newline, borrowed until the next call; line->at NULL at the end of the file. */
WN_CHECKED bool wn_lines_next(struct wn_lines *l, struct wn_bytes *line, struct wn_err *err);
/* From the first line again. */
void wn_lines_rewind(struct wn_lines *l);

#endif
