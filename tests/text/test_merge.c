/* Merging, and the table of ranks it asks. */
#include "golden.h"

#include "base/rng.h"
#include "text/merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TOKENS 700

/* 256 single bytes, then random joins of two earlier tokens: the shape of a trained vocabulary. */
struct toy {
    char bytes[TOKENS * 64];
    struct wn_bytes tokens[TOKENS];
    struct wn_ranks ranks;
    uint32_t n;
};

static bool toy_add(struct toy *t, const char *bytes, size_t n)
{
    size_t used = t->n ? (size_t)(t->tokens[t->n - 1].at - t->bytes) + t->tokens[t->n - 1].n : 0;

    memcpy(t->bytes + used, bytes, n);
    t->tokens[t->n] = (struct wn_bytes){t->bytes + used, n};
    if (wn_ranks_add(&t->ranks, t->n) != WN_NO_RANK)
        return false;
    t->n++;
    return true;
}

static void toy_init(struct toy *t, uint64_t seed)
{
    struct wn_rng rng = {seed};
    struct wn_err err;

    t->n = 0;
    CHECK_OK(wn_ranks_init(&t->ranks, t->tokens, TOKENS, &err), &err);
    for (unsigned b = 0; b < 256; b++)
        toy_add(t, &(char){(char)b}, 1);
    while (t->n < TOKENS) {
        /* few letters, so that many pairs overlap */
        bool letter = t->n == 256 || wn_rng_below(&rng, 2);
        struct wn_bytes a = t->tokens[letter ? 'a' + wn_rng_below(&rng, 3) : 256 + wn_rng_below(&rng, t->n - 256)];
        struct wn_bytes b = t->tokens['a' + wn_rng_below(&rng, 3)];
        char joined[64];

        if (a.n + b.n > 12)
            continue;
        memcpy(joined, a.at, a.n);
        memcpy(joined + a.n, b.at, b.n);
        toy_add(t, joined, a.n + b.n);
    }
}

/* The definition, word by word: look at all neighbours, join the lowest, start again. */
static size_t merge_slowly(const struct wn_ranks *r, struct wn_bytes piece, uint32_t *ids)
{
    size_t ends[512], n = piece.n;

    for (size_t i = 0; i < n; i++)
        ends[i] = i + 1;
    for (;;) {
        uint32_t best = WN_NO_RANK;
        size_t at = 0;

        for (size_t i = 0; i + 1 < n; i++) {
            size_t start = i ? ends[i - 1] : 0;
            uint32_t rank = wn_ranks_find(r, (struct wn_bytes){piece.at + start, ends[i + 1] - start});

            if (rank < best)
                best = rank, at = i;
        }
        if (best == WN_NO_RANK)
            break;
        memmove(ends + at, ends + at + 1, (--n - at) * sizeof *ends);
    }
    for (size_t i = 0, start = 0; i < n; start = ends[i++])
        ids[i] = wn_ranks_find(r, (struct wn_bytes){piece.at + start, ends[i] - start});
    return n;
}

static void merging_with_a_heap_is_merging_by_the_definition(void **state)
{
    struct toy *t = malloc(sizeof *t);
    struct wn_merge m = {0};
    struct wn_rng rng = {7};
    uint32_t fast[512], slow[512];
    char text[512];
    struct wn_err err;

    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        toy_init(t, seed);
        for (int round = 0; round < 200; round++) {
            struct wn_bytes piece = {text, 1 + wn_rng_below(&rng, 200)};
            uint32_t whole;
            size_t n, slow_n;

            for (size_t i = 0; i < piece.n; i++)
                text[i] = (char)('a' + wn_rng_below(&rng, round % 4 ? 3 : 1));
            CHECK_OK(wn_merge_piece(&m, &t->ranks, piece, fast, &n, &err), &err);
            whole = wn_ranks_find(&t->ranks, piece);
            slow_n = merge_slowly(&t->ranks, piece, slow);
            if (whole != WN_NO_RANK)
                slow[0] = whole, slow_n = 1;
            assert_int_equal(n, slow_n);
            assert_memory_equal(fast, slow, n * sizeof *fast);
        }
        wn_ranks_release(&t->ranks);
    }
    wn_merge_release(&m);
    free(t);
}

static void a_piece_that_is_a_token_is_that_token_even_if_merging_would_not_get_there(void **state)
{
    struct toy *t = malloc(sizeof *t);
    struct wn_merge m = {0};
    struct wn_err err;
    uint32_t ids[8];
    size_t n;

    (void)state;
    t->n = 0;
    CHECK_OK(wn_ranks_init(&t->ranks, t->tokens, TOKENS, &err), &err);
    for (unsigned b = 0; b < 256; b++)
        toy_add(t, &(char){(char)b}, 1);
    toy_add(t, "xyz", 3);
    CHECK_OK(wn_merge_piece(&m, &t->ranks, wn_bytes_of("xyz"), ids, &n, &err), &err);
    assert_int_equal(n, 1);
    assert_int_equal(ids[0], 256);
    CHECK_OK(wn_merge_piece(&m, &t->ranks, wn_bytes_of("xyza"), ids, &n, &err), &err);
    assert_int_equal(n, 4);
    wn_merge_release(&m);
    wn_ranks_release(&t->ranks);
    free(t);
}

static void a_long_piece_merges_in_almost_linear_time(void **state)
{
    struct toy *t = malloc(sizeof *t);
    struct wn_merge m = {0};
    struct wn_rng rng = {3};
    struct wn_bytes piece = {malloc(1 << 18), 1 << 18};
    uint32_t *ids = malloc(piece.n * sizeof *ids);
    clock_t start;
    struct wn_err err;
    size_t n;

    (void)state;
    toy_init(t, 1);
    for (size_t i = 0; i < piece.n; i++)
        ((char *)piece.at)[i] = (char)('a' + wn_rng_below(&rng, 3));
    start = clock();
    CHECK_OK(wn_merge_piece(&m, &t->ranks, piece, ids, &n, &err), &err);
    /* a fraction of a second; by the definition it would be many minutes */
    assert_true(clock() - start < 20 * CLOCKS_PER_SEC);
    assert_true(n < piece.n);
    free(ids);
    free((char *)piece.at);
    wn_merge_release(&m);
    wn_ranks_release(&t->ranks);
    free(t);
}

static void a_token_that_comes_twice_keeps_its_first_rank(void **state)
{
    struct wn_bytes tokens[3] = {wn_bytes_of("a"), wn_bytes_of("ab"), wn_bytes_of("a")};
    struct wn_ranks r;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_ranks_init(&r, tokens, 3, &err), &err);
    assert_int_equal(wn_ranks_add(&r, 0), WN_NO_RANK);
    assert_int_equal(wn_ranks_add(&r, 1), WN_NO_RANK);
    assert_int_equal(wn_ranks_add(&r, 2), 0);
    assert_int_equal(wn_ranks_find(&r, wn_bytes_of("a")), 0);
    assert_int_equal(wn_ranks_find(&r, wn_bytes_of("ab")), 1);
    assert_int_equal(wn_ranks_find(&r, wn_bytes_of("b")), WN_NO_RANK);
    assert_int_equal(wn_ranks_find(&r, wn_bytes_of("abc")), WN_NO_RANK);
    wn_ranks_release(&r);
}

static void tokens_made_to_collide_are_noticed_and_honest_ones_are_not(void **state)
{
    enum { N = 1000 };
    static char text[N + 1][12];
    struct wn_bytes tokens[N];

    (void)state;
    for (int made = 0; made <= 1; made++) {
        struct wn_ranks r;
        struct wn_err err;
        uint32_t n = 0;

        CHECK_OK(wn_ranks_init(&r, tokens, N, &err), &err);
        for (unsigned i = 0; n < N; i++) {
            snprintf(text[n], sizeof text[n], "%u", i);
            tokens[n] = wn_bytes_of(text[n]);
            n += !made || (wn_bytes_hash(tokens[n]) & r.mask) == 1;
        }
        for (n = 0; n < N && !wn_ranks_are_crowded(&r); n++)
            assert_int_equal(wn_ranks_add(&r, n), WN_NO_RANK);
        assert_true(made ? n < N / 2 : n == N);
        wn_ranks_release(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merging_with_a_heap_is_merging_by_the_definition),
        cmocka_unit_test(a_piece_that_is_a_token_is_that_token_even_if_merging_would_not_get_there),
        cmocka_unit_test(a_long_piece_merges_in_almost_linear_time),
        cmocka_unit_test(a_token_that_comes_twice_keeps_its_first_rank),
        cmocka_unit_test(tokens_made_to_collide_are_noticed_and_honest_ones_are_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
