/*
 * The short road: both models' weights bound at once, a session for each, window after window. Only the rows of one
 * chunk wait for their logits, and only a few logits are there at a time.
 */
#include "base/checked.h"
#include "engine/engine.h"
#include "jobs/eval/eval_need.h"
#include "jobs/talk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct side {
    struct wn_weights *weights;
    struct wn_session *session;
};

struct resident {
    struct wn_eval_job *e;
    struct side side[WN_EVAL_SIDES];
    struct wn_eval_meter meter;
    struct wn_probe probe;
    char phase[80];
    uint64_t before, total; /* tokens of the text's windows: done, of all */
    struct wn_err stopped;  /* why the callback said stop */
};

static bool tell(struct resident *r, uint64_t position, struct wn_err *err)
{
    return wn_job_progress(r->e->job, r->phase, r->before + position, r->total, "tokens", err);
}

/* wn_watch_fn: a window of a large model takes minutes, a layer of it no second. */
static bool on_layer(void *arg, uint64_t position, uint32_t layer)
{
    struct resident *r = arg;

    (void)layer;
    return tell(r, position, &r->stopped);
}

static bool run_chunk(struct resident *r, size_t window, const uint32_t *ids, uint32_t first, uint32_t n,
                      struct wn_err *err)
{
    struct wn_eval_rows rows[WN_EVAL_SIDES];

    for (unsigned i = 0; i < r->e->sides; i++) {
        struct wn_session *s = r->side[i].session;

        if (!wn_session_advance(s, ids + first, n, err)) {
            if (err->code == WN_ERR_CANCELED)
                *err = r->stopped;
            return false;
        }
        rows[i] = (struct wn_eval_rows){&s->ctx, &r->side[i].weights->ends, &s->stream};
    }
    wn_eval_score(r->e, rows, window, first);
    return true;
}

/* The window's last token predicts nothing, so it need not be computed. */
static bool run_window(struct resident *r, size_t window, struct wn_err *err)
{
    uint32_t tokens = wn_eval_predicted(r->e), chunk = r->e->result->need.chunk;
    size_t text;
    const uint32_t *ids = wn_eval_window(r->e, window, &text);

    r->meter.window = window;
    r->side[WN_EVAL_MODEL].session->ctx.meter = wn_eval_meter_of(r->e, window);
    for (unsigned i = 0; i < r->e->sides; i++)
        wn_session_reset(r->side[i].session);
    for (uint32_t first = 0; first < tokens; first += chunk)
        if (!run_chunk(r, window, ids, first, (uint32_t)wn_min_size(chunk, tokens - first), err))
            return false;
    return true;
}

static bool run_text(struct resident *r, size_t t, struct wn_err *err)
{
    const struct wn_eval_domain *d = &r->e->result->domains[t];

    (void)snprintf(r->phase, sizeof r->phase, "evaluating %s", d->domain);
    r->total = d->windows * r->e->window;
    for (size_t w = 0; w < d->windows; w++) {
        r->before = w * r->e->window;
        if (!run_window(r, r->e->text[t].first + w, err) || !wn_eval_check_finite(r->e, t, w, err) ||
            !tell(r, r->e->window, err))
            return wn_fail_in(err, "'%s'", r->e->o->texts[t].path);
    }
    return true;
}

static struct wn_session_options session_options(const struct wn_eval_job *e, uint32_t chunk)
{
    return (struct wn_session_options){.context = e->window, .chunk = chunk};
}

static bool load_side(struct resident *r, unsigned i, struct wn_err *err)
{
    const struct wn_eval_side *from = &r->e->side[i];
    struct side *s = &r->side[i];

    s->weights = wn_weights_load(from->model, err);
    for (uint32_t k = 0; s->weights && from->masked && k < from->config->layer_count; k++)
        wn_dropped_mask(from->masked, &s->weights->layers[k]);
    return s->weights != NULL;
}

static bool open_side(struct resident *r, unsigned i, struct wn_err *err)
{
    struct wn_session_options o = session_options(r->e, r->e->result->need.chunk);
    struct side *s = &r->side[i];

    s->session = wn_session_new_with(s->weights, r->e->pool, r->e->kernels, &o, err);
    if (!s->session)
        return false;
    wn_session_watch(s->session, on_layer, r);
    if (i == WN_EVAL_PARENT && r->e->losses.misroute)
        wn_session_probe(s->session, &r->probe);
    return true;
}

/* wn_eval_size_fn */
static void size_chunk(const void *arg, struct wn_eval_job *e, uint32_t chunk)
{
    const struct resident *r = arg;
    struct wn_eval_need *n = &e->result->need;
    struct wn_session_options o = session_options(e, chunk);

    n->weights = 0;
    n->scratch = wn_eval_logits_bytes(e);
    for (unsigned i = 0; i < e->sides; i++) {
        const struct wn_weights *w = r->side[i].weights;
        struct wn_session_memory s;

        wn_session_need(e->side[i].config, &o, wn_pool_threads(e->pool), &s);
        n->scratch = wn_add_capped(wn_add_capped(n->scratch, s.state), wn_add_capped(s.cache, s.scratch));
        n->weights += wn_eval_ends_bytes(&w->ends, true);
        for (uint32_t k = 0; k < e->side[i].config->layer_count; k++)
            n->weights += wn_layer_bytes(e->side[i].model, &w->layers[k]);
    }
}

bool wn_eval_resident(struct wn_eval_job *e, struct wn_err *err)
{
    struct resident r = {.e = e, .meter = {.job = e}};
    bool ok = true;

    r.probe = (struct wn_probe){.arg = &r.meter, .routed = wn_eval_meter_routed};
    for (unsigned i = 0; ok && i < e->sides; i++)
        ok = load_side(&r, i, err);
    ok = ok && wn_eval_fit(e, size_chunk, &r, err);
    for (unsigned i = 0; ok && i < e->sides; i++)
        ok = open_side(&r, i, err);
    for (size_t t = 0; ok && t < e->o->text_count; t++)
        ok = run_text(&r, t, err);
    for (unsigned i = 0; i < e->sides; i++) {
        wn_session_free(r.side[i].session);
        wn_weights_free(r.side[i].weights);
    }
    return ok;
}
