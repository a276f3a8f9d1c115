/* The mixture of experts against a token-by-token, expert-by-expert loop in double precision. */
#include "small.h"

#include <math.h>
#include <string.h>

#define TOKENS 9

enum { HIDDEN = 40, EXPERTS = 8, K = 3, INNER = 30 };

struct fixture {
    struct small s;
    struct wn_layer layer;
    float *x, *out;
};

static void fixture_init(struct fixture *f, uint32_t latent, bool norm, uint32_t shared, enum wn_activation act)
{
    memset(f, 0, sizeof *f);
    small_init(&f->s, 2);
    f->s.config.latent_size = latent;
    f->s.config.latent_norm = norm;
    f->s.config.shared_experts = shared;
    f->s.config.activation = act;
    f->s.config.routed_scaling_factor = 1.5f;
    small_scratch(&f->s, TOKENS, TOKENS);
    f->layer.moe = true;
    f->layer.mixture = small_moe(&f->s);
    f->x = small_floats(&f->s, TOKENS * HIDDEN, 1);
    f->out = small_zeros(&f->s, TOKENS * HIDDEN);
}

static void mlp(const struct wn_config *c, const struct wn_matrix *gate, const struct wn_matrix *up,
                const struct wn_matrix *down, const double *x, double *y)
{
    double g[2 * INNER], u[2 * INNER];

    small_mul(gate, x, g);
    small_mul(up, x, u);
    for (size_t i = 0; i < gate->rows; i++) {
        double lb = (double)c->situ_linear_beta, beta = (double)c->situ_beta;

        if (c->activation == WN_ACTIVATION_SILU)
            g[i] = g[i] * small_sigmoid(g[i]) * u[i];
        else
            g[i] = beta * tanh(g[i] / beta) * small_sigmoid(g[i]) * (lb > 0 ? lb * tanh(u[i] / lb) : u[i]);
    }
    small_mul(down, g, y);
}

static void pick(const struct wn_moe_weights *w, const double *scores, bool *taken)
{
    memset(taken, 0, EXPERTS * sizeof *taken);
    for (size_t n = 0; n < K; n++) {
        size_t best = EXPERTS;

        for (size_t e = 0; e < EXPERTS; e++)
            if (!taken[e] && (best == EXPERTS ||
                              scores[e] + (double)w->router_bias[e] > scores[best] + (double)w->router_bias[best]))
                best = e;
        taken[best] = true;
    }
}

static void reference_token(const struct fixture *f, const double *x, double *out)
{
    const struct wn_config *c = &f->s.config;
    const struct wn_moe_weights *w = &f->layer.mixture;
    size_t width = c->latent_size ? c->latent_size : HIDDEN;
    double scores[EXPERTS], z[HIDDEN], y[HIDDEN], sum[HIDDEN] = {0}, total = 0, shared[HIDDEN] = {0};
    bool taken[EXPERTS];

    small_mul(&w->router, x, scores);
    for (size_t e = 0; e < EXPERTS; e++)
        scores[e] = small_sigmoid(scores[e]);
    pick(w, scores, taken);
    for (size_t e = 0; e < EXPERTS; e++)
        total += taken[e] ? scores[e] : 0;
    memcpy(z, x, sizeof z);
    if (c->latent_size)
        small_mul(&w->latent_down, x, z);
    for (size_t e = 0; e < EXPERTS; e++) {
        uint32_t who = w->serves ? w->serves[e] : (uint32_t)e;

        if (!taken[e] || (who >= WN_GHOST && w->ghosts.rows == 0))
            continue;
        if (who >= WN_GHOST)
            small_widen((const float *)(const void *)w->ghosts.data + (who - WN_GHOST) * width, y, width);
        else
            mlp(c, &w->experts[who].gate, &w->experts[who].up, &w->experts[who].down, z, y);
        for (size_t i = 0; i < width; i++)
            sum[i] += scores[e] / total * (double)c->routed_scaling_factor * y[i];
    }
    if (w->latent_norm)
        small_norm(sum, w->latent_norm, 1e-5, sum, width);
    memcpy(out, sum, sizeof sum);
    if (c->latent_size)
        small_mul(&w->latent_up, sum, out);
    if (c->shared_experts)
        mlp(c, &w->shared.gate, &w->shared.up, &w->shared.down, x, shared);
    for (size_t i = 0; i < HIDDEN; i++)
        out[i] += shared[i];
}

static void expect_forward(struct fixture *f)
{
    double x[HIDDEN], wanted[TOKENS * HIDDEN];

    wn_moe_forward(&f->s.ctx, &f->layer, f->x, TOKENS, f->out);
    for (size_t t = 0; t < TOKENS; t++) {
        small_widen(f->x + t * HIDDEN, x, HIDDEN);
        reference_token(f, x, wanted + t * HIDDEN);
    }
    small_close(f->out, wanted, TOKENS * HIDDEN, 2e-5);
}

static void expect_reference(uint32_t latent, bool norm, uint32_t shared, enum wn_activation act)
{
    static struct fixture f;

    fixture_init(&f, latent, norm, shared, act);
    expect_forward(&f);
    small_release(&f.s);
}

/* Rows 1, 2 and 6 of the router become ghosts; the experts that stay are stored in another order than their rows. */
static uint32_t serves[EXPERTS] = {4, WN_GHOST, WN_GHOST + 1, 0, 1, 3, WN_GHOST + 2, 2};

static void drop_experts(struct fixture *f, bool means)
{
    struct wn_moe_weights *w = &f->layer.mixture;
    struct wn_expert all[EXPERTS];
    size_t width = f->s.config.latent_size ? f->s.config.latent_size : HIDDEN;

    memcpy(all, w->experts, sizeof all);
    memset(w->experts, 0, sizeof all); /* what is dropped is not there to be read */
    for (size_t row = 0; row < EXPERTS; row++)
        if (serves[row] < WN_GHOST)
            w->experts[serves[row]] = all[row];
    w->serves = serves;
    w->expert_count = 5;
    if (means)
        w->ghosts = small_matrix(&f->s, 3, width);
}

static void expect_ghosts(uint32_t latent, bool norm, bool means)
{
    static struct fixture f;
    double lost = 0;
    struct wn_route_meter meter = {.lost = &lost};
    size_t ghosts = 0;

    fixture_init(&f, latent, norm, 2, WN_ACTIVATION_SITU);
    drop_experts(&f, means);
    f.s.ctx.meter = &meter;
    expect_forward(&f);
    for (size_t t = 0; t < TOKENS; t++) {
        double x[HIDDEN], scores[EXPERTS];
        bool taken[EXPERTS];

        small_widen(f.x + t * HIDDEN, x, HIDDEN);
        small_mul(&f.layer.mixture.router, x, scores);
        for (size_t e = 0; e < EXPERTS; e++)
            scores[e] = small_sigmoid(scores[e]);
        pick(&f.layer.mixture, scores, taken);
        ghosts += (size_t)taken[1] + taken[2] + taken[6];
    }
    assert_int_equal(meter.tokens, TOKENS);
    assert_int_equal(meter.chosen, TOKENS * K);
    assert_int_equal(meter.ghosts, ghosts);
    assert_true(ghosts > 0 && lost > 0 && lost < TOKENS);
    small_release(&f.s);
}

static void ghosts_give_nothing_or_their_mean_and_leave_the_others_their_weights(void **state)
{
    (void)state;
    expect_ghosts(26, true, false);
    expect_ghosts(26, true, true);
    expect_ghosts(0, false, false);
    expect_ghosts(0, false, true);
}

static void experts_work_in_the_latent_and_are_normed_before_the_way_up(void **state)
{
    (void)state;
    expect_reference(26, true, 2, WN_ACTIVATION_SITU);
    expect_reference(26, false, 2, WN_ACTIVATION_SITU);
}

static void models_without_latent_and_with_swiglu_work_too(void **state)
{
    (void)state;
    expect_reference(0, false, 1, WN_ACTIVATION_SILU);
}

static void models_without_shared_experts_work_too(void **state)
{
    (void)state;
    expect_reference(26, true, 0, WN_ACTIVATION_SITU);
    expect_reference(0, false, 0, WN_ACTIVATION_SILU);
}

static void a_batch_has_the_bits_of_its_tokens(void **state)
{
    static struct fixture f;
    static float one[TOKENS * HIDDEN];

    (void)state;
    fixture_init(&f, 26, true, 2, WN_ACTIVATION_SITU);
    for (size_t t = 0; t < TOKENS; t++)
        wn_moe_forward(&f.s.ctx, &f.layer, f.x + t * HIDDEN, 1, one + t * HIDDEN);
    wn_moe_forward(&f.s.ctx, &f.layer, f.x, TOKENS, f.out);
    assert_memory_equal(f.out, one, sizeof one);
    small_release(&f.s);
}

/* Remembers what a probe was shown. */
struct seen {
    size_t k;
    uint32_t ids[TOKENS * (K + 1)];
    float weights[TOKENS * (K + 1)], outputs[TOKENS * (K + 1) * 26], sum[TOKENS * 26], scores[TOKENS * EXPERTS];
};

static void see_routed(void *arg, int32_t layer, const uint32_t *ids, const float *weights, const float *outputs,
                       size_t tokens, size_t k, size_t width)
{
    struct seen *seen = arg;

    assert_int_equal(layer, 0);
    seen->k = k;
    memcpy(seen->ids, ids, tokens * k * sizeof *ids);
    memcpy(seen->weights, weights, tokens * k * sizeof *weights);
    memcpy(seen->outputs, outputs, tokens * k * width * sizeof *outputs);
}

static void see_value(void *arg, const char *name, int32_t layer, const float *data, size_t tokens, size_t width)
{
    struct seen *seen = arg;

    (void)layer;
    if (strcmp(name, "latent_sum") == 0)
        memcpy(seen->sum, data, tokens * width * sizeof *data);
    if (strcmp(name, "router_scores") == 0)
        memcpy(seen->scores, data, tokens * width * sizeof *data);
}

static void the_probe_sees_outputs_whose_weighted_sum_is_the_latent_sum(void **state)
{
    static struct fixture f;
    static struct seen seen;
    const struct wn_probe probe = {.arg = &seen, .value = see_value, .routed = see_routed};
    static float plain[TOKENS * HIDDEN], sum[26];

    (void)state;
    fixture_init(&f, 26, true, 2, WN_ACTIVATION_SITU);
    wn_moe_forward(&f.s.ctx, &f.layer, f.x, TOKENS, plain);
    f.s.ctx.probe = &probe;
    wn_moe_forward(&f.s.ctx, &f.layer, f.x, TOKENS, f.out);
    assert_memory_equal(f.out, plain, sizeof plain); /* watching changes nothing */
    for (size_t t = 0; t < TOKENS; t++) {
        memset(sum, 0, sizeof sum);
        for (size_t i = t * K; i < (t + 1) * K; i++)
            f.s.kernels.axpy(seen.weights[i], seen.outputs + i * 26, sum, 26);
        assert_memory_equal(sum, seen.sum + t * 26, sizeof sum);
    }
    small_release(&f.s);
}

static void weights_of_experts_that_nobody_chose_are_not_read(void **state)
{
    static struct fixture f;
    static struct seen seen;
    const struct wn_probe probe = {.arg = &seen, .routed = see_routed};
    static float plain[HIDDEN];

    (void)state;
    fixture_init(&f, 26, true, 2, WN_ACTIVATION_SITU);
    f.s.ctx.probe = &probe;
    wn_moe_forward(&f.s.ctx, &f.layer, f.x, 1, plain);
    for (uint32_t e = 0; e < EXPERTS; e++)
        if (e != seen.ids[0] && e != seen.ids[1] && e != seen.ids[2])
            f.layer.mixture.experts[e].gate.data = f.layer.mixture.experts[e].up.data =
                f.layer.mixture.experts[e].down.data = NULL;
    wn_moe_forward(&f.s.ctx, &f.layer, f.x, 1, f.out);
    assert_memory_equal(f.out, plain, sizeof plain);
    small_release(&f.s);
}

/* Room for runner-ups in place of what fixture_init gave. */
static void make_room(struct small *s)
{
    struct wn_err err;

    wn_arena_release(&s->arena);
    CHECK_OK(wn_arena_init(&s->arena, wn_graph_scratch(&s->config, TOKENS, TOKENS, true), &err), &err);
}

static void a_runner_up_is_shown_and_changes_nothing(void **state)
{
    static struct fixture f;
    static struct seen seen, next;
    struct wn_probe probe = {.arg = &seen, .value = see_value, .routed = see_routed};
    static float plain[TOKENS * HIDDEN];

    (void)state;
    fixture_init(&f, 26, true, 2, WN_ACTIVATION_SITU);
    make_room(&f.s);
    f.s.ctx.probe = &probe;
    wn_moe_forward(&f.s.ctx, &f.layer, f.x, TOKENS, plain);
    probe = (struct wn_probe){.arg = &next, .value = see_value, .routed = see_routed, .runner_up = true};
    wn_moe_forward(&f.s.ctx, &f.layer, f.x, TOKENS, f.out);
    assert_memory_equal(f.out, plain, sizeof plain);
    assert_int_equal(seen.k, K);
    assert_int_equal(next.k, K + 1);
    for (size_t t = 0; t < TOKENS; t++) {
        const size_t old = t * K, new = t *(K + 1);

        assert_memory_equal(next.ids + new, seen.ids + old, K * sizeof *seen.ids);
        assert_memory_equal(next.weights + new, seen.weights + old, K * sizeof *seen.weights);
        assert_memory_equal(next.outputs + new * 26, seen.outputs + old * 26, K * 26 * sizeof *seen.outputs);
    }
    small_release(&f.s);
}

/* With the first choice's bias at minus infinity the runner-up is the last of the chosen. */
static void the_runner_up_is_who_enters_when_a_chosen_one_goes(void **state)
{
    static struct fixture f;
    static struct seen next, masked;
    struct wn_probe probe = {.arg = &next, .value = see_value, .routed = see_routed, .runner_up = true};

    (void)state;
    fixture_init(&f, 26, true, 2, WN_ACTIVATION_SITU);
    make_room(&f.s);
    f.s.ctx.probe = &probe;
    for (size_t t = 0; t < TOKENS; t++) {
        float bias, sum = 0;

        probe.arg = &next;
        wn_moe_forward(&f.s.ctx, &f.layer, f.x + t * HIDDEN, 1, f.out);
        bias = f.layer.mixture.router_bias[next.ids[0]];
        f.layer.mixture.router_bias[next.ids[0]] = -INFINITY;
        probe.arg = &masked;
        wn_moe_forward(&f.s.ctx, &f.layer, f.x + t * HIDDEN, 1, f.out);
        f.layer.mixture.router_bias[next.ids[0]] = bias;
        assert_memory_equal(masked.ids, next.ids + 1, K * sizeof *next.ids);
        assert_memory_equal(masked.outputs, next.outputs + 26, K * 26 * sizeof *next.outputs);
        for (size_t i = 0; i < K; i++)
            sum += next.scores[next.ids[i]];
        assert_true(next.weights[K] == next.scores[next.ids[K]] / (sum + 1e-20f) * 1.5f);
    }
    small_release(&f.s);
}

static void where_no_more_than_k_are_open_there_is_no_runner_up(void **state)
{
    static struct fixture f;
    static struct seen seen;
    const struct wn_probe probe = {.arg = &seen, .value = see_value, .routed = see_routed, .runner_up = true};

    (void)state;
    fixture_init(&f, 26, true, 2, WN_ACTIVATION_SITU);
    make_room(&f.s);
    f.s.ctx.probe = &probe;
    for (uint32_t e = 0; e < EXPERTS - K - 1; e++)
        f.layer.mixture.router_bias[e] = -INFINITY;
    wn_moe_forward(&f.s.ctx, &f.layer, f.x, TOKENS, f.out);
    assert_int_equal(seen.k, K + 1);
    f.layer.mixture.router_bias[EXPERTS - K - 1] = -INFINITY;
    wn_moe_forward(&f.s.ctx, &f.layer, f.x, TOKENS, f.out);
    assert_int_equal(seen.k, K);
    f.layer.mixture.expert_count = K; /* a layer of K experts */
    f.layer.mixture.router.rows = K;
    for (uint32_t e = 0; e < K; e++)
        f.layer.mixture.router_bias[e] = 0;
    wn_moe_forward(&f.s.ctx, &f.layer, f.x, TOKENS, f.out);
    assert_int_equal(seen.k, K);
    small_release(&f.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_work_in_the_latent_and_are_normed_before_the_way_up),
        cmocka_unit_test(models_without_latent_and_with_swiglu_work_too),
        cmocka_unit_test(models_without_shared_experts_work_too),
        cmocka_unit_test(a_batch_has_the_bits_of_its_tokens),
        cmocka_unit_test(the_probe_sees_outputs_whose_weighted_sum_is_the_latent_sum),
        cmocka_unit_test(weights_of_experts_that_nobody_chose_are_not_read),
        cmocka_unit_test(ghosts_give_nothing_or_their_mean_and_leave_the_others_their_weights),
        cmocka_unit_test(a_runner_up_is_shown_and_changes_nothing),
        cmocka_unit_test(the_runner_up_is_who_enters_when_a_chosen_one_goes),
        cmocka_unit_test(where_no_more_than_k_are_open_there_is_no_runner_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
