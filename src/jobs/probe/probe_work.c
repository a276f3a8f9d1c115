/*
 * See probe_work.h and wn_layer_probe_seconds. Two things are timed, since they go at different speeds: rows of an
 * expert's matrix, for as many tokens as one gets of a chunk, and rows of a head for a whole chunk, which stand for all
 * else.
 */
#include "jobs/probe/probe_work.h"

#include "base/alloc.h"
#include "graph/graph.h"
#include "sys/clock.h"
#include <winnow/probe.h>

#include <assert.h>
#include <stdlib.h>

#define EXPERTS_TIMED 8
#define ROWS_TIMED    1024 /* of the head */
#define SECONDS_TIMED 0.4  /* each */

static double size_of(const struct wn_matrix *m)
{
    return (double)m->rows * (double)m->cols;
}

static double size_of_ffn(const struct wn_matrix *gate, const struct wn_matrix *up, const struct wn_matrix *down)
{
    return size_of(gate) + size_of(up) + size_of(down);
}

/* Projections, and the state: decay, two products with it and one update, of each head. */
static double kda_work(const struct wn_config *c, const struct wn_kda_weights *w)
{
    double state = 4.0 * c->kda_heads * c->kda_head_dim * c->kda_head_dim;

    return size_of(&w->q) + size_of(&w->k) + size_of(&w->v) + size_of(&w->f_a) + size_of(&w->f_b) + size_of(&w->beta) +
           size_of(&w->g) + size_of(&w->g_a) + size_of(&w->g_b) + size_of(&w->out) + state;
}

/* A row of the cache is read for its score and for its value, by each head. */
static double mla_work(const struct wn_config *c, const struct wn_mla_weights *w, double context)
{
    double sum =
        size_of(&w->q) + size_of(&w->q_a) + size_of(&w->q_b) + size_of(&w->kv_a) + size_of(&w->g) + size_of(&w->out);

    for (uint32_t h = 0; h < c->heads; h++)
        sum += size_of(&w->k_b[h]) + size_of(&w->v_b[h]);
    return sum + context * c->heads * 2.0 * (double)w->kv_a.rows;
}

struct wn_work wn_layer_work(const struct wn_config *c, const struct wn_layer *l, double context)
{
    const struct wn_moe_weights *m = &l->mixture;
    struct wn_work work = {0};

    work.other = l->attention == WN_ATTENTION_MLA ? mla_work(c, &l->mla, context) : kda_work(c, &l->kda);
    if (!l->moe) {
        work.other += size_of_ffn(&l->dense.gate, &l->dense.up, &l->dense.down);
        return work;
    }
    work.other += size_of(&m->router) + size_of(&m->latent_down) + size_of(&m->latent_up) +
                  size_of_ffn(&m->shared.gate, &m->shared.up, &m->shared.down);
    work.experts =
        (double)c->experts_per_token * size_of_ffn(&m->experts[0].gate, &m->experts[0].up, &m->experts[0].down);
    return work;
}

struct timing {
    const struct wn_ctx *ctx;
    float *x, *y;
    size_t tokens;
};

/* Multiplications per second of the matrices [n], one after the other; once beforehand, so that they are in memory. */
static double speed_of(const struct timing *t, const struct wn_matrix *const *m, size_t n)
{
    double work = 0, start = 0, seconds = 0;

    for (size_t i = 0; i < n || seconds < SECONDS_TIMED; i++) {
        if (i == n)
            start = wn_clock_seconds();
        wn_linear(t->ctx, m[i % n], t->x, t->tokens, t->y);
        if (i < n)
            continue;
        work += size_of(m[i % n]) * (double)t->tokens;
        seconds = wn_clock_seconds() - start;
    }
    return work / seconds;
}

static bool time_matrices(struct timing *t, const struct wn_matrix *const *m, size_t n, size_t tokens, double *speed,
                          struct wn_err *err)
{
    t->tokens = tokens;
    t->x = wn_alloc(tokens, (size_t)m[0]->cols * sizeof *t->x, err);
    t->y = t->x ? wn_alloc(tokens, (size_t)m[0]->rows * sizeof *t->y, err) : NULL;
    if (t->y)
        *speed = speed_of(t, m, n);
    free(t->x);
    free(t->y);
    return t->y != NULL;
}

static bool time_experts(struct timing *t, const struct wn_model *m, uint32_t layer, uint32_t chunk, double *speed,
                         struct wn_err *err)
{
    const struct wn_config *c = wn_model_config(m);
    const struct wn_matrix *list[EXPERTS_TIMED];
    struct wn_layer l;
    size_t n = 0, each;
    bool ok;

    if (!wn_layer_bind(m, layer, &l, err))
        return false;
    for (; n < EXPERTS_TIMED && n < l.mixture.expert_count; n++)
        list[n] = &l.mixture.experts[(uint64_t)l.mixture.expert_count * n / EXPERTS_TIMED].gate;
    assert(n > 0); /* some_layer */
    each = (size_t)((uint64_t)chunk * c->experts_per_token / l.mixture.expert_count);
    ok = time_matrices(t, list, n, each ? each : 1, speed, err);
    wn_layer_release(&l);
    return ok;
}

static bool time_head(struct timing *t, const struct wn_model *m, uint32_t chunk, double *speed, struct wn_err *err)
{
    struct wn_ends ends;
    struct wn_matrix part;
    const struct wn_matrix *list = &part;
    bool ok;

    if (!wn_ends_bind(m, &ends, err))
        return false;
    part = ends.head;
    part.rows = part.rows < ROWS_TIMED ? part.rows : ROWS_TIMED;
    ok = time_matrices(t, &list, 1, chunk, speed, err);
    wn_ends_release(&ends);
    return ok;
}

/* The middle one of those with experts. */
static uint32_t some_layer(const struct wn_config *c)
{
    uint32_t i = c->layer_count / 2;

    while (i + 1 < c->layer_count && !c->layers[i].moe)
        i++;
    while (!c->layers[i].moe) {
        assert(i > 0); /* the need is one of a model with experts */
        i--;
    }
    return i;
}

bool wn_layer_probe_seconds(const struct wn_model *m, struct wn_pool *pool, const struct wn_layer_probe_need *need,
                            double *seconds, struct wn_err *err)
{
    const struct wn_config *c = wn_model_config(m);
    struct wn_ctx ctx = {.config = c, .kernels = wn_kernels_get(err), .pool = pool};
    struct timing t = {.ctx = &ctx};
    double experts, other;
    bool ok;

    if (!ctx.kernels)
        return false;
    ctx.worker_floats = wn_graph_worker_floats(c);
    ctx.worker_scratch = wn_alloc(wn_pool_threads(pool), ctx.worker_floats * sizeof(float), err);
    ok = ctx.worker_scratch && time_experts(&t, m, some_layer(c), need->chunk, &experts, err) &&
         time_head(&t, m, need->chunk, &other, err);
    free(ctx.worker_scratch);
    if (ok)
        *seconds = need->expert_work / experts + need->other_work / other;
    return ok;
}
