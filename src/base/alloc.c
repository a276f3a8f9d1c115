/* See alloc.h. */
#include "base/alloc.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64

static atomic_long allocations_left = -1;

void wn_alloc_fail_after(long n)
{
    atomic_store(&allocations_left, n);
}

/* Tests only count down; ordinarily this is one load. */
static bool refused(void)
{
    long left = atomic_load_explicit(&allocations_left, memory_order_relaxed);

    if (left < 0)
        return false;
    if (left == 0)
        return true;
    atomic_store(&allocations_left, left - 1);
    return false;
}

static bool byte_count(size_t n, size_t size, size_t *bytes, struct wn_err *err)
{
    if (size != 0 && n > SIZE_MAX / size)
        return wn_fail(err, WN_ERR_NOMEM, "%zu objects of %zu bytes do not fit in memory", n, size);
    *bytes = n * size;
    return true;
}

static void *out_of_memory(size_t bytes, struct wn_err *err)
{
    wn_fail(err, WN_ERR_NOMEM, "out of memory: %zu bytes refused", bytes);
    return NULL;
}

void *wn_alloc(size_t n, size_t size, struct wn_err *err)
{
    size_t bytes;
    void *p;

    if (!byte_count(n, size, &bytes, err))
        return NULL;
    p = refused() ? NULL : calloc(1, bytes ? bytes : 1);
    return p ? p : out_of_memory(bytes, err);
}

void *wn_realloc(void *p, size_t n, size_t size, struct wn_err *err)
{
    size_t bytes;
    void *q;

    if (!byte_count(n, size, &bytes, err))
        return NULL;
    q = refused() ? NULL : realloc(p, bytes ? bytes : 1);
    return q ? q : out_of_memory(bytes, err);
}

void *wn_grow(void *p, size_t *room, size_t need, size_t size, struct wn_err *err)
{
    size_t more = *room < 8 ? 8 : *room > SIZE_MAX / 2 ? SIZE_MAX : *room * 2;
    void *q;

    if (p && need <= *room)
        return p;
    more = more < need ? need : more;
    q = wn_realloc(p, more, size, err);
    if (q)
        *room = more;
    return q;
}

void *wn_alloc_unset(size_t bytes, struct wn_err *err)
{
    void *p = NULL;

    if (bytes > SIZE_MAX - ALIGNMENT || refused() || posix_memalign(&p, ALIGNMENT, bytes ? bytes : 1) != 0)
        return out_of_memory(bytes, err);
    return p;
}

void *wn_alloc_aligned(size_t bytes, struct wn_err *err)
{
    void *p = wn_alloc_unset(bytes, err);

    return p ? memset(p, 0, bytes) : NULL;
}

void wn_free_aligned(void *p)
{
    free(p);
}

char *wn_strndup(const char *s, size_t n, struct wn_err *err)
{
    char *copy = wn_alloc(n + 1, 1, err);

    if (copy)
        memcpy(copy, s, n);
    return copy;
}

char *wn_strdup(const char *s, struct wn_err *err)
{
    return wn_strndup(s, strlen(s), err);
}

char *wn_asprintf(struct wn_err *err, const char *fmt, ...)
{
    va_list ap;
    int n;
    char *s;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) {
        wn_fail(err, WN_ERR_ARG, "a message could not be formatted");
        return NULL;
    }
    s = wn_alloc((size_t)n + 1, 1, err);
    if (!s)
        return NULL;
    va_start(ap, fmt);
    (void)vsnprintf(s, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return s;
}
