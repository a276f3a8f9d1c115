/* The table of kernels.h: filled from the bottom up, once. */
#include "kernels/kernels.h"

#include "kernels/scalar/scalar.h"
#include "kernels/variants.h"
#include "sys/cpu.h"

#include <pthread.h>
#include <stdlib.h>

void wn_kernels_init(struct wn_kernels *k, unsigned cpu)
{
    k->name = "scalar";
    wn_scalar_fill_dot(k);
    wn_scalar_fill_vector(k);
    wn_scalar_fill_math(k);
    wn_scalar_fill_step(k);
    (void)cpu;
#if defined(__x86_64__)
    if (cpu & WN_CPU_AVX2)
        wn_kernels_fill_avx2(k);
    if (cpu & WN_CPU_AVX512)
        wn_kernels_fill_avx512(k);
#elif defined(__aarch64__)
    if (cpu & WN_CPU_NEON)
        wn_kernels_fill_neon(k);
#endif
}

static struct {
    pthread_once_t once;
    bool ok;
    struct wn_kernels table;
    struct wn_err err;
} process = {.once = PTHREAD_ONCE_INIT};

static void process_fill(void)
{
    unsigned cpu;

    process.ok = wn_cpu_narrow(wn_cpu_detect(), getenv("WINNOW_CPU"), &cpu, &process.err);
    if (process.ok)
        wn_kernels_init(&process.table, cpu);
}

const struct wn_kernels *wn_kernels_get(struct wn_err *err)
{
    pthread_once(&process.once, process_fill);
    if (process.ok)
        return &process.table;
    *err = process.err;
    return NULL;
}
