/* See ram.h. */
#include "jobs/ram.h"

#define NAMED_SLACK ((uint64_t)4 << 20)
#define NAMED_STEP  ((uint64_t)1 << 20)

bool wn_ram_chunk(uint64_t ram, uint32_t most, uint32_t least, wn_ram_fn *need, void *arg, uint32_t *chunk)
{
    *chunk = most;
    while (need(arg, *chunk) > ram && ram) {
        if (*chunk <= least)
            return false;
        *chunk = *chunk / 2 > least ? *chunk / 2 : least;
    }
    return true;
}

uint64_t wn_ram_named(uint64_t need)
{
    return (need + NAMED_SLACK + NAMED_STEP - 1) / NAMED_STEP * NAMED_STEP;
}
