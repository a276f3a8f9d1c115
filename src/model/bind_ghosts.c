/*
 * Ghosts: rows of the router that no expert stands behind (weights.h). The tensor of expert rows says which row each
 * expert has; the rows that it leaves out are ghosts, numbered as they follow one another.
 */
#include "base/alloc.h"
#include "base/bits.h"
#include "model/bind.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t ghosts_in(const struct wn_config *c, uint32_t layer)
{
    return c->layers[layer].router_rows - c->layers[layer].expert_count;
}

static const struct wn_tensor *find_part(struct wn_binder *b, enum wn_role role)
{
    char name[WN_NAME_BYTES];

    return wn_name_write(b->model->naming, b->model->prefix, role, 0, b->layer, 0, name) ? wn_bind_try(b, name) : NULL;
}

static bool take_rows(const struct wn_tensor *t, const uint8_t *bytes, uint32_t experts, uint32_t rows,
                      uint32_t *serves, struct wn_err *err)
{
    for (uint32_t r = 0; r < rows; r++)
        serves[r] = WN_GHOST;
    for (uint32_t e = 0; e < experts; e++) {
        uint32_t row = (uint32_t)wn_load_le(bytes + (size_t)4 * e, 4);

        if (row >= rows || serves[row] != WN_GHOST)
            return wn_fail(err, WN_ERR_FORMAT,
                           "tensor '%s': expert %" PRIu32 " has row %" PRId32 ", which is %s of the router's %" PRIu32,
                           t->name, e, (int32_t)row, row >= rows ? "none" : "another's", rows);
        serves[row] = e;
    }
    return true;
}

bool wn_serves_read(const struct wn_source *s, const struct wn_tensor *t, uint32_t experts, uint32_t rows,
                    uint32_t *serves, struct wn_err *err)
{
    uint8_t *bytes;
    bool ok;

    if (t->type != WN_I32 || wn_tensor_elements(t) != experts)
        return wn_fail(err, WN_ERR_FORMAT, "tensor '%s' is not one I32 for each of %" PRIu32 " experts", t->name,
                       experts);
    bytes = wn_alloc(experts, 4, err);
    ok = bytes && wn_source_read(s, t, 0, bytes, (size_t)4 * experts, err) &&
         take_rows(t, bytes, experts, rows, serves, err);
    free(bytes);
    return ok;
}

static bool bind_means(struct wn_binder *b, struct wn_moe_weights *w, uint32_t ghosts)
{
    const struct wn_tensor *t = find_part(b, WN_ROLE_GHOST_MEAN);
    uint64_t in = b->config->latent_size ? b->config->latent_size : b->config->hidden_size;

    if (!t)
        return true;
    if (t->type != WN_F16)
        return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s' is %s, means of ghosts are F16", t->name,
                       wn_type_info(t->type)->name);
    if (!wn_bind_shape(b, t, (const uint64_t[]){ghosts, in}, 2) || !wn_bind_view(b, t, ghosts, in, &w->ghosts))
        return false;
    if (b->model->ghosts == WN_GHOSTS_SKIP)
        w->ghosts = (struct wn_matrix){0};
    return true;
}

bool wn_bind_ghosts(struct wn_binder *b, struct wn_moe_weights *w)
{
    uint32_t rows = b->config->layers[b->layer].router_rows, ghosts = ghosts_in(b->config, b->layer), n = 0;
    /* a layer that keeps all its experts has no ghosts, but may store them in another order than the router's */
    const struct wn_tensor *t =
        ghosts ? wn_bind_find(b, WN_ROLE_EXPERT_ROWS, 0, WN_BANK_ONLY) : find_part(b, WN_ROLE_EXPERT_ROWS);

    if (!t)
        return ghosts == 0;
    w->serves = wn_bind_alloc(b, rows, sizeof *w->serves);
    if (!w->serves || !wn_serves_read(b->source, t, w->expert_count, rows, w->serves, b->err))
        return false;
    for (uint32_t r = 0; r < rows; r++) {
        if (w->serves[r] != WN_GHOST)
            continue;
        w->serves[r] += n++;
        if (b->model->ghosts == WN_GHOSTS_OFF)
            w->router_bias[r] = -INFINITY;
    }
    return ghosts == 0 || bind_means(b, w, ghosts);
}

/* ---- of the model ---- */

static const char *const names[] = {
    [WN_GHOSTS_BUILT] = "built", [WN_GHOSTS_OFF] = "off", [WN_GHOSTS_SKIP] = "skip", [WN_GHOSTS_MEAN] = "mean"};

bool wn_ghosts_find(const char *name, enum wn_ghosts *g)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        *g = (enum wn_ghosts)i;
        if (!name || strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

const char *wn_ghosts_name(enum wn_ghosts g)
{
    return names[g];
}

uint64_t wn_model_ghost_count(const struct wn_model *m)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < m->config.layer_count; i++)
        n += ghosts_in(&m->config, i);
    return n;
}

static bool has_means(const struct wn_model *m)
{
    char name[WN_NAME_BYTES];

    for (uint32_t i = 0; i < m->config.layer_count; i++)
        if (ghosts_in(&m->config, i) && wn_name_write(m->naming, m->prefix, WN_ROLE_GHOST_MEAN, 0, i, 0, name) &&
            wn_source_find(m->source, name))
            return true;
    return false;
}

enum wn_ghosts wn_model_ghosts(const struct wn_model *m)
{
    return wn_model_ghost_count(m) == 0   ? WN_GHOSTS_OFF
           : m->ghosts != WN_GHOSTS_BUILT ? m->ghosts
           : has_means(m)                 ? WN_GHOSTS_MEAN
                                          : WN_GHOSTS_SKIP;
}

bool wn_model_set_ghosts(struct wn_model *m, enum wn_ghosts g, struct wn_err *err)
{
    if (g != WN_GHOSTS_BUILT && g != WN_GHOSTS_OFF && wn_model_ghost_count(m) == 0)
        return wn_fail(err, WN_ERR_ARG,
                       "'%s': ghosts '%s' were asked for, but the model has none: its routers have a "
                       "row for each expert and no more",
                       m->path, names[g]);
    if (g == WN_GHOSTS_MEAN && !has_means(m))
        return wn_fail(err, WN_ERR_ARG, "'%s': its ghosts have no means, only their rows", m->path);
    m->ghosts = g;
    return true;
}
