/*
 * One pool of worker threads, made by the program and passed down. Work is cut by the problem, never by the number of
 * threads, and each piece writes only its own output, so results have the same bits with one thread or many.
 */
#ifndef WINNOW_POOL_H
#define WINNOW_POOL_H

#include <winnow/error.h>

struct wn_pool;

typedef void wn_piece_fn(void *arg, size_t piece, unsigned worker);

/*
 * threads >= 1 workers, the caller being one of them (0: one per physical core that the process may use). NULL on
 * failure.
 */
WN_API WN_CHECKED struct wn_pool *wn_pool_new(unsigned threads, struct wn_err *err);
WN_API void wn_pool_free(struct wn_pool *pool);
WN_API unsigned wn_pool_threads(const struct wn_pool *pool);

/*
 * Calls fn(arg, piece, worker) once for each piece 0 .. pieces - 1, spread over the workers, and returns when all are
 * done. worker (0 .. threads - 1) says whose scratch to use; no result may depend on it. One caller at a time; not from
 * a piece.
 */
WN_API void wn_pool_run(struct wn_pool *pool, wn_piece_fn *fn, void *arg, size_t pieces);

#endif
