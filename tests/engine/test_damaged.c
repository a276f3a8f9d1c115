/*
 * Weights that are no numbers: whatever they do to the logits, nothing reads or writes astray, and the end of it is an
 * error with a sentence.
 */
#include "golden.h"

#include "formats/source.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum damage { NAN_NORM, INF_NORM, NAN_ROUTER, NAN_DECAY, SCALE_255, INF_EMBEDDING, DAMAGES };

/* A copy of the matrix whose every float is x. */
static struct wn_matrix filled(const struct wn_matrix *m, float x, void **made)
{
    size_t n = (size_t)(m->rows * m->cols);
    float *v = malloc(n * sizeof *v);

    assert_non_null(v);
    for (size_t i = 0; i < n; i++)
        v[i] = x;
    *made = v;
    return (struct wn_matrix){.type = WN_F32,
                              .rows = m->rows,
                              .cols = m->cols,
                              .data = (const uint8_t *)v,
                              .row_bytes = (size_t)m->cols * sizeof *v};
}

/* Damages the weights; what is returned lies behind them. */
static void *damage(struct wn_weights *w, enum damage kind)
{
    const struct wn_config *c = w->config;
    struct wn_layer *moe = &w->layers[c->layer_count - 1];
    void *made = NULL;

    assert_true(moe->moe && w->layers[0].attention == WN_ATTENTION_KDA);
    if (kind == NAN_NORM || kind == INF_NORM) {
        for (uint32_t i = 0; i < c->hidden_size; i++)
            w->layers[1].attn_norm[i] = kind == NAN_NORM ? NAN : INFINITY;
    } else if (kind == NAN_ROUTER) {
        moe->mixture.router = filled(&moe->mixture.router, NAN, &made);
    } else if (kind == NAN_DECAY) {
        for (uint32_t h = 0; h < c->kda_heads; h++)
            w->layers[0].kda.a[h] = NAN;
    } else if (kind == SCALE_255) { /* a NaN by the letter of MXFP4, 2^128 by the converters: too large either way */
        const struct wn_matrix *m = &moe->mixture.experts[0].up;

        assert_int_equal(m->type, WN_MXFP4_SPLIT);
        made = malloc((size_t)m->rows * m->scale_row_bytes);
        assert_non_null(made);
        memset(made, 255, (size_t)m->rows * m->scale_row_bytes);
        for (uint32_t e = 0; e < moe->mixture.expert_count; e++)
            moe->mixture.experts[e].up.scales = made;
    } else {
        w->ends.embedding = filled(&w->ends.embedding, INFINITY, &made);
    }
    return made;
}

static void weights_that_are_no_numbers_are_an_error_at_sampling(void **state)
{
    struct wn_source *ref = golden_ref("golden/text/tiny-a/ref/prompts.safetensors");
    size_t n;
    const uint32_t *ids = golden_ids(ref, "p65", &n);

    (void)state;
    for (int kind = 0; kind < DAMAGES; kind++) {
        struct loaded l = golden_load("golden/text/tiny-a/hf");
        void *made = damage(l.weights, (enum damage)kind);
        struct wn_session *s = golden_session(l.weights, (struct how){.threads = 2, .chunk = 9});
        struct wn_sampling o = {.temperature = 1, .top_k = 40, .top_p = 0.9f, .seed = 1};
        uint32_t id;
        struct wn_err err;

        CHECK_OK(wn_session_feed(s, ids, 20, NULL, NULL, &err), &err);
        for (int greedy = 0; greedy <= 1; greedy++) {
            struct wn_sampler *sampler;

            o.temperature = greedy ? 0 : 1;
            sampler = wn_sampler_new(&o, l.config->vocab_size, &err);
            CHECK_OK(sampler, &err);
            CHECK_FAILS(wn_sampler_next(sampler, wn_session_logits(s), &id, &err), &err,
                        "none of the 512 logits is finite");
            assert_int_equal(err.code, WN_ERR_FORMAT);
            wn_sampler_free(sampler);
        }
        wn_session_free(s);
        golden_unload(&l);
        free(made);
    }
    wn_source_close(ref);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_that_are_no_numbers_are_an_error_at_sampling),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
