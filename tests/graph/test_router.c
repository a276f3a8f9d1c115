/* The router: the bias chooses, the scores weigh. */
#include "small.h"

#include <math.h>
#include <string.h>

#define EXPERTS 6
#define K       3

struct routed {
    float scores[EXPERTS], choice[EXPERTS], weights[K];
    uint32_t ids[K];
};

static double logit(double p)
{
    return log(p / (1 - p));
}

/* Routes one token whose sigmoid scores are p. */
static struct routed route(struct small *s, const double *p, const float *bias)
{
    struct routed r;

    s->config.experts_per_token = K;
    for (size_t e = 0; e < EXPERTS; e++)
        r.scores[e] = (float)logit(p[e]);
    wn_router_choose(&s->ctx, bias, EXPERTS, 1, K, r.scores, r.choice, r.ids, r.weights);
    return r;
}

static void expect_ids(const struct routed *r, uint32_t a, uint32_t b, uint32_t c)
{
    const uint32_t wanted[K] = {a, b, c};

    assert_memory_equal(r->ids, wanted, sizeof wanted);
}

/* One test function runs with one small context. */
static int setup(void **state)
{
    static struct small s;

    small_init(&s, 1);
    small_scratch(&s, 4, 8);
    *state = &s;
    return 0;
}

static int teardown(void **state)
{
    small_release(*state);
    return 0;
}

static const double P[EXPERTS] = {0.9, 0.2, 0.6, 0.5, 0.8, 0.1};
static const float NO_BIAS[EXPERTS];

static void experts_are_listed_by_falling_choice(void **state)
{
    struct routed r = route(*state, P, NO_BIAS);

    expect_ids(&r, 0, 4, 2);
}

static void a_bias_that_flips_the_choice_leaves_the_weights_to_the_scores(void **state)
{
    /* expert 5 has the lowest score of all; its bias puts it first */
    static const float bias[EXPERTS] = {0, 0, 0, 0, 0, 2.0f};
    struct routed r = route(*state, P, bias);
    double sum = 0.1 + 0.9 + 0.8;

    expect_ids(&r, 5, 0, 4);
    assert_true(fabs((double)r.weights[0] - 0.1 / sum) < 1e-6);
    assert_true(fabs((double)r.weights[1] - 0.9 / sum) < 1e-6);
    assert_true(fabs((double)r.weights[2] - 0.8 / sum) < 1e-6);
}

static void weights_are_renormalised_and_then_scaled(void **state)
{
    struct small *s = *state;
    struct routed r;

    s->config.routed_scaling_factor = 2.5f;
    r = route(s, P, NO_BIAS);
    assert_true(fabs((double)r.weights[0] + (double)r.weights[1] + (double)r.weights[2] - 2.5) < 1e-6);
    s->config.renormalize = false;
    r = route(s, P, NO_BIAS);
    assert_true(fabs((double)r.weights[0] - 2.5 * 0.9) < 1e-6);
    assert_true(fabs((double)r.weights[2] - 2.5 * 0.6) < 1e-6);
}

static void equal_choices_of_equal_scores_go_to_the_lower_index(void **state)
{
    static const double equal[EXPERTS] = {0.5, 0.5, 0.7, 0.5, 0.5, 0.7};
    struct routed r = route(*state, equal, NO_BIAS);

    expect_ids(&r, 2, 5, 0);
}

/* Two biases so large that all scores vanish beside them: the choices are equal, the scores are not. */
static void of_equal_choices_the_larger_score_goes_first_however_experts_are_numbered(void **state)
{
    static const float bias[EXPERTS] = {0, 0x1p25f, 0x1p25f, 0, 0x1p25f, 0x1p25f};
    struct routed r = route(*state, P, bias), turned;
    double p[EXPERTS];
    float turned_bias[EXPERTS];

    expect_ids(&r, 4, 2, 1);
    for (size_t e = 0; e < EXPERTS; e++) {
        p[e] = P[EXPERTS - 1 - e];
        turned_bias[e] = bias[EXPERTS - 1 - e];
    }
    turned = route(*state, p, turned_bias);
    expect_ids(&turned, EXPERTS - 1 - 4, EXPERTS - 1 - 2, EXPERTS - 1 - 1);
    assert_memory_equal(turned.weights, r.weights, sizeof r.weights);
}

static void an_expert_with_a_bias_of_minus_infinity_is_never_chosen(void **state)
{
    static const float bias[EXPERTS] = {-INFINITY, 0, 0, 0, -INFINITY, -INFINITY};
    struct routed r = route(*state, P, bias);

    expect_ids(&r, 2, 3, 1);
}

static void masking_gives_the_bits_of_renumbering(void **state)
{
    static const float mask[EXPERTS] = {-INFINITY, 0.1f, 0.2f, -0.3f, 0, -INFINITY};
    static const uint32_t keep[4] = {4, 2, 1, 3};
    struct small *s = *state;
    struct routed full = route(s, P, mask);
    float scores[4], choice[4], bias[4], weights[K];
    uint32_t ids[K];

    for (size_t i = 0; i < 4; i++) {
        scores[i] = (float)logit(P[keep[i]]);
        bias[i] = mask[keep[i]];
    }
    wn_router_choose(&s->ctx, bias, 4, 1, K, scores, choice, ids, weights);
    for (size_t i = 0; i < K; i++)
        assert_int_equal(keep[ids[i]], full.ids[i]);
    assert_memory_equal(weights, full.weights, sizeof weights);
}

static void scores_that_are_no_numbers_still_give_k_different_open_experts(void **state)
{
    static const float bias[EXPERTS] = {-INFINITY, 0, 0, 0, 0, 0};
    double p[EXPERTS];
    struct routed r;

    for (size_t e = 0; e < EXPERTS; e++)
        p[e] = (double)NAN;
    r = route(*state, p, bias);
    expect_ids(&r, 1, 2, 3);
    assert_true(isnan(r.weights[0]));
    p[4] = 0.3;
    r = route(*state, p, bias);
    expect_ids(&r, 4, 1, 2);
}

static void any_number_of_experts_from_k_up_works(void **state)
{
    struct small *s = *state;
    static float scores[896], choice[896], bias[896];
    uint32_t ids[16], most = 16;
    float weights[16];

    for (s->config.experts_per_token = 1; s->config.experts_per_token <= most; s->config.experts_per_token++)
        for (size_t experts = s->config.experts_per_token; experts <= 896; experts += 110) {
            for (size_t e = 0; e < experts; e++)
                scores[e] = (float)((e * 37) % experts) / (float)experts;
            wn_router_choose(&s->ctx, bias, experts, 1, s->config.experts_per_token, scores, choice, ids, weights);
            for (size_t i = 0; i < s->config.experts_per_token; i++) {
                assert_true(ids[i] < experts);
                assert_true(i == 0 || choice[ids[i]] <= choice[ids[i - 1]]);
            }
            for (size_t e = 0, above = 0; e < experts; e++) {
                above += choice[e] > choice[ids[s->config.experts_per_token - 1]];
                assert_true(above < s->config.experts_per_token);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(experts_are_listed_by_falling_choice, setup, teardown),
        cmocka_unit_test_setup_teardown(a_bias_that_flips_the_choice_leaves_the_weights_to_the_scores, setup, teardown),
        cmocka_unit_test_setup_teardown(weights_are_renormalised_and_then_scaled, setup, teardown),
        cmocka_unit_test_setup_teardown(equal_choices_of_equal_scores_go_to_the_lower_index, setup, teardown),
        cmocka_unit_test_setup_teardown(of_equal_choices_the_larger_score_goes_first_however_experts_are_numbered,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(an_expert_with_a_bias_of_minus_infinity_is_never_chosen, setup, teardown),
        cmocka_unit_test_setup_teardown(masking_gives_the_bits_of_renumbering, setup, teardown),
        cmocka_unit_test_setup_teardown(scores_that_are_no_numbers_still_give_k_different_open_experts, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(any_number_of_experts_from_k_up_works, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
