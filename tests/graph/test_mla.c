/* MLA in absorbed form against the plain form: keys and values made for every token, then softmax attention. */
#include "small.h"

#include "sys/cpu.h"

#include <math.h>
#include <string.h>

#define TOKENS 150 /* more than two blocks of keys */

struct fixture {
    struct small s;
    struct wn_layer layer;
    struct wn_layer_state state;
    float *x, *out; /* [TOKENS][hidden] */
};

/* After small_init and whatever changes the shape. */
static void fixture_fill(struct fixture *f, size_t tokens)
{
    const struct wn_config *c = &f->s.config;

    small_scratch(&f->s, tokens, tokens);
    f->layer.mla = small_mla(&f->s);
    f->state.cache = small_zeros(&f->s, tokens * (c->kv_lora_rank + c->qk_rope_dim));
    f->x = small_floats(&f->s, tokens * c->hidden_size, 1);
    f->out = small_zeros(&f->s, tokens * c->hidden_size);
}

static void fixture_init(struct fixture *f, uint32_t q_lora, bool gate, unsigned threads)
{
    memset(f, 0, sizeof *f);
    small_init(&f->s, threads);
    f->s.config.q_lora_rank = q_lora;
    f->s.config.mla_output_gate = gate;
    fixture_fill(f, TOKENS);
}

static void run(struct fixture *f, size_t cut)
{
    size_t hidden = f->s.config.hidden_size;

    for (size_t at = 0; at < TOKENS; at += cut)
        wn_mla_forward(&f->s.ctx, &f->layer, f->x + at * hidden, wn_min_size(cut, TOKENS - at), &f->state, at,
                       f->out + at * hidden);
}

/* The small shape, and room for a wide one. */
enum { HEADS = 3, NOPE = 12, ROPE = 6, LORA = 24, V = 10, HIDDEN = 40, WIDE_HEADS = 19, WIDE_LORA = 300 };

/* Keys and values of one head, unabsorbed. */
static void keys_and_values(const struct fixture *f, size_t head, const double *latent, double *key, double *value)
{
    const struct wn_mla_weights *w = &f->layer.mla;
    const float *kb = (const float *)(const void *)w->k_b[head].data; /* [kv_lora][nope] */

    for (size_t i = 0; i < NOPE; i++) {
        key[i] = 0;
        for (size_t j = 0; j < f->s.config.kv_lora_rank; j++)
            key[i] += (double)kb[j * NOPE + i] * latent[j];
    }
    small_mul(&w->v_b[head], latent, value);
}

static void queries(const struct fixture *f, const double *x, double *q)
{
    const struct wn_mla_weights *w = &f->layer.mla;
    double low[20], normed[20];

    if (!f->s.config.q_lora_rank) {
        small_mul(&w->q, x, q);
        return;
    }
    small_mul(&w->q_a, x, low);
    small_norm(low, w->q_a_norm, 1e-6, normed, 20);
    small_mul(&w->q_b, normed, q);
}

static double latents[TOKENS][WIDE_LORA], rots[TOKENS][ROPE];

static void attend(const struct fixture *f, size_t t, size_t head, const double *q, double *o)
{
    double p[TOKENS], key[NOPE], value[V], most = -1e30, sum = 0;

    for (size_t j = 0; j <= t; j++) {
        keys_and_values(f, head, latents[j], key, value);
        p[j] = 0;
        for (size_t i = 0; i < NOPE; i++)
            p[j] += q[i] * key[i];
        for (size_t i = 0; i < ROPE; i++)
            p[j] += q[NOPE + i] * rots[j][i];
        p[j] /= sqrt(NOPE + ROPE);
        most = fmax(most, p[j]);
    }
    for (size_t j = 0; j <= t; j++)
        sum += p[j] = exp(p[j] - most);
    memset(o, 0, V * sizeof *o);
    for (size_t j = 0; j <= t; j++) {
        keys_and_values(f, head, latents[j], key, value);
        for (size_t i = 0; i < V; i++)
            o[i] += p[j] / sum * value[i];
    }
}

static void reference(const struct fixture *f, size_t tokens, double *out)
{
    const struct wn_mla_weights *w = &f->layer.mla;
    size_t lora = f->s.config.kv_lora_rank, heads = f->s.config.heads;

    for (size_t t = 0; t < tokens; t++) {
        double x[HIDDEN], c[WIDE_LORA + ROPE], q[WIDE_HEADS * (NOPE + ROPE)], o[WIDE_HEADS * V], gate[WIDE_HEADS * V];

        small_widen(f->x + t * HIDDEN, x, HIDDEN);
        small_mul(&w->kv_a, x, c);
        small_norm(c, w->kv_a_norm, 1e-6, latents[t], lora);
        memcpy(rots[t], c + lora, sizeof rots[t]);
        queries(f, x, q);
        for (size_t h = 0; h < heads; h++)
            attend(f, t, h, q + h * (NOPE + ROPE), o + h * V);
        if (f->s.config.mla_output_gate) {
            small_mul(&w->g, x, gate);
            for (size_t i = 0; i < heads * V; i++)
                o[i] *= small_sigmoid(gate[i]);
        }
        small_mul(&w->out, o, out + t * HIDDEN);
    }
}

static void expect_reference(uint32_t q_lora, bool gate)
{
    static struct fixture f;
    static double wanted[TOKENS * HIDDEN];

    fixture_init(&f, q_lora, gate, 1);
    run(&f, TOKENS);
    reference(&f, TOKENS, wanted);
    small_close(f.out, wanted, TOKENS * HIDDEN, 2e-5);
    small_release(&f.s);
}

static void absorbed_attention_is_plain_attention(void **state)
{
    (void)state;
    expect_reference(20, true);
}

static void models_without_query_rank_and_gate_work_too(void **state)
{
    (void)state;
    expect_reference(0, false);
}

static void any_cut_and_any_number_of_threads_gives_the_same_bits_and_cache(void **state)
{
    static const size_t cuts[] = {1, 7, 64, 65, 149};
    static struct fixture f;
    static float first[TOKENS * HIDDEN], cache[TOKENS * (LORA + ROPE)];

    (void)state;
    for (unsigned threads = 1; threads <= 3; threads++) {
        fixture_init(&f, 20, true, threads);
        run(&f, TOKENS);
        if (threads == 1) {
            memcpy(first, f.out, sizeof first);
            memcpy(cache, f.state.cache, sizeof cache);
        }
        assert_memory_equal(f.out, first, sizeof first);
        for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
            memset(f.out, 0, sizeof first);
            memset(f.state.cache, 0x7f, sizeof cache); /* rows that are not yet written must not be read */
            run(&f, cuts[i]);
            assert_memory_equal(f.out, first, sizeof first);
            assert_memory_equal(f.state.cache, cache, sizeof cache);
        }
        small_release(&f.s);
    }
}

static void a_token_sees_every_token_before_it_and_none_after(void **state)
{
    static struct fixture f;
    static float first[TOKENS * HIDDEN];

    (void)state;
    fixture_init(&f, 20, true, 1);
    run(&f, TOKENS);
    memcpy(first, f.out, sizeof first);
    f.x[70 * HIDDEN] += 1;
    run(&f, TOKENS);
    assert_memory_equal(f.out, first, 70 * HIDDEN * sizeof *first);
    for (size_t t = 70; t < TOKENS; t++)
        assert_memory_not_equal(f.out + t * HIDDEN, first + t * HIDDEN, HIDDEN * sizeof *first);
    small_release(&f.s);
}

static void wide_init(struct fixture *f, size_t tokens)
{
    memset(f, 0, sizeof *f);
    small_init(&f->s, 2);
    f->s.config.heads = WIDE_HEADS;
    f->s.config.kv_lora_rank = WIDE_LORA;
    fixture_fill(f, tokens);
}

static void more_heads_and_columns_than_a_block_are_all_summed(void **state)
{
    enum { FEW = 20 };
    static struct fixture f;
    static double wanted[FEW * HIDDEN];

    (void)state;
    wide_init(&f, FEW);
    wn_mla_forward(&f.s.ctx, &f.layer, f.x, FEW, &f.state, 0, f.out);
    reference(&f, FEW, wanted);
    small_close(f.out, wanted, FEW * HIDDEN, 5e-5);
    small_release(&f.s);
}

static void queries_that_need_several_tiles_have_the_bits_of_one(void **state)
{
    enum { MANY = 480 }; /* 480 queries x 19 heads x 480 keys are more scores than a tile holds */
    static struct fixture f;
    static float whole[MANY * HIDDEN];

    (void)state;
    wide_init(&f, MANY);
    wn_kernels_init(&f.s.kernels, wn_cpu_detect()); /* scalar ones take their time */
    wn_mla_forward(&f.s.ctx, &f.layer, f.x, MANY, &f.state, 0, whole);
    for (size_t at = 0; at < MANY; at += 96)
        wn_mla_forward(&f.s.ctx, &f.layer, f.x + at * HIDDEN, 96, &f.state, at, f.out + at * HIDDEN);
    assert_memory_equal(f.out, whole, sizeof whole);
    small_release(&f.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absorbed_attention_is_plain_attention),
        cmocka_unit_test(models_without_query_rank_and_gate_work_too),
        cmocka_unit_test(any_cut_and_any_number_of_threads_gives_the_same_bits_and_cache),
        cmocka_unit_test(more_heads_and_columns_than_a_block_are_all_summed),
        cmocka_unit_test(queries_that_need_several_tiles_have_the_bits_of_one),
        cmocka_unit_test(a_token_sees_every_token_before_it_and_none_after),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
