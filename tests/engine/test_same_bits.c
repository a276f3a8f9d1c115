/*
 * The same tokens give the same bits: for any number of threads, any cut of the prompt, any kernels this machine has,
 * either container, and the full model with experts masked or the pruned one without them. All comparisons are memcmp.
 */
#include "golden.h"

#include "base/rng.h"
#include "formats/source.h"
#include "sys/cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct prompt {
    struct wn_source *ref;
    const uint32_t *ids;
    size_t n;
};

static struct prompt prompt_open(const char *name)
{
    struct prompt p = {.ref = golden_ref("golden/text/tiny-a/ref/prompts.safetensors")};

    p.ids = golden_ids(p.ref, name, &p.n);
    return p;
}

/* Runs both ways and compares; frees nothing of the caller's. */
static void expect_same(const struct wn_weights *a, struct how how_a, const struct wn_weights *b, struct how how_b,
                        const struct prompt *p)
{
    float *x = golden_logits(a, how_a, p->ids, p->n), *y = golden_logits(b, how_b, p->ids, p->n);

    assert_memory_equal(x, y, p->n * a->config->vocab_size * sizeof *x);
    free(x);
    free(y);
}

static void any_number_of_threads_gives_the_same_bits(void **state)
{
    struct loaded l = golden_load("golden/text/tiny-a/hf");
    struct prompt p = prompt_open("p130");

    (void)state;
    for (unsigned threads = 2; threads <= 5; threads++)
        expect_same(l.weights, (struct how){.threads = 1}, l.weights, (struct how){.threads = threads}, &p);
    wn_source_close(p.ref);
    golden_unload(&l);
}

static void chunked_prefill_gives_the_bits_and_state_of_one_token_at_a_time(void **state)
{
    static const uint32_t chunks[] = {1, 2, 17, 64, 65, 129};
    struct loaded l = golden_load("golden/text/tiny-a/hf");
    struct prompt p = prompt_open("p130");
    struct wn_session *whole = golden_session(l.weights, (struct how){0});
    float *logits = malloc(p.n * l.config->vocab_size * sizeof *logits);

    (void)state;
    golden_feed(whole, p.ids, p.n, logits);
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        struct wn_session *s = golden_session(l.weights, (struct how){.chunk = chunks[i], .threads = 1 + i % 3});
        float *other = malloc(p.n * l.config->vocab_size * sizeof *logits);

        golden_feed(s, p.ids, p.n, other);
        assert_memory_equal(other, logits, p.n * l.config->vocab_size * sizeof *logits);
        assert_memory_equal(s->state.recurrent, whole->state.recurrent, whole->state.recurrent_floats * sizeof(float));
        assert_memory_equal(s->state.cache, whole->state.cache, whole->state.cache_floats * sizeof(float));
        free(other);
        wn_session_free(s);
    }
    free(logits);
    wn_session_free(whole);
    wn_source_close(p.ref);
    golden_unload(&l);
}

static void a_prompt_fed_in_random_pieces_gives_the_same_bits(void **state)
{
    struct loaded l = golden_load("golden/text/tiny-a/hf");
    struct prompt p = prompt_open("p300");
    float *logits = golden_logits(l.weights, (struct how){.threads = 2}, p.ids, p.n);
    float *other = malloc(p.n * l.config->vocab_size * sizeof *logits);
    struct wn_rng rng = {20260};

    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        struct wn_session *s = golden_session(l.weights, (struct how){.chunk = 1 + (uint32_t)wn_rng_below(&rng, 90)});

        for (size_t at = 0, n; at < p.n; at += n) {
            n = 1 + (size_t)wn_rng_below(&rng, p.n - at);
            golden_feed(s, p.ids + at, n, other + at * l.config->vocab_size);
        }
        assert_memory_equal(other, logits, p.n * l.config->vocab_size * sizeof *logits);
        wn_session_free(s);
    }
    free(other);
    free(logits);
    wn_source_close(p.ref);
    golden_unload(&l);
}

static void only_the_last_logits_are_those_of_all(void **state)
{
    struct loaded l = golden_load("golden/text/tiny-a/hf");
    struct prompt p = prompt_open("p65");
    float *logits = golden_logits(l.weights, (struct how){0}, p.ids, p.n);
    struct wn_session *s = golden_session(l.weights, (struct how){.chunk = 32});
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_session_feed(s, p.ids, p.n, NULL, NULL, &err), &err);
    assert_memory_equal(wn_session_logits(s), logits + (p.n - 1) * l.config->vocab_size,
                        l.config->vocab_size * sizeof *logits);
    wn_session_free(s);
    free(logits);
    wn_source_close(p.ref);
    golden_unload(&l);
}

static void expect_every_kernel(const char *model)
{
    static const unsigned sets[] = {0, WN_CPU_AVX2, WN_CPU_AVX2 | WN_CPU_AVX512, WN_CPU_NEON};
    struct loaded l = golden_load(model);
    struct prompt p = prompt_open("p17");
    unsigned here = wn_cpu_detect();

    for (size_t i = 1; i < sizeof sets / sizeof sets[0]; i++) {
        struct wn_kernels scalar, other;

        if ((sets[i] & here) != sets[i])
            continue;
        wn_kernels_init(&scalar, 0);
        wn_kernels_init(&other, sets[i]);
        assert_string_not_equal(scalar.name, other.name);
        expect_same(l.weights, (struct how){.kernels = &scalar}, l.weights, (struct how){.kernels = &other, .chunk = 9},
                    &p);
    }
    wn_source_close(p.ref);
    golden_unload(&l);
}

static void every_kind_of_kernels_on_this_machine_gives_the_same_bits(void **state)
{
    (void)state;
    expect_every_kernel("golden/text/tiny-a/hf");
    expect_every_kernel("golden/text/tiny-a/gguf/tiny-a-BF16-MXFP4.gguf");
}

static void so_it_is_with_quantised_weights(void **state)
{
    (void)state;
    expect_every_kernel("golden/text/tiny-b/gguf/tiny-b-IQ1_S.gguf");
}

static void expect_same_models(const char *one, const char *other)
{
    struct loaded a = golden_load(one), b = golden_load(other);
    struct prompt p = prompt_open("p130");

    expect_same(a.weights, (struct how){0}, b.weights, (struct how){.chunk = 40}, &p);
    wn_source_close(p.ref);
    golden_unload(&a);
    golden_unload(&b);
}

/* As the files are: the decay of an HF folder, which holds A_log, included (model/bind_attention.c). */
static void hf_and_gguf_forms_give_the_same_bits(void **state)
{
    (void)state;
    expect_same_models("golden/text/tiny-a/hf", "golden/text/tiny-a/gguf/tiny-a-BF16-MXFP4.gguf");
    expect_same_models("golden/text/tiny-b/hf", "golden/text/tiny-b/gguf/tiny-b-BF16-MXFP4.gguf");
}

static void a_decay_of_one_unit_in_the_last_place_beside_is_noticed(void **state)
{
    struct loaded l = golden_load("golden/text/tiny-a/hf");
    struct prompt p = prompt_open("p130");
    float *logits = golden_logits(l.weights, (struct how){0}, p.ids, p.n), *beside;
    float *a = l.weights->layers[0].kda.a;

    (void)state;
    a[0] = nextafterf(a[0], INFINITY);
    beside = golden_logits(l.weights, (struct how){0}, p.ids, p.n);
    assert_memory_not_equal(beside, logits, p.n * l.config->vocab_size * sizeof *logits);
    free(beside);
    free(logits);
    wn_source_close(p.ref);
    golden_unload(&l);
}

static void a_split_gguf_gives_the_bits_of_the_single_file(void **state)
{
    (void)state;
    expect_same_models("golden/text/tiny-b/gguf/tiny-b-IQ1_S.gguf",
                       "golden/text/tiny-b/gguf/split/tiny-b-IQ1_S-00001-of-00003.gguf");
}

static void expect_same_pruned(const char *keep)
{
    struct loaded l = golden_load("golden/text/tiny-a/hf");
    struct prompt p = prompt_open("p130");
    struct keeps keeps = golden_keeps(keep);
    struct variant *masked = golden_masked(l.weights, &keeps), *renumbered = golden_renumbered(l.weights, &keeps);

    expect_same(&masked->weights, (struct how){0}, &renumbered->weights, (struct how){.chunk = 31}, &p);
    golden_variant_free(masked);
    golden_variant_free(renumbered);
    wn_source_close(p.ref);
    golden_unload(&l);
}

static void dropping_experts_is_masking_their_bias_to_the_bit(void **state)
{
    (void)state;
    expect_same_pruned("golden/text/tiny-a/ref/prune_keep.json");
}

static void so_it_is_with_another_count_in_each_layer(void **state)
{
    (void)state;
    expect_same_pruned("golden/text/tiny-a/ref/prune_nonuniform_keep.json");
}

static void a_router_turned_by_one_row_is_noticed(void **state)
{
    struct loaded l = golden_load("golden/text/tiny-a/hf");
    struct prompt p = prompt_open("p17");
    struct keeps keeps = golden_keeps("golden/text/tiny-a/ref/prune_keep.json");
    struct variant *right = golden_renumbered(l.weights, &keeps), *wrong = golden_renumbered(l.weights, &keeps);
    struct wn_moe_weights *m = &wrong->weights.layers[5].mixture;
    struct wn_expert first = m->experts[0];
    float *x, *y;

    (void)state;
    memmove(m->experts, m->experts + 1, (m->expert_count - 1) * sizeof *m->experts);
    m->experts[m->expert_count - 1] = first;
    x = golden_logits(&right->weights, (struct how){0}, p.ids, p.n);
    y = golden_logits(&wrong->weights, (struct how){0}, p.ids, p.n);
    assert_true(golden_distance(x, y, p.n * l.config->vocab_size).most > 0.1);
    free(x);
    free(y);
    golden_variant_free(right);
    golden_variant_free(wrong);
    wn_source_close(p.ref);
    golden_unload(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(chunked_prefill_gives_the_bits_and_state_of_one_token_at_a_time),
        cmocka_unit_test(a_prompt_fed_in_random_pieces_gives_the_same_bits),
        cmocka_unit_test(only_the_last_logits_are_those_of_all),
        cmocka_unit_test(every_kind_of_kernels_on_this_machine_gives_the_same_bits),
        cmocka_unit_test(so_it_is_with_quantised_weights),
        cmocka_unit_test(hf_and_gguf_forms_give_the_same_bits),
        cmocka_unit_test(a_decay_of_one_unit_in_the_last_place_beside_is_noticed),
        cmocka_unit_test(a_split_gguf_gives_the_bits_of_the_single_file),
        cmocka_unit_test(dropping_experts_is_masking_their_bias_to_the_bit),
        cmocka_unit_test(so_it_is_with_another_count_in_each_layer),
        cmocka_unit_test(a_router_turned_by_one_row_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
