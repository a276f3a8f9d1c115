/*
 * Binding the whole model at once, for computing tokens: views into the mapped files for matrices, a little owned
 * memory for vectors. Nothing is read that is not needed to check and widen them.
 */
#include "base/alloc.h"
#include "engine/engine.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* A router must have k experts left to choose, else masked experts would be chosen. */
static bool check_router(const struct wn_config *c, const struct wn_layer *layer, struct wn_err *err)
{
    const struct wn_moe_weights *w = &layer->mixture;
    uint32_t open = 0;

    for (uint64_t e = 0; e < w->router.rows; e++)
        open += w->router_bias[e] > -INFINITY;
    if (open < c->experts_per_token)
        return wn_fail(err, WN_ERR_FORMAT,
                       "layer %" PRIu32 ": %" PRIu32 " experts can be chosen, %" PRIu32 " are wanted for each token",
                       layer->index, open, c->experts_per_token);
    return true;
}

static bool bind_all(const struct wn_model *m, struct wn_weights *w, struct wn_err *err)
{
    if (!wn_ends_bind(m, &w->ends, err))
        return false;
    for (uint32_t i = 0; i < w->config->layer_count; i++)
        if (!wn_layer_bind(m, i, &w->layers[i], err) ||
            (w->layers[i].moe && !check_router(w->config, &w->layers[i], err)))
            return false;
    return true;
}

struct wn_weights *wn_weights_load(const struct wn_model *m, struct wn_err *err)
{
    struct wn_weights *w = wn_alloc(1, sizeof *w, err);

    if (!w)
        return NULL;
    w->config = wn_model_config(m);
    w->layers = wn_alloc(w->config->layer_count, sizeof *w->layers, err);
    if (!w->layers || !bind_all(m, w, err)) {
        wn_weights_free(w);
        return NULL;
    }
    return w;
}

uint64_t wn_weights_owned(const struct wn_weights *w)
{
    uint64_t bytes = wn_owned_bytes(w->ends.owned) + w->config->layer_count * sizeof *w->layers;

    for (uint32_t i = 0; i < w->config->layer_count; i++)
        bytes += wn_owned_bytes(w->layers[i].owned);
    return bytes;
}

void wn_weights_free(struct wn_weights *w)
{
    if (!w)
        return;
    /* releasing a layer that was never bound (all zero) does nothing */
    for (uint32_t i = 0; w->layers && i < w->config->layer_count; i++)
        wn_layer_release(&w->layers[i]);
    wn_ends_release(&w->ends);
    free(w->layers);
    free(w);
}
