/* See arena.h. */
#include "base/arena.h"
#include "base/alloc.h"
#include "base/checked.h"

#include <assert.h>
#include <inttypes.h>

bool wn_arena_init(struct wn_arena *a, uint64_t bytes, struct wn_err *err)
{
    *a = (struct wn_arena){0};
    if (bytes > PTRDIFF_MAX - 63)
        return wn_fail(err, WN_ERR_NOMEM, "%" PRIu64 " bytes of scratch are more than a process can have", bytes);
    a->size = wn_arena_need((size_t)bytes);
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

void *wn_room_take(struct wn_room *r, uint64_t n, uint64_t each, size_t size)
{
    uint64_t bytes = wn_mul_capped(wn_mul_capped(n, each), size), need;

    if (!wn_align_u64(bytes, 64, &need))
        need = UINT64_MAX;
    r->bytes = wn_add_capped(r->bytes, need);
    return r->arena ? wn_arena_take(r->arena, (size_t)bytes) : NULL;
}
