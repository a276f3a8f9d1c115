/* See clock.h. */
#include "sys/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#if defined(__APPLE__)
#include <mach/mach.h>
#elif defined(__GLIBC__)
#include <malloc.h>
#endif

double wn_clock_seconds(void)
{
    struct timespec t;

    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0)
        return 0;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

uint64_t wn_peak_memory(void)
{
    struct rusage r;

    if (getrusage(RUSAGE_SELF, &r) != 0 || r.ru_maxrss < 0)
        return 0;
#if defined(__APPLE__)
    return (uint64_t)r.ru_maxrss; /* bytes there, KiB elsewhere */
#else
    return (uint64_t)r.ru_maxrss * 1024;
#endif
}

uint64_t wn_resident_memory(void)
{
#if defined(__APPLE__)
    struct mach_task_basic_info info;
    mach_msg_type_number_t n = MACH_TASK_BASIC_INFO_COUNT;

    if (task_info(mach_task_self(), MACH_TASK_BASIC_INFO, (task_info_t)&info, &n) != KERN_SUCCESS)
        return 0;
    return info.resident_size;
#elif defined(__linux__)
    /* pages: the whole, then the resident part */
    FILE *f = fopen("/proc/self/statm", "re");
    uint64_t pages = 0;
    long size = sysconf(_SC_PAGESIZE);

    if (!f)
        return 0;
    if (fscanf(f, "%*u %" SCNu64, &pages) != 1)
        pages = 0;
    (void)fclose(f);
    return size > 0 ? pages * (uint64_t)size : 0;
#else
    return 0;
#endif
}

uint64_t wn_total_memory(void)
{
#if defined(_SC_PHYS_PAGES) && defined(_SC_PAGESIZE)
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

    if (pages > 0 && size > 0)
        return (uint64_t)pages * (uint64_t)size;
#endif
    return 0;
}

void wn_memory_give_back(void)
{
#if defined(__GLIBC__)
    (void)malloc_trim(0);
#endif
}
