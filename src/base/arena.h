/*
 * Scratch memory in the shape of a stack: the caller sizes it once, functions take from it, and whoever set a mark
 * rewinds to it. Nobody frees out of it and nothing is allocated while a token is computed.
 *
 * The size is a plan: a session adds up what its deepest path takes (wn_arena_need) before it makes the arena. Taking
 * more than that is a mistake of the program, an assertion. One arena belongs to one thread at a time.
 */
#ifndef WN_BASE_ARENA_H
#define WN_BASE_ARENA_H

#include <winnow/error.h>

struct wn_arena {
    char *at; /* owned; 64-byte aligned */
    size_t used, size, peak;
};

WN_CHECKED bool wn_arena_init(struct wn_arena *a, uint64_t bytes, struct wn_err *err);
void wn_arena_release(struct wn_arena *a);

/* What one take of `bytes` costs, with its alignment. */
static inline size_t wn_arena_need(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* 64-byte aligned, not cleared, never NULL. */
void *wn_arena_take(struct wn_arena *a, size_t bytes);

static inline float *wn_arena_f32(struct wn_arena *a, size_t n)
{
    return wn_arena_take(a, n * sizeof(float));
}

static inline size_t wn_arena_mark(const struct wn_arena *a)
{
    return a->used;
}

void wn_arena_rewind(struct wn_arena *a, size_t mark);

/*
 * What a function that lays out buffers takes from: an arena, or nothing, when it only adds up what it would take. It
 * runs once without an arena and once with it, so that the announced and the taken size cannot differ.
 */
struct wn_room {
    struct wn_arena *arena; /* NULL: all pointers handed out are NULL */
    uint64_t bytes;         /* UINT64_MAX: more than 64 bits count */
};

/* n x each objects of `size` bytes. */
void *wn_room_take(struct wn_room *r, uint64_t n, uint64_t each, size_t size);

static inline float *wn_room_f32(struct wn_room *r, uint64_t n, uint64_t each)
{
    return wn_room_take(r, n, each, sizeof(float));
}

#endif
