/*
 * The pool of include/winnow/pool.h. A run is announced by raising `round`; workers that notice come inside, take
 * pieces from one counter until there are none, and leave. The caller takes pieces too, then shuts the run and waits
 * for those who are inside, never for those who slept through it: with more threads than processors a late sleeper
 * costs nothing.
 *
 * Waiting, on both sides, first spins for SPIN_SECONDS and then sleeps on a condition. The order of the atomic steps is
 * what keeps a wake-up from being lost: each side first says what it does and then looks at what the other said, so at
 * least one of two that meet sees the other (all are sequentially consistent for that). What is said is said by an
 * exchange or an addition, not by a store: qemu 7.2 lets a load pass an ARM store before it (its STLR has no barrier
 * behind it on x86), and what a processor does for an exchange it does for a sequentially consistent store as well.
 */
#include <winnow/pool.h>

#include "base/alloc.h"
#include "sys/clock.h"
#include "sys/cpu.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* About the price of one sleep and wake-up, so waiting never costs more than twice the better choice. */
#define SPIN_SECONDS 8e-6
#define THREADS_MAX  4096
/* Kernels take up to 80 KiB; what a thread gets without being asked is `ulimit -s`, which may be next to nothing. */
#define STACK_BYTES ((size_t)1 << 20)

struct worker {
    struct wn_pool *pool; /* the pool that this lies in */
    unsigned number;
    pthread_t thread;
};

struct wn_pool {
    unsigned threads, started; /* started: without the caller */
    bool spins;                /* false when there are more threads than processors */
    struct worker *workers;    /* owned; [threads - 1] */

    pthread_mutex_t sleep; /* for the two conditions only */
    pthread_cond_t work, quiet;

    /* The run; written by the caller while it is shut and nobody is inside. */
    wn_piece_fn *fn;
    void *arg;
    size_t pieces;

    /* Each on a cache line of its own: they are what threads fight for. */
    _Alignas(64) atomic_size_t next; /* the next piece to take */
    _Alignas(64) atomic_uint inside; /* workers that may be looking at the run */
    _Alignas(64) atomic_uint round;  /* goes up with each run */
    _Alignas(64) atomic_bool open;   /* pieces may be taken */
    atomic_bool stop, busy, caller_sleeps;
    atomic_uint sleepers;
};

/* Tells the processor that this is a waiting loop. */
static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __asm__ volatile("pause");
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

/* Spins until (*value == target) is `equal`; false when the time ran out first. */
static bool spin_until(const struct wn_pool *pool, const atomic_uint *value, unsigned target, bool equal)
{
    double end;

    if ((atomic_load(value) == target) == equal)
        return true;
    if (!pool->spins)
        return false;
    end = wn_clock_seconds() + SPIN_SECONDS;
    do {
        for (int i = 0; i < 16; i++) {
            pause_briefly();
            if ((atomic_load(value) == target) == equal)
                return true;
        }
    } while (wn_clock_seconds() < end);
    return false;
}

/* Takes pieces until there are none. */
static void take_pieces(struct wn_pool *pool, unsigned worker)
{
    size_t piece;

    while ((piece = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed)) < pool->pieces)
        pool->fn(pool->arg, piece, worker);
}

/* Waits for a round other than `seen`; returns it. */
static unsigned round_wait(struct wn_pool *pool, unsigned seen)
{
    if (!spin_until(pool, &pool->round, seen, false)) {
        pthread_mutex_lock(&pool->sleep);
        atomic_fetch_add(&pool->sleepers, 1);
        while (atomic_load(&pool->round) == seen)
            pthread_cond_wait(&pool->work, &pool->sleep);
        atomic_fetch_sub(&pool->sleepers, 1);
        pthread_mutex_unlock(&pool->sleep);
    }
    return atomic_load(&pool->round);
}

static void worker_leave(struct wn_pool *pool)
{
    if (atomic_fetch_sub(&pool->inside, 1) == 1 && atomic_load(&pool->caller_sleeps)) {
        pthread_mutex_lock(&pool->sleep);
        pthread_cond_signal(&pool->quiet);
        pthread_mutex_unlock(&pool->sleep);
    }
}

static void *worker_main(void *arg)
{
    struct worker *me = arg;
    struct wn_pool *pool = me->pool;
    unsigned seen = 0;

    for (;;) {
        seen = round_wait(pool, seen);
        if (atomic_load(&pool->stop))
            return NULL;
        atomic_fetch_add(&pool->inside, 1);
        if (atomic_load(&pool->open))
            take_pieces(pool, me->number);
        worker_leave(pool);
    }
}

/* Raises the round and wakes those who sleep. */
static void round_announce(struct wn_pool *pool)
{
    atomic_fetch_add(&pool->round, 1);
    if (atomic_load(&pool->sleepers) == 0)
        return;
    pthread_mutex_lock(&pool->sleep);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->sleep);
}

/* Waits until nobody is inside. */
static void quiet_wait(struct wn_pool *pool)
{
    if (spin_until(pool, &pool->inside, 0, true))
        return;
    pthread_mutex_lock(&pool->sleep);
    atomic_exchange(&pool->caller_sleeps, true);
    while (atomic_load(&pool->inside) != 0)
        pthread_cond_wait(&pool->quiet, &pool->sleep);
    atomic_store(&pool->caller_sleeps, false);
    pthread_mutex_unlock(&pool->sleep);
}

void wn_pool_run(struct wn_pool *pool, wn_piece_fn *fn, void *arg, size_t pieces)
{
    bool was_busy = atomic_exchange(&pool->busy, true);

    assert(!was_busy); /* two callers at once, or a piece that runs pieces */
    (void)was_busy;
    if (pool->threads == 1 || pieces <= 1) {
        for (size_t i = 0; i < pieces; i++)
            fn(arg, i, 0);
    } else {
        pool->fn = fn;
        pool->arg = arg;
        pool->pieces = pieces;
        atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
        atomic_store(&pool->open, true);
        round_announce(pool);
        take_pieces(pool, 0);
        atomic_exchange(&pool->open, false);
        quiet_wait(pool);
    }
    atomic_store(&pool->busy, false);
}

/* Starts the workers that are wanted still; 0, or why one could not be. */
static int workers_add(struct wn_pool *pool, const pthread_attr_t *how)
{
    int fault = 0;

    while (pool->started < pool->threads - 1 && fault == 0) {
        struct worker *w = &pool->workers[pool->started];

        w->pool = pool;
        w->number = pool->started + 1;
        fault = pthread_create(&w->thread, how, worker_main, w);
        if (fault == 0)
            pool->started++;
    }
    return fault;
}

/*
 * Signals are for the program's own threads and held off here, but for those that a thread brings upon itself: the
 * system kills a process that holds off its own SIGBUS, whatever handler the program has for it.
 */
static bool workers_start(struct wn_pool *pool, struct wn_err *err)
{
    static const int own[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
    sigset_t held, before;
    pthread_attr_t how;
    int fault = pthread_attr_init(&how);

    if (fault == 0) {
        sigfillset(&held);
        for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
            sigdelset(&held, own[i]);
        pthread_sigmask(SIG_SETMASK, &held, &before);
        fault = pthread_attr_setstacksize(&how, STACK_BYTES);
        if (fault == 0)
            fault = workers_add(pool, &how);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&how);
    }
    if (fault)
        return wn_fail(err, WN_ERR_NOMEM, "thread %u of %u could not be started: %s", pool->started + 2, pool->threads,
                       strerror(fault));
    return true;
}

struct wn_pool *wn_pool_new(unsigned threads, struct wn_err *err)
{
    struct wn_pool *pool;

    if (threads == 0)
        threads = wn_cpu_core_count();
    if (threads > THREADS_MAX) {
        wn_fail(err, WN_ERR_ARG, "%u threads wanted, at most %u can be had", threads, THREADS_MAX);
        return NULL;
    }
    pool = wn_alloc_aligned(sizeof(*pool), err);
    if (!pool)
        return NULL;
    pool->threads = threads;
    pool->spins = threads <= wn_cpu_count();
    pthread_mutex_init(&pool->sleep, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->quiet, NULL);
    pool->workers = wn_alloc(threads - 1, sizeof(*pool->workers), err);
    if (!pool->workers || !workers_start(pool, err)) {
        wn_pool_free(pool);
        return NULL;
    }
    return pool;
}

void wn_pool_free(struct wn_pool *pool)
{
    if (!pool)
        return;
    assert(!atomic_load(&pool->busy));
    atomic_store(&pool->stop, true);
    round_announce(pool);
    for (unsigned i = 0; i < pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->quiet);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->sleep);
    free(pool->workers);
    wn_free_aligned(pool);
}

unsigned wn_pool_threads(const struct wn_pool *pool)
{
    return pool->threads;
}
