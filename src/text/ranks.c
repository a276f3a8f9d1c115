/* See ranks.h. */
#include "text/ranks.h"
#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>

#define LOOKS_MAX 8 /* for each slot there is; chance gives one or two for each token */

bool wn_ranks_init(struct wn_ranks *r, const struct wn_bytes *tokens, size_t n, struct wn_err *err)
{
    size_t slots = 16;

    *r = (struct wn_ranks){.tokens = tokens};
    while (slots < 2 * n)
        slots *= 2;
    r->slots = wn_alloc(slots, sizeof *r->slots, err);
    if (!r->slots)
        return false;
    r->mask = slots - 1;
    for (size_t i = 0; i < slots; i++)
        r->slots[i].rank = WN_NO_RANK;
    for (size_t i = 0; i < 256; i++)
        r->of_byte[i] = WN_NO_RANK;
    return true;
}

void wn_ranks_release(struct wn_ranks *r)
{
    free(r->slots);
    *r = (struct wn_ranks){0};
}

/* The slot that holds these bytes, or the free one where they would go. */
static struct wn_rank_slot *slot_of(const struct wn_ranks *r, struct wn_bytes token, uint32_t *tag)
{
    uint64_t hash = wn_bytes_hash(token);
    size_t i = (size_t)hash & r->mask;

    *tag = (uint32_t)(hash >> 32);
    while (r->slots[i].rank != WN_NO_RANK) {
        if (r->slots[i].tag == *tag && wn_bytes_equal(r->tokens[r->slots[i].rank], token))
            break;
        i = (i + 1) & r->mask;
    }
    return &r->slots[i];
}

uint32_t wn_ranks_add(struct wn_ranks *r, uint32_t rank)
{
    struct wn_bytes token = r->tokens[rank];
    uint32_t tag;
    struct wn_rank_slot *slot = slot_of(r, token, &tag);

    assert(token.n > 0);
    r->looks += (((size_t)(slot - r->slots) - (size_t)wn_bytes_hash(token)) & r->mask) + 1;
    if (slot->rank != WN_NO_RANK)
        return slot->rank;
    *slot = (struct wn_rank_slot){tag, rank};
    if (token.n > r->longest)
        r->longest = token.n;
    if (token.n == 1)
        r->of_byte[(unsigned char)token.at[0]] = rank;
    return WN_NO_RANK;
}

bool wn_ranks_are_crowded(const struct wn_ranks *r)
{
    return r->looks / LOOKS_MAX > r->mask;
}

uint32_t wn_ranks_find(const struct wn_ranks *r, struct wn_bytes token)
{
    uint32_t tag;

    if (token.n > r->longest)
        return WN_NO_RANK;
    return slot_of(r, token, &tag)->rank;
}
