/*
 * What a calibration says that it takes, against sums done by hand: on k3-mini, and at the real size on K3's sparse
 * files (`make sparse`).
 */
#include "calibrate_fixture.h"

#include "formats/source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct wn_calibrate_need plan_with(const char *model, const char *corpus, uint64_t ram, bool means)
{
    struct wn_calibrate_options o = {.corpus = corpus, .out = "sal.npz", .ram = ram, .means = means};
    struct wn_calibrate_need need = {0};
    struct wn_err err;
    struct wn_model *m = wn_model_open(model, &err);

    CHECK_OK(m, &err);
    CHECK_OK(wn_calibrate_plan(m, 2, &o, &need, &err), &err);
    wn_model_close(m);
    return need;
}

static struct wn_calibrate_need plan(const char *model, const char *corpus, uint64_t ram)
{
    return plan_with(model, corpus, ram, false);
}

/* Bytes of all tensors whose names begin with either. */
static uint64_t bytes_of(const char *model, const char *first, const char *second)
{
    struct wn_err err;
    struct wn_source *s = wn_source_open(model, &err);
    uint64_t sum = 0;

    CHECK_OK(s, &err);
    for (size_t i = 0; i < wn_source_tensor_count(s); i++) {
        const struct wn_tensor *t = wn_source_tensor_at(s, i);

        if (strncmp(t->name, first, strlen(first)) == 0 || strncmp(t->name, second, strlen(second)) == 0)
            sum += t->bytes;
    }
    wn_source_close(s);
    return sum;
}

/* The parts, as far as they do not depend on the machine. */
static void check_parts(const struct wn_calibrate_need *n)
{
    if (!WN_TEST_SANITIZED) /* which bring memory of their own */
        assert_int_equal(n->peak, n->base + n->layer + n->scratch + n->records + ((uint64_t)1 << 20));
}

static void the_needs_of_k3_mini_are_those_worked_out_by_hand(void **state)
{
    enum { TOKENS = 6 * 200, HIDDEN = 256, LAYERS = 8, EXPERTS = 64, WIDTH = 128 };
    const char *model = strdup(wn_test_need_data("models/k3-mini")), *corpus = strdup(random_corpus(6, 200, 400, 3));
    struct wn_calibrate_need n = plan(model, corpus, 0), m = plan_with(model, corpus, 0, true);

    (void)state;
    assert_int_equal(n.tokens, TOKENS);
    assert_int_equal(n.sequences, 6);
    assert_int_equal(n.sources, 2);
    assert_int_equal(n.chunk, 200);
    /* layers 0, 3 and 6 bank: in layer 6 the first two, its own and what leaves it; the last layer's goes nowhere */
    assert_int_equal(n.activations, (uint64_t)TOKENS * HIDDEN * 4 * 4);
    /*
     * Written: embeddings and seven streams. Read: eight, and banks, one of them by three layers, two by three, three
     * by one: 1 + 1 + 1 + 2 + 2 + 2 + 3.
     */
    assert_int_equal(n.moved, (uint64_t)TOKENS * HIDDEN * 4 * (1 + 7 + 8 + 12));
    assert_int_equal(n.model_read,
                     bytes_of(model, "language_model.model.layers.", "language_model.model.embed_tokens."));
    /*
     * nine sums of two doubles (halves: four), a count and a norm per expert and source; three per source; totals; the
     * inputs' magnitudes
     */
    assert_int_equal(n.records, 8 * LAYERS * (EXPERTS * (2 * (8 * 2 + 4 + 2) + 4) + 2 * 3 * 2 + 2 * WIDTH + 1));
    check_parts(&n);
    /* means: of all layers in the archive; of one layer in f64, and in 16 bits on its way to the work folder */
    assert_int_equal(n.means, 0);
    assert_int_equal(m.means, 2 * LAYERS * EXPERTS * WIDTH);
    assert_int_equal(m.scratch - n.scratch, 8 * EXPERTS * WIDTH);
    assert_int_equal(m.records - n.records, 2 * EXPERTS * WIDTH);
    check_parts(&m);
    free((void *)(uintptr_t)model);
    free((void *)(uintptr_t)corpus);
}

static void less_memory_means_smaller_chunks_and_not_less_of_anything_else(void **state)
{
    const char *model, *corpus;
    struct wn_calibrate_need all, less;

    (void)state;
    if (WN_TEST_SANITIZED)
        skip();
    model = strdup(wn_test_need_data("models/k3-mini"));
    corpus = strdup(random_corpus(4, 512, 400, 3));
    all = plan(model, corpus, 0);
    less = plan(model, corpus, all.peak - all.scratch / 4);
    assert_true(less.chunk < all.chunk && less.scratch < all.scratch);
    assert_int_equal(less.activations, all.activations);
    assert_int_equal(less.moved, all.moved);
    assert_int_equal(less.model_read, all.model_read);
    check_parts(&less);
    free((void *)(uintptr_t)model);
    free((void *)(uintptr_t)corpus);
}

/* K3's numbers (its config, and docs of its shapes): */
enum { K3_HIDDEN = 7168, K3_LATENT = 3584, K3_INNER = 3072, K3_EXPERTS = 896, K3_LAYERS = 93, K3_BANKS = 8 };
#define K3_TOKENS ((uint64_t)64 * 2048)

static uint64_t bf16(uint64_t rows, uint64_t columns)
{
    return rows * columns * 2;
}

/* A layer of experts under KDA as it lies in the checkpoint. */
static uint64_t k3_layer(void)
{
    const uint64_t matrix = (uint64_t)K3_INNER * K3_LATENT, width = 96 * 128;
    uint64_t experts = K3_EXPERTS * 3 * (matrix / 2 + matrix / 32); /* four bits each, a scale for 32 */
    uint64_t router = K3_EXPERTS * 4 + bf16(K3_EXPERTS, K3_HIDDEN);
    uint64_t latent = 2 * bf16(K3_LATENT, K3_HIDDEN) + bf16(K3_LATENT, 1), shared = 3 * bf16(6144, K3_HIDDEN);
    uint64_t norms = 6 * bf16(K3_HIDDEN, 1);
    uint64_t wide = 5 * bf16(width, K3_HIDDEN);                                     /* q, k, v, g, o */
    uint64_t gates = bf16(96, K3_HIDDEN) + bf16(128, K3_HIDDEN) + bf16(width, 128); /* b, f_a, f_b */
    uint64_t small = 128 * 4 + width * 4 + 3 * width * 4 * 4 + 128 * 4; /* A_log, dt_bias, convolutions, o_norm */

    return experts + router + latent + shared + norms + wide + gates + small;
}

static void check_k3(const struct wn_calibrate_need *n)
{
    const uint64_t stream = K3_TOKENS * K3_HIDDEN * 4;
    uint64_t banks_read = 0;

    for (int i = 0; i < K3_LAYERS; i++)
        banks_read += (uint64_t)(i + 11) / 12; /* layers 0, 12 ... 84 bank */
    assert_int_equal(n->tokens, K3_TOKENS);
    assert_int_equal(n->activations, stream * (K3_BANKS + 2)); /* the block stack, what enters and what leaves */
    assert_int_equal(n->moved, stream * (1 + (K3_LAYERS - 1) + K3_LAYERS + banks_read));
    assert_int_equal(n->records, 8 * (uint64_t)K3_LAYERS * (K3_EXPERTS * (2 * 22 + 4) + 2 * 6 + 2 * K3_LATENT + 1));
    assert_int_equal(n->chunk, 512);
    assert_true(n->scratch < (uint64_t)1 << 30);
    check_parts(n);
}

static void k3_takes_one_layer_of_the_checkpoint_and_the_block_stack_on_disk(void **state)
{
    const char *model = strdup(wn_test_need_sparse("hf"));
    struct wn_calibrate_need n = plan(model, random_corpus(64, 2048, 100000, 9), 0);
    uint64_t layer = k3_layer(), vectors = n.layer - layer;

    (void)state;
    check_k3(&n);
    printf("layer %" PRIu64 " by hand, %" PRIu64 " of vectors in f32 and tables; memory %" PRIu64 "\n", layer, vectors,
           n.peak);
    /* beside the files' bytes: vectors widened to f32, and where the experts lie */
    assert_true(n.layer > layer && vectors < 2000000);
    assert_int_equal(n.model_read, UINT64_C(1560860324864) /* of all tensors (expected-sizes.json) */
                                       - bytes_of(model, "language_model.lm_head", "language_model.model.norm") -
                                       bytes_of(model, "language_model.model.output_", "mm_projector") -
                                       bytes_of(model, "vision_tower", "vision_tower"));
    assert_true(n.peak < UINT64_C(18000000000));
    free((void *)(uintptr_t)model);
}

static void k3_as_a_gguf_takes_one_layer_of_that(void **state)
{
    const char *model = strdup(wn_test_need_sparse("gguf-r1/Kimi-K3-UD-IQ1_S-00001-of-00014.gguf"));
    struct wn_calibrate_need n = plan(model, random_corpus(64, 2048, 100000, 9), 0);
    uint64_t largest = 0;

    (void)state;
    check_k3(&n);
    assert_int_equal(n.model_read, bytes_of(model, "blk.", "token_embd."));
    for (int i = 0; i < K3_LAYERS; i++) {
        char name[16];
        uint64_t bytes;

        (void)snprintf(name, sizeof name, "blk.%d.", i);
        bytes = bytes_of(model, name, name);
        largest = bytes > largest ? bytes : largest;
    }
    assert_true(n.layer > largest && n.layer - largest < 30000000); /* MLA's keys are turned, too */
    free((void *)(uintptr_t)model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_needs_of_k3_mini_are_those_worked_out_by_hand),
        cmocka_unit_test(less_memory_means_smaller_chunks_and_not_less_of_anything_else),
        cmocka_unit_test(k3_takes_one_layer_of_the_checkpoint_and_the_block_stack_on_disk),
        cmocka_unit_test(k3_as_a_gguf_takes_one_layer_of_that),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
