/* See recast_parts.h: the tensors of ghosts (docs/formats/ghosts.md), which are the same in all containers. */
#include "base/alloc.h"
#include "base/bits.h"
#include "jobs/convert/recast_parts.h"
#include "jobs/prune/means.h"

#include <assert.h>

static void name_of(const struct wn_recast_layer *l, enum wn_role role, char out[WN_NAME_BYTES])
{
    bool named = wn_name_write(l->r->form->naming, "", role, 0, (uint32_t)l->number, 0, out);

    assert(named);
    (void)named;
}

/* Of ghosts that were there before, the source says whose a row is; others' experts have the rows of their numbers. */
static bool add_rows(struct wn_recast_layer *l, const struct wn_moe_weights *w)
{
    uint32_t n = l->keep->count;
    struct wn_matrix m = {.type = WN_I32, .rows = 1, .cols = n, .row_bytes = (size_t)n * 4};
    struct wn_recast_tensor *t;
    char name[WN_NAME_BYTES];

    l->rows = wn_alloc(n, 4, l->err);
    if (!l->rows)
        return false;
    for (uint32_t row = 0; row < l->router_rows; row++) {
        uint32_t old = w->serves ? w->serves[row] : row, e = old < l->keep->experts ? l->keep->new_of[old] : WN_DROPPED;

        if (e != WN_DROPPED)
            wn_store_le(l->rows + (size_t)4 * e, 4, row);
    }
    m.data = l->rows;
    name_of(l, WN_ROLE_EXPERT_ROWS, name);
    t = wn_recast_add(l, name, WN_I32, &m);
    t->dims = 1;
    t->shape[0] = n;
    return true;
}

/* One matrix of a row for each new ghost, out of the archive. */
static bool gather_means(struct wn_recast_layer *l, uint32_t ghosts)
{
    const struct wn_keep *k = l->r->keep;
    uint32_t n = 0;

    l->ghosts = wn_alloc(ghosts, sizeof *l->ghosts, l->err);
    for (uint32_t e = 0; l->ghosts && e < l->router_rows; e++) {
        struct wn_matrix *m = &l->ghosts[n];

        if (l->keep->new_of[e] != WN_DROPPED)
            continue;
        *m = (struct wn_matrix){.type = WN_F16, .rows = 1, .cols = k->width, .row_bytes = (size_t)2 * k->width};
        n++;
        if (l->r->sizes_only || !k->means)
            continue;
        m->data = wn_means_row(k->means, l->keep->layer, e, l->err);
        if (!m->data)
            return false;
    }
    return l->ghosts != NULL;
}

static bool add_means(struct wn_recast_layer *l, const struct wn_moe_weights *w)
{
    uint32_t ghosts = l->router_rows - l->keep->count;
    bool new_ones = l->r->keep->new_ghosts;
    struct wn_recast_tensor *t;
    char name[WN_NAME_BYTES];

    if (l->r->keep->ghosts != WN_GHOSTS_MEAN || ghosts == 0 || (!new_ones && w->ghosts.rows == 0))
        return true;
    if (new_ones && !gather_means(l, ghosts))
        return false;
    name_of(l, WN_ROLE_GHOST_MEAN, name);
    t = wn_recast_add(l, name, WN_F16, new_ones ? NULL : &w->ghosts);
    if (new_ones) {
        t->parts = l->ghosts;
        t->part_count = t->rows = ghosts;
        t->cols = l->ghosts->cols;
    }
    t->type = t->parts->type;
    t->dims = 2;
    t->shape[0] = t->rows;
    t->shape[1] = t->cols;
    return true;
}

void wn_recast_ghosts(struct wn_recast_layer *l, const struct wn_moe_weights *w)
{
    if (!l->failed && !(add_rows(l, w) && add_means(l, w)))
        l->failed = true;
}
