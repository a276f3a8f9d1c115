/*
 * Locks that die with their process. flock, not fcntl: it also keeps two runs of one process apart. See file.h.
 */
#include "base/alloc.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static bool hold(struct wn_lock *l, struct wn_err *err)
{
    struct stat st;

    l->fd = open(l->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (l->fd < 0)
        return wn_fail(err, WN_ERR_IO, "'%s': %s", l->path, strerror(errno));
    if (flock(l->fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? wn_fail(err, WN_ERR_BUSY, "'%s': another run holds it", l->path)
                                    : wn_fail(err, WN_ERR_IO, "'%s': %s", l->path, strerror(errno));
    /* whoever held it may just have finished and removed it */
    if (fstat(l->fd, &st) != 0 || st.st_nlink == 0)
        return wn_fail(err, WN_ERR_BUSY, "'%s': another run has just let go of it", l->path);
    return true;
}

bool wn_lock_take(struct wn_lock *l, const char *path, struct wn_err *err)
{
    *l = (struct wn_lock){.path = wn_strdup(path, err), .fd = -1};
    if (l->path && hold(l, err))
        return true;
    wn_lock_release(l);
    return false;
}

void wn_lock_release(struct wn_lock *l)
{
    if (l->path && l->fd >= 0)
        (void)close(l->fd);
    free(l->path);
    *l = (struct wn_lock){.fd = -1};
}

void wn_lock_remove(struct wn_lock *l)
{
    if (l->path)
        (void)unlink(l->path);
    wn_lock_release(l);
}
