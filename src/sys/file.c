/*
 * Input files: positioned reads and a read-only map. See file.h; outputs are in outfile.c, names and folders in path.c.
 */
#include "sys/file.h"
#include "base/alloc.h"
#include "base/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(off_t) == 8, "files are larger than 2 GiB");

/* Linux caps one read at 2 GiB - 4 KiB, macOS refuses larger ones than 2 GiB - 1. */
#define IO_MAX ((size_t)1 << 30)

/* What an empty file maps to: mmap itself refuses nothing. */
static const uint8_t nothing[1];

static bool open_regular(struct wn_file *f, const char *path, struct wn_err *err)
{
    struct stat st;

    /* a pipe's open would wait for a writer; of a regular file the flag says nothing */
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0)
        return wn_fail(err, WN_ERR_IO, "'%s': %s", path, strerror(errno));
    if (fstat(f->fd, &st) != 0)
        return wn_fail(err, WN_ERR_IO, "'%s': %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return wn_fail(err, WN_ERR_ARG, "'%s' is %s, not a file", path,
                       S_ISDIR(st.st_mode)    ? "a folder"
                       : S_ISFIFO(st.st_mode) ? "a pipe"
                                              : "a device");
    f->bytes = (uint64_t)st.st_size;
    return true;
}

bool wn_file_open(struct wn_file *f, const char *path, struct wn_err *err)
{
    *f = (struct wn_file){.fd = -1};
    f->path = wn_strdup(path, err);
    if (f->path && open_regular(f, path, err))
        return true;
    wn_file_close(f);
    return false;
}

void wn_file_close(struct wn_file *f)
{
    if (f->map && f->map != nothing)
        (void)munmap((void *)(uintptr_t)f->map, (size_t)f->bytes);
    if (f->path && f->fd >= 0)
        (void)close(f->fd);
    free(f->path);
    *f = (struct wn_file){.fd = -1};
}

bool wn_file_read(const struct wn_file *f, uint64_t at, void *dst, size_t n, struct wn_err *err)
{
    char *p = dst;

    if (!wn_span_fits(at, n, f->bytes))
        return wn_fail(err, WN_ERR_FORMAT, "'%s': %zu bytes at %" PRIu64 " run past its end (%" PRIu64 ")", f->path, n,
                       at, f->bytes);
    while (n > 0) {
        ssize_t got = pread(f->fd, p, wn_min_size(n, IO_MAX), (off_t)at);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return wn_fail(err, WN_ERR_IO, "'%s': read at %" PRIu64 ": %s", f->path, at, strerror(errno));
        if (got == 0)
            return wn_fail(err, WN_ERR_IO, "'%s' shrank while it was read (at %" PRIu64 ")", f->path, at);
        p += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return true;
}

uint64_t wn_file_next_data(const struct wn_file *f, uint64_t at)
{
#if defined(__linux__)
    off_t data = at < f->bytes ? lseek(f->fd, (off_t)at, SEEK_DATA) : (off_t)f->bytes;

    if (data < 0)
        return errno == ENXIO ? f->bytes : at; /* nothing but a hole is left, or there are none here */
    return (uint64_t)data < f->bytes ? (uint64_t)data : f->bytes;
#else
    (void)f;
    return at;
#endif
}

bool wn_file_map(struct wn_file *f, struct wn_err *err)
{
    void *p;

    if (f->map)
        return true;
    if (f->bytes == 0) {
        f->map = nothing;
        return true;
    }
    if (f->bytes > SIZE_MAX)
        return wn_fail(err, WN_ERR_NOMEM, "'%s': %" PRIu64 " bytes do not fit the address space", f->path, f->bytes);
    p = mmap(NULL, (size_t)f->bytes, PROT_READ, MAP_SHARED, f->fd, 0);
    if (p == MAP_FAILED)
        return wn_fail(err, WN_ERR_IO, "'%s': cannot be mapped: %s", f->path, strerror(errno));
    f->map = p;
    return true;
}

/* The range in whole pages: grown for wanted pages, shrunk for unwanted ones so that a neighbour's page stays. */
static bool advise(const struct wn_file *f, uint64_t at, uint64_t n, int advice, bool shrink)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t from, to;

    if (!f->map || f->map == nothing || !wn_span_fits(at, n, f->bytes))
        return false;
    from = shrink ? (at + page - 1) / page * page : at / page * page;
    to = shrink && at + n != f->bytes ? (at + n) / page * page : at + n;
    if (from >= to)
        return false;
    return posix_madvise((void *)(uintptr_t)(f->map + from), (size_t)(to - from), advice) == 0;
}

void wn_file_will_need(const struct wn_file *f, uint64_t at, uint64_t n)
{
    (void)advise(f, at, n, POSIX_MADV_WILLNEED, false);
}

void wn_file_dont_need(const struct wn_file *f, uint64_t at, uint64_t n)
{
#if defined(__linux__)
    /* glibc's posix_madvise makes DONTNEED a no-op; on a shared read-only map the real one only drops clean pages. */
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t from = (at + page - 1) / page * page;
    uint64_t to = at + n == f->bytes ? at + n : (at + n) / page * page;

    if (f->map && f->map != nothing && wn_span_fits(at, n, f->bytes) && from < to)
        (void)madvise((void *)(uintptr_t)(f->map + from), (size_t)(to - from), MADV_DONTNEED);
#else
    (void)advise(f, at, n, POSIX_MADV_DONTNEED, true);
#endif
}

char *wn_file_slurp(const char *path, uint64_t limit, size_t *n, struct wn_err *err)
{
    struct wn_file f;
    char *text = NULL;

    if (!wn_file_open(&f, path, err))
        return NULL;
    if (f.bytes > limit || f.bytes > SIZE_MAX - 1) {
        wn_fail(err, WN_ERR_FORMAT, "'%s': %" PRIu64 " bytes, at most %" PRIu64 " are read", path, f.bytes, limit);
        goto done;
    }
    text = wn_alloc((size_t)f.bytes + 1, 1, err);
    if (!text)
        goto done;
    if (!wn_file_read(&f, 0, text, (size_t)f.bytes, err)) {
        free(text);
        text = NULL;
        goto done;
    }
    *n = (size_t)f.bytes;
done:
    wn_file_close(&f);
    return text;
}
