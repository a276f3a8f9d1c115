/*
 * Memory that can be refused. Every allocation of the library goes through these, so that a test can fail the first,
 * second, third ... of them (wn_alloc_fail_after) and see each job say so and clean up.
 *
 * All return NULL with WN_ERR_NOMEM in *err, naming the bytes, when there is none (or n * size overflows). A request
 * for nothing yields a pointer that may be freed. Free with free(), except what is aligned: wn_free_aligned.
 * Safe in any thread.
 */
#ifndef WN_BASE_ALLOC_H
#define WN_BASE_ALLOC_H

#include <winnow/error.h>

/* n zeroed objects of size bytes. */
WN_CHECKED void *wn_alloc(size_t n, size_t size, struct wn_err *err);

/* Grows or shrinks p (NULL: a new one) to n objects; what is new is not set. On failure p stays as it was. */
WN_CHECKED void *wn_realloc(void *p, size_t n, size_t size, struct wn_err *err);

/*
 * Room for `need` objects in an array p of *room of them (NULL and 0: a new one), which grows by doubling. What is new
 * is not set. On failure p and *room stay as they were.
 */
WN_CHECKED void *wn_grow(void *p, size_t *room, size_t need, size_t size, struct wn_err *err);

/* bytes of zeroed memory at a multiple of 64; and of memory that is not set, for what is filled at once. */
WN_CHECKED void *wn_alloc_aligned(size_t bytes, struct wn_err *err);
WN_CHECKED void *wn_alloc_unset(size_t bytes, struct wn_err *err);
void wn_free_aligned(void *p);

/* A copy of n bytes with a NUL behind them. */
WN_CHECKED char *wn_strndup(const char *s, size_t n, struct wn_err *err);
WN_CHECKED char *wn_strdup(const char *s, struct wn_err *err);

/* A new string made as printf would. */
WN_CHECKED char *wn_asprintf(struct wn_err *err, const char *fmt, ...) WN_PRINTF(2, 3);

/* For tests: the n-th allocation from now (0: the next) and all after it fail; a negative n: none fails again. */
void wn_alloc_fail_after(long n);

#endif
