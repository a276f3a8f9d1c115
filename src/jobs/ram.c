/* See ram.h. */
#include "jobs/ram.h"
#include "base/number.h"

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

static bool fail_walk(const struct wn_ram_walk *w, uint64_t peak, struct wn_err *err)
{
    char need[WN_SIZE_TEXT_BYTES], layer[WN_SIZE_TEXT_BYTES], allowed[WN_SIZE_TEXT_BYTES];

    return wn_fail(err, WN_ERR_ARG, "%s needs at least %s of memory, %s for the largest layer, and %s are allowed",
                   w->what, wn_size_text(wn_ram_named(peak), need), wn_size_text(w->layer, layer),
                   wn_size_text(w->ram, allowed));
}

bool wn_ram_fit_walk(const struct wn_ram_walk *w, uint64_t *held, uint32_t *chunk, struct wn_err *err)
{
    uint32_t most = w->longest < WN_CHUNK_MOST ? w->longest : WN_CHUNK_MOST;

    *chunk = most;
    *held = w->activations;
    if (w->ram >= w->need(w->arg, most))
        return true;
    *held = 0;
    return wn_ram_chunk(w->ram, most, w->least, w->need, w->arg, chunk) || fail_walk(w, w->need(w->arg, *chunk), err);
}

uint64_t wn_ram_named(uint64_t need)
{
    return (need + NAMED_SLACK + NAMED_STEP - 1) / NAMED_STEP * NAMED_STEP;
}
