/*
 * The long road, for models larger than memory: each model walks layer by layer over all windows (walk.h), its
 * activations in a folder of its own, and then both heads read the last streams side by side. Losses have the bits of
 * the short road's, since no cut of the work changes a bit of a stream. A run that was stopped goes on behind the last
 * layer that it finished (eval_stream_work.c).
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "jobs/eval/eval_need.h"
#include "jobs/eval/eval_stream.h"
#include "jobs/talk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const side_names[WN_EVAL_SIDES] = {"model", "parent"};

struct stream {
    struct wn_eval_job *e;
    struct wn_sequence *sequence; /* [windows]; owned */
    struct wn_eval_work work;
    struct wn_eval_meter meter;
    struct wn_probe probe;
    /* the walk at hand */
    struct wn_ctx *ctx;
    unsigned at;
    uint32_t layer;
    bool embedding;
};

/* One walk's, or one head's, buffers and context. */
struct gear {
    struct wn_walk walk;
    struct wn_ctx ctx;
    struct wn_arena arena;
    struct wn_ends ends; /* the head's */
    struct wn_stream stream;
};

/* ---- what it takes ---- */

static uint64_t lay_out(struct gear *g, const struct wn_eval_job *e, unsigned side, uint32_t chunk, uint64_t longest)
{
    const struct wn_config *c = e->side[side].config;
    struct wn_room r = {.arena = g->arena.at ? &g->arena : NULL};

    g->walk.chunk = chunk;
    wn_walk_lay(&g->walk, &r, c, longest);
    g->ctx.worker_floats = wn_graph_worker_floats(c);
    g->ctx.worker_scratch = wn_room_f32(&r, wn_pool_threads(e->pool), g->ctx.worker_floats);
    return wn_add_capped(r.bytes, wn_graph_scratch(c, chunk, longest, false));
}

static bool largest_part(const struct wn_eval_side *s, uint64_t *bytes, uint64_t *head, struct wn_err *err)
{
    struct wn_ends ends;

    if (!wn_ends_bind(s->model, &ends, err))
        return false;
    *head = wn_eval_ends_bytes(&ends, false);
    *bytes = wn_eval_ends_bytes(&ends, true) - ends.head.rows * ends.head.row_bytes;
    wn_ends_release(&ends);
    for (uint32_t i = 0; i < s->config->layer_count; i++) {
        struct wn_layer layer;
        uint64_t n;

        if (!wn_layer_bind(s->model, i, &layer, err))
            return false;
        n = wn_layer_bytes(s->model, &layer);
        *bytes = n > *bytes ? n : *bytes;
        wn_layer_release(&layer);
    }
    wn_source_drop_pages(wn_model_source(s->model));
    return true;
}

struct sizes {
    uint64_t layer, heads;
};

static bool measure(const struct wn_eval_job *e, struct sizes *z, struct wn_err *err)
{
    *z = (struct sizes){0};
    for (unsigned i = 0; i < e->sides; i++) {
        uint64_t layer, head;

        if (!largest_part(&e->side[i], &layer, &head, err))
            return false;
        z->layer = layer > z->layer ? layer : z->layer;
        z->heads += head;
    }
    return true;
}

/* wn_eval_size_fn: walks come one after the other, the heads together. */
static void size_chunk(const void *arg, struct wn_eval_job *e, uint32_t chunk)
{
    const struct sizes *z = arg;
    struct wn_eval_need *n = &e->result->need;
    uint64_t walk = 0, heads = 0;

    n->disk = 0;
    for (unsigned i = 0; i < e->sides; i++) {
        struct gear g = {0};
        uint64_t w = lay_out(&g, e, i, chunk, wn_eval_predicted(e));

        walk = w > walk ? w : walk;
        heads = wn_add_capped(heads, lay_out(&g, e, i, WN_LOGIT_ROWS, WN_LOGIT_ROWS));
        n->disk += wn_eval_work_bytes(e, i);
    }
    n->weights = z->layer > z->heads ? z->layer : z->heads;
    n->scratch = wn_add_capped(walk > heads ? walk : heads, wn_eval_logits_bytes(e));
    n->scratch = wn_add_capped(n->scratch, e->windows * sizeof(struct wn_sequence) + wn_eval_work_record_bytes(e));
}

/* ---- one model's walk ---- */

static bool gear_init(struct gear *g, struct stream *s, unsigned side, uint32_t chunk, uint64_t longest,
                      struct wn_err *err)
{
    const struct wn_eval_job *e = s->e;

    *g = (struct gear){0};
    if (!wn_arena_init(&g->arena, lay_out(g, e, side, chunk, longest), err))
        return false;
    g->ctx =
        (struct wn_ctx){.config = e->side[side].config, .kernels = e->kernels, .pool = e->pool, .arena = &g->arena};
    (void)lay_out(g, e, side, chunk, longest);
    g->walk.model = e->side[side].model;
    g->walk.ctx = &g->ctx;
    g->walk.store = &s->work.store[side];
    g->walk.sequence = s->sequence;
    g->walk.sequence_count = e->windows;
    g->walk.keep_last = true;
    return true;
}

static void begin_chunk(void *arg, size_t i, size_t first)
{
    struct stream *s = arg;

    (void)first;
    s->meter.window = i;
    s->ctx->meter = s->at == WN_EVAL_MODEL ? wn_eval_meter_of(s->e, i) : NULL;
}

static bool chunk_done(void *arg, uint64_t done, struct wn_err *err)
{
    const struct stream *s = arg;
    uint64_t all = wn_eval_all_tokens(s->e), layers = s->e->side[s->at].config->layer_count;
    char phase[32], step[64];

    (void)snprintf(phase, sizeof phase, "evaluating the %s", side_names[s->at]);
    if (s->embedding)
        return wn_job_step(s->e->job, phase, "embedding", done, all * (layers + 1), "tokens", err);
    (void)snprintf(step, sizeof step, "layer %" PRIu32 " of %" PRIu64, s->layer + 1, layers);
    return wn_job_step(s->e->job, phase, step, all * (s->layer + 1) + done, all * (layers + 1), "tokens", err);
}

static bool run_layer(struct stream *s, struct wn_walk *w, uint32_t i, struct wn_err *err)
{
    const struct wn_eval_side *side = &s->e->side[s->at];
    struct wn_layer layer;
    bool ok;

    if (!wn_layer_bind(w->model, i, &layer, err))
        return false;
    wn_layer_will_need(w->model, &layer);
    if (side->masked)
        wn_dropped_mask(side->masked, &layer);
    s->layer = i;
    ok = wn_walk_open(w, i, err) && wn_walk_layer(w, &layer, err) &&
         wn_walk_commit(w, i, wn_eval_work_record(&s->work, s->at, i), err);
    wn_layer_release(&layer);
    wn_source_drop_pages(wn_model_source(w->model));
    wn_store_close_streams(w->store);
    return ok || wn_fail_in(err, "layer %" PRIu32 " of the %s", i, side_names[s->at]);
}

static bool walk(struct stream *s, unsigned side, struct wn_err *err)
{
    struct gear g;
    uint32_t done;
    bool ok;

    s->at = side;
    if (!gear_init(&g, s, side, s->e->result->need.chunk, wn_eval_predicted(s->e), err))
        return false;
    g.walk.begin = begin_chunk;
    g.walk.told = chunk_done;
    g.walk.arg = s;
    s->ctx = &g.ctx;
    if (side == WN_EVAL_PARENT && s->e->losses.misroute)
        g.ctx.probe = &s->probe;
    ok = wn_eval_work_take_up(&s->work, side, &g.walk, &done, err);
    s->embedding = true;
    if (ok && done == 0)
        ok = wn_walk_embed(&g.walk, err);
    s->embedding = false;
    for (uint32_t i = done; ok && i < s->e->side[side].config->layer_count; i++)
        ok = run_layer(s, &g.walk, i, err);
    wn_arena_release(&g.arena);
    return ok;
}

/* ---- the heads ---- */

static bool score_window(struct stream *s, struct gear *g, size_t window, struct wn_err *err)
{
    uint32_t tokens = wn_eval_predicted(s->e);
    struct wn_eval_rows rows[WN_EVAL_SIDES];

    for (uint32_t first = 0; first < tokens; first += WN_LOGIT_ROWS) {
        size_t n = wn_min_size(WN_LOGIT_ROWS, tokens - first);

        for (unsigned i = 0; i < s->e->sides; i++) {
            if (!wn_walk_read(&g[i].walk, (uint64_t)window * tokens + first, n, &g[i].stream, err))
                return false;
            rows[i] = (struct wn_eval_rows){&g[i].ctx, &g[i].ends, &g[i].stream};
        }
        wn_eval_score(s->e, rows, window, first);
    }
    return wn_job_progress(s->e->job, "scoring", (uint64_t)(window + 1) * tokens, wn_eval_all_tokens(s->e), "tokens",
                           err);
}

static bool score_windows(struct stream *s, struct gear *g, struct wn_err *err)
{
    for (size_t w = 0; w < s->e->windows; w++) {
        size_t t;

        (void)wn_eval_window(s->e, w, &t);
        if (!score_window(s, g, w, err))
            return false;
        if (!wn_eval_check_finite(s->e, t, w - s->e->text[t].first, err))
            return wn_fail_in(err, "'%s'", s->e->o->texts[t].path);
    }
    return true;
}

static bool score(struct stream *s, struct wn_err *err)
{
    struct gear g[WN_EVAL_SIDES] = {0};
    bool ok = true;

    for (unsigned i = 0; ok && i < s->e->sides; i++)
        ok = gear_init(&g[i], s, i, WN_LOGIT_ROWS, WN_LOGIT_ROWS, err) &&
             wn_ends_bind(g[i].walk.model, &g[i].ends, err) && wn_walk_open_last(&g[i].walk, err);
    ok = ok && score_windows(s, g, err);
    for (unsigned i = 0; i < s->e->sides; i++) {
        wn_store_close_streams(&s->work.store[i]);
        wn_ends_release(&g[i].ends);
        wn_arena_release(&g[i].arena);
    }
    return ok;
}

/* ---- the whole ---- */

static bool prepare(struct stream *s, struct wn_err *err)
{
    const struct wn_eval_job *e = s->e;

    s->sequence = wn_alloc(e->windows, sizeof *s->sequence, err);
    if (!s->sequence)
        return false;
    for (size_t w = 0; w < e->windows; w++) {
        size_t t;

        s->sequence[w] = (struct wn_sequence){.ids = wn_eval_window(e, w, &t), .n = wn_eval_predicted(e)};
    }
    return wn_eval_work_open(&s->work, e, err);
}

static bool run(struct stream *s, struct wn_err *err)
{
    for (unsigned i = 0; i < s->e->sides; i++)
        if (!walk(s, i, err))
            return false;
    return score(s, err);
}

bool wn_eval_stream(struct wn_eval_job *e, struct wn_err *err)
{
    struct stream s = {.e = e, .meter = {.job = e}};
    struct sizes z;
    bool ok;

    s.probe = (struct wn_probe){.arg = &s.meter, .routed = wn_eval_meter_routed};
    if (!measure(e, &z, err) || !wn_eval_fit(e, size_chunk, &z, err))
        return false;
    ok = prepare(&s, err) && run(&s, err);
    wn_eval_work_close(&s.work, ok);
    free(s.sequence);
    return ok;
}
