/* The read roof. See winnow/machine.h. */
#include <winnow/machine.h>

#include "base/alloc.h"
#include "base/order.h"
#include "kernels/kernels.h"
#include "sys/clock.h"

#include <stdlib.h>

#define BUFFER_BYTES ((size_t)512 << 20)
#define PIECE_BYTES  ((size_t)1 << 20)
#define ROUNDS       9

struct reading {
    const struct wn_kernels *kernels;
    const float *buffer;
    float *sums; /* [pieces]: kept, so that the reading cannot be left out */
};

static void read_piece(void *arg, size_t piece, unsigned worker)
{
    const struct reading *r = arg;
    size_t n = PIECE_BYTES / sizeof(float);

    (void)worker;
    r->sums[piece] = r->kernels->sum(r->buffer + piece * n, n);
}

static void fill_piece(void *arg, size_t piece, unsigned worker)
{
    const struct reading *r = arg;
    float *at = (float *)r->buffer + piece * (PIECE_BYTES / sizeof(float));

    (void)worker;
    for (size_t i = 0; i < PIECE_BYTES / sizeof(float); i++)
        at[i] = 1.0f;
}

bool wn_measure_bandwidth(struct wn_pool *pool, double *bytes_per_second, struct wn_err *err)
{
    size_t pieces = BUFFER_BYTES / PIECE_BYTES;
    struct reading r = {.kernels = wn_kernels_get(err)};
    double seconds[ROUNDS];
    float *buffer = r.kernels ? wn_alloc_aligned(BUFFER_BYTES, err) : NULL;
    bool ok = buffer && (r.sums = wn_alloc(pieces, sizeof(*r.sums), err));

    if (ok) {
        r.buffer = buffer;
        wn_pool_run(pool, fill_piece, &r, pieces); /* pages exist and lie near who reads them */
        for (int i = 0; i < ROUNDS; i++) {
            double start = wn_clock_seconds();

            wn_pool_run(pool, read_piece, &r, pieces);
            seconds[i] = wn_clock_seconds() - start;
        }
        qsort(seconds, ROUNDS, sizeof(*seconds), wn_rising_f64);
        *bytes_per_second = (double)BUFFER_BYTES / seconds[ROUNDS / 2];
    }
    free(r.sums);
    wn_free_aligned(buffer);
    return ok;
}
