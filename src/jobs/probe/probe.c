/*
 * Probing as a whole: what it takes, what is there of it, the ways through the layers, what comes out, the archive.
 */
#include "base/alloc.h"
#include "jobs/output_try.h"
#include "jobs/probe/probe_parts.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A point's ghosts, and what they give. */
static uint64_t ghosts_hash(const struct wn_probing *p, const struct wn_dropped *d)
{
    uint64_t hash = 0;

    for (uint32_t i = 0; d->serves && i < p->archive.layer_count; i++) {
        const struct wn_matrix *m = &d->ghosts[i];

        hash = hash * 31 + m->rows + 1;
        if (m->rows)
            hash =
                hash * 31 + wn_bytes_hash((struct wn_bytes){(const char *)m->data, (size_t)(m->rows * m->row_bytes)});
    }
    return hash;
}

/*
 * Masks are what criterion, weights, shares and archive come to: where they and what ghosts give agree, so do the
 * results.
 */
static void masks_fingerprint(const struct wn_probing *p, char *out, size_t size)
{
    const struct wn_saliency *s = &p->archive;
    size_t bytes = (size_t)p->probes.points * s->layer_count * s->expert_count;
    uint64_t hash = wn_bytes_hash((struct wn_bytes){(const char *)p->probes.mask, bytes}) * 31 + p->probes.points;

    for (uint32_t i = 0; i < s->source_count; i++)
        hash = hash * 31 + wn_bytes_hash(wn_bytes_of(s->source[i]));
    for (uint32_t i = 0; i < p->probes.points; i++)
        hash = hash * 31 + ghosts_hash(p, &p->dropped[i]);
    (void)snprintf(out, size, "%016" PRIx64, hash);
}

static bool know(struct wn_store_facts *f, const struct wn_probing *p, struct wn_err *err)
{
    char corpus[17], masks[17];

    wn_store_know(f, "form", "winnow probe 1");
    wn_store_know(f, "sequence", "%" PRIu32, p->corpus.longest);
    wn_corpus_fingerprint(&p->corpus, corpus);
    wn_store_know(f, "corpus", "%s", corpus);
    masks_fingerprint(p, masks, sizeof masks);
    wn_store_know(f, "dropped experts", "%s", masks);
    return wn_store_know_model(f, wn_model_source(p->model), err);
}

static bool is_in_place(const struct wn_layer_probe_options *o)
{
    return wn_path_same(o->out, o->archive);
}

static struct wn_store_product product_of(const struct wn_layer_probe_options *o)
{
    return (struct wn_store_product){o->out, is_in_place(o) ? NULL : o->archive, o->overwrite};
}

static bool open_store(struct wn_probing_run *r, struct wn_err *err)
{
    const struct wn_layer_probe_options *o = r->p.options;
    struct wn_store_open how = {.left = o->fresh ? WN_LEFT_CLEARED : WN_LEFT_REFUSED, .job = r->job};
    char *folder = wn_store_folder(o->work, o->out, err);
    bool ok = folder && know(&how.facts, &r->p, err) && wn_store_open(&r->store, folder, &how, err);

    free(folder);
    if (!ok)
        return false;
    wn_store_shape(&r->store, r->p.corpus.tokens, (uint64_t)r->p.config->hidden_size * sizeof(float));
    return !r->p.need.held ||
           wn_store_hold(&r->store, (size_t)(r->p.need.held / (r->store.tokens * r->store.token_bytes)), err);
}

static bool init_buffers(struct wn_probing_run *r, struct wn_err *err)
{
    struct wn_probing_buffers *b = &r->buffers;

    if (!wn_probing_buffers_init(b, &r->p, wn_pool_threads(r->pool), err))
        return false;
    r->ctx = (struct wn_ctx){.config = r->p.config,
                             .kernels = wn_kernels_get(err),
                             .pool = r->pool,
                             .arena = &b->arena,
                             .worker_scratch = b->worker_scratch,
                             .worker_floats = b->worker_floats};
    b->walk.model = r->p.model;
    b->walk.ctx = &r->ctx;
    b->walk.store = &r->store;
    b->walk.sequence = r->p.corpus.sequence;
    b->walk.sequence_count = r->p.corpus.sequence_count;
    b->walk.keep_last = true;
    return r->ctx.kernels != NULL;
}

/* Sums to nats a token. A source without tokens was not probed, and has 0. */
static void take_figures(struct wn_probing_run *r)
{
    const struct wn_saliency *s = &r->p.archive;
    struct wn_probes *probes = &r->p.probes;

    for (uint32_t way = 1; way < wn_way_count(&r->p); way++)
        for (uint32_t i = 0; i < s->source_count; i++) {
            size_t row = (size_t)wn_way_point(&r->p, way) * s->source_count + i;
            double sum = r->sums[(size_t)(way - 1) * s->source_count + i];

            if (probes->tokens[i])
                probes->kld[row * s->layer_count + wn_way_layer(&r->p, way)] = sum / (double)probes->tokens[i];
        }
}

/* wn_store_write_fn */
static bool write_archive(void *arg, const char *path, struct wn_err *err)
{
    struct wn_probing_run *r = arg;
    const struct wn_saliency *s = &r->p.archive;
    struct wn_npz z = {0};
    bool ok = wn_probes_put(&r->p.probes, &z, s->source_count, s->layer_count, s->expert_count, err) &&
              wn_npz_extend(r->p.options->archive, &z, path, true, err);

    wn_npz_release(&z);
    return ok;
}

static bool finish(struct wn_probing_run *r, struct wn_err *err)
{
    const struct wn_store_product p = product_of(r->p.options);

    wn_arena_release(&r->buffers.arena);
    wn_store_let_go(&r->store);
    take_figures(r);
    return wn_store_finish(&r->store, &p, write_archive, r, err);
}

static bool run(struct wn_probing_run *r, struct wn_err *err)
{
    const struct wn_layer_probe_options *o = r->p.options;

    if (o->told && !o->told(o->told_arg, &r->p.need))
        return wn_fail(err, WN_ERR_CANCELED, "stopped on request (what it takes was told, nothing was written)");
    return open_store(r, err) && init_buffers(r, err) && wn_probing_walk(r, err) && wn_probing_score(r, err) &&
           finish(r, err);
}

/*
 * Inputs are what the output may not be. The archive is none of them where it is to be replaced by itself with the
 * probes in it (in place, which takes overwrite); otherwise it is, and so is what the output is written as first.
 */
static bool try_output(const struct wn_model *m, const struct wn_layer_probe_options *o, struct wn_err *err)
{
    const char *inputs[] = {o->corpus, is_in_place(o) ? NULL : o->archive};

    return wn_output_try(o->out, o->overwrite, inputs, 2, m, err);
}

/* *left: the output is there, with what a run left that had made it. Otherwise it may be written. */
static bool look_at_output(const struct wn_model *m, const struct wn_layer_probe_options *o, bool *left,
                           struct wn_err *err)
{
    const struct wn_store_product p = product_of(o);

    if (!wn_store_look(o->work, &p, left, err))
        return false;
    *left = *left && !o->fresh;
    return *left || try_output(m, o, err);
}

/* *finished: this run was gone through already, and killed while it tidied up, which is done now. */
static bool tidy(struct wn_probing_run *r, bool *finished, struct wn_err *err)
{
    const struct wn_store_product p = product_of(r->p.options);
    struct wn_store_open how = {.job = r->job};
    char *folder = wn_store_folder(r->p.options->work, p.out, err);
    bool ok = folder && know(&how.facts, &r->p, err) && wn_store_tidy(folder, &p, &how, finished, err);

    free(folder);
    return ok;
}

/* What is left is this run's or another's. */
static bool tidy_or_run(struct wn_probing_run *r, bool left, struct wn_err *err)
{
    bool finished = false;

    if (left && (!tidy(r, &finished, err) || (!finished && !try_output(r->p.model, r->p.options, err))))
        return false;
    for (uint32_t way = 0; finished && way < wn_way_count(&r->p); way++)
        for (uint32_t i = 0; i < r->p.config->layer_count; i++)
            r->result.resumed += wn_way_passes(&r->p, way, i);
    return finished || run(r, err);
}

bool wn_layer_probe(const struct wn_model *m, struct wn_pool *pool, const struct wn_layer_probe_options *o,
                    const struct wn_job *job, struct wn_layer_probe_result *result, struct wn_err *err)
{
    struct wn_probing_run r = {.job = job, .pool = pool};
    double start = wn_clock_seconds();
    bool ok, left;

    if (!look_at_output(m, o, &left, err) || !wn_probing_init(&r.p, m, wn_pool_threads(pool), o, err))
        return false;
    r.result.need = r.p.need;
    ok = tidy_or_run(&r, left, err);
    wn_store_close(&r.store);
    wn_arena_release(&r.buffers.arena);
    free(r.sums);
    wn_probing_release(&r.p);
    r.result.seconds = wn_clock_seconds() - start;
    if (ok)
        *result = r.result;
    return ok;
}
