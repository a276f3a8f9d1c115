/*
 * Every kind of model that winnow reads (quantised GGUFs, HF, MLX, graded builds) is calibrated to what a session shows
 * of the same tokens, added up here in another way: sequence by sequence, all layers at a time, plainly in f64.
 */
#include "calibrate_fixture.h"

#include "engine/engine.h"
#include "jobs/corpus/corpus.h"
#include "jobs/calibrate/saliency.h"
#include <winnow/prune.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEAR 1e-12 /* of a sum; theirs is exact, ours is not */

/* What a session showed, in arrays as the archive has them. */
struct brute {
    struct wn_saliency s;
    const struct wn_sequence *sequence;
    size_t first; /* of the next chunk */
};

static double length(const double *v, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += v[i] * v[i];
    return sqrt(sum);
}

/* One token's experts. The two largest gates are found by counting those that are larger. */
static void take_token(struct brute *b, uint32_t source, uint32_t layer, const uint32_t *ids, const float *gates,
                       const float *outputs, size_t k, size_t width)
{
    struct wn_saliency *s = &b->s;
    double whole[4096] = {0}, total;

    assert_true(width <= 4096);
    for (size_t i = 0; i < k * width; i++)
        whole[i % width] += (double)gates[i / width] * outputs[i];
    total = length(whole, width);
    for (size_t i = 0; i < k; i++) {
        size_t at = ((size_t)source * s->layer_count + layer) * s->expert_count + ids[i], larger = 0;
        size_t half = b->sequence->half * s->source_count + b->sequence->source;
        double y[4096], norm, product;

        for (size_t j = 0; j < k; j++)
            larger += gates[j] > gates[i] || (j < i && gates[j] == gates[i]);
        for (size_t j = 0; j < width; j++)
            y[j] = outputs[i * width + j];
        norm = length(y, width);
        product = gates[i] * norm;
        s->source_counts[at]++;
        s->sum_gate[at] += gates[i];
        s->sum_norm[at] += norm;
        s->source_saliency[at] += product;
        s->sum_sq[at] += product * product;
        s->max_norm[at] = fmax(s->max_norm[at], norm);
        s->sum_top2[at] += larger < 2 ? product : 0;
        s->sum_share[at] += product / total;
        s->source_half[(half * s->layer_count + layer) * s->expert_count + ids[i]] += product;
    }
}

static void take_routed(void *arg, int32_t layer, const uint32_t *ids, const float *gates, const float *outputs,
                        size_t tokens, size_t k, size_t width)
{
    struct brute *b = arg;

    for (size_t t = 0; t < tokens; t++) {
        const struct wn_sequence *q = b->sequence;

        take_token(b, q->labels ? q->labels[b->first + t] : q->source, (uint32_t)layer, ids + t * k, gates + t * k,
                   outputs + t * k * width, k, width);
    }
}

static void take_value(void *arg, const char *name, int32_t layer, const float *data, size_t tokens, size_t width)
{
    struct brute *b = arg;

    if (strcmp(name, "latent_in") != 0)
        return;
    for (size_t i = 0; i < tokens * width; i++)
        b->s.act_mag[(size_t)layer * width + i % width] += fabs((double)data[i]);
    b->s.act_n[layer] += tokens;
}

/* The corpus through a session, seven tokens at a time. */
static void run_brute(struct brute *b, const struct wn_model *m, const struct wn_corpus *c)
{
    const struct wn_session_options o = {.context = c->longest, .chunk = 7};
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
        for (b->first = 0; b->first < b->sequence->n; b->first += 7) {
            size_t left = b->sequence->n - b->first;

            CHECK_OK(wn_session_feed(s, b->sequence->ids + b->first, left < 7 ? left : 7, NULL, NULL, &err), &err);
        }
    }
    wn_session_free(s);
    wn_weights_free(w);
    wn_pool_free(pool);
}

static void check_near(const char *key, const double *got, const double *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= NEAR * fabs(want[i])))
            fail_msg("%s[%zu] is %.17g, the session gives %.17g", key, i, got[i], want[i]);
}

/* All of an archive against a session's. */
static void check_archive(struct wn_saliency *s, struct brute *b)
{
    size_t n = (size_t)s->source_count * s->layer_count * s->expert_count;
    double most = 0;

    assert_int_equal(s->source_count, b->s.source_count);
    assert_int_equal(s->expert_count, b->s.expert_count);
    assert_int_equal(s->latent_size, b->s.latent_size);
    for (unsigned k = 0; k < WN_SUMS; k++) {
        size_t count = wn_sum_blocks(s, k) * s->layer_count * wn_sum_width(s, k);

        if (k < WN_SUM_LOO || k > WN_SUM_RESIDUAL) /* those are in test_calibrate_loo.c */
            check_near(wn_sum_key(k), *wn_sum_at(s, k), *wn_sum_at(&b->s, k), count);
        most = 0;
        for (size_t i = 0; i < count; i++)
            most = fmax(most, (*wn_sum_at(s, k))[i]);
        assert_true(most > 0);
    }
    check_near("max_norm", s->max_norm, b->s.max_norm, n);
    assert_memory_equal(s->source_counts, b->s.source_counts, n * sizeof *s->source_counts);
    assert_memory_equal(s->act_n, b->s.act_n, s->layer_count * sizeof *s->act_n);
}

static void check_model(const char *path)
{
    struct calibration c = {.model = strdup(path),
                            .threads = 2,
                            .o = {.corpus = strdup(random_corpus(5, 23, 400, 11)),
                                  .out = strdup(wn_test_path(wn_test_folder(), "sal.npz"))}};
    struct wn_corpus_options read = {.path = c.o.corpus};
    struct wn_err err;
    struct wn_model *m = wn_model_open(c.model, &err);
    const struct wn_config *k;
    struct wn_corpus corpus;
    struct wn_saliency s;
    struct brute b = {0};
    uint32_t experts[256];

    CHECK_OK(m, &err);
    k = wn_model_config(m);
    read.vocab_size = k->vocab_size;
    CHECK_OK(wn_corpus_read(&corpus, &read, &err), &err);
    for (uint32_t i = 0; i < k->layer_count; i++)
        experts[i] = k->layers[i].moe ? k->layers[i].expert_count : 0;
    CHECK_OK(wn_saliency_init(&b.s, k->layer_count, experts, k->experts_per_token, k->latent_size, corpus.source_count,
                              (const char *const[]){"a", "b"}, &err),
             &err);
    run_brute(&b, m, &corpus);
    wn_model_close(m);
    CHECK_OK(calibrate(&c, &err), &err);
    CHECK_OK(wn_saliency_read(&s, c.o.out, &err), &err);
    check_archive(&s, &b);
    wn_saliency_release(&s);
    wn_saliency_release(&b.s);
    wn_corpus_release(&corpus);
    free((void *)(uintptr_t)c.model);
    free((void *)(uintptr_t)c.o.corpus);
    free((void *)(uintptr_t)c.o.out);
}

static void ggufs_of_every_quant(void **state)
{
    static const char *const quants[] = {"BF16-MXFP4", "IQ1_S", "IQ2_XXS", "MXFP4_MOE", "Q2_K", "Q4_K_M", "Q8_0"};
    char name[128];

    (void)state;
    for (size_t i = 0; i < sizeof quants / sizeof *quants; i++) {
        (void)snprintf(name, sizeof name, "golden/text/tiny-b/gguf/tiny-b-%s.gguf", quants[i]);
        printf("%s\n", quants[i]);
        check_model(wn_test_need_data(name));
    }
}

static void folders_of_safetensors(void **state)
{
    (void)state;
    check_model(wn_test_need_data("golden/text/tiny-a/hf"));
    check_model(wn_test_need_data("golden/text/tiny-b/hf"));
}

/* The other containers, made of the checkpoint; with the reference's plan, graded. */
static const char *made(enum wn_format format, bool graded)
{
    const char *source = strdup(wn_test_need_data("golden/text/tiny-b/hf"));
    const char *plan_path = wn_test_need_data("golden/text/tiny-b/ref/graded_plan.json");
    struct wn_plan plan;
    struct wn_prune_options o = {.source = source,
                                 .out = strdup(wn_test_path(wn_test_folder(), "made")),
                                 .plan = graded ? &plan : NULL,
                                 .format = format,
                                 .rest_bits = 8};
    struct wn_prune_result r;
    struct wn_err err;
    struct wn_model *m = wn_model_open(source, &err);

    CHECK_OK(m, &err);
    CHECK_OK(wn_plan_read(&plan, plan_path, &err), &err);
    o.model = m;
    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    wn_model_close(m);
    wn_plan_release(&plan);
    free((void *)(uintptr_t)source);
    return o.out;
}

static void check_made(enum wn_format format, bool graded)
{
    const char *path = made(format, graded);

    check_model(path);
    free((void *)(uintptr_t)path);
}

static void mlx_folders_and_graded_builds(void **state)
{
    (void)state;
    check_made(WN_FORMAT_MLX, false);
    check_made(WN_FORMAT_MLX, true);
    check_made(WN_FORMAT_GGUF, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ggufs_of_every_quant),
        cmocka_unit_test(folders_of_safetensors),
        cmocka_unit_test(mlx_folders_and_graded_builds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
