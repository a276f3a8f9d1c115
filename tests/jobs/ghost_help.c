/* See ghost_help.h. */
#include "ghost_help.h"
#include "engine/engine.h"
#include "formats/npz.h"
#include "quant/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 13, EXPERTS = 16, TOP_K = 4, ALL = 5 /* the layer that keeps all its experts, when uneven */ };

void ghost_plan(struct wn_plan *p, bool even)
{
    char text[2048];
    size_t n =
        (size_t)snprintf(text, sizeof text, "{\"top_k\": %d, \"num_experts\": %d, \"layers\": {", TOP_K, EXPERTS);
    struct wn_err err;

    for (uint32_t l = 1; l < LAYERS; l++) {
        uint32_t count = even ? 9 : l == ALL ? EXPERTS : 7 + l % 6;

        n += (size_t)snprintf(text + n, sizeof text - n, "%s\"%u\": {\"keep\": [", l > 1 ? ", " : "", l);
        for (uint32_t i = 0; i < count; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%u", i ? ", " : "", (i * 5 + l * 3) % EXPERTS);
        n += (size_t)snprintf(text + n, sizeof text - n, "]}");
    }
    n += (size_t)snprintf(text + n, sizeof text - n, "}}");
    assert_true(n < sizeof text);
    CHECK_OK(wn_plan_parse(p, text, n, &err), &err);
}

void ghost_mean(uint32_t layer, uint32_t expert, uint16_t *row, uint32_t width)
{
    for (uint32_t i = 0; i < width; i++) {
        float v = expert == 3 ? 0 : (float)((layer * 31 + expert * 17 + i * 7) % 41) * 0.011f - 0.2f;

        wn_quant_encoder(WN_F16)(&v, (uint8_t *)&row[i], 1);
    }
}

static uint32_t width_of(const struct wn_config *c)
{
    return c->latent_size ? c->latent_size : c->hidden_size;
}

static void add_means(struct wn_npz *z, const struct wn_config *c)
{
    const uint64_t shape[] = {c->layer_count, c->expert_count, width_of(c)};
    struct wn_npy means;
    struct wn_err err;

    CHECK_OK(wn_npy_init(&means, WN_NPY_F16, 0, 3, shape, &err), &err);
    for (uint32_t l = 0; l < shape[0]; l++)
        for (uint32_t e = 0; e < shape[1]; e++)
            ghost_mean(l, e, (uint16_t *)means.data + (l * shape[1] + e) * shape[2], (uint32_t)shape[2]);
    CHECK_OK(wn_npz_add(z, "mean_out", &means, &err), &err);
}

const char *ghost_archive(const char *model)
{
    const char *path = wn_test_path(wn_test_folder(), "means.npz");
    struct wn_npz z = {0};
    struct wn_npy name;
    struct wn_err err;
    struct wn_model *m = wn_model_open(model, &err);
    char fingerprint[17];

    CHECK_OK(m, &err);
    wn_source_fingerprint(wn_model_source(m), fingerprint);
    add_means(&z, wn_model_config(m));
    wn_model_close(m);
    CHECK_OK(wn_npy_init(&name, WN_NPY_UNICODE, 16, 0, NULL, &err), &err);
    CHECK_OK(wn_npy_set_string(&name, 0, fingerprint, &err), &err);
    CHECK_OK(wn_npz_add(&z, "winnow_model", &name, &err), &err);
    CHECK_OK(wn_npz_write(&z, path, false, &err), &err);
    wn_npz_release(&z);
    return path;
}

struct wn_prune_result ghost_prune(const char *source, const char *out, const struct wn_plan *plan,
                                   enum wn_ghosts ghosts, enum wn_format format)
{
    return ghost_prune_of_two(source, NULL, out, plan, ghosts, format);
}

struct wn_prune_result ghost_prune_of_two(const char *source, const char *lo, const char *out,
                                          const struct wn_plan *plan, enum wn_ghosts ghosts, enum wn_format format)
{
    struct wn_err err;
    struct wn_model *m = wn_model_open(source, &err);
    struct wn_prune_options o = {.source = source,
                                 .lo_source = lo,
                                 .out = out,
                                 .model = m,
                                 .plan = plan,
                                 .ghosts = ghosts,
                                 .saliency = ghosts == WN_GHOSTS_MEAN ? ghost_archive(source) : NULL,
                                 .format = format,
                                 .rest_bits = 16,
                                 .hashes = true};
    struct wn_prune_result r;

    CHECK_OK(m, &err);
    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    wn_model_close(m);
    return r;
}

/* What a layer with ghosts by hand points into. */
struct by_hand {
    uint32_t serves[EXPERTS];
    uint16_t means[EXPERTS * 256];
};

/* The layer's router as it is, but that the dropped experts' rows are ghosts'. */
static void make_ghosts(struct wn_layer *layer, const struct wn_plan_layer *p, uint32_t width, bool means,
                        struct by_hand *hand)
{
    uint32_t n = 0;

    assert_true(layer->mixture.expert_count <= EXPERTS && width <= 256);
    for (uint32_t e = 0; e < EXPERTS; e++)
        hand->serves[e] = WN_GHOST;
    for (uint32_t i = 0; i < p->keep_count; i++)
        hand->serves[p->keep[i]] = p->keep[i];
    for (uint32_t e = 0; e < layer->mixture.expert_count; e++)
        if (hand->serves[e] == WN_GHOST) {
            ghost_mean(p->layer, e, hand->means + (size_t)n * width, width);
            hand->serves[e] += n++;
        }
    layer->mixture.serves = hand->serves;
    if (means && n)
        layer->mixture.ghosts = (struct wn_matrix){.type = WN_F16,
                                                   .rows = n,
                                                   .cols = width,
                                                   .data = (const uint8_t *)hand->means,
                                                   .row_bytes = sizeof(uint16_t) * width};
}

float *ghost_logits_masked(const char *whole, const struct wn_plan *plan, bool means, const uint32_t *ids, size_t n,
                           size_t *vocab)
{
    static struct by_hand hand[LAYERS];
    struct wn_err err;
    struct wn_model *m = wn_model_open(whole, &err);
    struct wn_weights *w;
    float *logits;

    CHECK_OK(m, &err);
    w = wn_weights_load(m, &err);
    CHECK_OK(w, &err);
    for (uint32_t i = 0; i < plan->layer_count; i++) {
        uint32_t l = plan->layers[i].layer;

        assert_true(l < LAYERS);
        make_ghosts(&w->layers[l], &plan->layers[i], width_of(wn_model_config(m)), means, &hand[l]);
    }
    logits = logits_with(m, w, ids, n, vocab);
    wn_weights_free(w);
    wn_model_close(m);
    return logits;
}

float *ghost_logits(const char *build, enum wn_ghosts ghosts, const uint32_t *ids, size_t n, size_t *vocab)
{
    struct wn_err err;
    struct wn_model *m = wn_model_open(build, &err);
    struct wn_weights *w;
    float *logits;

    CHECK_OK(m, &err);
    CHECK_OK(wn_model_set_ghosts(m, ghosts, &err), &err);
    w = wn_weights_load(m, &err);
    CHECK_OK(w, &err);
    logits = logits_with(m, w, ids, n, vocab);
    wn_weights_free(w);
    wn_model_close(m);
    return logits;
}

void ghost_ids(uint32_t ids[GHOST_IDS])
{
    for (uint32_t i = 0; i < GHOST_IDS; i++)
        ids[i] = (i * 37 + i * i * 11) % 480;
}

void ghost_expect_same(float *a, float *b, const size_t *vocab)
{
    assert_memory_equal(a, b, GHOST_IDS * *vocab * sizeof *a);
    free(a);
    free(b);
}
