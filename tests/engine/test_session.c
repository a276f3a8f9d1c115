/*
 * Sessions as timelines: what went wrong for others with recurrent state (reuse, rollback, shared slots, trimming) must
 * not here; and memory is what was announced.
 */
#include "golden.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/rng.h"
#include "formats/source.h"
#include "sys/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* tiny-a, its longest prompt, and the logits of a cold run over it. */
struct fixture {
    struct loaded l;
    struct wn_source *ref;
    const uint32_t *ids;
    size_t n, vocab;
    float *cold;
};

static int setup(void **state)
{
    static struct fixture f;

    f.l = golden_load("golden/text/tiny-a/hf");
    f.ref = golden_ref("golden/text/tiny-a/ref/prompts.safetensors");
    f.ids = golden_ids(f.ref, "p300", &f.n);
    f.n = 120;
    f.vocab = f.l.config->vocab_size;
    f.cold = golden_logits(f.l.weights, (struct how){0}, f.ids, f.n);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    free(f->cold);
    wn_source_close(f->ref);
    golden_unload(&f->l);
    return 0;
}

static void feed(struct wn_session *s, const uint32_t *ids, size_t n)
{
    struct wn_err err;

    CHECK_OK(wn_session_feed(s, ids, n, NULL, NULL, &err), &err);
}

/* The session's logits are those of the cold run after `n` tokens. */
static void expect_cold(const struct fixture *f, const struct wn_session *s, size_t n)
{
    assert_int_equal(wn_session_position(s), n);
    assert_memory_equal(wn_session_logits(s), f->cold + (n - 1) * f->vocab, f->vocab * sizeof *f->cold);
}

static struct wn_checkpoint *save(const struct wn_session *s)
{
    struct wn_err err;
    struct wn_checkpoint *c = wn_session_save(s, &err);

    CHECK_OK(c, &err);
    return c;
}

static void reuse_of_a_checkpoint_and_the_rest_equals_a_cold_run(void **state)
{
    const struct fixture *f = *state;
    struct wn_session *first = golden_session(f->l.weights, (struct how){0}), *second;
    struct wn_checkpoint *c;
    struct wn_err err;

    feed(first, f->ids, 70);
    c = save(first);
    wn_session_free(first); /* a checkpoint stands for itself */
    second = golden_session(f->l.weights, (struct how){.chunk = 20});
    CHECK_OK(wn_session_restore(second, c, &err), &err);
    expect_cold(f, second, 70);
    feed(second, f->ids + 70, f->n - 70);
    expect_cold(f, second, f->n);
    wn_checkpoint_free(c);
    wn_session_free(second);
}

static void a_turn_that_shares_a_prefix_computes_only_the_new_tokens(void **state)
{
    const struct fixture *f = *state;
    struct wn_session *s = golden_session(f->l.weights, (struct how){0});
    struct wn_checkpoint *c;
    struct wn_err err;

    feed(s, f->ids, 100);
    c = save(s);
    feed(s, f->ids + 1, 15); /* some other end of the conversation */
    CHECK_OK(wn_session_restore(s, c, &err), &err);
    assert_int_equal(wn_checkpoint_position(c), 100);
    feed(s, f->ids + 100, f->n - 100);
    expect_cold(f, s, f->n); /* 20 tokens were computed, 120 are accounted for */
    wn_checkpoint_free(c);
    wn_session_free(s);
}

static void going_back_one_to_n_tokens_equals_never_having_gone_there(void **state)
{
    const struct fixture *f = *state;
    struct wn_session *s = golden_session(f->l.weights, (struct how){0});
    struct wn_rng rng = {99};
    struct wn_err err;

    for (size_t at = 0; at < f->n;) {
        size_t step = wn_min_size(1 + (size_t)wn_rng_below(&rng, 20), f->n - at);
        struct wn_checkpoint *c = save(s);

        feed(s, f->ids + wn_rng_below(&rng, 100), 1 + (size_t)wn_rng_below(&rng, 30)); /* a wrong turn */
        CHECK_OK(wn_session_restore(s, c, &err), &err);
        assert_int_equal(wn_session_position(s), at);
        wn_checkpoint_free(c);
        feed(s, f->ids + at, step);
        at += step;
        expect_cold(f, s, at);
    }
    wn_session_free(s);
}

static void a_checkpoint_that_lacks_one_layers_state_would_be_noticed(void **state)
{
    const struct fixture *f = *state;

    for (uint32_t layer = 0; layer < f->l.config->layer_count; layer++) {
        struct wn_session *s = golden_session(f->l.weights, (struct how){0});
        struct wn_layer_state *lost = &s->state.layers[layer];
        size_t wide = f->l.config->kda_heads * f->l.config->kda_head_dim;

        feed(s, f->ids, 30);
        if (lost->kda)
            memset(lost->kda, 0, wide * f->l.config->kda_head_dim * sizeof(float));
        else
            memset(lost->cache, 0, 30 * s->state.row_floats * sizeof(float));
        feed(s, f->ids + 30, 1);
        assert_memory_not_equal(wn_session_logits(s), f->cold + 30 * f->vocab, f->vocab * sizeof *f->cold);
        wn_session_free(s);
    }
}

static void two_interleaved_sessions_equal_two_separate_runs(void **state)
{
    const struct fixture *f = *state;
    struct wn_session *a = golden_session(f->l.weights, (struct how){.threads = 2}),
                      *b = golden_session(f->l.weights, (struct how){.threads = 2});
    const uint32_t *other = f->ids + 57;
    float *alone = golden_logits(f->l.weights, (struct how){0}, other, 40);

    for (size_t i = 0; i < 40; i++) {
        feed(a, f->ids + i, 1);
        feed(b, other + i, 1);
        expect_cold(f, a, i + 1);
        assert_memory_equal(wn_session_logits(b), alone + i * f->vocab, f->vocab * sizeof *alone);
    }
    free(alone);
    wn_session_free(a);
    wn_session_free(b);
}

static void a_reset_session_is_a_new_one(void **state)
{
    const struct fixture *f = *state;
    struct wn_session *s = golden_session(f->l.weights, (struct how){0});

    feed(s, f->ids + 11, 60);
    wn_session_reset(s);
    assert_int_equal(wn_session_position(s), 0);
    assert_null(wn_session_logits(s));
    feed(s, f->ids, 50);
    expect_cold(f, s, 50);
    wn_session_free(s);
}

static void a_checkpoint_of_other_weights_or_too_many_tokens_is_refused(void **state)
{
    const struct fixture *f = *state;
    struct loaded again = golden_load("golden/text/tiny-a/hf");
    struct wn_session *s = golden_session(f->l.weights, (struct how){0}), *other, *narrow;
    struct wn_session_options o = {.context = 20};
    struct wn_checkpoint *c;
    struct wn_err err;

    other = golden_session(again.weights, (struct how){0});
    narrow = wn_session_new_with(f->l.weights, golden_pool(1), s->ctx.kernels, &o, &err);
    CHECK_OK(narrow, &err);
    feed(s, f->ids, 30);
    c = save(s);
    CHECK_FAILS(wn_session_restore(other, c, &err), &err, "other weights");
    CHECK_FAILS(wn_session_restore(narrow, c, &err), &err, "position 30 does not fit a context of 20");
    wn_checkpoint_free(c);
    wn_session_free(s);
    wn_session_free(other);
    wn_session_free(narrow);
    golden_unload(&again);
}

static void what_does_not_fit_is_refused_before_anything_is_appended(void **state)
{
    const struct fixture *f = *state;
    struct wn_session_options o = {.context = 50, .chunk = 8};
    struct wn_err err;
    struct wn_session *s = wn_session_new_with(f->l.weights, golden_pool(1), wn_kernels_get(&err), &o, &err);
    uint32_t bad[12];

    CHECK_OK(s, &err);
    feed(s, f->ids, 40);
    CHECK_FAILS(wn_session_feed(s, f->ids + 40, 11, NULL, NULL, &err), &err,
                "11 tokens after 40 do not fit a context of 50");
    assert_int_equal(err.code, WN_ERR_ARG);
    expect_cold(f, s, 40);
    memcpy(bad, f->ids + 40, 10 * sizeof *bad);
    bad[9] = (uint32_t)f->vocab;
    CHECK_FAILS(wn_session_feed(s, bad, 10, NULL, NULL, &err), &err, "token 10 of 10 is 512, the vocabulary has 512");
    expect_cold(f, s, 40);
    feed(s, f->ids + 40, 0);
    expect_cold(f, s, 40);
    feed(s, f->ids + 40, 10);
    expect_cold(f, s, 50);
    CHECK_FAILS(wn_session_feed(s, f->ids, 1, NULL, NULL, &err), &err, "do not fit");
    wn_session_free(s);
    o.context = f->l.config->context_length + 1;
    CHECK_FAILS(wn_session_new_with(f->l.weights, golden_pool(1), wn_kernels_get(&err), &o, &err), &err,
                "a context of");
}

struct stop {
    uint64_t at, calls;
};

static bool stop_at(void *arg, uint64_t position, const float *logits)
{
    struct stop *s = arg;

    (void)logits;
    s->calls++;
    return position != s->at;
}

/* Wherever in the chunk: before, in and at the end of the last batch of rows whose logits are computed together. */
static void a_callback_can_stop_the_feeding(void **state)
{
    static const uint64_t places[] = {0, 12, 20, 21, 38, 39};
    const struct fixture *f = *state;

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct wn_session *s = golden_session(f->l.weights, (struct how){.chunk = 20});
        struct stop stop = {.at = places[i]};
        size_t chunks = places[i] / 20 + 1;
        struct wn_err err;

        CHECK_FAILS(wn_session_feed(s, f->ids, 60, stop_at, &stop, &err), &err, "stopped at position");
        assert_int_equal(err.code, WN_ERR_CANCELED);
        assert_int_equal(stop.calls, places[i] + 1);
        assert_null(wn_session_logits(s));
        assert_int_equal(wn_session_position(s), 20 * chunks); /* whole chunks; the timeline goes on from there */
        feed(s, f->ids + 20 * chunks, 10);
        expect_cold(f, s, 20 * chunks + 10);
        wn_session_free(s);
    }
}

static void a_session_takes_the_memory_it_announced(void **state)
{
    static const struct wn_session_options options[] = {{0, 0}, {1, 1}, {100, 0}, {100, 7}, {300, 300}};
    static const char *const models[] = {"golden/text/tiny-a/hf", "models/k3-mini"};

    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        struct loaded l = golden_load(models[m]);

        for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
            for (unsigned threads = 1; threads <= 3; threads += 2) {
                struct wn_session_memory need, taken;
                struct wn_err err;
                struct wn_session *s = wn_session_new(l.model, l.weights, golden_pool(threads), &options[i], &err);

                CHECK_OK(s, &err);
                wn_session_need(l.config, &options[i], threads, &need);
                wn_session_taken(s, &taken);
                assert_memory_equal(&need, &taken, sizeof need);
                wn_session_free(s);
            }
        golden_unload(&l);
    }
}

/* The largest shapes that config_check.c lets through, with all that a file and a caller can ask for. */
static void sizes_that_64_bits_do_not_count_are_refused_with_the_figures(void **state)
{
    enum { LAYERS = 65536 };
    const struct fixture *f = *state;
    struct wn_layer_config *layers = calloc(LAYERS, sizeof *layers);
    struct wn_config c = *f->l.config;
    struct wn_weights w = {.config = &c};
    struct wn_session_options o = {.context = INT32_MAX, .chunk = 1};
    struct wn_session_memory need;
    struct wn_err err;

    assert_non_null(layers);
    for (uint32_t i = 0; i < LAYERS; i++)
        layers[i].attention = i == 0 ? WN_ATTENTION_KDA : WN_ATTENTION_MLA;
    c.layers = layers;
    c.layer_count = LAYERS;
    c.context_length = INT32_MAX;
    c.kv_lora_rank = c.qk_rope_dim = 1u << 20; /* 2^23 bytes a token and layer: 2^70 in all, which wraps to little */
    wn_session_need(&c, &o, 2, &need);
    assert_true(need.state > 0 && need.state < UINT64_MAX);
    assert_true(need.cache == UINT64_MAX);
    assert_true(need.scratch < UINT64_MAX);
    CHECK_FAILS(wn_session_new_with(&w, golden_pool(1), wn_kernels_get(&err), &o, &err), &err,
                "18446744073709551615 of cache");
    assert_int_equal(err.code, WN_ERR_NOMEM);

    o.chunk = 1u << 30; /* 2^70 floats of experts' inputs, which wrap to none */
    c.kv_lora_rank = c.qk_rope_dim = 1;
    c.hidden_size = c.attn_res_block = 1u << 20;
    c.experts_per_token = c.expert_count = c.moe_intermediate_size = 1u << 20;
    wn_session_need(&c, &o, 2, &need);
    assert_true(need.cache < UINT64_MAX);
    assert_true(need.scratch == UINT64_MAX);
    CHECK_FAILS(wn_session_new_with(&w, golden_pool(1), wn_kernels_get(&err), &o, &err), &err,
                "18446744073709551615 of scratch");
    free(layers);
}

struct watched {
    uint32_t calls, stop_at; /* the call that answers false; 0: none */
    uint64_t position;
    uint32_t layer;
};

static bool watch(void *arg, uint64_t position, uint32_t layer)
{
    struct watched *w = arg;

    w->position = position;
    w->layer = layer;
    return ++w->calls != w->stop_at;
}

static void a_feed_can_be_stopped_between_any_two_layers(void **state)
{
    const struct fixture *f = *state;
    struct wn_session *s = golden_session(f->l.weights, (struct how){.chunk = 20});
    uint32_t layers = f->l.config->layer_count;
    struct watched w = {0};
    struct wn_err err;

    wn_session_watch(s, watch, &w);
    feed(s, f->ids, 60);
    assert_int_equal(w.calls, 3 * layers); /* before each layer of each of three chunks */
    assert_int_equal(w.position, 40);
    assert_int_equal(w.layer, layers - 1);
    expect_cold(f, s, 60);
    for (uint32_t stop = 1; stop <= 2 * layers; stop += 2) {
        w = (struct watched){.stop_at = stop};
        wn_session_reset(s);
        CHECK_FAILS(wn_session_feed(s, f->ids, 60, NULL, NULL, &err), &err, "stopped in layer");
        assert_int_equal(err.code, WN_ERR_CANCELED);
        assert_int_equal(w.calls, stop); /* not one layer more */
        /* nothing of it is left: what follows is a cold run */
        assert_int_equal(wn_session_position(s), 0);
        assert_null(wn_session_logits(s));
        feed(s, f->ids, 30);
        expect_cold(f, s, 30);
    }
    wn_session_watch(s, NULL, NULL);
    w.calls = 0;
    feed(s, f->ids + 30, 30);
    assert_int_equal(w.calls, 0);
    expect_cold(f, s, 60);
    wn_session_free(s);
}

static void scratch_is_as_large_as_the_deepest_path_and_no_larger(void **state)
{
    const struct fixture *f = *state;
    struct wn_session_options o = {.context = 120, .chunk = 60};
    struct wn_err err;
    struct wn_session *s = wn_session_new_with(f->l.weights, golden_pool(2), wn_kernels_get(&err), &o, &err);

    CHECK_OK(s, &err);
    feed(s, f->ids, 120);
    assert_int_equal(s->arena.peak, s->arena.size);
    assert_int_equal(s->arena.used, 0);
    wn_session_free(s);
}

static void a_step_allocates_nothing(void **state)
{
    const struct fixture *f = *state;
    struct wn_session *s = golden_session(f->l.weights, (struct how){.threads = 2, .chunk = 33});
    struct wn_err err;

    wn_alloc_fail_after(0);
    feed(s, f->ids, 100);
    feed(s, f->ids + 100, 1);
    assert_null(wn_session_save(s, &err)); /* so it would have been noticed */
    wn_alloc_fail_after(-1);
    assert_int_equal(err.code, WN_ERR_NOMEM);
    expect_cold(f, s, 101);
    wn_session_free(s);
}

/* A session that serves requests one after the other: no allocation, no growth, and the last answer is the first. */
static void a_thousand_requests_leave_memory_as_it_was(void **state)
{
    const struct fixture *f = *state;
    struct wn_session *s = golden_session(f->l.weights, (struct how){.threads = 2, .chunk = 16});
    unsigned requests = WN_TEST_SANITIZED ? 50 : 1000;
    uint64_t before = 0, after;

    for (unsigned request = 0; request < requests; request++) {
        if (request == 10) { /* by now everything that is ever touched has been */
            before = wn_resident_memory();
            wn_alloc_fail_after(0);
        }
        wn_session_reset(s);
        feed(s, f->ids + request % 50, 5);
    }
    wn_alloc_fail_after(-1);
    after = wn_resident_memory();
    assert_true(WN_TEST_SANITIZED || after <= before + 256 * 1024); /* 256 bytes a request would show */
    wn_session_reset(s);
    feed(s, f->ids, 5);
    expect_cold(f, s, 5);
    wn_session_free(s);
}

static void memory_that_is_refused_is_said_and_given_back(void **state)
{
    const struct fixture *f = *state;
    struct wn_session_options o = {.context = 60, .chunk = 16};
    struct wn_session *s = NULL;
    struct wn_checkpoint *c = NULL;
    struct wn_err err;
    long failures = -1;

    for (; !s; failures++) {
        wn_alloc_fail_after(failures + 1);
        s = wn_session_new_with(f->l.weights, golden_pool(1), wn_kernels_get(&err), &o, &err);
        wn_alloc_fail_after(-1);
        assert_true(s || err.code == WN_ERR_NOMEM);
    }
    assert_true(failures > 4);
    feed(s, f->ids, 20);
    for (failures = -1; !c; failures++) {
        wn_alloc_fail_after(failures + 1);
        c = wn_session_save(s, &err);
        wn_alloc_fail_after(-1);
        assert_true(c || wn_test_contains(err.msg, "saving position 20: out of memory") || failures == -1);
    }
    assert_true(failures > 2);
    wn_checkpoint_free(c);
    wn_session_free(s);
}

static void loading_weights_says_when_memory_is_refused(void **state)
{
    const struct fixture *f = *state;
    struct wn_weights *w = NULL;
    struct wn_err err;
    long n = 0;

    for (; !w; n += 1 + n / 8) { /* one by one at first, then in longer steps */
        wn_alloc_fail_after(n);
        w = wn_weights_load(f->l.model, &err);
        wn_alloc_fail_after(-1);
        assert_true(w || err.code == WN_ERR_NOMEM);
    }
    assert_true(n > 13);
    wn_weights_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reuse_of_a_checkpoint_and_the_rest_equals_a_cold_run),
        cmocka_unit_test(a_turn_that_shares_a_prefix_computes_only_the_new_tokens),
        cmocka_unit_test(going_back_one_to_n_tokens_equals_never_having_gone_there),
        cmocka_unit_test(a_checkpoint_that_lacks_one_layers_state_would_be_noticed),
        cmocka_unit_test(two_interleaved_sessions_equal_two_separate_runs),
        cmocka_unit_test(a_reset_session_is_a_new_one),
        cmocka_unit_test(a_checkpoint_of_other_weights_or_too_many_tokens_is_refused),
        cmocka_unit_test(what_does_not_fit_is_refused_before_anything_is_appended),
        cmocka_unit_test(a_callback_can_stop_the_feeding),
        cmocka_unit_test(a_session_takes_the_memory_it_announced),
        cmocka_unit_test(sizes_that_64_bits_do_not_count_are_refused_with_the_figures),
        cmocka_unit_test(a_feed_can_be_stopped_between_any_two_layers),
        cmocka_unit_test(scratch_is_as_large_as_the_deepest_path_and_no_larger),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(a_thousand_requests_leave_memory_as_it_was),
        cmocka_unit_test(memory_that_is_refused_is_said_and_given_back),
        cmocka_unit_test(loading_weights_says_when_memory_is_refused),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
