/*
 * What a disk or a kill may do to a write, for tests (see file.h). The switches are in the library as it is released,
 * not in one that is built for tests alone: what is tested is what people run, whatever kind of build it is. Only tests
 * set them, no option and no variable does, and while they are not set a write-like call asks one number more.
 */
#include "sys/file.h"
#include "base/checked.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#define IO_MAX ((size_t)1 << 30)

static atomic_long writes_left = -1;
static atomic_bool dying;

void wn_file_fail_writes_after(long n)
{
    atomic_store(&writes_left, n);
}

static atomic_bool unsynced;

void wn_file_pretend_sync(bool pretend)
{
    atomic_store(&unsynced, pretend);
}

bool wn_file_sync(int fd)
{
    return !wn_file_refuses() && (atomic_load_explicit(&unsynced, memory_order_relaxed) || fsync(fd) == 0);
}

static atomic_int write_error;
static atomic_size_t write_most;

void wn_file_fail_writes_with(int error)
{
    atomic_store(&write_error, error);
}

void wn_file_write_at_most(size_t bytes)
{
    atomic_store(&write_most, bytes);
}

size_t wn_file_may_write(size_t n)
{
    size_t most = atomic_load_explicit(&write_most, memory_order_relaxed);

    return wn_min_size(n, most ? most : IO_MAX);
}

void wn_file_die_of_writes(bool die)
{
    atomic_store(&dying, die);
}

bool wn_file_refuses(void)
{
    long left = atomic_load_explicit(&writes_left, memory_order_relaxed);

    if (left < 0)
        return false;
    if (left > 0) {
        atomic_store(&writes_left, left - 1);
        return false;
    }
    if (atomic_load(&dying))
        (void)raise(SIGKILL);
    errno = atomic_load(&write_error) ? atomic_load(&write_error) : ENOSPC;
    return true;
}
