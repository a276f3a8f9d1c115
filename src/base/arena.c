/* See arena.h. */
#include "base/arena.h"
#include "base/alloc.h"

#include <assert.h>

bool wn_arena_init(struct wn_arena *a, size_t bytes, struct wn_err *err)
{
    *a = (struct wn_arena){.size = wn_arena_need(bytes)};
    a->at = wn_alloc_aligned(a->size, err);
    return a->at != NULL;
}

void wn_arena_release(struct wn_arena *a)
{
    wn_free_aligned(a->at);
    *a = (struct wn_arena){0};
}

void *wn_arena_take(struct wn_arena *a, size_t bytes)
{
    size_t need = wn_arena_need(bytes);
    void *p = a->at + a->used;

    assert(need <= a->size - a->used);
    a->used += need;
    if (a->used > a->peak)
        a->peak = a->used;
    return p;
}

void wn_arena_rewind(struct wn_arena *a, size_t mark)
{
    assert(mark <= a->used);
    a->used = mark;
}
