/*
 * What the processor can do, read from the processor itself (CPUID and XGETBV on x86-64, fixed on aarch64), and
 * narrowed by the environment: WINNOW_CPU=scalar|avx2|avx512|neon|native. An unknown word or one the processor lacks is
 * an error: nobody should time scalar code and believe it was AVX-512.
 */
#ifndef WN_SYS_CPU_H
#define WN_SYS_CPU_H

#include <winnow/error.h>

enum {
    WN_CPU_AVX2 = 1u << 0,   /* AVX2 + FMA + F16C, and the system saves ymm */
    WN_CPU_AVX512 = 1u << 1, /* AVX-512 F, BW, VL, DQ, and the system saves zmm; implies AVX2 here */
    WN_CPU_NEON = 1u << 2
};

/* What this processor has. */
unsigned wn_cpu_detect(void);
/* The same, narrowed by `words` (NULL, nothing or "native": not at all). */
WN_CHECKED bool wn_cpu_narrow(unsigned detected, const char *words, unsigned *cpu, struct wn_err *err);
/* Processors that this process may run on, at least 1. */
unsigned wn_cpu_count(void);
/*
 * Physical cores among those: hardware threads of one core count once, since they share the units and the caches that
 * decoding lives on. Where the system does not tell (other than Linux): as many as processors.
 */
unsigned wn_cpu_core_count(void);
/*
 * The same from a folder that is made like /sys/devices/system/cpu, of processors 0 .. n - 1 that may_run. 0 when the
 * folder does not tell.
 */
unsigned wn_cpu_cores_in(const char *folder, const bool *may_run, unsigned n);

#endif
