/*
 * Byte-pair merging of one piece: start from single bytes; among neighbours whose joined bytes are a token, join those
 * of the lowest rank, leftmost on ties; until none is left. With a heap, so that n bytes take O(n log n) steps: pieces
 * of 25,000 characters are ordinary input.
 */
#ifndef WN_TEXT_MERGE_H
#define WN_TEXT_MERGE_H

#include "text/ranks.h"

/* A part is named by the offset of its first byte. */
struct wn_merge_part {
    uint32_t next; /* where it ends and the next one starts; 0: joined to the one before */
    uint32_t prev; /* where the one before it starts */
    uint32_t rank;
};

/* Two neighbours that may be joined: the lower key goes first. */
struct wn_join {
    uint64_t key; /* rank of the joined bytes << 32 | offset of the first byte */
    uint32_t end; /* offset behind the last byte */
};

/* Scratch of one thread, kept from piece to piece. All zero is ready to use. */
struct wn_merge {
    struct wn_merge_part *parts; /* owned */
    struct wn_join *heap;        /* owned; 3 * room of them: n - 1 at the start, then two per join */
    size_t room, heap_n;
    uint32_t below; /* neighbours whose joined rank is not below this are left apart */
};

void wn_merge_release(struct wn_merge *m);

/*
 * The ranks of one piece of 1 .. UINT32_MAX / 4 bytes.
 *
 *   ids   room for piece.n ranks (each covers a byte at least); *n are written
 *
 * r must know all 256 single bytes. Fails only for want of memory.
 */
WN_CHECKED bool wn_merge_piece(struct wn_merge *m, const struct wn_ranks *r, struct wn_bytes piece, uint32_t *ids,
                               size_t *n, struct wn_err *err);

/*
 * The two parts that token `rank` is joined from, by ranks below its own: the first has *left bytes. *left is 0 where
 * it is not two that are left (a single byte; a token that merging never makes).
 */
WN_CHECKED bool wn_merge_halves(struct wn_merge *m, const struct wn_ranks *r, uint32_t rank, size_t *left,
                                struct wn_err *err);

#endif
