/* See cpu.h. */
#include "sys/cpu.h"

#include <string.h>
#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#endif

#if defined(__x86_64__)

struct cpuid {
    uint32_t a, b, c, d;
};

static struct cpuid cpuid_read(uint32_t leaf, uint32_t sub)
{
    struct cpuid r;

    __asm__ volatile("cpuid" : "=a"(r.a), "=b"(r.b), "=c"(r.c), "=d"(r.d) : "a"(leaf), "c"(sub));
    return r;
}

/* Which register files the system saves at a switch. Only to be called where CPUID says OSXSAVE. */
static uint32_t saved_registers(void)
{
    uint32_t low, high;

    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* Bit numbers from Intel's manual, volume 2, CPUID; XCR0 from volume 1, 13.3. */
unsigned wn_cpu_detect(void)
{
    const uint32_t fma = 1u << 12, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29; /* leaf 1, ecx */
    const uint32_t avx2 = 1u << 5;                                                      /* leaf 7, ebx */
    const uint32_t avx512 = 1u << 16 /* F */ | 1u << 17 /* DQ */ | 1u << 30 /* BW */ | 1u << 31 /* VL */;
    const uint32_t ymm = 1u << 1 | 1u << 2;                 /* xcr0: xmm and the upper halves of ymm */
    const uint32_t zmm = ymm | 1u << 5 | 1u << 6 | 1u << 7; /* and masks, upper halves of zmm, zmm16..31 */
    const uint32_t need = fma | osxsave | avx | f16c;
    uint32_t saved;
    struct cpuid wide;
    unsigned cpu = 0;

    if (cpuid_read(0, 0).a < 7 || (cpuid_read(1, 0).c & need) != need)
        return 0;
    saved = saved_registers();
    wide = cpuid_read(7, 0);
    if ((saved & ymm) == ymm && (wide.b & avx2))
        cpu |= WN_CPU_AVX2;
    if (cpu && (saved & zmm) == zmm && (wide.b & avx512) == avx512)
        cpu |= WN_CPU_AVX512;
    return cpu;
}

#elif defined(__aarch64__)

/* Advanced SIMD with fused multiply-add is part of the architecture. */
unsigned wn_cpu_detect(void)
{
    return WN_CPU_NEON;
}

#else

unsigned wn_cpu_detect(void)
{
    return 0;
}

#endif

bool wn_cpu_narrow(unsigned detected, const char *words, unsigned *cpu, struct wn_err *err)
{
    static const struct {
        const char *word;
        unsigned bits;
    } known[] = {
        {"scalar", 0},
        {"avx2", WN_CPU_AVX2},
        {"avx512", WN_CPU_AVX2 | WN_CPU_AVX512},
        {"neon", WN_CPU_NEON},
    };

    if (!words || words[0] == '\0' || strcmp(words, "native") == 0) {
        *cpu = detected;
        return true;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(words, known[i].word) != 0)
            continue;
        if ((detected & known[i].bits) != known[i].bits)
            return wn_fail(err, WN_ERR_ARG, "WINNOW_CPU is '%s', but this processor has no %s", words, words);
        *cpu = known[i].bits;
        return true;
    }
    return wn_fail(err, WN_ERR_ARG, "WINNOW_CPU is '%s', wanted scalar, avx2, avx512, neon or native", words);
}

unsigned wn_cpu_count(void)
{
    long n;

#if defined(__linux__)
    cpu_set_t set;

    /* fails on machines of more than 1024 processors; those fall through */
    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
        return (unsigned)CPU_COUNT(&set);
#endif
    n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (unsigned)n : 1;
}
