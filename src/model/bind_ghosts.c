/*
 * Ghosts: rows of the router that no expert stands behind (weights.h). The tensor of expert rows says which row each
 * expert has; the rows that it leaves out are ghosts, numbered as they follow one another.
 */
#include "model/bind.h"

#include <math.h>
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

/* Marks in serves[] whom each row belongs to; rows that nobody has keep WN_GHOST. */
static bool read_rows(struct wn_binder *b, const struct wn_tensor *t, const struct wn_moe_weights *w, uint32_t rows)
{
    const uint8_t *data;

    if (!wn_bind_shape(b, t, (const uint64_t[]){w->expert_count}, 1))
        return false;
    if (t->type != WN_I32)
        return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s' is of type %s, wanted I32", t->name,
                       wn_type_info(t->type)->name);
    data = wn_source_view(b->source, t, b->err);
    for (uint32_t e = 0; data && e < w->expert_count; e++) {
        int32_t row;

        memcpy(&row, data + e * sizeof row, sizeof row);
        if (row < 0 || (uint32_t)row >= rows)
            return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s': expert %u has row %d, the router has %u", t->name, e,
                           row, rows);
        if (w->serves[row] != WN_GHOST)
            return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s': experts %u and %u have the same row %d", t->name,
                           w->serves[row], e, row);
        w->serves[row] = e;
    }
    return data != NULL;
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
    if (!w->serves)
        return false;
    for (uint32_t r = 0; r < rows; r++)
        w->serves[r] = WN_GHOST;
    if (!read_rows(b, t, w, rows))
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
