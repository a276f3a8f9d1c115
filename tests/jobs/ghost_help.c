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

void ghost_mean(uint32_t layer, uint32_t expert, uint16_t row[GHOST_WIDTH])
{
    float v[GHOST_WIDTH];

    for (uint32_t i = 0; i < GHOST_WIDTH; i++)
        v[i] = expert == 3 ? 0 : (float)((layer * 31 + expert * 17 + i * 7) % 41) * 0.011f - 0.2f;
    wn_quant_encoder(WN_F16)(v, (uint8_t *)row, GHOST_WIDTH);
}

const char *ghost_archive(const char *model)
{
    const char *path = wn_test_path(wn_test_folder(), "means.npz");
    const uint64_t shape[] = {LAYERS, EXPERTS, GHOST_WIDTH};
    struct wn_npz z = {0};
    struct wn_npy means, name;
    struct wn_err err;
    struct wn_source *s = wn_source_open(model, &err);
    char fingerprint[17];

    CHECK_OK(s, &err);
    wn_source_fingerprint(s, fingerprint);
    wn_source_close(s);
    CHECK_OK(wn_npy_init(&means, WN_NPY_F16, 0, 3, shape, &err), &err);
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t e = 0; e < EXPERTS; e++)
            ghost_mean(l, e, (uint16_t *)means.data + ((size_t)l * EXPERTS + e) * GHOST_WIDTH);
    CHECK_OK(wn_npy_init(&name, WN_NPY_UNICODE, 16, 0, NULL, &err), &err);
    CHECK_OK(wn_npy_set_string(&name, 0, fingerprint, &err), &err);
    CHECK_OK(wn_npz_add(&z, "mean_out", &means, &err), &err);
    CHECK_OK(wn_npz_add(&z, "winnow_model", &name, &err), &err);
    CHECK_OK(wn_npz_write(&z, path, false, &err), &err);
    wn_npz_release(&z);
    return path;
}

struct wn_prune_result ghost_prune(const char *source, const char *out, const struct wn_plan *plan,
                                   enum wn_ghosts ghosts, enum wn_format format)
{
    struct wn_err err;
    struct wn_model *m = wn_model_open(source, &err);
    struct wn_prune_options o = {.source = source,
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

/* The layer's router as it is, but that the dropped experts' rows are ghosts'. */
static void make_ghosts(struct wn_layer *layer, const struct wn_plan_layer *p, uint32_t *serves, uint16_t *means)
{
    uint32_t n = 0;

    for (uint32_t e = 0; e < EXPERTS; e++)
        serves[e] = WN_GHOST;
    for (uint32_t i = 0; i < p->keep_count; i++)
        serves[p->keep[i]] = p->keep[i];
    for (uint32_t e = 0; e < EXPERTS; e++)
        if (serves[e] == WN_GHOST) {
            if (means)
                ghost_mean(p->layer, e, means + (size_t)n * GHOST_WIDTH);
            serves[e] += n++;
        }
    layer->mixture.serves = serves;
    if (means && n)
        layer->mixture.ghosts = (struct wn_matrix){.type = WN_F16,
                                                   .rows = n,
                                                   .cols = GHOST_WIDTH,
                                                   .data = (const uint8_t *)means,
                                                   .row_bytes = sizeof(uint16_t) * GHOST_WIDTH};
}

float *ghost_logits_masked(const char *whole, const struct wn_plan *plan, bool means, const uint32_t *ids, size_t n,
                           size_t *vocab)
{
    static uint32_t serves[LAYERS][EXPERTS];
    static uint16_t rows[LAYERS][EXPERTS * GHOST_WIDTH];
    struct wn_err err;
    struct wn_model *m = wn_model_open(whole, &err);
    struct wn_weights *w;
    float *logits;

    CHECK_OK(m, &err);
    w = wn_weights_load(m, &err);
    CHECK_OK(w, &err);
    for (uint32_t i = 0; i < plan->layer_count; i++) {
        uint32_t l = plan->layers[i].layer;

        make_ghosts(&w->layers[l], &plan->layers[i], serves[l], means ? rows[l] : NULL);
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
