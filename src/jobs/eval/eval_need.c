/* See eval_need.h. */
#include "jobs/eval/eval_need.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/number.h"
#include "jobs/ram.h"
#include "sys/clock.h"

#include <stdlib.h>

#define CHUNK_LEAST WN_LOGIT_ROWS

uint64_t wn_eval_ends_bytes(const struct wn_ends *ends, bool embedding)
{
    return (embedding ? ends->embedding.rows * ends->embedding.row_bytes : 0) + ends->head.rows * ends->head.row_bytes +
           wn_owned_bytes(ends->owned);
}

static size_t predictions(const struct wn_eval_job *e)
{
    return e->windows * wn_eval_predicted(e);
}

/* The losses, and what the figures take beside them. */
static uint64_t record_bytes(const struct wn_eval_job *e)
{
    uint64_t each = e->sides > 1 ? 3 * sizeof(double) + 1 : sizeof(double);
    uint64_t layers = e->side[WN_EVAL_MODEL].config->layer_count, shares = e->dropped.flags ? e->windows * layers : 0;
    uint64_t meters =
        wn_eval_has_ghosts(e) ? e->windows * (sizeof(struct wn_route_meter) + layers * sizeof(double)) : 0;

    return predictions(e) * each + shares * sizeof(double) + meters + wn_eval_figures_bytes(e);
}

static bool take_meters(struct wn_eval_job *e, struct wn_err *err)
{
    struct wn_eval_losses *l = &e->losses;
    uint32_t layers = e->side[WN_EVAL_MODEL].config->layer_count;

    l->ghosted = wn_alloc(e->windows * layers, sizeof *l->ghosted, err);
    l->meter = l->ghosted ? wn_alloc(e->windows, sizeof *l->meter, err) : NULL;
    for (size_t w = 0; l->meter && w < e->windows; w++)
        l->meter[w].lost = l->ghosted + w * layers;
    return l->meter != NULL;
}

static bool take(struct wn_eval_job *e, struct wn_err *err)
{
    struct wn_eval_losses *l = &e->losses;
    size_t n = predictions(e);

    e->logits = wn_alloc((size_t)wn_eval_logits_bytes(e), 1, err);
    l->nll = e->logits ? wn_alloc(n, sizeof *l->nll, err) : NULL;
    if (l->nll && wn_eval_has_ghosts(e) && !take_meters(e, err))
        return false;
    if (!l->nll || e->sides == 1)
        return l->nll != NULL;
    l->parent_nll = wn_alloc(n, sizeof *l->parent_nll, err);
    l->kld = l->parent_nll ? wn_alloc(n, sizeof *l->kld, err) : NULL;
    l->same = l->kld ? wn_alloc(n, 1, err) : NULL;
    if (l->same && e->dropped.flags)
        l->misroute = wn_alloc(e->windows * e->side[WN_EVAL_PARENT].config->layer_count, sizeof *l->misroute, err);
    return l->same && (l->misroute || !e->dropped.flags);
}

void wn_eval_measure_base(struct wn_eval_job *e)
{
    for (unsigned i = 0; i < e->sides; i++)
        wn_source_drop_pages(wn_model_source(e->side[i].model));
    wn_memory_give_back();
    e->result->need.base = wn_resident_memory() + (e->counting ? e->kept : 0);
}

struct sizing {
    struct wn_eval_job *job;
    wn_eval_size_fn *size;
    const void *arg;
};

/* wn_ram_fn */
static uint64_t size_with(void *arg, uint32_t chunk)
{
    const struct sizing *s = arg;
    struct wn_eval_need *n = &s->job->result->need;

    s->size(s->arg, s->job, chunk);
    n->peak = wn_add_capped(wn_add_capped(n->base, n->weights), wn_add_capped(n->scratch, n->records));
    n->peak = wn_add_capped(n->peak > s->job->reading ? n->peak : s->job->reading, WN_RAM_UNFORESEEN);
    return n->peak;
}

static bool fail_need(const struct wn_eval_job *e, struct wn_err *err)
{
    const struct wn_eval_need *n = &e->result->need;
    char need[WN_SIZE_TEXT_BYTES], weights[WN_SIZE_TEXT_BYTES], allowed[WN_SIZE_TEXT_BYTES];

    return wn_fail(err, WN_ERR_ARG, "evaluating needs %s of memory, %s of them weights, and %s are allowed%s",
                   wn_size_text(wn_ram_named(n->peak), need), wn_size_text(n->weights, weights),
                   wn_size_text(e->o->ram, allowed), e->o->stream ? "" : "; --stream takes one layer at a time");
}

bool wn_eval_fit(struct wn_eval_job *e, wn_eval_size_fn *size, const void *arg, struct wn_err *err)
{
    struct wn_eval_need *n = &e->result->need;
    struct sizing s = {e, size, arg};
    uint32_t most = e->window < WN_CHUNK_MOST ? e->window : WN_CHUNK_MOST;

    n->tokens = (uint64_t)e->windows * e->window;
    n->records = record_bytes(e);
    if (!wn_ram_chunk(e->o->ram, most, CHUNK_LEAST, size_with, &s, &n->chunk))
        return fail_need(e, err);
    if (e->o->told && !e->o->told(e->o->told_arg, n))
        return wn_fail(err, WN_ERR_CANCELED, "stopped on request");
    return take(e, err);
}
