/*
 * See keep.h: ghosts (docs/formats/ghosts.md). The router and its bias go along whole, in the source's order; a tensor
 * of each layer says which row belongs to which expert, another may hold the mean outputs of the rest.
 */
#include "base/alloc.h"
#include "base/bits.h"
#include "jobs/prune/keep_parts.h"
#include "jobs/prune/means.h"
#include "model/config_read.h"
#include "model/weights.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum wn_ghosts wn_keep_ghosts_of(const struct wn_source *source)
{
    enum wn_ghosts ghosts = WN_GHOSTS_OFF;
    struct wn_part part;

    for (size_t i = 0; i < wn_source_tensor_count(source); i++) {
        wn_part_of(wn_source_container(source), wn_source_tensor_at(source, i)->name, &part);
        if (part.ghost_mean)
            return WN_GHOSTS_MEAN;
        if (part.expert_rows)
            ghosts = WN_GHOSTS_SKIP;
    }
    return ghosts;
}

bool wn_keep_no_ghosts(const struct wn_source *source, struct wn_err *err)
{
    return wn_keep_ghosts_of(source) == WN_GHOSTS_OFF ||
           wn_fail(
               err, WN_ERR_ARG,
               "'%s' is a build with ghosts: of experts that are gone nothing can be measured, which takes the model "
               "that it was made from",
               wn_source_path(source));
}

uint32_t wn_keep_router_rows(const struct wn_keep *k, const struct wn_keep_layer *l)
{
    return k->ghosts == WN_GHOSTS_OFF ? l->count : l->rows;
}

/* ---- ghosts of the source that go ---- */

static bool read_rows(const struct wn_source *s, const struct wn_tensor *t, struct wn_keep_layer *l, struct wn_err *err)
{
    uint32_t *serves = wn_alloc(l->rows, sizeof *serves, err);
    bool ok = serves && wn_serves_read(s, t, l->count, l->rows, serves, err);

    for (uint32_t row = 0; ok && row < l->rows; row++)
        if (serves[row] != WN_GHOST)
            l->row_of[serves[row]] = row;
    free(serves);
    return ok;
}

static bool lose_ghosts(struct wn_keep *k, struct wn_err *err)
{
    struct wn_part part;

    k->identity = false;
    for (size_t i = 0; i < wn_source_tensor_count(k->source); i++) {
        const struct wn_tensor *t = wn_source_tensor_at(k->source, i);

        wn_part_of(wn_source_container(k->source), t->name, &part);
        for (uint32_t l = 0; part.expert_rows && l < k->layer_count; l++)
            if (k->layers[l].layer == (uint32_t)part.layer && !read_rows(k->source, t, &k->layers[l], err))
                return false;
    }
    return true;
}

/* ---- new ones ---- */

static bool make_ghosts(struct wn_keep *k, const struct wn_keep_how *how, struct wn_err *err)
{
    struct wn_config c;
    uint32_t layers;

    if (!how->plan)
        return wn_fail(err, WN_ERR_ARG, "ghosts are made of what a plan drops, and there is no plan");
    if (!wn_config_of_source(k->source, &c, err))
        return wn_fail_in(err, "ghosts are for models that winnow computes; no other program knows them");
    k->width = c.latent_size ? c.latent_size : c.hidden_size;
    layers = c.layer_count;
    wn_config_release(&c);
    k->new_ghosts = true;
    k->identity = false;
    k->ghosts = how->ghosts;
    k->means = how->ghosts == WN_GHOSTS_MEAN ? how->means : NULL;
    return !k->means || ((wn_means_fit(k->means, layers, wn_keep_widest(k, false), k->width, err) ||
                          wn_fail_in(err, "'%s'", k->means->part.file.path)) &&
                         wn_means_check(k->means, err));
}

bool wn_keep_set_ghosts(struct wn_keep *k, const struct wn_keep_how *how, struct wn_err *err)
{
    enum wn_ghosts there = wn_keep_ghosts_of(k->source);

    k->ghosts = WN_GHOSTS_OFF;
    if (how->ghosts == WN_GHOSTS_SKIP || how->ghosts == WN_GHOSTS_MEAN)
        return make_ghosts(k, how, err);
    if (how->ghosts == WN_GHOSTS_OFF)
        return there == WN_GHOSTS_OFF || lose_ghosts(k, err);
    k->ghosts = there;
    return true;
}

static bool name_of(const struct wn_keep *k, const struct wn_keep_tensor *like, enum wn_role role, uint32_t layer,
                    char out[WN_NAME_BYTES])
{
    const char *prefix = strncmp(like->name, "language_model.", 15) == 0 ? "language_model." : "";

    return wn_name_write(wn_naming_of_source(k->source), prefix, role, 0, layer, 0, out);
}

static void add_made(struct wn_keep *k, const struct wn_keep_tensor *t, enum wn_role role, char **names)
{
    struct wn_keep_tensor *out = &k->tensors[k->tensor_count];

    *out = *t;
    out->name = *names;
    if (!name_of(k, t, role, t->layer->layer, *names))
        assert(!"both containers have names for these");
    *names += strlen(*names) + 1;
    k->tensor_count++;
}

void wn_keep_add_ghosts(struct wn_keep *k, const struct wn_keep_layer *l, char **names)
{
    const struct wn_keep_tensor *router = &k->tensors[k->tensor_count - 1];
    struct wn_keep_tensor rows = {.made = WN_MADE_ROWS,
                                  .name = router->name,
                                  .layer = l,
                                  .type = WN_I32,
                                  .dims = 1,
                                  .shape = {l->count},
                                  .bytes = (uint64_t)4 * l->count,
                                  .file = router->file};
    struct wn_keep_tensor means = rows;
    char matrix[WN_NAME_BYTES];

    if (!name_of(k, router, WN_ROLE_ROUTER, l->layer, matrix) || strcmp(matrix, router->name) != 0)
        return;
    add_made(k, &rows, WN_ROLE_EXPERT_ROWS, names);
    if (k->ghosts != WN_GHOSTS_MEAN || l->count == l->rows)
        return;
    means.made = WN_MADE_MEANS;
    means.type = WN_F16;
    means.dims = 2;
    means.shape[0] = l->rows - l->count;
    means.shape[1] = k->width;
    means.bytes = means.shape[0] * k->width * 2;
    add_made(k, &means, WN_ROLE_GHOST_MEAN, names);
}

/* ---- bytes ---- */

static bool make_rows(const struct wn_keep_tensor *t, wn_keep_bytes_fn *fn, void *arg, struct wn_err *err)
{
    char *bytes = wn_alloc(t->layer->count, 4, err);
    bool ok = bytes != NULL;

    for (uint32_t e = 0; ok && e < t->layer->count; e++)
        wn_store_le(bytes + (size_t)4 * e, 4, t->layer->row_of[e]);
    ok = ok && fn(arg, t, 0, bytes, (size_t)t->bytes, err);
    free(bytes);
    return ok;
}

static bool make_means(const struct wn_keep *k, const struct wn_keep_tensor *t, wn_keep_bytes_fn *fn, void *arg,
                       struct wn_err *err)
{
    size_t n = (size_t)2 * k->width;
    uint64_t at = 0;

    for (uint32_t e = 0; e < t->layer->rows; e++) {
        const uint8_t *row;

        if (t->layer->new_of[e] != WN_DROPPED)
            continue;
        row = wn_means_row(k->means, t->layer->layer, e, err);
        if (!row || !fn(arg, t, at, row, n, err))
            return false;
        at += n;
    }
    return true;
}

bool wn_keep_make(const struct wn_keep *k, const struct wn_keep_tensor *t, wn_keep_bytes_fn *fn, void *arg,
                  struct wn_err *err)
{
    assert(t->made != WN_COPIED && (t->made == WN_MADE_ROWS || k->means));
    return t->made == WN_MADE_ROWS ? make_rows(t, fn, arg, err) : make_means(k, t, fn, arg, err);
}
