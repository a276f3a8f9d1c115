/* What holds the blocks together: the AttnRes mix, banking, plain residuals, and the scratch that was announced. */
#include "small.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HIDDEN = 40, TOKENS = 5, BANKS = 3 };

static void mix_reference(const double (*v)[HIDDEN], size_t sources, const float *score, double *h)
{
    double p[BANKS + 1], sum = 0;

    for (size_t j = 0; j < sources; j++) {
        double ss = 0, dot = 0;

        for (size_t d = 0; d < HIDDEN; d++)
            ss += v[j][d] * v[j][d];
        for (size_t d = 0; d < HIDDEN; d++)
            dot += v[j][d] / sqrt(ss / HIDDEN + 1e-5) * (double)score[d];
        sum += p[j] = exp(dot);
    }
    memset(h, 0, HIDDEN * sizeof *h);
    for (size_t j = 0; j < sources; j++)
        for (size_t d = 0; d < HIDDEN; d++)
            h[d] += p[j] / sum * v[j][d]; /* raw, not normed */
}

static void the_mix_weighs_raw_streams_by_their_normed_scores(void **state)
{
    static struct small s;
    float *rows, *score, *norm, mix[TOKENS * HIDDEN], x[TOKENS * HIDDEN], probs[TOKENS * (BANKS + 1)];
    struct wn_stream stream = {.bank_count = 2, .bank_stride = TOKENS * HIDDEN, .tokens = TOKENS};

    (void)state;
    small_init(&s, 2);
    s.config.layer_count = 6; /* three banks in the end, two so far */
    rows = small_floats(&s, (BANKS + 1) * TOKENS * HIDDEN, 2);
    score = small_floats(&s, HIDDEN, 1);
    norm = small_floats(&s, HIDDEN, 1);
    stream.p = rows;
    stream.banks = rows + TOKENS * HIDDEN;
    wn_mix_forward(&s.ctx, &stream, &(struct wn_mix){score, norm, mix, x, probs, 0, {"a", "b", "c"}});
    for (size_t t = 0; t < TOKENS; t++) {
        double v[3][HIDDEN], h[HIDDEN], normed[HIDDEN];

        small_widen(stream.banks + t * HIDDEN, v[0], HIDDEN);
        small_widen(stream.banks + stream.bank_stride + t * HIDDEN, v[1], HIDDEN);
        small_widen(stream.p + t * HIDDEN, v[2], HIDDEN);
        mix_reference((const double(*)[HIDDEN])v, 3, score, h);
        small_norm(h, norm, 1e-5, normed, HIDDEN);
        small_close(mix + t * HIDDEN, h, HIDDEN, 1e-5);
        small_close(x + t * HIDDEN, normed, HIDDEN, 1e-5);
        assert_true(probs[t * (BANKS + 1) + 3] == 0);
    }
    small_release(&s);
}

struct tower {
    struct small s;
    struct wn_layer layers[2];
    struct wn_layer_state states[2];
    struct wn_stream stream;
    float *first; /* the stream that came in */
};

static void layer_init(struct small *s, struct wn_layer *l, uint32_t i)
{
    l->index = i;
    l->attention = s->layers[i].attention;
    l->moe = s->layers[i].moe;
    l->attn_norm = small_floats(s, HIDDEN, 1);
    l->ffn_norm = small_floats(s, HIDDEN, 1);
    if (s->config.attn_res_block) {
        l->attn_res_score = small_floats(s, HIDDEN, 1);
        l->ffn_res_score = small_floats(s, HIDDEN, 1);
    }
    if (l->attention == WN_ATTENTION_KDA)
        l->kda = small_kda(s);
    else
        l->mla = small_mla(s);
    l->mixture = small_moe(s);
}

static void tower_init(struct tower *w, uint32_t attn_res_block)
{
    const struct wn_config *c = &w->s.config;
    size_t wide, tail;

    memset(w, 0, sizeof *w);
    small_init(&w->s, 1);
    w->s.config.attn_res_block = attn_res_block;
    small_scratch(&w->s, TOKENS, TOKENS);
    for (uint32_t i = 0; i < 2; i++)
        layer_init(&w->s, &w->layers[i], i);
    wide = c->kda_heads * c->kda_head_dim;
    tail = (c->conv_taps - 1) * wide;
    w->states[0] = (struct wn_layer_state){.kda = small_zeros(&w->s, wide * c->kda_head_dim),
                                           .tail_q = small_zeros(&w->s, tail),
                                           .tail_k = small_zeros(&w->s, tail),
                                           .tail_v = small_zeros(&w->s, tail)};
    w->states[1].cache = small_zeros(&w->s, TOKENS * (c->kv_lora_rank + c->qk_rope_dim));
    w->first = small_floats(&w->s, TOKENS * HIDDEN, 1);
    w->stream = (struct wn_stream){.p = small_zeros(&w->s, TOKENS * HIDDEN),
                                   .bank_stride = TOKENS * HIDDEN,
                                   .banks = small_zeros(&w->s, 2 * TOKENS * HIDDEN),
                                   .tokens = TOKENS};
    memcpy(w->stream.p, w->first, TOKENS * HIDDEN * sizeof(float));
}

struct outputs {
    float attn_mix[2][TOKENS * HIDDEN], attn[2][TOKENS * HIDDEN], mlp[2][TOKENS * HIDDEN], p[2][TOKENS * HIDDEN];
};

static void see(void *arg, const char *name, int32_t layer, const float *data, size_t tokens, size_t width)
{
    struct outputs *o = arg;
    float(*to)[TOKENS * HIDDEN] = strcmp(name, "attn_out") == 0               ? o->attn
                                  : strcmp(name, "attn_mix") == 0             ? o->attn_mix
                                  : strcmp(name, "mlp_out") == 0              ? o->mlp
                                  : strcmp(name, "layer_out_prefix_sum") == 0 ? o->p
                                                                              : NULL;

    if (to)
        memcpy(to[layer], data, tokens * width * sizeof *data);
}

static void run(struct tower *w, struct outputs *o)
{
    const struct wn_probe probe = {.arg = o, .value = see};

    w->s.ctx.probe = &probe;
    for (uint32_t i = 0; i < 2; i++)
        wn_layer_forward(&w->s.ctx, &w->layers[i], &w->stream, &w->states[i], 0);
    w->s.ctx.probe = NULL;
}

static void expect_sum(const struct small *s, const float *a, const float *b, const float *wanted)
{
    float sum[TOKENS * HIDDEN];

    s->kernels.add(a, b, sum, TOKENS * HIDDEN);
    assert_memory_equal(sum, wanted, sizeof sum);
}

static void a_banking_layer_banks_the_raw_stream_and_restarts_from_its_attention(void **state)
{
    static struct tower w;
    static struct outputs o;

    (void)state;
    tower_init(&w, 1); /* every layer banks */
    run(&w, &o);
    assert_int_equal(w.stream.bank_count, 2);
    assert_memory_equal(w.stream.banks, w.first, sizeof o.p[0]);
    assert_memory_equal(w.stream.banks + w.stream.bank_stride, o.p[0], sizeof o.p[0]); /* not the mix */
    assert_memory_not_equal(o.attn_mix[1], o.p[0], sizeof o.p[0]);
    expect_sum(&w.s, o.attn[0], o.mlp[0], o.p[0]);
    expect_sum(&w.s, o.attn[1], o.mlp[1], o.p[1]);
    small_release(&w.s);
}

static void other_layers_add_to_the_stream(void **state)
{
    static struct tower w;
    static struct outputs o;
    static float sum[TOKENS * HIDDEN];

    (void)state;
    tower_init(&w, 2);
    run(&w, &o);
    assert_int_equal(w.stream.bank_count, 1);
    w.s.kernels.add(o.p[0], o.attn[1], sum, TOKENS * HIDDEN);
    expect_sum(&w.s, sum, o.mlp[1], o.p[1]);
    small_release(&w.s);
}

static void without_attn_res_residuals_are_plain(void **state)
{
    static struct tower w;
    static struct outputs o;
    static float sum[TOKENS * HIDDEN];

    (void)state;
    tower_init(&w, 0);
    run(&w, &o);
    assert_int_equal(w.stream.bank_count, 0);
    assert_memory_equal(o.attn_mix[0], w.first, sizeof o.p[0]);
    w.s.kernels.add(w.first, o.attn[0], sum, TOKENS * HIDDEN);
    expect_sum(&w.s, sum, o.mlp[0], o.p[0]);
    assert_memory_equal(o.attn_mix[1], o.p[0], sizeof o.p[0]);
    small_release(&w.s);
}

static void the_scratch_that_was_announced_is_what_the_deepest_path_takes(void **state)
{
    static struct tower w;
    static struct outputs o;

    (void)state;
    tower_init(&w, 1);
    run(&w, &o); /* taking more than was announced is an assertion */
    assert_int_equal(w.s.arena.used, 0);
    assert_true(w.s.arena.peak <= w.s.arena.size);
    w.s.config.intermediate_size = 1; /* this tower has no dense layer, which would be deeper than its MoE */
    assert_int_equal(w.s.arena.peak, wn_graph_scratch(&w.s.config, TOKENS, TOKENS, false));
    small_release(&w.s);
}

static void runner_ups_take_the_scratch_that_is_announced_for_them(void **state)
{
    static struct tower w;
    static struct outputs o;
    const struct wn_probe probe = {.runner_up = true};
    struct wn_err err;

    (void)state;
    tower_init(&w, 1);
    run(&w, &o);
    small_release(&w.s);
    tower_init(&w, 1);
    wn_arena_release(&w.s.arena);
    CHECK_OK(wn_arena_init(&w.s.arena, wn_graph_scratch(&w.s.config, TOKENS, TOKENS, true), &err), &err);
    w.s.ctx.probe = &probe;
    for (uint32_t i = 0; i < 2; i++)
        wn_layer_forward(&w.s.ctx, &w.layers[i], &w.stream, &w.states[i], 0);
    assert_memory_equal(w.stream.p, o.p[1], sizeof o.p[1]); /* and the stream is what it is without */
    w.s.config.intermediate_size = 1;
    assert_int_equal(w.s.arena.peak, wn_graph_scratch(&w.s.config, TOKENS, TOKENS, true));
    assert_true(w.s.arena.peak > wn_graph_scratch(&w.s.config, TOKENS, TOKENS, false));
    small_release(&w.s);
}

static void linear_of_many_matrices_is_each_by_itself(void **state)
{
    static struct small s;
    float *x, *y, *alone;

    (void)state;
    small_init(&s, 3);
    small_scratch(&s, TOKENS, TOKENS);
    x = small_floats(&s, TOKENS * HIDDEN, 1);
    y = small_zeros(&s, TOKENS * 400);
    alone = small_zeros(&s, TOKENS * 200);
    for (size_t rows = 1; rows < 200; rows += 63) {
        struct wn_matrix a = small_matrix(&s, rows, HIDDEN), b = small_matrix(&s, 130, HIDDEN);
        const struct wn_linear_job jobs[] = {{&a, x, y}, {&b, x, y + TOKENS * rows}};

        wn_linear_group(&s.ctx, jobs, 2, TOKENS);
        for (size_t t = 0; t < TOKENS; t++)
            for (size_t r = 0; r < rows; r++) {
                const float *row = (const float *)(const void *)(a.data + r * a.row_bytes);

                assert_true(y[t * rows + r] == s.kernels.dot_f32(row, x + t * HIDDEN, HIDDEN));
            }
        wn_linear(&s.ctx, &b, x, TOKENS, alone);
        assert_memory_equal(y + TOKENS * rows, alone, TOKENS * 130 * sizeof *y);
    }
    small_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mix_weighs_raw_streams_by_their_normed_scores),
        cmocka_unit_test(a_banking_layer_banks_the_raw_stream_and_restarts_from_its_attention),
        cmocka_unit_test(other_layers_add_to_the_stream),
        cmocka_unit_test(without_attn_res_residuals_are_plain),
        cmocka_unit_test(the_scratch_that_was_announced_is_what_the_deepest_path_takes),
        cmocka_unit_test(runner_ups_take_the_scratch_that_is_announced_for_them),
        cmocka_unit_test(linear_of_many_matrices_is_each_by_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
