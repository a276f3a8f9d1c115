/* KDA against a plain double-precision recurrence, and against itself cut otherwise. */
#include "small.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS 13

struct fixture {
    struct small s;
    struct wn_layer layer;
    struct wn_layer_state state;
    float *x, *out; /* [TOKENS][hidden] */
    size_t state_floats;
};

static void fixture_init(struct fixture *f, bool bound, bool full_gate, unsigned threads)
{
    const struct wn_config *c = &f->s.config;
    size_t wide, tail;

    memset(f, 0, sizeof *f);
    small_init(&f->s, threads);
    f->s.config.kda_lower_bound = bound;
    f->s.config.kda_full_rank_gate = full_gate;
    small_scratch(&f->s, TOKENS, TOKENS);
    wide = c->kda_heads * c->kda_head_dim;
    tail = (c->conv_taps - 1) * wide;
    f->layer.kda = small_kda(&f->s);
    f->state_floats = wide * c->kda_head_dim + 3 * tail;
    f->state.kda = small_zeros(&f->s, f->state_floats);
    f->state.tail_q = f->state.kda + wide * c->kda_head_dim;
    f->state.tail_k = f->state.tail_q + tail;
    f->state.tail_v = f->state.tail_k + tail;
    f->x = small_floats(&f->s, TOKENS * c->hidden_size, 1);
    f->out = small_zeros(&f->s, TOKENS * c->hidden_size);
}

static void run(struct fixture *f, const size_t *cuts)
{
    size_t hidden = f->s.config.hidden_size;

    memset(f->state.kda, 0, f->state_floats * sizeof(float));
    for (size_t at = 0; at < TOKENS; at += *cuts++)
        wn_kda_forward(&f->s.ctx, &f->layer, f->x + at * hidden, *cuts, &f->state, f->out + at * hidden);
}

/* The convolved channel c of token t: silu of four taps over what came before, zero before the sequence. */
static double convolved(const struct fixture *f, const struct wn_matrix *m, const float *taps, size_t t, size_t channel)
{
    size_t n = f->s.config.conv_taps, hidden = f->s.config.hidden_size;
    const float *row = (const float *)(const void *)m->data + channel * hidden;
    double sum = 0;

    for (size_t j = 0; j < n; j++) {
        double in = 0;

        if (t + j < n - 1)
            continue;
        for (size_t i = 0; i < hidden; i++)
            in += (double)row[i] * (double)f->x[(t + j - (n - 1)) * hidden + i];
        sum += in * (double)taps[channel * n + j];
    }
    return sum * small_sigmoid(sum);
}

static void l2(double *x, size_t n, double scale)
{
    double ss = 0;

    for (size_t i = 0; i < n; i++)
        ss += x[i] * x[i];
    for (size_t i = 0; i < n; i++)
        x[i] *= scale / sqrt(ss + 1e-6);
}

enum { DIM = 16 };

/* The step of one head, written the long way round. */
static void head_step(double (*S)[DIM], const double *q, const double *k, const double *v, const double *g, double beta,
                      double *o)
{
    double d[DIM];

    for (size_t i = 0; i < DIM; i++)
        for (size_t j = 0; j < DIM; j++)
            S[i][j] *= exp(g[i]);
    for (size_t j = 0; j < DIM; j++) {
        d[j] = v[j];
        for (size_t i = 0; i < DIM; i++)
            d[j] -= S[i][j] * k[i];
        d[j] *= beta;
    }
    for (size_t j = 0; j < DIM; j++) {
        o[j] = 0;
        for (size_t i = 0; i < DIM; i++) {
            S[i][j] += k[i] * d[j];
            o[j] += S[i][j] * q[i];
        }
    }
}

/* rate(a of the head): how the decay reads A; the wrong readings below fail. */
static void reference(const struct fixture *f, const float *a, bool a_per_channel, bool wrong_gate, double *out)
{
    const struct wn_config *c = &f->s.config;
    const struct wn_kda_weights *w = &f->layer.kda;
    size_t wide = c->kda_heads * DIM;
    static double S[3][DIM][DIM];

    memset(S, 0, sizeof S);
    for (size_t t = 0; t < TOKENS; t++) {
        double x[40], low[DIM], s[48], beta[3], gate[48], o[48];

        small_widen(f->x + t * c->hidden_size, x, c->hidden_size);
        small_mul(&w->f_a, x, low);
        small_mul(&w->f_b, low, s);
        small_mul(&w->beta, x, beta);
        if (c->kda_full_rank_gate) {
            small_mul(&w->g, x, gate);
        } else {
            small_mul(&w->g_a, x, low);
            small_mul(&w->g_b, low, gate);
        }
        for (size_t h = 0; h < c->kda_heads; h++) {
            double q[DIM], k[DIM], v[DIM], g[DIM], normed[DIM];

            for (size_t i = 0; i < DIM; i++) {
                size_t channel = h * DIM + i;
                double z = s[channel] + (double)w->dt_bias[channel], rate = (double)a[a_per_channel ? i : h];

                q[i] = convolved(f, &w->q, w->conv_q, t, channel);
                k[i] = convolved(f, &w->k, w->conv_k, t, channel);
                v[i] = convolved(f, &w->v, w->conv_v, t, channel);
                g[i] = c->kda_lower_bound != wrong_gate ? -5 * small_sigmoid(rate * z) : -rate * log1p(exp(z));
            }
            l2(q, DIM, 1 / sqrt(DIM));
            l2(k, DIM, 1);
            head_step(S[h], q, k, v, g, small_sigmoid(beta[h]), o + h * DIM);
            small_norm(o + h * DIM, w->o_norm, 1e-5, normed, DIM);
            memcpy(o + h * DIM, normed, sizeof normed);
        }
        for (size_t i = 0; i < wide; i++)
            o[i] *= small_sigmoid(gate[i]);
        small_mul(&w->out, o, out + t * c->hidden_size);
    }
}

static const size_t WHOLE[] = {TOKENS};

static void expect_reference(bool bound, bool full_gate)
{
    static struct fixture f;
    static double wanted[TOKENS * 40];

    fixture_init(&f, bound, full_gate, 1);
    run(&f, WHOLE);
    reference(&f, f.layer.kda.a, false, false, wanted);
    small_close(f.out, wanted, TOKENS * 40, 2e-5);
    small_release(&f.s);
}

static void kda_is_the_delta_rule_with_a_bounded_decay(void **state)
{
    (void)state;
    expect_reference(true, true);
}

static void without_a_bound_the_decay_is_softplus(void **state)
{
    (void)state;
    expect_reference(false, true);
}

static void a_low_rank_gate_is_g_b_of_g_a(void **state)
{
    (void)state;
    expect_reference(false, false);
}

static bool near(const float *got, const double *wanted, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fabs((double)got[i] - wanted[i]) > 1e-3)
            return false;
    return true;
}

static void a_is_per_head_and_its_padding_is_never_read(void **state)
{
    static struct fixture f;
    static double wanted[TOKENS * 40];
    float padded[DIM];

    (void)state;
    fixture_init(&f, true, true, 1);
    for (size_t i = 0; i < DIM; i++)
        padded[i] = i < 3 ? f.layer.kda.a[i] : NAN; /* as long as head_dim, which invites reading it per channel */
    f.layer.kda.a = padded;
    run(&f, WHOLE);
    reference(&f, padded, false, false, wanted);
    small_close(f.out, wanted, TOKENS * 40, 2e-5);
    for (size_t i = 3; i < DIM; i++)
        padded[i] = 1; /* exp(0) */
    reference(&f, padded, true, false, wanted);
    assert_false(near(f.out, wanted, TOKENS * 40));
    reference(&f, padded, false, true, wanted);
    assert_false(near(f.out, wanted, TOKENS * 40));
    small_release(&f.s);
}

static void any_cut_and_any_number_of_threads_gives_the_same_bits_and_state(void **state)
{
    static const size_t cuts[][TOKENS] = {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {5, 8}, {1, 2, 3, 7}, {12, 1}};
    static struct fixture f;

    (void)state;
    for (unsigned threads = 1; threads <= 3; threads++) {
        static float first[TOKENS * 40], first_state[3 * DIM * DIM + 9 * 3 * DIM];

        fixture_init(&f, true, true, threads);
        run(&f, WHOLE);
        if (threads == 1) {
            memcpy(first, f.out, sizeof first);
            assert_int_equal(sizeof first_state, f.state_floats * sizeof(float));
            memcpy(first_state, f.state.kda, sizeof first_state);
        }
        assert_memory_equal(f.out, first, sizeof first);
        for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
            memset(f.out, 0, sizeof first);
            run(&f, cuts[i]);
            assert_memory_equal(f.out, first, sizeof first);
            assert_memory_equal(f.state.kda, first_state, sizeof first_state);
        }
        f.state.tail_k[0] += 1; /* and a state that is not the same does show */
        wn_kda_forward(&f.s.ctx, &f.layer, f.x, 1, &f.state, f.out);
        memcpy(f.state.kda, first_state, sizeof first_state);
        wn_kda_forward(&f.s.ctx, &f.layer, f.x, 1, &f.state, f.out + 40);
        assert_memory_not_equal(f.out, f.out + 40, 40 * sizeof(float));
        small_release(&f.s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kda_is_the_delta_rule_with_a_bounded_decay),
        cmocka_unit_test(without_a_bound_the_decay_is_softplus),
        cmocka_unit_test(a_low_rank_gate_is_g_b_of_g_a),
        cmocka_unit_test(a_is_per_head_and_its_padding_is_never_read),
        cmocka_unit_test(any_cut_and_any_number_of_threads_gives_the_same_bits_and_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
