/*
 * Each variant that this processor can run gives scalar's bits. A kernel is one row of `checks` (or a test of its own
 * where its shape is special): inputs lie in memory that ends at an unreadable page, so a tail that reads or writes too
 * far crashes, and what lies before the output must not change.
 */
#include "support.h"

#include "wn_test.h"

#include <math.h>
#include <string.h>

struct inputs {
    size_t n;
    const float *a, *b;
    const uint8_t *stored, *scales;
    float p, q;
};

/* Writes its result to out: one float, or n, or n + 1. */
typedef void run_fn(const struct wn_kernels *k, const struct inputs *in, float *out);

#define RUN(name, statement)                                                                                           \
    static void run_##name(const struct wn_kernels *k, const struct inputs *in, float *out)                            \
    {                                                                                                                  \
        statement;                                                                                                     \
    }

RUN(dot_f32, *out = k->dot_f32(in->a, in->b, in->n))
RUN(dot_bf16, *out = k->dot_bf16(in->stored, in->a, in->n))
RUN(dot_f16, *out = k->dot_f16(in->stored, in->a, in->n))
RUN(dot_q8_0, *out = k->dot_q8_0(in->stored, in->a, in->n))
RUN(dot_mxfp4, *out = k->dot_mxfp4(in->stored, in->a, in->n))
RUN(dot_mxfp4_split, *out = k->dot_mxfp4_split(in->stored, in->scales, in->a, in->n))
RUN(axpy, memcpy(out, in->b, in->n * sizeof(*out)); k->axpy(in->p, in->a, out, in->n))
RUN(add, k->add(in->a, in->b, out, in->n))
RUN(add_in_place, memcpy(out, in->b, in->n * sizeof(*out)); k->add(in->a, out, out, in->n))
RUN(mul, k->mul(in->a, in->b, out, in->n))
RUN(scale, k->scale(in->p, in->a, out, in->n))
RUN(sum_squares, *out = k->sum_squares(in->a, in->n))
RUN(sum, *out = k->sum(in->a, in->n))
RUN(max, *out = k->max(in->a, in->n))
RUN(rms_norm, out[in->n] = k->rms_norm(in->a, in->b, 1e-5f, out, in->n))
RUN(rms_norm_of_ones, out[in->n] = k->rms_norm(in->a, NULL, 1e-6f, out, in->n))
RUN(l2_norm, k->l2_norm(in->a, 1e-6f, in->p, out, in->n))
RUN(exp, k->exp(in->a, out, in->n))
RUN(exp_in_place, memcpy(out, in->a, in->n * sizeof(*out)); k->exp(out, out, in->n))
RUN(sigmoid, k->sigmoid(in->a, out, in->n))
RUN(silu, k->silu(in->a, out, in->n))
RUN(softplus, k->softplus(in->a, out, in->n))
RUN(situ, k->situ(in->a, in->b, 4, 25, out, in->n))
RUN(situ_any, k->situ(in->a, in->b, in->p, in->q, out, in->n))
RUN(situ_plain, k->situ(in->a, in->b, 4, 0, out, in->n))
RUN(swiglu, k->swiglu(in->a, in->b, out, in->n))
RUN(softmax, memcpy(out, in->a, in->n * sizeof(*out)); k->softmax(out, in->n))

enum result { ONE, EACH, EACH_AND_ONE };

static const struct check {
    const char *name;
    run_fn *run;
    enum result result;
    enum wn_type type; /* of stored; WN_F32: none is needed */
} checks[] = {
    {"dot_f32", run_dot_f32, ONE, WN_F32},
    {"dot_bf16", run_dot_bf16, ONE, WN_BF16},
    {"dot_f16", run_dot_f16, ONE, WN_F16},
    {"dot_q8_0", run_dot_q8_0, ONE, WN_Q8_0},
    {"dot_mxfp4", run_dot_mxfp4, ONE, WN_MXFP4},
    {"dot_mxfp4_split", run_dot_mxfp4_split, ONE, WN_MXFP4_SPLIT},
    {"axpy", run_axpy, EACH, WN_F32},
    {"add", run_add, EACH, WN_F32},
    {"add in place", run_add_in_place, EACH, WN_F32},
    {"mul", run_mul, EACH, WN_F32},
    {"scale", run_scale, EACH, WN_F32},
    {"sum_squares", run_sum_squares, ONE, WN_F32},
    {"sum", run_sum, ONE, WN_F32},
    {"max", run_max, ONE, WN_F32},
    {"rms_norm", run_rms_norm, EACH_AND_ONE, WN_F32},
    {"rms_norm of ones", run_rms_norm_of_ones, EACH_AND_ONE, WN_F32},
    {"l2_norm", run_l2_norm, EACH, WN_F32},
    {"exp", run_exp, EACH, WN_F32},
    {"exp in place", run_exp_in_place, EACH, WN_F32},
    {"sigmoid", run_sigmoid, EACH, WN_F32},
    {"silu", run_silu, EACH, WN_F32},
    {"softplus", run_softplus, EACH, WN_F32},
    {"situ", run_situ, EACH, WN_F32},
    {"situ of any betas", run_situ_any, EACH, WN_F32},
    {"situ without linear beta", run_situ_plain, EACH, WN_F32},
    {"swiglu", run_swiglu, EACH, WN_F32},
    {"softmax", run_softmax, EACH, WN_F32},
};
enum { CHECKS = sizeof(checks) / sizeof(checks[0]) };

enum { BEFORE = 16 }; /* floats in front of an output that must stay */

/* Runs a check into the given slot; returns the output with what lies before it. */
static const float *run_into(unsigned slot, const struct check *c, const struct wn_kernels *k, const struct inputs *in,
                             size_t count)
{
    float *out = guarded(slot, (BEFORE + count) * sizeof(*out));

    for (size_t i = 0; i < BEFORE + count; i++)
        out[i] = 12345;
    c->run(k, in, out + BEFORE);
    return out;
}

static void check_once(const struct check *c, size_t n, enum mood mood)
{
    const struct wn_type_info *info = wn_type_info(c->type);
    size_t elements = n / info->block_elements * info->block_elements;
    size_t count = c->result == ONE ? 1 : elements + (c->result == EACH_AND_ONE);
    float *a = guarded(0, elements * sizeof(*a)), *b = guarded(1, elements * sizeof(*b));
    uint8_t *stored = guarded(2, elements / info->block_elements * info->block_bytes);
    uint8_t *scales = guarded(3, elements / 32);
    struct inputs in = {elements, a, b, stored, scales, float_any(mood), float_any(mood)};
    const float *want;

    floats_fill(a, elements, mood);
    floats_fill(b, elements, mood);
    if (c->type != WN_F32)
        stored_fill(c->type, stored, c->type == WN_MXFP4_SPLIT ? scales : NULL, elements, mood);
    want = run_into(4, c, &scalar, &in, count);
    for (size_t v = 0; v < variant_count; v++)
        check_same(c->name, variants[v].name, elements, want, run_into(5, c, &variants[v], &in, count), BEFORE + count);
}

static void every_variant_gives_scalars_bits_at_every_length(void **state)
{
    (void)state;
    for (size_t i = 0; i < CHECKS; i++) {
        for (size_t n = 0; n <= 200; n++)
            for (enum mood mood = 0; mood < MOODS; mood++)
                check_once(&checks[i], n * wn_type_info(checks[i].type)->block_elements, mood);
        for (int t = 0; t < 20; t++)
            check_once(&checks[i], 200 + wn_rng_below(&rng, 4000), (enum mood)(t % MOODS));
    }
}

/* All 256 scales meet all 16 codes in both nibbles. */
static void every_mxfp4_scale_and_code_gives_scalars_bits(void **state)
{
    float *x = guarded(0, 32 * sizeof(*x));
    uint8_t *block = guarded(2, 17);

    (void)state;
    for (int scale = 0; scale < 256; scale++)
        for (int code = 0; code < 16; code++)
            for (size_t place = 0; place < 32; place++) {
                memset(block, 0, 17);
                block[0] = (uint8_t)scale;
                block[1 + place % 16] = (uint8_t)(place < 16 ? code : code << 4);
                for (size_t i = 0; i < 32; i++)
                    x[i] = i == place ? 0.75f : 1;
                for (size_t v = 0; v < variant_count; v++) {
                    float want = scalar.dot_mxfp4(block, x, 32), got = variants[v].dot_mxfp4(block, x, 32);
                    float want_split = scalar.dot_mxfp4_split(block + 1, block, x, 32);
                    float got_split = variants[v].dot_mxfp4_split(block + 1, block, x, 32);

                    check_same("mxfp4", variants[v].name, 32, &want, &got, 1);
                    check_same("mxfp4_split", variants[v].name, 32, &want_split, &got_split, 1);
                }
            }
}

/* rows * tokens dots, the rows cut into parts of `part` columns; y and x have gaps. */
static void tile_once(size_t rows, size_t tokens, size_t n, size_t part, enum mood mood)
{
    size_t stride = n + n % 3, y_stride = rows + tokens % 3, count = (tokens - 1) * y_stride + rows;
    float *w = guarded(0, ((rows - 1) * stride + n) * sizeof(*w)),
          *x = guarded(1, ((tokens - 1) * stride + n) * sizeof(*x));
    float *want = guarded(2, count * sizeof(*want)), *got = guarded(3, count * sizeof(*got));
    float *lanes = guarded(4, rows * tokens * 32 * sizeof(*lanes));

    floats_fill(w, (rows - 1) * stride + n, mood);
    floats_fill(x, (tokens - 1) * stride + n, mood);
    memset(want, 0xff, count * sizeof(*want));
    for (size_t r = 0; r < rows; r++)
        for (size_t t = 0; t < tokens; t++)
            want[t * y_stride + r] = scalar.dot_f32(w + r * stride, x + t * stride, n);
    for (size_t v = 0; v <= variant_count; v++) {
        const struct wn_kernels *k = v < variant_count ? &variants[v] : &scalar;

        memset(got, 0xff, count * sizeof(*got));
        memset(lanes, 0xff, rows * tokens * 32 * sizeof(*lanes));
        for (size_t c = 0; c == 0 || c < n; c += part) {
            struct wn_tile tile = {w + c,  x + c,  got,      lanes,  rows,         tokens, n - c < part ? n - c : part,
                                   stride, stride, y_stride, c == 0, n - c <= part};

            k->mul_tile(&tile);
        }
        check_same("mul_tile", k->name, n, want, got, count);
    }
}

static void tiles_give_the_bits_of_one_dot_at_a_time_however_they_are_cut(void **state)
{
    (void)state;
    for (size_t rows = 1; rows <= 9; rows++)
        for (size_t tokens = 1; tokens <= 20; tokens++)
            for (size_t n = 0; n <= 130; n += 1 + wn_rng_below(&rng, 40))
                tile_once(rows, tokens, n, 32 * (1 + wn_rng_below(&rng, 5)), (enum mood)((n + tokens) % MOODS));
}

/* Products that underflow to -0 leave every lane at -0; a tail that adds 0 * 0 to the lanes behind it makes them +0. */
static void a_tail_leaves_the_lanes_it_does_not_reach_at_minus_zero(void **state)
{
    float w[100], x[100], lanes[32], y;

    (void)state;
    for (size_t i = 0; i < 100; i++) {
        w[i] = -1e-30f;
        x[i] = 1e-30f;
    }
    for (size_t v = 0; v <= variant_count; v++)
        for (size_t n = 0; n <= 100; n++) {
            const struct wn_kernels *k = v < variant_count ? &variants[v] : &scalar;
            struct wn_tile tile = {w, x, &y, lanes, 1, 1, n, n, n, 1, true, true};
            float want = n < 32 ? 0.0f : -0.0f, dot = k->dot_f32(w, x, n);

            k->mul_tile(&tile);
            check_same("mul_tile", k->name, n, &want, &y, 1);
            check_same("dot_f32", k->name, n, &want, &dot, 1);
        }
}

static void kda_once(size_t k_dim, size_t v_dim, enum mood mood)
{
    size_t s_bytes = k_dim * v_dim * sizeof(float);
    float *s = guarded(0, s_bytes), *q = guarded(1, k_dim * 4), *k = guarded(2, k_dim * 4), *v = guarded(3, v_dim * 4);
    float *decay = guarded(4, k_dim * 4), *s_want = guarded(5, s_bytes), *s_got = guarded(6, s_bytes);
    float *o_want = guarded(7, v_dim * 4), *o_got = guarded(8, v_dim * 4), *d = guarded(9, v_dim * 4);
    float beta = float_any(mood);

    floats_fill(s, k_dim * v_dim, mood);
    floats_fill(q, k_dim, mood);
    floats_fill(k, k_dim, mood);
    floats_fill(v, v_dim, mood);
    floats_fill(decay, k_dim, mood);
    memcpy(s_want, s, s_bytes);
    scalar.kda_step(s_want, q, k, v, decay, beta, o_want, d, k_dim, v_dim);
    for (size_t i = 0; i < variant_count; i++) {
        memcpy(s_got, s, s_bytes);
        variants[i].kda_step(s_got, q, k, v, decay, beta, o_got, d, k_dim, v_dim);
        check_same("kda_step's state", variants[i].name, v_dim, s_want, s_got, k_dim * v_dim);
        check_same("kda_step's output", variants[i].name, v_dim, o_want, o_got, v_dim);
    }
}

static void a_kda_step_gives_scalars_bits(void **state)
{
    (void)state;
    for (size_t v_dim = 1; v_dim <= 130; v_dim++)
        kda_once(1 + wn_rng_below(&rng, 40), v_dim, (enum mood)(v_dim % MOODS));
    kda_once(128, 128, TAME);
}

static void conv_once(size_t n, size_t taps, enum mood mood)
{
    size_t tail_floats = (taps - 1) * n;
    float *tail = guarded(0, tail_floats * 4), *x = guarded(1, n * 4), *w = guarded(2, n * taps * 4);
    float *tail_want = guarded(3, tail_floats * 4), *tail_got = guarded(4, tail_floats * 4);
    float *want = guarded(5, n * 4), *got = guarded(6, n * 4);

    floats_fill(tail, tail_floats, mood);
    floats_fill(x, n, mood);
    floats_fill(w, n * taps, mood);
    memcpy(tail_want, tail, tail_floats * 4);
    scalar.conv_step(tail_want, x, w, want, n, taps);
    assert_memory_equal(tail_want + (taps - 2) * n, x, n * 4);
    assert_memory_equal(tail_want, tail + n, (taps - 2) * n * 4);
    for (size_t i = 0; i < variant_count; i++) {
        memcpy(tail_got, tail, tail_floats * 4);
        variants[i].conv_step(tail_got, x, w, got, n, taps);
        check_same("conv_step", variants[i].name, n, want, got, n);
        assert_memory_equal(tail_want, tail_got, tail_floats * 4);
    }
}

static void a_convolution_step_gives_scalars_bits_and_moves_the_tail(void **state)
{
    (void)state;
    for (size_t taps = 2; taps <= 8; taps++)
        for (size_t n = 1; n <= 70; n++)
            conv_once(n, taps, (enum mood)(n % MOODS));
}

/* So that the checks above mean something: the plain order of summing has other bits, and one changed bit is seen. */
static void another_order_of_summing_is_noticed(void **state)
{
    float w[100], x[100], plain = 0, lanes, changed;
    size_t i, differs = 0;

    (void)state;
    for (int t = 0; t < 50; t++) {
        floats_fill(w, 100, TAME);
        floats_fill(x, 100, TAME);
        for (i = 0, plain = 0; i < 100; i++)
            plain = fmaf(w[i], x[i], plain);
        lanes = scalar.dot_f32(w, x, 100);
        differs += !same_floats(&plain, &lanes, 1, &i);
    }
    assert_true(differs > 10);
    changed = nextafterf(1, 2);
    lanes = 1;
    assert_false(same_floats(&changed, &lanes, 1, &i));
    changed = -0.0f;
    lanes = 0;
    assert_false(same_floats(&changed, &lanes, 1, &i));
}

/* The law of kernels.h by an example small enough to write down: lanes, fused steps, halves. */
static void the_summing_order_is_32_lanes_folded_in_halves(void **state)
{
    float w[64], x[64], lane[32];

    (void)state;
    floats_fill(w, 64, TAME);
    floats_fill(x, 64, TAME);
    for (int i = 0; i < 32; i++)
        lane[i] = fmaf(w[32 + i], x[32 + i], fmaf(w[i], x[i], 0));
    for (int half = 16; half; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    for (size_t v = 0; v <= variant_count; v++) {
        float got = (v < variant_count ? &variants[v] : &scalar)->dot_f32(w, x, 64);

        assert_memory_equal(&got, &lane[0], sizeof(got));
    }
}

static void the_largest_passes_over_nans_and_of_nothing_is_minus_infinity(void **state)
{
    const float mixed[] = {NAN, -3, NAN, -2, NAN}, nans[] = {NAN, NAN};

    (void)state;
    for (size_t v = 0; v <= variant_count; v++) {
        const struct wn_kernels *k = v < variant_count ? &variants[v] : &scalar;

        assert_true(k->max(mixed, 5) == -2);
        assert_true(k->max(nans, 2) == -INFINITY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_summing_order_is_32_lanes_folded_in_halves),
        cmocka_unit_test(every_variant_gives_scalars_bits_at_every_length),
        cmocka_unit_test(every_mxfp4_scale_and_code_gives_scalars_bits),
        cmocka_unit_test(tiles_give_the_bits_of_one_dot_at_a_time_however_they_are_cut),
        cmocka_unit_test(a_tail_leaves_the_lanes_it_does_not_reach_at_minus_zero),
        cmocka_unit_test(a_kda_step_gives_scalars_bits),
        cmocka_unit_test(a_convolution_step_gives_scalars_bits_and_moves_the_tail),
        cmocka_unit_test(the_largest_passes_over_nans_and_of_nothing_is_minus_infinity),
        cmocka_unit_test(another_order_of_summing_is_noticed),
    };

    return cmocka_run_group_tests(tests, kernels_set_up, kernels_tear_down);
}
