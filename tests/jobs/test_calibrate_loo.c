/*
 * What the archive says of an expert's absence, and of its mean output, against a plain evaluation in f64: from the
 * traced input of each block of experts and the decoded weights, expert by expert, the router chosen anew with the
 * expert away. Nothing of src/graph is used for that, and no formula of src/jobs.
 */
#include "calibrate_fixture.h"

#include "base/bits.h"
#include "engine/engine.h"
#include "jobs/calibrate/saliency.h"
#include "jobs/corpus/corpus.h"
#include "jobs/prune/means.h"
#include "quant/quant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEAR 1e-5 /* of a sum: the run computes in f32 */

enum { WIDE = 1024, EXPERTS = 64, LAYERS = 32, CHUNK = 7, K_MOST = 16 };

struct brute {
    const struct wn_config *config;
    const struct wn_sequence *sequence;
    struct wn_layer layer[LAYERS];
    size_t first;         /* of the chunk's tokens */
    float x[CHUNK][WIDE]; /* what enters the block */
    double mix[CHUNK];    /* length of the residual mix */
    struct wn_saliency s; /* of which the sums of absence are used, and counts */
    double *means;        /* [layer][expert][width] */
    size_t width;
};

static void mul(const struct wn_matrix *m, const double *x, double *y)
{
    static float row[WIDE];

    assert_true(m->cols <= WIDE && m->rows <= WIDE);
    for (uint64_t r = 0; r < m->rows; r++) {
        wn_quant_decode_row(m, r, row);
        y[r] = 0;
        for (uint64_t i = 0; i < m->cols; i++)
            y[r] += (double)row[i] * x[i];
    }
}

static double length(const double *v, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += v[i] * v[i];
    return sqrt(sum);
}

static double sigmoid(double v)
{
    return 1 / (1 + exp(-v));
}

static void expert_output(const struct wn_config *c, const struct wn_expert *e, const double *z, double *y)
{
    static double g[WIDE], u[WIDE];
    double beta = (double)c->situ_beta, linear = (double)c->situ_linear_beta;

    assert_int_equal(c->activation, WN_ACTIVATION_SITU);
    mul(&e->gate, z, g);
    mul(&e->up, z, u);
    for (uint64_t i = 0; i < e->gate.rows; i++)
        g[i] = beta * tanh(g[i] / beta) * sigmoid(g[i]) * (linear > 0 ? linear * tanh(u[i] / linear) : u[i]);
    mul(&e->down, g, y);
}

/* The best k of those that are not away, by score and bias; fewer where there are no more. */
static size_t choose(const struct wn_moe_weights *w, const double *score, size_t k, uint32_t away, uint32_t *ids)
{
    bool taken[EXPERTS] = {false};
    size_t n = 0;

    for (; n < k; n++) {
        uint32_t best = EXPERTS;

        for (uint32_t e = 0; e < w->expert_count; e++)
            if (e != away && !taken[e] &&
                (best == EXPERTS || score[e] + (double)w->router_bias[e] > score[best] + (double)w->router_bias[best]))
                best = e;
        if (best == EXPERTS)
            break;
        taken[best] = true;
        ids[n] = best;
    }
    return n;
}

/* The routed output before the way up, by those experts. */
static void combine(const struct brute *b, const struct wn_moe_weights *w, const double *score, const uint32_t *ids,
                    size_t n, double (*outputs)[WIDE], double *normed)
{
    const struct wn_config *c = b->config;
    double all = 0, rms;

    memset(normed, 0, b->width * sizeof *normed);
    for (size_t i = 0; i < n; i++)
        all += score[ids[i]];
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < b->width; d++)
            normed[d] +=
                score[ids[i]] / (c->renormalize ? all : 1) * (double)c->routed_scaling_factor * outputs[ids[i]][d];
    if (!w->latent_norm)
        return;
    rms = sqrt(length(normed, b->width) * length(normed, b->width) / (double)b->width + (double)c->rms_norm_eps);
    for (size_t d = 0; d < b->width; d++)
        normed[d] = normed[d] / rms * (double)w->latent_norm[d];
}

/* One token: its k experts, each away in its turn. `place`: the token's in its sequence. */
static void take_token(struct brute *b, uint32_t layer, uint32_t source, size_t place, const float *x, double mix,
                       const uint32_t *shown)
{
    static double in[WIDE], z[WIDE], score[EXPERTS], outputs[EXPERTS][WIDE], whole[WIDE], without[WIDE], risen[WIDE];
    const struct wn_moe_weights *w = &b->layer[layer].mixture;
    struct wn_saliency *s = &b->s;
    size_t k = b->config->experts_per_token, at_layer = (size_t)source * s->layer_count + layer;
    uint32_t ids[K_MOST], others[K_MOST];

    for (size_t i = 0; i < b->config->hidden_size; i++)
        in[i] = (double)x[i];
    mul(&w->router, in, score);
    for (uint32_t e = 0; e < w->expert_count; e++)
        score[e] = sigmoid(score[e]);
    memcpy(z, in, sizeof z);
    if (b->config->latent_size)
        mul(&w->latent_down, in, z);
    for (uint32_t e = 0; e < w->expert_count; e++)
        expert_output(b->config, &w->experts[e], z, outputs[e]);
    assert_int_equal(choose(w, score, k, EXPERTS, ids), k);
    assert_memory_equal(ids, shown, k * sizeof *ids);
    combine(b, w, score, ids, k, outputs, whole);
    s->residual_norm[at_layer] += mix;
    for (size_t i = 0; i < k; i++) {
        size_t n = choose(w, score, k, ids[i], others);
        size_t at = wn_saliency_source_row(s, source, layer) + ids[i];
        double moved;

        combine(b, w, score, others, n, outputs, without);
        for (size_t d = 0; d < b->width; d++) {
            without[d] -= whole[d];
            b->means[((size_t)layer * s->expert_count + ids[i]) * b->width + d] += outputs[ids[i]][d];
        }
        moved = length(without, b->width);
        s->loo[at] += moved;
        s->loo_sq[at] += moved * moved;
        s->source_counts[at]++;
        if (place % k != i)
            continue;
        if (b->config->latent_size) {
            mul(&w->latent_up, without, risen);
            moved = length(risen, b->config->hidden_size);
        }
        s->loo_up[at_layer] += (double)k * moved / mix;
        s->loo_up_sq[at_layer] += (double)k * (moved / mix) * (moved / mix);
    }
}

static void take_value(void *arg, const char *name, int32_t layer, const float *data, size_t tokens, size_t width)
{
    struct brute *b = arg;

    (void)layer;
    for (size_t t = 0; t < tokens; t++) {
        if (strcmp(name, "mlp_norm") == 0)
            memcpy(b->x[t], data + t * width, width * sizeof *data);
        if (strcmp(name, "mlp_mix") != 0)
            continue;
        b->mix[t] = 0;
        for (size_t i = 0; i < width; i++)
            b->mix[t] += (double)data[t * width + i] * (double)data[t * width + i];
        b->mix[t] = sqrt(b->mix[t]);
    }
}

static void take_routed(void *arg, int32_t layer, const uint32_t *ids, const float *gates, const float *outputs,
                        size_t tokens, size_t k, size_t width)
{
    struct brute *b = arg;
    const struct wn_sequence *q = b->sequence;

    (void)gates;
    (void)outputs;
    assert_int_equal(width, b->width);
    for (size_t t = 0; t < tokens; t++)
        take_token(b, (uint32_t)layer, q->labels ? q->labels[b->first + t] : q->source, b->first + t, b->x[t],
                   b->mix[t], ids + t * k);
}

static void run_brute(struct brute *b, const struct wn_model *m, const struct wn_corpus *c)
{
    const struct wn_session_options o = {.context = c->longest, .chunk = CHUNK};
    const struct wn_probe probe = {.arg = b, .value = take_value, .routed = take_routed};
    struct wn_err err;
    struct wn_pool *pool = wn_pool_new(1, &err);
    struct wn_weights *w = wn_weights_load(m, &err);
    struct wn_session *s;

    assert_true(pool && w);
    s = wn_session_new(m, w, pool, &o, &err);
    CHECK_OK(s, &err);
    wn_session_probe(s, &probe);
    for (size_t i = 0; i < c->sequence_count; i++) {
        b->sequence = &c->sequence[i];
        wn_session_reset(s);
        for (b->first = 0; b->first < b->sequence->n; b->first += CHUNK) {
            size_t left = b->sequence->n - b->first;

            CHECK_OK(wn_session_feed(s, b->sequence->ids + b->first, left < CHUNK ? left : CHUNK, NULL, NULL, &err),
                     &err);
        }
    }
    wn_session_free(s);
    wn_weights_free(w);
    wn_pool_free(pool);
}

static struct brute *brute_of(const char *path, const char *corpus)
{
    struct brute *b = calloc(1, sizeof *b);
    struct wn_corpus_options read = {.path = corpus};
    uint32_t experts[LAYERS];
    struct wn_corpus c;
    struct wn_err err;
    struct wn_model *m = wn_model_open(path, &err);
    const struct wn_config *k;

    CHECK_OK(m, &err);
    assert_non_null(b);
    b->config = k = wn_model_config(m);
    assert_true(k->layer_count <= LAYERS && k->expert_count <= EXPERTS && k->hidden_size <= WIDE);
    b->width = k->latent_size ? k->latent_size : k->hidden_size;
    read.vocab_size = k->vocab_size;
    CHECK_OK(wn_corpus_read(&c, &read, &err), &err);
    for (uint32_t i = 0; i < k->layer_count; i++) {
        experts[i] = k->layers[i].moe ? k->layers[i].expert_count : 0;
        CHECK_OK(wn_layer_bind(m, i, &b->layer[i], &err), &err);
    }
    CHECK_OK(wn_saliency_init(&b->s, k->layer_count, experts, k->experts_per_token, k->latent_size, 2,
                              (const char *const[]){"a", "b"}, &err),
             &err);
    b->means = calloc((size_t)k->layer_count * k->expert_count * b->width, sizeof *b->means);
    assert_non_null(b->means);
    run_brute(b, m, &c);
    for (uint32_t i = 0; i < k->layer_count; i++)
        wn_layer_release(&b->layer[i]);
    wn_corpus_release(&c);
    wn_model_close(m);
    return b;
}

static void brute_free(struct brute *b)
{
    wn_saliency_release(&b->s);
    free(b->means);
    free(b);
}

static void check_near(const char *key, const double *got, const double *want, size_t n)
{
    double most = 0;

    for (size_t i = 0; i < n; i++) {
        if (!(fabs(got[i] - want[i]) <= NEAR * fabs(want[i])))
            fail_msg("%s[%zu] is %.9g, brute force gives %.9g", key, i, got[i], want[i]);
        most = fmax(most, got[i]);
    }
    assert_true(most > 0);
}

/* One expert's: half the last place of 16 bits, and what f32 makes of values as large as they are in the mean. */
static void check_mean(const uint8_t *got, const double *sum, uint64_t count, size_t width, size_t expert)
{
    double scale = NEAR * length(sum, width) / sqrt((double)width);

    for (size_t i = 0; i < width; i++) {
        double mean = (double)wn_f16_to_f32(wn_load16(got + 2 * i)), want = count ? sum[i] / (double)count : 0;

        if (!(fabs(mean - want) <= fabs(want) * 0x1p-11 + (count ? scale / (double)count : 0) + 0x1p-24))
            fail_msg("mean %zu of expert %zu is %.9g, brute force gives %.9g", i, expert, mean, want);
    }
}

static void check_means(const char *path, const struct wn_saliency *s, const struct brute *b)
{
    size_t n = (size_t)s->expert_count * b->width;
    struct wn_err err;
    struct wn_means *m = wn_means_open(path, &err);

    CHECK_OK(m, &err);
    assert_int_equal(s->mean_width, b->width);
    for (uint32_t layer = s->layer_count; layer-- > 0;)
        for (uint32_t e = 0; e < s->expert_count; e++) {
            const uint8_t *mean = wn_means_row(m, layer, e, &err);

            CHECK_OK(mean, &err);
            check_mean(mean, b->means + layer * n + e * b->width, s->counts[wn_saliency_row(s, layer) + e], b->width,
                       e);
        }
    wn_means_close(m);
}

static void check_model(const char *name)
{
    const char *path = strdup(wn_test_need_data(name)), *corpus = strdup(random_corpus(5, 23, 400, 11));
    struct calibration c = {
        .model = path,
        .threads = 2,
        .o = {.corpus = corpus, .out = strdup(wn_test_path(wn_test_folder(), "sal.npz")), .means = true}};
    struct brute *b = brute_of(path, corpus);
    struct wn_saliency s;
    struct wn_err err;
    size_t n;

    CHECK_OK(calibrate(&c, &err), &err);
    CHECK_OK(wn_saliency_read(&s, c.o.out, &err), &err);
    n = (size_t)s.source_count * s.layer_count;
    assert_int_equal(s.source_count, 2);
    assert_memory_equal(s.source_counts, b->s.source_counts, n * s.expert_count * sizeof *s.source_counts);
    check_near("loo", s.loo, b->s.loo, n * s.expert_count);
    check_near("loo_sq", s.loo_sq, b->s.loo_sq, n * s.expert_count);
    check_near("loo_up", s.loo_up, b->s.loo_up, n);
    check_near("loo_up_sq", s.loo_up_sq, b->s.loo_up_sq, n);
    check_near("residual_norm", s.residual_norm, b->s.residual_norm, n);
    check_means(c.o.out, &s, b);
    wn_saliency_release(&s);
    brute_free(b);
    free((void *)(uintptr_t)path);
    free((void *)(uintptr_t)corpus);
    free((void *)(uintptr_t)c.o.out);
}

static void absences_and_means_are_those_of_brute_force(void **state)
{
    (void)state;
    check_model("golden/text/tiny-b/gguf/tiny-b-IQ1_S.gguf");
}

static void of_a_checkpoint_too(void **state)
{
    (void)state;
    check_model("golden/text/tiny-b/hf");
}

static void of_a_model_with_a_dense_layer_too(void **state)
{
    (void)state;
    check_model(TINY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absences_and_means_are_those_of_brute_force),
        cmocka_unit_test(of_a_checkpoint_too),
        cmocka_unit_test(of_a_model_with_a_dense_layer_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
