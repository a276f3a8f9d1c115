/*
 * The vocabulary itself: made from tokens in memory, asked by id or name, and used to encode and decode.
 *
 * Encoding is a chain of narrower and narrower views of the caller's text: cuts -> (special tokens and what lies
 * between) -> pieces -> merging. Each call has its own scratch, so that the vocabulary stays read-only.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "base/utf8.h"
#include "text/merge.h"
#include "text/specials.h"
#include "text/split.h"
#include "text/vocab_new.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define RESERVED_ROOM 40 /* "<|reserved_token_4294967295|>" and its NUL */

struct wn_vocab {
    struct wn_bytes *tokens; /* owned; [count], each pointing into bytes */
    bool *special;           /* owned; [count] */
    char *bytes;             /* owned */
    uint32_t count;
    struct wn_ranks ranks;
    struct wn_specials specials;
    struct wn_pattern *pattern; /* owned */
};

void wn_vocab_free(struct wn_vocab *v)
{
    if (!v)
        return;
    free(v->tokens);
    free(v->special);
    free(v->bytes);
    wn_ranks_release(&v->ranks);
    wn_specials_release(&v->specials);
    wn_pattern_free(v->pattern);
    free(v);
}

static bool bytes_needed(const struct wn_bytes *tokens, const enum wn_token_kind *kinds, uint32_t n, size_t *bytes)
{
    uint64_t sum = 1;

    for (uint32_t i = 0; i < n; i++)
        if (!wn_add_u64(sum, kinds[i] == WN_TOKEN_UNUSED ? RESERVED_ROOM : tokens[i].n, &sum))
            return false;
    *bytes = (size_t)sum;
    return *bytes == sum;
}

/* Copies one token to `to` and gives unused ids the name that the vendor's tokenizer makes up for them. */
static struct wn_bytes token_copy(char *to, struct wn_bytes token, enum wn_token_kind kind, uint32_t id)
{
    if (kind == WN_TOKEN_UNUSED)
        return (struct wn_bytes){to, (size_t)snprintf(to, RESERVED_ROOM, "<|reserved_token_%" PRIu32 "|>", id)};
    if (token.n)
        memcpy(to, token.at, token.n);
    return (struct wn_bytes){to, token.n};
}

static bool tokens_copy(struct wn_vocab *v, const struct wn_bytes *tokens, const enum wn_token_kind *kinds,
                        struct wn_err *err)
{
    size_t bytes, used = 0;

    if (!bytes_needed(tokens, kinds, v->count, &bytes))
        return wn_fail(err, WN_ERR_NOMEM, "the tokens do not fit in memory");
    v->tokens = wn_alloc(v->count, sizeof *v->tokens, err);
    v->special = v->tokens ? wn_alloc(v->count, sizeof *v->special, err) : NULL;
    v->bytes = v->special ? wn_alloc(bytes, 1, err) : NULL;
    if (!v->bytes)
        return false;
    for (uint32_t i = 0; i < v->count; i++) {
        v->tokens[i] = token_copy(v->bytes + used, tokens[i], kinds[i], i);
        v->special[i] = kinds[i] != WN_TOKEN_NORMAL;
        used += v->tokens[i].n;
        if (v->tokens[i].n == 0)
            return wn_fail(err, WN_ERR_FORMAT, "id %" PRIu32 " is a token of no bytes", i);
    }
    return true;
}

static bool ranks_fill(struct wn_vocab *v, struct wn_err *err)
{
    if (!wn_ranks_init(&v->ranks, v->tokens, v->count, err))
        return false;
    for (uint32_t i = 0; i < v->count; i++) {
        uint32_t before = v->special[i] ? WN_NO_RANK : wn_ranks_add(&v->ranks, i);

        if (before != WN_NO_RANK)
            return wn_fail(err, WN_ERR_FORMAT, "ids %" PRIu32 " and %" PRIu32 " are the same token", before, i);
        if (wn_ranks_are_crowded(&v->ranks))
            return wn_fail(err, WN_ERR_FORMAT, "the tokens are made to collide in a hash table");
    }
    for (unsigned byte = 0; byte < 256; byte++)
        if (v->ranks.of_byte[byte] == WN_NO_RANK)
            return wn_fail(err, WN_ERR_FORMAT, "no id for the single byte %02x; each of the 256 needs one", byte);
    return true;
}

/* Names must be valid UTF-8: a text taken apart at them then never falls apart within a character. */
static bool specials_fill(struct wn_vocab *v, struct wn_err *err)
{
    size_t n = 0;

    for (uint32_t i = 0; i < v->count; i++)
        n += v->special[i];
    if (!wn_specials_init(&v->specials, n, err))
        return false;
    for (uint32_t i = 0; i < v->count; i++) {
        if (!v->special[i])
            continue;
        if (!wn_utf8_is_valid(v->tokens[i].at, v->tokens[i].n))
            return wn_fail(err, WN_ERR_FORMAT, "the name of special token %" PRIu32 " is not UTF-8", i);
        wn_specials_add(&v->specials, v->tokens[i], i);
    }
    return wn_specials_sort(&v->specials, err);
}

struct wn_vocab *wn_vocab_new(const struct wn_bytes *tokens, const enum wn_token_kind *kinds, uint32_t n,
                              struct wn_err *err)
{
    struct wn_vocab *v = wn_alloc(1, sizeof *v, err);

    if (!v)
        return NULL;
    v->count = n;
    if (tokens_copy(v, tokens, kinds, err) && ranks_fill(v, err) && specials_fill(v, err)) {
        v->pattern = wn_pattern_new(true, err);
        if (v->pattern)
            return v;
    }
    wn_vocab_free(v);
    return NULL;
}

uint32_t wn_vocab_count(const struct wn_vocab *v)
{
    return v->count;
}

const char *wn_vocab_token(const struct wn_vocab *v, uint32_t id, size_t *n)
{
    *n = id < v->count ? v->tokens[id].n : 0;
    return id < v->count ? v->tokens[id].at : NULL;
}

bool wn_vocab_is_special(const struct wn_vocab *v, uint32_t id)
{
    return id < v->count && v->special[id];
}

bool wn_vocab_special(const struct wn_vocab *v, const char *name, uint32_t *id)
{
    const struct wn_special *found = wn_specials_find(&v->specials, wn_bytes_of(name));

    if (found)
        *id = found->id;
    return found != NULL;
}

/* One call of wn_vocab_encode. */
struct encoder {
    const struct wn_vocab *v;
    struct wn_split split;
    struct wn_merge merge;
    uint32_t *ids; /* the result as it grows */
    size_t n, room;
};

static bool ids_reserve(struct encoder *e, size_t more, struct wn_err *err)
{
    size_t room = e->room ? e->room : 64;
    uint32_t *ids;

    if (more <= e->room - e->n)
        return true;
    while (room - e->n < more)
        room *= 2;
    ids = wn_realloc(e->ids, room, sizeof *ids, err);
    if (!ids)
        return false;
    e->ids = ids;
    e->room = room;
    return true;
}

/*
 * A stretch of text without special tokens. masked is the same stretch as the pattern may see it (split.h); the bytes
 * that are merged come from raw.
 */
static bool encode_ordinary(struct encoder *e, const char *raw, struct wn_bytes masked, struct wn_err *err)
{
    while (masked.n > 0) {
        size_t piece = wn_split_piece(&e->split, masked, err), n;

        if (piece == 0 || !ids_reserve(e, piece, err) ||
            !wn_merge_piece(&e->merge, &e->v->ranks, (struct wn_bytes){raw, piece}, e->ids + e->n, &n, err))
            return false;
        e->n += n;
        raw += piece;
        masked.at += piece;
        masked.n -= piece;
    }
    return true;
}

/* The same, special tokens being taken for what they are. */
static bool encode_special(struct encoder *e, const char *raw, struct wn_bytes masked, struct wn_err *err)
{
    while (masked.n > 0) {
        size_t at;
        const struct wn_special *found = wn_specials_search(&e->v->specials, (struct wn_bytes){raw, masked.n}, &at);

        if (!encode_ordinary(e, raw, (struct wn_bytes){masked.at, at}, err))
            return false;
        if (found && !ids_reserve(e, 1, err))
            return false;
        if (found) {
            e->ids[e->n++] = found->id;
            at += found->name.n;
        }
        raw += at;
        masked.at += at;
        masked.n -= at;
    }
    return true;
}

/* raw and masked: the whole text. Cuts come first, even where they divide a special token's name: so does Kimi's. */
static bool encode_text(struct encoder *e, const char *raw, struct wn_bytes masked, bool special, struct wn_err *err)
{
    struct wn_cuts cuts = wn_cuts_of(masked);
    struct wn_bytes part;

    while (wn_cuts_next(&cuts, &part)) {
        const char *raw_part = raw + (part.at - masked.at);

        if (!(special ? encode_special : encode_ordinary)(e, raw_part, part, err))
            return false;
    }
    return true;
}

bool wn_vocab_encode(const struct wn_vocab *v, const char *text, size_t n, bool special, uint32_t **ids, size_t *count,
                     struct wn_err *err)
{
    struct encoder e = {.v = v};
    char *masked = NULL;
    bool ok = false;

    if (!wn_split_init(&e.split, v->pattern, err))
        return false;
    if (!ids_reserve(&e, 1, err) || !wn_split_mask((struct wn_bytes){text, n}, &masked, err))
        goto done;
    ok = encode_text(&e, text, (struct wn_bytes){masked ? masked : text, n}, special, err);
done:
    wn_split_release(&e.split);
    wn_merge_release(&e.merge);
    free(masked);
    if (!ok) {
        free(e.ids);
        return false;
    }
    *ids = e.ids;
    *count = e.n;
    return true;
}

char *wn_vocab_decode(const struct wn_vocab *v, const uint32_t *ids, size_t count, size_t *n, struct wn_err *err)
{
    uint64_t bytes = 0;
    char *out;

    for (size_t i = 0; i < count; i++) {
        if (ids[i] >= v->count) {
            wn_fail(err, WN_ERR_ARG, "id %" PRIu32 " at position %zu: the vocabulary has ids 0..%" PRIu32, ids[i], i,
                    v->count - 1);
            return NULL;
        }
        if (!wn_add_u64(bytes, v->tokens[ids[i]].n, &bytes) || bytes >= SIZE_MAX) {
            wn_fail(err, WN_ERR_NOMEM, "the text of %zu ids does not fit in memory", count);
            return NULL;
        }
    }
    out = wn_alloc((size_t)bytes + 1, 1, err);
    if (!out)
        return NULL;
    *n = 0;
    for (size_t i = 0; i < count; i++) {
        struct wn_bytes token = v->tokens[ids[i]];

        memcpy(out + *n, token.at, token.n);
        *n += token.n;
    }
    return out;
}

bool wn_vocab_merge_of(const struct wn_vocab *v, struct wn_merge *m, uint32_t id, size_t *left, struct wn_err *err)
{
    assert(id < v->count);
    *left = 0;
    return v->special[id] || wn_merge_halves(m, &v->ranks, id, left, err);
}
