/*
 * What prune needs of files beside reading and writing them: journals that grow, space given back, and who else has a
 * file.
 */
#include "base/alloc.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__APPLE__)
#define CHANGED(st) ((st).st_mtimespec)
#else
#define CHANGED(st) ((st).st_mtim)
#endif

static bool fail_path(const char *path, struct wn_err *err)
{
    return wn_fail(err, WN_ERR_IO, "'%s': %s", path, strerror(errno));
}

static bool start_appending(struct wn_appended *a, uint64_t bytes, struct wn_err *err)
{
    char *folder;
    bool ok;

    a->fd = open(a->path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_APPEND, 0666);
    if (a->fd < 0 || wn_file_refuses() || ftruncate(a->fd, (off_t)bytes) != 0)
        return fail_path(a->path, err);
    folder = wn_path_parent(a->path, err);
    ok = folder && wn_path_sync(folder, err);
    free(folder);
    return ok;
}

bool wn_appended_open(struct wn_appended *a, const char *path, uint64_t bytes, struct wn_err *err)
{
    *a = (struct wn_appended){.path = wn_strdup(path, err), .fd = -1};
    if (a->path && start_appending(a, bytes, err))
        return true;
    wn_appended_close(a);
    return false;
}

bool wn_appended_add(struct wn_appended *a, const void *bytes, size_t n, struct wn_err *err)
{
    const char *p = bytes;

    while (n > 0) {
        ssize_t got = wn_file_refuses() ? -1 : write(a->fd, p, wn_file_may_write(n));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_path(a->path, err);
        p += got;
        n -= (size_t)got;
    }
    return wn_file_sync(a->fd) || fail_path(a->path, err);
}

void wn_appended_close(struct wn_appended *a)
{
    if (a->path && a->fd >= 0)
        (void)close(a->fd);
    free(a->path);
    *a = (struct wn_appended){.fd = -1};
}

bool wn_file_punch(const char *path, uint64_t at, uint64_t n, struct wn_err *err)
{
#if defined(__linux__) && defined(FALLOC_FL_PUNCH_HOLE)
    int fd = n ? open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    bool ok = n == 0 || (fd >= 0 && !wn_file_refuses() &&
                         fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)n) == 0);

    if (!ok)
        wn_fail(err, WN_ERR_IO, "'%s': %" PRIu64 " bytes at %" PRIu64 " cannot be given back: %s", path, n, at,
                strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return ok;
#else
    return wn_fail(err, WN_ERR_IO, "'%s': this system gives back no parts of files (%" PRIu64 " bytes at %" PRIu64 ")",
                   path, n, at);
#endif
}

bool wn_path_is_sole(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1;
}

bool wn_path_same_disk(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev;
}

bool wn_path_stamp(const char *path, uint64_t *bytes, int64_t *changed)
{
    struct stat st;

    if (lstat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    *bytes = (uint64_t)st.st_size;
    *changed = (int64_t)CHANGED(st).tv_sec * 1000000000 + CHANGED(st).tv_nsec;
    return true;
}
