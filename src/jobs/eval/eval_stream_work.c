/* See eval_stream.h. */
#include "jobs/eval/eval_stream.h"

#include "base/alloc.h"
#include "jobs/talk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARENT_FOLDER "parent"
#define FOLDERS_MOST  100

uint64_t wn_eval_work_bytes(const struct wn_eval_job *e, unsigned side)
{
    const struct wn_config *c = e->side[side].config;

    return ((uint64_t)wn_bank_count(c) + 2) * c->hidden_size * sizeof(float) * wn_eval_all_tokens(e);
}

/* ---- what ties it to a run ---- */

/* Of all windows' ids; texts of the same ids are the same work, whatever they are called. */
static uint64_t hash_texts(const struct wn_eval_job *e)
{
    uint64_t hash = 0;

    for (size_t w = 0; w < e->windows; w++) {
        size_t t;
        const uint32_t *ids = wn_eval_window(e, w, &t);

        hash = hash * 31 + wn_bytes_hash((struct wn_bytes){(const char *)ids, e->window * sizeof *ids});
    }
    return hash;
}

static void know_dropped(struct wn_store_facts *f, const char *what, const struct wn_dropped *d,
                         const struct wn_config *whole)
{
    if (d && d->flags)
        wn_store_know(
            f, what, "%016" PRIx64,
            wn_bytes_hash((struct wn_bytes){(const char *)d->flags, (size_t)whole->layer_count * d->experts}));
    else
        wn_store_know(f, what, "none");
}

/* What dropped experts give instead, if anything (weights.h). */
static void know_ghosts(struct wn_store_facts *f, enum wn_ghosts mode, const struct wn_dropped *masked,
                        const struct wn_config *whole)
{
    uint64_t hash = 0;

    for (uint32_t i = 0; masked && masked->serves && i < whole->layer_count; i++) {
        const struct wn_matrix *m = &masked->ghosts[i];

        hash = hash * 31 + wn_bytes_hash((struct wn_bytes){(const char *)m->data, (size_t)m->rows * m->row_bytes});
    }
    wn_store_know(f, "ghost mode", "%s %016" PRIx64, wn_ghosts_name(mode), hash);
}

/* Whatever changes a bit of the side's streams or of its records has a fact here. */
static bool know(const struct wn_eval_job *e, unsigned side, struct wn_store_facts *f, struct wn_err *err)
{
    const struct wn_eval_side *s = &e->side[side];

    wn_store_know(f, "form", "winnow eval 1");
    if (!wn_store_know_model(f, wn_model_source(s->model), err))
        return false;
    wn_store_know(f, "window", "%" PRIu32, e->window);
    wn_store_know(f, "text", "%016" PRIx64, hash_texts(e));
    know_dropped(f, "mask", s->masked, s->config);
    know_ghosts(f, side == WN_EVAL_PARENT ? wn_model_ghosts(s->model) : e->result->ghosts, s->masked, s->config);
    know_dropped(f, "plan", side == WN_EVAL_PARENT ? &e->dropped : NULL, s->config);
    return true;
}

/* ---- the folder ---- */

static bool open_store(struct wn_eval_work *w, unsigned side, const char *folder, const struct wn_store_open *how,
                       struct wn_err *err)
{
    struct wn_store *s = &w->store[side];

    if (!wn_store_open(s, folder, how, err))
        return false;
    s->made |= side == WN_EVAL_PARENT; /* it lies in a folder that is ours */
    return true;
}

static bool open_side(struct wn_eval_work *w, unsigned side, const char *folder, struct wn_err *err)
{
    const struct wn_eval_job *e = w->e;
    struct wn_store_open how = {.left = e->o->fresh ? WN_LEFT_CLEARED : WN_LEFT_REPLACED, .job = e->job};

    if (!know(e, side, &how.facts, err) || !open_store(w, side, folder, &how, err))
        return false;
    wn_store_shape(&w->store[side], wn_eval_all_tokens(e), e->side[side].config->hidden_size * sizeof(float));
    return true;
}

static bool open_model(struct wn_eval_work *w, struct wn_err *err)
{
    char folder[64] = WN_EVAL_WORK;
    unsigned i = 1;

    if (w->e->o->work)
        return open_side(w, WN_EVAL_MODEL, w->e->o->work, err);
    while (!open_side(w, WN_EVAL_MODEL, folder, err)) {
        if (err->code != WN_ERR_BUSY || ++i > FOLDERS_MOST)
            return false;
        (void)snprintf(folder, sizeof folder, "winnow-eval.%u.work", i);
    }
    return true;
}

/* A run without a parent has no use for what one with a parent left. */
static bool drop_parent(struct wn_eval_work *w, const char *folder, struct wn_err *err)
{
    struct wn_store_open how = {.left = WN_LEFT_CLEARED};

    if (!wn_path_exists(folder))
        return true;
    if (!open_store(w, WN_EVAL_PARENT, folder, &how, err))
        return false;
    wn_store_remove(&w->store[WN_EVAL_PARENT]);
    return true;
}

static bool open_parent(struct wn_eval_work *w, struct wn_err *err)
{
    char *folder = wn_path_join(w->store[WN_EVAL_MODEL].folder, PARENT_FOLDER, err);
    bool ok = folder && (w->e->sides > 1 ? open_side(w, WN_EVAL_PARENT, folder, err) : drop_parent(w, folder, err));

    free(folder);
    return ok;
}

/* Of a side that is taken up most lies there already. */
static bool check_room(const struct wn_eval_work *w, struct wn_err *err)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < w->e->sides; i++)
        bytes += wn_store_has_record(&w->store[i], 0) ? 0 : wn_eval_work_bytes(w->e, i);
    return wn_store_check_room(&w->store[WN_EVAL_MODEL], bytes, err);
}

bool wn_eval_work_open(struct wn_eval_work *w, const struct wn_eval_job *e, struct wn_err *err)
{
    w->e = e;
    w->record = wn_alloc((size_t)wn_eval_work_record_bytes(e), 1, err);
    return w->record && open_model(w, err) && open_parent(w, err) && check_room(w, err);
}

/* Something that the next run can go on with; a parent's folder that could not be opened may hold some. */
static bool any_finished(const struct wn_eval_work *w)
{
    struct wn_err ignored;
    char *parent;
    bool any = wn_store_has_record(&w->store[WN_EVAL_MODEL], 0);

    if (w->store[WN_EVAL_PARENT].folder)
        return any || wn_store_has_record(&w->store[WN_EVAL_PARENT], 0);
    parent = wn_path_join(w->store[WN_EVAL_MODEL].folder, PARENT_FOLDER, &ignored);
    any |= !parent || wn_path_exists(parent);
    free(parent);
    return any;
}

void wn_eval_work_close(struct wn_eval_work *w, bool done)
{
    const char *folder = w->store[WN_EVAL_MODEL].folder;
    char line[512];
    bool keep = folder && !done && any_finished(w);

    if (keep) {
        (void)snprintf(line, sizeof line, "what is finished stays in '%s': the same command goes on from there",
                       folder);
        wn_job_note(w->e->job, line);
    }
    /* the folder itself last: with it goes the mark that what lies in it is ours */
    for (unsigned i = WN_EVAL_SIDES; i-- > 0;)
        if (w->store[i].folder && !keep)
            wn_store_remove(&w->store[i]);
        else
            wn_store_close(&w->store[i]);
    free(w->record);
    w->record = NULL;
}

/* ---- records ---- */

/* A window's row of a meter (wn_route_meter): of this layer, and the counts of all layers up to it. */
struct routes {
    double lost;
    uint64_t tokens, chosen, ghosts;
};

static double *misroute_at(const struct wn_eval_job *e, size_t window, uint32_t layer)
{
    return &e->losses.misroute[window * e->side[WN_EVAL_PARENT].config->layer_count + layer];
}

static size_t record_bytes(const struct wn_eval_job *e, unsigned side)
{
    if (side == WN_EVAL_PARENT)
        return e->losses.misroute ? e->windows * sizeof(double) : 0;
    return e->losses.meter ? e->windows * sizeof(struct routes) : 0;
}

uint64_t wn_eval_work_record_bytes(const struct wn_eval_job *e)
{
    return (uint64_t)e->windows * sizeof(struct routes);
}

struct wn_bytes wn_eval_work_record(struct wn_eval_work *w, unsigned side, uint32_t layer)
{
    struct wn_bytes record = {w->record, record_bytes(w->e, side)};

    for (size_t i = 0; record.n && i < w->e->windows; i++) {
        if (side == WN_EVAL_PARENT) {
            ((double *)(void *)w->record)[i] = *misroute_at(w->e, i, layer);
        } else {
            const struct wn_route_meter *m = &w->e->losses.meter[i];

            ((struct routes *)(void *)w->record)[i] = (struct routes){m->lost[layer], m->tokens, m->chosen, m->ghosts};
        }
    }
    return record;
}

/* wn_walk_record's load, of the parent ... */
static void load_misroute(void *arg, uint32_t layer, const char *record)
{
    const struct wn_eval_work *w = arg;

    for (size_t i = 0; i < w->e->windows; i++)
        memcpy(misroute_at(w->e, i, layer), record + i * sizeof(double), sizeof(double));
}

/* ... and of a model with ghosts. */
static void load_routes(void *arg, uint32_t layer, const char *record)
{
    const struct wn_eval_work *w = arg;

    for (size_t i = 0; i < w->e->windows; i++) {
        struct wn_route_meter *m = &w->e->losses.meter[i];
        struct routes r;

        memcpy(&r, record + i * sizeof r, sizeof r);
        m->lost[layer] = r.lost;
        m->tokens = r.tokens;
        m->chosen = r.chosen;
        m->ghosts = r.ghosts;
    }
}

bool wn_eval_work_take_up(struct wn_eval_work *w, unsigned side, const struct wn_walk *walk, uint32_t *done,
                          struct wn_err *err)
{
    struct wn_walk_record record = {record_bytes(w->e, side), NULL, w};

    if (record.bytes)
        record.load = side == WN_EVAL_PARENT ? load_misroute : load_routes;
    return wn_walk_take_up(walk, &record, w->e->job, done, err);
}
