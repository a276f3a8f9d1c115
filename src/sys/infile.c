/* See infile.h. */
#include "sys/infile.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define IO_MAX      ((size_t)1 << 30) /* macOS refuses reads of 2 GiB */
#define SLURP_PIECE ((size_t)1 << 16)

static bool fail_read(const char *path, struct wn_err *err)
{
    if (errno == EINTR)
        return wn_fail(err, WN_ERR_CANCELED, "stopped on request ('%s' was waited for)", path);
    return wn_fail(err, WN_ERR_IO, "'%s': %s", path, strerror(errno));
}

bool wn_infile_open(struct wn_infile *f, const char *path, struct wn_err *err)
{
    struct stat st;

    *f = (struct wn_infile){.fd = -1};
    if (stat(path, &st) != 0)
        return fail_read(path, err);
    /* before it is opened: of some devices that alone does something */
    if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode))
        return wn_fail(err, WN_ERR_ARG, "'%s' is %s, not a file or a pipe", path,
                       S_ISDIR(st.st_mode) ? "a folder" : "a device");
    f->path = wn_strdup(path, err);
    if (!f->path)
        return false;
    f->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (f->fd >= 0)
        return true;
    (void)fail_read(path, err);
    wn_infile_close(f);
    return false;
}

void wn_infile_close(struct wn_infile *f)
{
    if (f->path && f->fd >= 0)
        (void)close(f->fd);
    free(f->path);
    *f = (struct wn_infile){.fd = -1};
}

bool wn_infile_read(struct wn_infile *f, void *dst, size_t n, size_t *got, struct wn_err *err)
{
    for (*got = 0; *got < n;) {
        ssize_t now = read(f->fd, (char *)dst + *got, wn_min_size(n - *got, IO_MAX));

        if (now < 0)
            return fail_read(f->path, err);
        if (now == 0)
            break;
        *got += (size_t)now;
    }
    return true;
}

static bool slurp(struct wn_infile *f, uint64_t limit, struct wn_buf *text, struct wn_err *err)
{
    size_t got;

    do {
        if (!wn_buf_reserve(text, SLURP_PIECE + 1, err) ||
            !wn_infile_read(f, text->at + text->n, SLURP_PIECE, &got, err))
            return false;
        text->n += got;
        if (text->n > limit)
            return wn_fail(err, WN_ERR_FORMAT, "'%s': at most %" PRIu64 " bytes are read", f->path, limit);
    } while (got == SLURP_PIECE);
    text->at[text->n] = '\0';
    return true;
}

char *wn_infile_slurp(const char *path, uint64_t limit, size_t *n, struct wn_err *err)
{
    struct wn_infile f;
    struct wn_buf text = {0};

    if (!wn_infile_open(&f, path, err))
        return NULL;
    if (!slurp(&f, limit, &text, err))
        wn_buf_release(&text);
    wn_infile_close(&f);
    *n = text.n;
    return text.at;
}
