/*
 * An input that is read once from its start to its end: a file, or a pipe such as a shell's <(...). What is read at
 * offsets or mapped is a struct wn_file.
 */
#ifndef WN_SYS_INFILE_H
#define WN_SYS_INFILE_H

#include <winnow/error.h>

struct wn_infile {
    char *path; /* owned */
    int fd;
};

/* A folder and a device are refused, by name. A named pipe that nobody writes to is waited for. */
WN_CHECKED bool wn_infile_open(struct wn_infile *f, const char *path, struct wn_err *err);
/* Does nothing to a struct that is closed or all zero. */
void wn_infile_close(struct wn_infile *f);
/*
 * The next n bytes into dst; *got is less only at the end. WN_ERR_CANCELED when a signal came while a pipe was waited
 * for.
 */
WN_CHECKED bool wn_infile_read(struct wn_infile *f, void *dst, size_t n, size_t *got, struct wn_err *err);

/*
 * All of a small input, at most limit bytes, with a NUL behind them: a new string, free() it. What lies in a model's
 * folder is read by wn_file_slurp, which waits for nobody.
 */
WN_CHECKED char *wn_infile_slurp(const char *path, uint64_t limit, size_t *n, struct wn_err *err);

#endif
