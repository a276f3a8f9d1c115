/*
 * Physical cores, from the lists of hardware threads that Linux keeps for every processor: the first number of a list
 * ("0,64" or "0-1") names the core.
 */
#include "sys/cpu.h"

#include <stdio.h>
#if defined(__linux__)
#include <sched.h>
#endif

#define PROCESSORS 1024 /* of a cpu_set_t */

/* The first hardware thread of the processor's core; false when the system does not tell. */
static bool read_leader(const char *folder, unsigned processor, unsigned *leader)
{
    char path[512];
    FILE *f;
    bool ok;

    if ((size_t)snprintf(path, sizeof path, "%s/cpu%u/topology/thread_siblings_list", folder, processor) >= sizeof path)
        return false;
    f = fopen(path, "r");
    if (!f)
        return false;
    ok = fscanf(f, "%4u", leader) == 1 && *leader < PROCESSORS;
    (void)fclose(f);
    return ok;
}

unsigned wn_cpu_cores_in(const char *folder, const bool *may_run, unsigned n)
{
    bool seen[PROCESSORS] = {false};
    unsigned cores = 0, leader;

    for (unsigned i = 0; i < n; i++) {
        if (!may_run[i])
            continue;
        if (!read_leader(folder, i, &leader))
            return 0;
        cores += !seen[leader];
        seen[leader] = true;
    }
    return cores;
}

unsigned wn_cpu_core_count(void)
{
#if defined(__linux__)
    bool may_run[PROCESSORS] = {false};
    unsigned cores;
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        for (unsigned i = 0; i < PROCESSORS && i < CPU_SETSIZE; i++)
            may_run[i] = CPU_ISSET(i, &set) != 0;
        cores = wn_cpu_cores_in("/sys/devices/system/cpu", may_run, PROCESSORS);
        if (cores)
            return cores;
    }
#endif
    return wn_cpu_count();
}
