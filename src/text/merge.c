/* See merge.h. */
#include "text/merge.h"
#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>

void wn_merge_release(struct wn_merge *m)
{
    free(m->parts);
    free(m->heap);
    *m = (struct wn_merge){0};
}

static bool reserve(struct wn_merge *m, size_t n, struct wn_err *err)
{
    size_t room = m->room ? m->room : 64;
    struct wn_merge_part *parts;
    struct wn_join *heap;

    if (n <= m->room)
        return true;
    while (room < n)
        room *= 2;
    parts = wn_realloc(m->parts, room, sizeof *parts, err);
    if (!parts)
        return false;
    m->parts = parts;
    heap = wn_realloc(m->heap, room, 3 * sizeof *heap, err);
    if (!heap)
        return false;
    m->heap = heap;
    m->room = room;
    return true;
}

static void heap_push(struct wn_merge *m, struct wn_join join)
{
    size_t i = m->heap_n++;

    for (; i > 0 && m->heap[(i - 1) / 2].key > join.key; i = (i - 1) / 2)
        m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = join;
}

static struct wn_join heap_pop(struct wn_merge *m)
{
    struct wn_join top = m->heap[0], last = m->heap[--m->heap_n];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;

        if (child + 1 < m->heap_n && m->heap[child + 1].key < m->heap[child].key)
            child++;
        if (child >= m->heap_n || m->heap[child].key >= last.key)
            break;
        m->heap[i] = m->heap[child];
        i = child;
    }
    m->heap[i] = last;
    return top;
}

/* Notes the pair whose left part starts at `at`, if there is one and it makes a token. */
static void offer(struct wn_merge *m, const struct wn_ranks *r, struct wn_bytes piece, uint32_t at)
{
    uint32_t right = m->parts[at].next, end, rank;

    if (right >= piece.n)
        return;
    end = m->parts[right].next;
    rank = wn_ranks_find(r, (struct wn_bytes){piece.at + at, end - at});
    if (rank < m->below)
        heap_push(m, (struct wn_join){(uint64_t)rank << 32 | at, end});
}

/*
 * Whether a noted pair still stands. Its parts may have been joined with others since; when two parts again cover just
 * these bytes, the pair is as good as the one noted for them, having the same rank.
 */
static bool stands(const struct wn_merge *m, size_t n, struct wn_join join)
{
    const struct wn_merge_part *left = &m->parts[(uint32_t)join.key];

    return left->next != 0 && left->next < n && m->parts[left->next].next == join.end;
}

static void split_to_bytes(struct wn_merge *m, const struct wn_ranks *r, struct wn_bytes piece)
{
    for (size_t i = 0; i < piece.n; i++)
        m->parts[i] = (struct wn_merge_part){
            .next = (uint32_t)i + 1, .prev = (uint32_t)(i ? i - 1 : 0), .rank = r->of_byte[(unsigned char)piece.at[i]]};
    m->heap_n = 0;
    for (size_t i = 0; i + 1 < piece.n; i++)
        offer(m, r, piece, (uint32_t)i);
}

static void join_parts(struct wn_merge *m, const struct wn_ranks *r, struct wn_bytes piece, struct wn_join join)
{
    uint32_t at = (uint32_t)join.key;
    struct wn_merge_part *left = &m->parts[at], *right = &m->parts[left->next];

    left->next = join.end;
    left->rank = (uint32_t)(join.key >> 32);
    right->next = 0;
    if (join.end < piece.n)
        m->parts[join.end].prev = at;
    offer(m, r, piece, at);
    if (at > 0)
        offer(m, r, piece, left->prev);
}

/* Joins what can be; parts[0] is the first of what is left. */
static bool join_all(struct wn_merge *m, const struct wn_ranks *r, struct wn_bytes piece, uint32_t below,
                     struct wn_err *err)
{
    if (!reserve(m, piece.n, err))
        return false;
    m->below = below;
    split_to_bytes(m, r, piece);
    while (m->heap_n > 0) {
        struct wn_join join = heap_pop(m);

        if (stands(m, piece.n, join))
            join_parts(m, r, piece, join);
    }
    return true;
}

bool wn_merge_halves(struct wn_merge *m, const struct wn_ranks *r, uint32_t rank, size_t *left, struct wn_err *err)
{
    struct wn_bytes token = r->tokens[rank];
    uint32_t second;

    *left = 0;
    if (token.n < 2)
        return true;
    if (!join_all(m, r, token, rank, err))
        return false;
    second = m->parts[0].next;
    if (second < token.n && m->parts[second].next == token.n)
        *left = second;
    return true;
}

bool wn_merge_piece(struct wn_merge *m, const struct wn_ranks *r, struct wn_bytes piece, uint32_t *ids, size_t *n,
                    struct wn_err *err)
{
    uint32_t whole = wn_ranks_find(r, piece);

    assert(piece.n > 0 && piece.n <= UINT32_MAX / 4);
    *n = 0;
    if (whole != WN_NO_RANK) {
        ids[(*n)++] = whole;
        return true;
    }
    if (!join_all(m, r, piece, WN_NO_RANK, err))
        return false;
    for (size_t at = 0; at < piece.n; at = m->parts[at].next)
        ids[(*n)++] = m->parts[at].rank;
    return true;
}
