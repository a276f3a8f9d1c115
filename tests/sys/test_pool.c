/* The pool: every piece once, whoever runs it; waiting that neither loses a wake-up nor burns a processor. */
#include "base/alloc.h"
#include "sys/cpu.h"
#include "wn_test.h"
#include <winnow/pool.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct wn_err err;

enum { PIECES = 1000 };

struct tally {
    atomic_uint times[PIECES];
    unsigned threads;
    atomic_bool stranger; /* a worker number that cannot be */
};

static void piece_count(void *arg, size_t piece, unsigned worker)
{
    struct tally *t = arg;

    atomic_fetch_add(&t->times[piece], 1);
    if (worker >= t->threads)
        atomic_store(&t->stranger, true);
}

static void pieces_check(struct wn_pool *pool, size_t pieces)
{
    static struct tally t;

    memset(&t, 0, sizeof(t));
    t.threads = wn_pool_threads(pool);
    wn_pool_run(pool, piece_count, &t, pieces);
    assert_false(t.stranger);
    for (size_t i = 0; i < PIECES; i++)
        assert_int_equal(t.times[i], i < pieces);
}

static void every_piece_runs_once_for_any_number_of_threads(void **state)
{
    (void)state;
    for (unsigned threads = 1; threads <= 9; threads++) {
        struct wn_pool *pool = wn_pool_new(threads, &err);

        assert_non_null(pool);
        assert_int_equal(wn_pool_threads(pool), threads);
        for (size_t pieces = 0; pieces <= 20; pieces++)
            pieces_check(pool, pieces);
        pieces_check(pool, PIECES);
        wn_pool_free(pool);
    }
}

static void no_threads_given_means_one_per_core(void **state)
{
    struct wn_pool *pool = wn_pool_new(0, &err);

    (void)state;
    assert_non_null(pool);
    assert_int_equal(wn_pool_threads(pool), wn_cpu_core_count());
    pieces_check(pool, 100);
    wn_pool_free(pool);
    wn_pool_free(NULL);
}

static void piece_same_thread(void *arg, size_t piece, unsigned worker)
{
    (void)piece;
    assert_true(pthread_equal(*(pthread_t *)arg, pthread_self()));
    assert_int_equal(worker, 0);
}

static void one_thread_runs_everything_in_the_caller(void **state)
{
    struct wn_pool *pool = wn_pool_new(1, &err);
    pthread_t me = pthread_self();

    (void)state;
    wn_pool_run(pool, piece_same_thread, &me, 50);
    wn_pool_free(pool);
}

static void piece_add(void *arg, size_t piece, unsigned worker)
{
    uint64_t *sums = arg;

    (void)worker;
    sums[piece] += piece + 1; /* not atomic: pieces of one run never share, and runs follow each other */
}

/* Short runs one after the other, some after a pause long enough for all to have gone to sleep. */
static void no_wake_up_is_lost_in_many_short_runs(void **state)
{
    (void)state;
    for (unsigned threads = 2; threads <= 5; threads++) {
        struct wn_pool *pool = wn_pool_new(threads, &err);
        uint64_t sums[7] = {0};
        uint64_t runs = 2000;

        assert_non_null(pool);
        for (uint64_t r = 0; r < runs; r++) {
            wn_pool_run(pool, piece_add, sums, 2 + r % 6);
            if (r % 200 == 0)
                nanosleep(&(struct timespec){0, 300000}, NULL);
        }
        wn_pool_free(pool);
        assert_int_equal(sums[0], runs);
        assert_int_equal(sums[1], 2 * runs);
        assert_int_equal(sums[6], 7 * (runs / 6)); /* r % 6 == 5 */
    }
}

struct slow {
    atomic_uint done;
};

/* Quick in the caller, slow in the others. */
static void piece_slow(void *arg, size_t piece, unsigned worker)
{
    struct slow *s = arg;

    (void)piece;
    nanosleep(&(struct timespec){0, worker == 0 ? 100000 : 3000000}, NULL);
    atomic_fetch_add(&s->done, 1);
}

static void a_run_returns_only_when_the_slowest_piece_is_done(void **state)
{
    struct wn_pool *pool = wn_pool_new(3, &err);

    (void)state;
    assert_non_null(pool);
    for (int i = 0; i < 10; i++) {
        struct slow s = {0};

        wn_pool_run(pool, piece_slow, &s, 6);
        assert_int_equal(s.done, 6);
    }
    wn_pool_free(pool);
}

/* A waiting pool sleeps: half a second of nothing takes next to no processor time. */
static void a_pool_that_waits_takes_no_processor_time(void **state)
{
    struct wn_pool *pool = wn_pool_new(4, &err);
    struct timespec before, after;

    (void)state;
    assert_non_null(pool);
    pieces_check(pool, 10);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    nanosleep(&(struct timespec){0, 200000000}, NULL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    wn_pool_free(pool);
    assert_true((double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec) < 0.05);
}

static void a_pool_that_cannot_be_had_says_so(void **state)
{
    (void)state;
    assert_null(wn_pool_new(1000000, &err));
    assert_true(wn_test_contains(err.msg, "1000000 threads wanted"));
    for (long n = 0; n < 2; n++) {
        wn_alloc_fail_after(n);
        assert_null(wn_pool_new(3, &err));
        assert_int_equal(err.code, WN_ERR_NOMEM);
        wn_alloc_fail_after(-1);
    }
}

static void say_42(int number)
{
    (void)number;
    _exit(42);
}

/* The caller's pieces wait, so that it is a worker that brings the signal upon itself. */
static void piece_fault(void *arg, size_t piece, unsigned worker)
{
    (void)piece;
    if (worker == 0)
        nanosleep(&(struct timespec){5, 0}, NULL);
    else
        raise(*(int *)arg);
}

static void a_worker_that_faults_gets_to_the_programs_handler(void **state)
{
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        int number = faults[i], status;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
            struct wn_pool *pool = wn_pool_new(2, &err);

            signal(number, say_42);
            if (pool)
                wn_pool_run(pool, piece_fault, &number, 2);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    }
}

#if !defined(NDEBUG) && !defined(__SANITIZE_THREAD__)
static void piece_that_nests(void *arg, size_t piece, unsigned worker)
{
    (void)piece, (void)worker;
    wn_pool_run(arg, piece_add, NULL, 0);
}

static void a_piece_that_runs_pieces_is_caught_by_an_assertion(void **state)
{
    pid_t pid;
    int status;

    (void)state;
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct wn_pool *pool;

        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr))
            _exit(3);
        pool = wn_pool_new(1, &err);
        if (pool)
            wn_pool_run(pool, piece_that_nests, pool, 1);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
#else
static void a_piece_that_runs_pieces_is_caught_by_an_assertion(void **state)
{
    (void)state;
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_piece_runs_once_for_any_number_of_threads),
        cmocka_unit_test(no_threads_given_means_one_per_core),
        cmocka_unit_test(one_thread_runs_everything_in_the_caller),
        cmocka_unit_test(no_wake_up_is_lost_in_many_short_runs),
        cmocka_unit_test(a_run_returns_only_when_the_slowest_piece_is_done),
        cmocka_unit_test(a_pool_that_waits_takes_no_processor_time),
        cmocka_unit_test(a_pool_that_cannot_be_had_says_so),
        cmocka_unit_test(a_worker_that_faults_gets_to_the_programs_handler),
        cmocka_unit_test(a_piece_that_runs_pieces_is_caught_by_an_assertion),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
