/*
 * The table from a token's bytes to its rank: open addressing, at most half full, each slot with 32 bits of the hash so
 * that a miss seldom touches the bytes. Read-only once filled; any number of threads may look.
 */
#ifndef WN_TEXT_RANKS_H
#define WN_TEXT_RANKS_H

#include "base/bytes.h"

#define WN_NO_RANK UINT32_MAX

struct wn_rank_slot {
    uint32_t tag, rank; /* rank WN_NO_RANK: the slot is free */
};

struct wn_ranks {
    struct wn_rank_slot *slots; /* owned; mask + 1 of them */
    size_t mask;
    size_t looks;                  /* at slots, by all the adds */
    const struct wn_bytes *tokens; /* borrowed; by rank */
    size_t longest;                /* bytes of the longest token */
    uint32_t of_byte[256];         /* WN_NO_RANK where a single byte is no token */
};

/* An empty table for up to n of tokens, which must outlive it. */
WN_CHECKED bool wn_ranks_init(struct wn_ranks *r, const struct wn_bytes *tokens, size_t n, struct wn_err *err);
void wn_ranks_release(struct wn_ranks *r);

/*
 * Puts tokens[rank], of at least one byte, into the table. Answers the rank that had these bytes before (and keeps
 * them), or WN_NO_RANK.
 */
uint32_t wn_ranks_add(struct wn_ranks *r, uint32_t rank);

/*
 * True when tokens collide so often that they must have been made to: filling the table would become quadratic, and
 * looking up slow. Ask after each add.
 */
bool wn_ranks_are_crowded(const struct wn_ranks *r);

/* The rank of these bytes, or WN_NO_RANK. */
uint32_t wn_ranks_find(const struct wn_ranks *r, struct wn_bytes token);

#endif
