/*
 * bench_kernels [--json] [NAME]: nanoseconds and GB/s of each kernel (or those whose name contains NAME), for every
 * table this processor can run, scalar first. Each figure is the median of RUNS runs of at least RUN_SECONDS, and the
 * best of them, which is the one to look at on a machine that others use too.
 *
 * The rows called "stream" walk through STREAM_BYTES of weights, more than the caches hold, as generating a token does;
 * their ceiling is the plain read among them. The product rows count multiplications instead. The others stay in
 * the caches. One thread; bench_pool's rows at the end time a hand-over to 2 threads.
 */
#include "base/alloc.h"
#include "base/rng.h"
#include "kernels/kernels.h"
#include "sys/clock.h"
#include "sys/cpu.h"
#include <winnow/pool.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN_SECONDS  0.002 /* less than a time slice, so the best run is one without another process in it */
#define RUNS         21
#define RUNS_SECONDS 0.5 /* of slow rows fewer runs */
#define STREAM_BYTES ((size_t)128 << 20)
#define COLS         7168 /* K3's hidden size */
#define TOKENS_MAX   512
#define ROWS         64 /* of one piece of the pool's work */

static uint8_t *weights;                /* STREAM_BYTES */
static float *x, *y, *state, *products; /* x [TOKENS_MAX][COLS] */
static volatile float sink;

/* What one call does: its bytes of weights (0: none worth counting), its multiplications. */
struct work {
    double bytes, products;
};

/* Calls it once; `turn` counts the calls. */
typedef struct work bench_fn(const struct wn_kernels *k, size_t turn, size_t param);

#define GROUP 64 /* of affine rows, with a scale and a bias in BF16 */

static size_t scale_bytes_of(enum wn_type type, size_t cols)
{
    return type == WN_MXFP4_SPLIT                                           ? cols / 32
           : type == WN_AFFINE2 || type == WN_AFFINE4 || type == WN_AFFINE8 ? cols / GROUP * 2
                                                                            : 0;
}

/* Codes, scales and biases lie as in a file: each array as a whole, one behind the other. */
static struct wn_matrix matrix_of(enum wn_type type, size_t cols)
{
    const struct wn_type_info *info = wn_type_info(type);
    struct wn_matrix m = {.type = type, .cols = cols, .data = weights};

    m.row_bytes = cols / info->block_elements * info->block_bytes;
    m.scale_row_bytes = scale_bytes_of(type, cols);
    m.rows = STREAM_BYTES / (m.row_bytes + 2 * m.scale_row_bytes);
    if (m.scale_row_bytes)
        m.scales = weights + m.rows * m.row_bytes;
    if (m.scale_row_bytes && type != WN_MXFP4_SPLIT) {
        m.biases = m.scales + m.rows * m.scale_row_bytes;
        m.group = GROUP;
        m.scale_type = WN_BF16;
    }
    return m;
}

static double bytes_of_row(const struct wn_matrix *m)
{
    return (double)(m->row_bytes + m->scale_row_bytes * (m->biases ? 2 : 1));
}

/* A few rows at a time of the whole stream, as one piece of a pool's work is. */
static struct work stream(const struct wn_kernels *k, size_t turn, size_t type)
{
    struct wn_matrix m = matrix_of((enum wn_type)type, COLS);
    uint64_t first = turn * ROWS % (m.rows - ROWS);

    wn_matrix_mul_rows(k, &m, first, ROWS, x, COLS, 1, y, ROWS);
    sink = y[0];
    return (struct work){ROWS * bytes_of_row(&m), (double)ROWS * COLS};
}

/* One piece of a product, ROWS rows times some tokens, of K3's matrices and of a small model's. */
static const struct shape {
    enum wn_type type;
    size_t cols, tokens;
} shapes[] = {
    {WN_BF16, COLS, 1},     {WN_BF16, COLS, 2},   {WN_BF16, COLS, 4},   {WN_BF16, COLS, 16},   {WN_BF16, COLS, 64},
    {WN_BF16, COLS, 512},   {WN_MXFP4, 3584, 1},  {WN_MXFP4, 3584, 2},  {WN_MXFP4, 3584, 3},   {WN_MXFP4, 3584, 4},
    {WN_MXFP4, 3584, 8},    {WN_MXFP4, 3584, 16}, {WN_MXFP4, 3584, 64}, {WN_MXFP4, 3584, 512}, {WN_F32, COLS, 1},
    {WN_F32, COLS, 4},      {WN_F32, COLS, 16},   {WN_F32, COLS, 64},   {WN_F32, COLS, 512},   {WN_BF16, 256, 1},
    {WN_BF16, 256, 3},      {WN_BF16, 256, 64},   {WN_BF16, 256, 512},  {WN_MXFP4, 128, 1},    {WN_MXFP4, 128, 3},
    {WN_MXFP4, 128, 8},     {WN_MXFP4, 128, 32},  {WN_MXFP4, 96, 32},   {WN_AFFINE2, 3584, 1}, {WN_AFFINE2, 3584, 16},
    {WN_AFFINE2, 3584, 64}, {WN_Q2_K, 3584, 1},   {WN_Q2_K, 3584, 16},  {WN_Q2_K, 3584, 64},
};

static struct work product(const struct wn_kernels *k, size_t turn, size_t i)
{
    const struct shape *s = &shapes[i];
    struct wn_matrix m = matrix_of(s->type, s->cols);
    uint64_t first = turn * ROWS % (m.rows - ROWS);

    wn_matrix_mul_rows(k, &m, first, ROWS, x, s->cols, s->tokens, products, ROWS);
    return (struct work){ROWS * bytes_of_row(&m), (double)(ROWS * s->tokens * s->cols)};
}

static struct work dot_f32(const struct wn_kernels *k, size_t turn, size_t n)
{
    sink = k->dot_f32(x, x + COLS + turn % 8, n);
    return (struct work){8.0 * (double)n, (double)n};
}

static struct work decode(const struct wn_kernels *k, size_t turn, size_t type)
{
    struct wn_matrix m = matrix_of((enum wn_type)type, COLS);

    k->decode_row(&m, turn % 16, y);
    return (struct work){bytes_of_row(&m), 0};
}

#define VECTOR(name, floats, call)                                                                                     \
    static struct work name(const struct wn_kernels *k, size_t turn, size_t n)                                         \
    {                                                                                                                  \
        (void)turn;                                                                                                    \
        call;                                                                                                          \
        return (struct work){4.0 * (floats) * (double)n, 0};                                                           \
    }

VECTOR(axpy, 3, k->axpy(0.5f, x, y, n))
VECTOR(sum_squares, 1, sink = k->sum_squares(x, n))
VECTOR(max, 1, sink = k->max(x, n))
VECTOR(rms_norm, 3, sink = k->rms_norm(x, x + COLS, 1e-5f, y, n))
VECTOR(exp_all, 2, k->exp(x, y, n))
VECTOR(sigmoid, 2, k->sigmoid(x, y, n))
VECTOR(softplus, 2, k->softplus(x, y, n))
VECTOR(situ, 3, k->situ(x, x + COLS, 4, 25, y, n))
VECTOR(swiglu, 3, k->swiglu(x, x + COLS, y, n))
VECTOR(softmax, 2, memcpy(y, x, n * sizeof(*y)); k->softmax(y, n))
VECTOR(conv_step, 10, k->conv_step(state, x, x + COLS, y, n, 4))

static struct work kda_step(const struct wn_kernels *k, size_t turn, size_t n)
{
    k->kda_step(state + turn % 96 * n * n, x, x + n, x + 2 * n, x + 3 * n, 0.5f, y, y + n, n, n);
    return (struct work){8.0 * (double)(n * n), 0};
}

/* Adds up a part of the stream as 64-bit words. */
static struct work plain_read(const struct wn_kernels *k, size_t turn, size_t bytes)
{
    const uint64_t *at = (const uint64_t *)(const void *)(weights + turn % (STREAM_BYTES / bytes) * bytes);
    uint64_t sum[64] = {0};

    (void)k;
    for (size_t i = 0; i < bytes / 8; i += 64)
        for (size_t j = 0; j < 64; j++)
            sum[j] ^= at[i + j];
    for (size_t j = 1; j < 64; j++)
        sum[0] ^= sum[j];
    sink = (float)sum[0];
    return (struct work){(double)bytes, 0};
}

static const struct bench {
    const char *name;
    bench_fn *fn;
    size_t param;
} benches[] = {
    {"stream plain read", plain_read, (size_t)1 << 20},
    {"stream mxfp4", stream, WN_MXFP4},
    {"stream mxfp4_split", stream, WN_MXFP4_SPLIT},
    {"stream q8_0", stream, WN_Q8_0},
    {"stream bf16", stream, WN_BF16},
    {"stream f16", stream, WN_F16},
    {"stream affine2", stream, WN_AFFINE2},
    {"stream affine4", stream, WN_AFFINE4},
    {"stream affine8", stream, WN_AFFINE8},
    {"stream q2_k", stream, WN_Q2_K},
    {"stream q3_k", stream, WN_Q3_K},
    {"stream q4_k", stream, WN_Q4_K},
    {"stream q5_k", stream, WN_Q5_K},
    {"stream q6_k", stream, WN_Q6_K},
    {"stream iq4_xs", stream, WN_IQ4_XS},
    {"decode mxfp4", decode, WN_MXFP4},
    {"decode mxfp4_split", decode, WN_MXFP4_SPLIT},
    {"decode bf16", decode, WN_BF16},
    {"decode affine2", decode, WN_AFFINE2},
    {"decode q2_k", decode, WN_Q2_K},
    {"dot_f32 512", dot_f32, 512},
    {"dot_f32 7168", dot_f32, COLS},
    {"axpy", axpy, COLS},
    {"sum_squares", sum_squares, COLS},
    {"max", max, COLS},
    {"rms_norm", rms_norm, COLS},
    {"exp", exp_all, COLS},
    {"sigmoid", sigmoid, COLS},
    {"softplus", softplus, COLS},
    {"situ", situ, 3072},
    {"swiglu", swiglu, 3072},
    {"softmax", softmax, 4096},
    {"conv_step", conv_step, 12288},
    {"kda_step", kda_step, 128},
};

static int falling(const void *a, const void *b)
{
    double l = *(const double *)a, r = *(const double *)b;

    return l < r ? 1 : l > r ? -1 : 0;
}

/* Seconds of one call: the median of RUNS runs, and the best. */
static double seconds_of(const struct bench *b, const struct wn_kernels *k, struct work *work, double *best)
{
    double each[RUNS], begin = wn_clock_seconds(), now = begin;
    size_t turn = 0, runs = 0;

    for (; runs < RUNS && now - begin < RUNS_SECONDS; runs++) {
        double start = wn_clock_seconds();
        size_t calls = 0;

        do {
            *work = b->fn(k, turn++, b->param);
            calls++;
            now = wn_clock_seconds();
        } while (now - start < RUN_SECONDS);
        each[runs] = (now - start) / (double)calls;
    }
    qsort(each, runs, sizeof(*each), falling);
    *best = each[runs - 1];
    return each[runs / 2];
}

static void piece_of_nothing(void *arg, size_t piece, unsigned worker)
{
    (void)arg, (void)piece, (void)worker;
}

/* Microseconds of one run of `pieces` empty pieces. */
static double hand_over(unsigned threads, size_t pieces, struct wn_err *err)
{
    struct wn_pool *pool = wn_pool_new(threads, err);
    double start, now;
    size_t calls = 0;

    if (!pool)
        return -1;
    start = wn_clock_seconds();
    do {
        wn_pool_run(pool, piece_of_nothing, NULL, pieces);
        calls++;
        now = wn_clock_seconds();
    } while (now - start < 50 * RUN_SECONDS);
    wn_pool_free(pool);
    return (now - start) / (double)calls * 1e6;
}

static bool buffers_make(struct wn_err *err)
{
    struct wn_rng rng = {1};
    size_t floats = TOKENS_MAX * COLS;

    weights = wn_alloc_aligned(STREAM_BYTES, err);
    x = weights ? wn_alloc_aligned(floats * sizeof(*x), err) : NULL;
    y = x ? wn_alloc_aligned(2 * COLS * sizeof(*y), err) : NULL;
    state = y ? wn_alloc_aligned(96 * 128 * 128 * sizeof(*state), err) : NULL;
    products = state ? wn_alloc_aligned(ROWS * TOKENS_MAX * sizeof(*products), err) : NULL;
    if (!products)
        return false;
    for (size_t i = 0; i < STREAM_BYTES; i += 8) {
        uint64_t r = wn_rng_u64(&rng) & 0x3f7f3f7f3f7f3f7f; /* small numbers in every format */

        memcpy(weights + i, &r, 8);
    }
    for (size_t i = 0; i < floats; i++)
        x[i] = (float)(wn_rng_unit(&rng) - 0.5);
    return true;
}

static void row_print(bool json, bool *first, const char *name, const char *table, double seconds, double best,
                      struct work w, double scalar_seconds)
{
    if (json) {
        printf("%s\n    {\"kernel\": \"%s\", \"table\": \"%s\", \"ns\": %.1f, \"best_ns\": %.1f, \"gb_s\": %.3f, "
               "\"gmul_s\": %.3f}",
               *first ? "" : ",", name, table, seconds * 1e9, best * 1e9, w.bytes / seconds / 1e9,
               w.products / seconds / 1e9);
        *first = false;
    } else {
        printf("%-24s %-8s %12.1f ns (best %12.1f) %8.2f GB/s (best %6.2f) %8.2f Gmul/s %7.1fx\n", name, table,
               seconds * 1e9, best * 1e9, w.bytes / seconds / 1e9, w.bytes / best / 1e9, w.products / best / 1e9,
               scalar_seconds / seconds);
    }
}

/* One bench on every table that this processor can run. */
static void bench_time(const struct bench *b, bool json, bool *first)
{
    static const unsigned choices[] = {0, WN_CPU_AVX2, WN_CPU_AVX2 | WN_CPU_AVX512, WN_CPU_NEON};
    unsigned cpu = wn_cpu_detect();
    double scalar_seconds = 0;

    for (size_t c = 0; c < sizeof(choices) / sizeof(choices[0]); c++) {
        struct wn_kernels k;
        struct work work;
        double seconds, best;

        if ((cpu & choices[c]) != choices[c])
            continue;
        wn_kernels_init(&k, choices[c]);
        seconds = seconds_of(b, &k, &work, &best);
        if (c == 0)
            scalar_seconds = seconds;
        row_print(json, first, b->name, k.name, seconds, best, work, scalar_seconds);
    }
}

static void kernels_time(bool json, const char *only)
{
    bool first = true;

    for (size_t i = 0; i < sizeof(benches) / sizeof(benches[0]); i++)
        if (!only || strstr(benches[i].name, only))
            bench_time(&benches[i], json, &first);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        char name[80];

        snprintf(name, sizeof(name), "product %s %zu x %zu", wn_type_info(shapes[i].type)->name, shapes[i].cols,
                 shapes[i].tokens);
        if (!only || strstr(name, only))
            bench_time(&(struct bench){name, product, i}, json, &first);
    }
}

int main(int argc, char **argv)
{
    bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
    const char *only = argc > 1 + json ? argv[1 + json] : NULL;
    struct wn_err err;
    double one, two, three;

    if (!buffers_make(&err)) {
        fprintf(stderr, "bench_kernels: %s\n", err.msg);
        return 1;
    }
    if (json)
        printf("{\n  \"kernels\": [");
    kernels_time(json, only);
    one = hand_over(1, 16, &err);
    two = hand_over(2, 16, &err);
    three = hand_over(3, 16, &err);
    if (json)
        printf("\n  ],\n  \"pool_us\": {\"1\": %.3f, \"2\": %.3f, \"3\": %.3f}\n}\n", one, two, three);
    else
        printf("a run of 16 empty pieces: %.3f us with 1 thread, %.3f with 2, %.3f with 3 (%u processors)\n", one, two,
               three, wn_cpu_count());
    return 0;
}
