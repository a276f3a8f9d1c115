/* See clock.h. */
#include "sys/clock.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

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

uint64_t wn_total_memory(void)
{
#if defined(_SC_PHYS_PAGES) && defined(_SC_PAGESIZE)
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

    if (pages > 0 && size > 0)
        return (uint64_t)pages * (uint64_t)size;
#endif
    return 0;
}
