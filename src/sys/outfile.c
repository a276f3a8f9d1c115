/*
 * Outputs that appear whole or not at all: everything goes to PATH.part, which commit makes durable and renames.
 *
 * The .part is locked while it is written, so two winnows cannot write one output; a .part without a lock is what a
 * killed run left, and is started anew. Writes are positioned; a run of zeros that is skipped becomes a hole.
 */
#include "sys/file.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "sys/unfinished.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_CHUNK ((size_t)4 << 20)
#define FLUSH_STEP ((uint64_t)32 << 20)
#define READ_AHEAD ((uint64_t)16 << 20)

static bool fail_write(const struct wn_outfile *o, uint64_t at, struct wn_err *err)
{
    return wn_fail(err, WN_ERR_IO, "'%s': write at %" PRIu64 ": %s", o->part, at, strerror(errno));
}

/* Lets the disk begin, so that it is not idle until the sync at the end: a hint, which waits for nothing. */
static void begin_writing_back(struct wn_outfile *o)
{
    if (o->at - o->flushed < FLUSH_STEP)
        return;
#if defined(__linux__)
    (void)sync_file_range(o->fd, (off_t)o->flushed, (off_t)(o->at - o->flushed), SYNC_FILE_RANGE_WRITE);
#endif
    o->flushed = o->at;
}

static bool put(const struct wn_outfile *o, uint64_t at, const void *bytes, size_t n, struct wn_err *err)
{
    const char *p = bytes;

    while (n > 0) {
        ssize_t got = wn_file_refuses() ? -1 : pwrite(o->fd, p, wn_file_may_write(n), (off_t)at);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_write(o, at, err);
        p += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return true;
}

/* True when the locked descriptor is still the file that stands under the name (another run may have renamed it). */
static bool still_there(int fd, const char *path)
{
    struct stat a, b;

    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

/* Nothing is there, or a regular file: a device or a pipe is neither replaced nor even opened. */
static bool may_replace(const char *path, struct wn_err *err)
{
    struct stat st;

    if (lstat(path, &st) != 0 || S_ISREG(st.st_mode))
        return true;
    if (S_ISLNK(st.st_mode))
        return wn_fail(err, WN_ERR_ARG, "'%s' is a link: name the file that it points to, or remove it", path);
    return wn_fail(err, WN_ERR_ARG, "'%s' is not a regular file", path);
}

/* The .part is ours. Empties it, unless it is adopted with so many bytes. */
static bool start_part(struct wn_outfile *o, const uint64_t *adopted, struct wn_err *err)
{
    struct stat st;

    if (adopted)
        return (fstat(o->fd, &st) == 0 && (uint64_t)st.st_size == *adopted) ||
               wn_fail(err, WN_ERR_IO, "'%s' is not as the earlier run left it", o->part);
    o->noted = wn_unfinished_note(o->part, err);
    if (o->noted && (wn_file_refuses() || ftruncate(o->fd, 0) != 0))
        (void)fail_write(o, 0, err);
    else if (o->noted)
        return true;
    (void)unlink(o->part); /* it is good for nothing */
    return false;
}

static bool open_part(struct wn_outfile *o, const uint64_t *adopted, struct wn_err *err)
{
    for (int tries = 0; tries < 100; tries++) {
        if (!may_replace(o->part, err))
            return false;
        o->fd = open(o->part, O_RDWR | (adopted ? 0 : O_CREAT) | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (o->fd < 0)
            return wn_fail(err, WN_ERR_IO, "'%s': %s", o->part, strerror(errno));
        if (flock(o->fd, LOCK_EX | LOCK_NB) != 0) {
            if (errno == EWOULDBLOCK)
                return wn_fail(err, WN_ERR_IO, "'%s' is being written by another process", o->part);
            if (errno != ENOTSUP && errno != ENOLCK && errno != ENOSYS)
                return wn_fail(err, WN_ERR_IO, "'%s': %s", o->part, strerror(errno));
        }
        if (still_there(o->fd, o->part))
            return start_part(o, adopted, err);
        (void)close(o->fd);
        o->fd = -1;
    }
    return wn_fail(err, WN_ERR_IO, "'%s' comes and goes: another process writes it", o->part);
}

/* Leaves no memory behind; the .part only goes when it is ours. */
static void drop(struct wn_outfile *o, bool remove_part)
{
    if (o->part && remove_part && (o->fd >= 0 || o->finished))
        (void)unlink(o->part);
    wn_unfinished_forget(o->noted);
    if (o->fd >= 0)
        (void)close(o->fd);
    free(o->path);
    free(o->part);
    *o = (struct wn_outfile){.fd = -1};
}

bool wn_outfile_may_open(const char *path, bool overwrite, struct wn_err *err)
{
    if (!overwrite && wn_path_exists(path))
        return wn_fail(err, WN_ERR_ARG, "'%s' exists already", path);
    if (wn_path_is_folder(path))
        return wn_fail(err, WN_ERR_ARG, "'%s' is a folder, not a file", path);
    return may_replace(path, err);
}

static bool open_outfile(struct wn_outfile *o, const char *path, bool overwrite, const uint64_t *adopted,
                         struct wn_err *err)
{
    *o = (struct wn_outfile){.fd = -1, .overwrite = overwrite};
    if (!wn_outfile_may_open(path, overwrite, err))
        return false;
    o->path = wn_strdup(path, err);
    o->part = wn_asprintf(err, "%s.part", path);
    if (o->path && o->part && open_part(o, adopted, err))
        return true;
    drop(o, false);
    return false;
}

bool wn_outfile_open(struct wn_outfile *o, const char *path, bool overwrite, struct wn_err *err)
{
    return open_outfile(o, path, overwrite, NULL, err);
}

bool wn_outfile_adopt(struct wn_outfile *o, const char *path, bool overwrite, uint64_t bytes, bool keep_open,
                      struct wn_err *err)
{
    if (!open_outfile(o, path, overwrite, &bytes, err))
        return false;
    o->at = bytes;
    if (keep_open)
        return true;
    (void)close(o->fd);
    o->fd = -1;
    o->finished = true;
    return true;
}

void wn_outfile_keep(struct wn_outfile *o)
{
    wn_unfinished_forget(o->noted);
    o->noted = NULL;
}

void wn_outfile_leave(struct wn_outfile *o)
{
    if (o->path)
        drop(o, false);
}

bool wn_outfile_write(struct wn_outfile *o, const void *bytes, size_t n, struct wn_err *err)
{
    if (!put(o, o->at, bytes, n, err))
        return false;
    o->at += n;
    begin_writing_back(o);
    return true;
}

bool wn_outfile_write_at(struct wn_outfile *o, uint64_t at, const void *bytes, size_t n, struct wn_err *err)
{
    if (!wn_span_fits(at, n, o->at))
        return wn_fail(err, WN_ERR_ARG, "'%s': %zu bytes at %" PRIu64 " were not written yet", o->part, n, at);
    return put(o, at, bytes, n, err);
}

bool wn_outfile_skip(struct wn_outfile *o, uint64_t n, struct wn_err *err)
{
    if (!wn_add_u64(o->at, n, &o->at) || o->at > INT64_MAX)
        return wn_fail(err, WN_ERR_ARG, "'%s': larger than a file can be", o->part);
    return true;
}

/* The plain road: through a buffer of our own. */
static bool copy_through_buffer(struct wn_outfile *o, const struct wn_file *from, uint64_t at, uint64_t n,
                                struct wn_err *err)
{
    size_t room = (size_t)wn_min_u64(n, COPY_CHUNK);
    char *buffer = wn_alloc(room ? room : 1, 1, err);
    bool ok = buffer != NULL;

    while (ok && n > 0) {
        size_t piece = (size_t)wn_min_u64(n, room);

        ok = wn_file_read(from, at, buffer, piece, err) && wn_outfile_write(o, buffer, piece, err);
        at += piece;
        n -= piece;
    }
    free(buffer);
    return ok;
}

#if defined(__linux__)
/* Lets the kernel move the bytes (a reflink where the file system has them); *moved of them before it would not. */
static bool copy_by_kernel(struct wn_outfile *o, const struct wn_file *from, uint64_t at, uint64_t n, uint64_t *moved,
                           struct wn_err *err)
{
    *moved = 0;
    while (*moved < n) {
        off_t in = (off_t)(at + *moved), out = (off_t)o->at;
        ssize_t got = wn_file_refuses()
                          ? -1
                          : copy_file_range(from->fd, &in, o->fd, &out,
                                            wn_file_may_write((size_t)wn_min_u64(n - *moved, FLUSH_STEP)), 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == ENOSPC || errno == EIO || errno == EDQUOT || errno == EFBIG))
            return fail_write(o, o->at, err);
        if (got <= 0)
            return true; /* another kind of file system, or an old kernel: the rest goes the plain road */
        o->at += (uint64_t)got;
        *moved += (uint64_t)got;
        begin_writing_back(o);
    }
    return true;
}

static bool copy_data(struct wn_outfile *o, const struct wn_file *from, uint64_t at, uint64_t n, struct wn_err *err)
{
    uint64_t moved;

    if (!copy_by_kernel(o, from, at, n, &moved, err))
        return false;
    return copy_through_buffer(o, from, at + moved, n - moved, err);
}

/*
 * Lets the disk read ahead of the copy, more than it would by itself: a hint, which waits for nothing. Not for holes:
 * the system would fill memory with their zeros.
 */
static void begin_reading(const struct wn_file *from, uint64_t at, uint64_t n)
{
    if (n == 0)
        return; /* to the system that would be all of the file */
    (void)posix_fadvise(from->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    (void)posix_fadvise(from->fd, (off_t)at, (off_t)wn_min_u64(n, READ_AHEAD), POSIX_FADV_WILLNEED);
}

bool wn_outfile_copy(struct wn_outfile *o, const struct wn_file *from, uint64_t at, uint64_t n, struct wn_err *err)
{
    uint64_t end = at + n;

    if (!wn_span_fits(at, n, from->bytes))
        return wn_fail(err, WN_ERR_FORMAT, "'%s': %" PRIu64 " bytes at %" PRIu64 " run past its end (%" PRIu64 ")",
                       from->path, n, at, from->bytes);
    while (at < end) {
        off_t data = lseek(from->fd, (off_t)at, SEEK_DATA), hole;

        if (data < 0 && errno != ENXIO)
            return copy_data(o, from, at, end - at, err); /* no holes on this file system */
        if (data < 0 || (uint64_t)data > end)
            data = (off_t)end; /* a hole up to the end */
        if (!wn_outfile_skip(o, (uint64_t)data - at, err))
            return false;
        at = (uint64_t)data;
        if (at == end)
            break;
        hole = lseek(from->fd, (off_t)at, SEEK_HOLE);
        if (hole < 0 || (uint64_t)hole > end)
            hole = (off_t)end;
        begin_reading(from, at, (uint64_t)hole - at);
        if (!copy_data(o, from, at, (uint64_t)hole - at, err))
            return false;
        at = (uint64_t)hole;
    }
    return true;
}
#else
bool wn_outfile_copy(struct wn_outfile *o, const struct wn_file *from, uint64_t at, uint64_t n, struct wn_err *err)
{
    return copy_through_buffer(o, from, at, n, err);
}
#endif

bool wn_path_sync(const char *folder, struct wn_err *err)
{
    int fd = open(folder, O_RDONLY | O_CLOEXEC);
    bool ok = true;

    /* some file systems cannot sync a folder (EINVAL); the rename itself has worked then */
    if (fd < 0 || (!wn_file_sync(fd) && errno != EINVAL && errno != ENOTSUP))
        ok = wn_fail(err, WN_ERR_IO, "'%s': %s", folder, strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return ok;
}

/* Everything up to the rename: the length (a hole at the end is only made by this) and the bytes. */
static bool make_durable(const struct wn_outfile *o, struct wn_err *err)
{
    struct stat st;

    /* not when it has that length: the time of its last change is how a journal knows it */
    if (wn_file_refuses() || fstat(o->fd, &st) != 0 ||
        ((uint64_t)st.st_size != o->at && ftruncate(o->fd, (off_t)o->at) != 0))
        return fail_write(o, o->at, err);
    if (!wn_file_sync(o->fd))
        return fail_write(o, o->at, err);
    return true;
}

bool wn_outfile_sync(struct wn_outfile *o, struct wn_err *err)
{
    return o->finished || make_durable(o, err);
}

bool wn_outfile_finish(struct wn_outfile *o, struct wn_err *err)
{
    if (!wn_outfile_sync(o, err))
        return false;
    if (o->fd >= 0 && close(o->fd) != 0)
        return wn_fail(err, WN_ERR_IO, "'%s': %s", o->part, strerror(errno));
    o->fd = -1;
    o->finished = true;
    return true;
}

/* A finished .part has no lock any more; its length tells when somebody has begun it anew. */
static bool still_whole(const struct wn_outfile *o, struct wn_err *err)
{
    struct stat st;

    if (!o->finished || (stat(o->part, &st) == 0 && (uint64_t)st.st_size == o->at))
        return true;
    return wn_fail(err, WN_ERR_IO, "'%s' was changed by another process", o->part);
}

static atomic_bool no_links;

void wn_file_pretend_no_links(bool none)
{
    atomic_store(&no_links, none);
}

/* Renames, or fails with EEXIST when the name is taken; in one step where the file system can. */
static bool rename_new(const char *from, const char *to)
{
    if (!atomic_load_explicit(&no_links, memory_order_relaxed)) {
#if defined(RENAME_NOREPLACE)
        if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
            return true;
        if (errno == EEXIST)
            return false;
#endif
        if (link(from, to) == 0) {
            (void)unlink(from);
            return true;
        }
        if (errno == EEXIST)
            return false;
    }
    /* neither is known there: a look beforehand, and a moment in which somebody may take the name */
    if (!wn_path_exists(to))
        return rename(from, to) == 0;
    errno = EEXIST;
    return false;
}

static bool put_in_place(const struct wn_outfile *o, struct wn_err *err)
{
    if (!wn_file_refuses() && (o->overwrite ? rename(o->part, o->path) == 0 : rename_new(o->part, o->path)))
        return true;
    if (errno == EEXIST)
        return wn_fail(err, WN_ERR_ARG, "'%s' appeared while it was being written, and is left as it is", o->path);
    return wn_fail(err, WN_ERR_IO, "'%s': %s", o->path, strerror(errno));
}

bool wn_outfile_commit(struct wn_outfile *o, struct wn_err *err)
{
    char *folder = wn_path_parent(o->path, err);
    bool ready = folder && wn_outfile_sync(o, err) && still_whole(o, err), named = ready && put_in_place(o, err);
    bool ok = named && wn_path_sync(folder, err);

    /* what an overwrite replaced cannot be brought back; the new file is whole at least */
    if (named && !ok && !o->overwrite)
        (void)unlink(o->path);
    drop(o, !named);
    free(folder);
    return ok;
}

void wn_outfile_abandon(struct wn_outfile *o)
{
    if (o->path)
        drop(o, true);
}

bool wn_file_put(const char *path, const void *bytes, size_t n, bool overwrite, struct wn_err *err)
{
    struct wn_outfile o;

    if (!wn_outfile_open(&o, path, overwrite, err))
        return false;
    if (wn_outfile_write(&o, bytes, n, err))
        return wn_outfile_commit(&o, err);
    wn_outfile_abandon(&o);
    return false;
}
