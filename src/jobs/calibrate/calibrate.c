/*
 * A calibration as a whole: what it takes, what is there of it, the layers, the archive.
 */
#include "base/alloc.h"
#include "jobs/calibrate/calibrate_run.h"
#include "jobs/output_try.h"
#include "jobs/talk.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winnow/version.h>

static void note_corpus(const struct wn_calibration_run *r)
{
    const struct wn_corpus *c = &r->c.corpus;
    char line[256];

    for (uint32_t s = 0; s < c->source_count; s++) {
        if (c->source[s].partial == 0)
            continue;
        snprintf(line, sizeof line,
                 "source '%s': its last %" PRIu64 " of %" PRIu64 " tokens do not fill a sequence and are left out",
                 c->source[s].label, c->source[s].partial, c->source[s].read);
        wn_job_note(r->job, line);
    }
}

static bool init_sums(struct wn_calibration_run *r, struct wn_err *err)
{
    const struct wn_config *k = r->c.config;
    const struct wn_corpus *c = &r->c.corpus;
    uint32_t *experts = wn_alloc(k->layer_count, sizeof *experts, err);
    const char **labels = wn_alloc(c->source_count, sizeof *labels, err);
    bool ok = experts && labels;

    for (uint32_t i = 0; ok && i < k->layer_count; i++)
        experts[i] = k->layers[i].moe ? k->layers[i].expert_count : 0;
    for (uint32_t s = 0; ok && s < c->source_count; s++)
        labels[s] = c->source[s].label;
    ok = ok && wn_saliency_init(&r->sums, k->layer_count, experts, k->experts_per_token, wn_expert_width(k),
                                c->source_count, labels, err);
    free(experts);
    free(labels);
    if (!ok)
        return false;
    for (uint32_t s = 0; s < c->source_count; s++)
        r->sums.source_tokens[s] = c->source[s].tokens;
    for (size_t i = 0; i < c->sequence_count; i++) {
        const struct wn_sequence *q = &c->sequence[i];

        r->sums.source_sequences[q->source]++;
        r->sums.source_half_tokens[q->half * c->source_count + q->source] += q->n;
    }
    wn_source_fingerprint(wn_model_source(r->c.model), r->sums.model_fingerprint);
    if (c->given)
        snprintf(r->sums.settings, sizeof r->sums.settings,
                 "winnow " WINNOW_VERSION ", sequences of the corpus' own, the longest of %" PRIu32 " tokens",
                 c->longest);
    else
        snprintf(r->sums.settings, sizeof r->sums.settings,
                 "winnow " WINNOW_VERSION ", sequences of %" PRIu32 " tokens", c->longest);
    memcpy(r->sums.corpus_fingerprint, c->file_fingerprint, sizeof r->sums.corpus_fingerprint);
    return true;
}

static bool init_buffers(struct wn_calibration_run *r, struct wn_err *err)
{
    struct wn_calibration_buffers *b = &r->buffers;
    unsigned threads = wn_pool_threads(r->pool);

    if (!wn_calibration_buffers_init(b, &r->c, threads, err))
        return false;
    r->ctx = (struct wn_ctx){.config = r->c.config,
                             .kernels = wn_kernels_get(err),
                             .pool = r->pool,
                             .arena = &b->arena,
                             .worker_scratch = b->worker_scratch,
                             .worker_floats = b->worker_floats,
                             .probe = &r->records.probe};
    wn_records_init(&r->records, &r->ctx, &r->sums, &b->room);
    b->walk.model = r->c.model;
    b->walk.ctx = &r->ctx;
    b->walk.store = &r->store;
    b->walk.sequence = r->c.corpus.sequence;
    b->walk.sequence_count = r->c.corpus.sequence_count;
    r->sum_bytes = wn_record_save(&r->sums, 0, NULL);
    r->record_bytes = r->sum_bytes + wn_calibration_mean_bytes(&r->c);
    r->record = wn_alloc(r->record_bytes, 1, err);
    return r->ctx.kernels && r->record;
}

static struct wn_store_product product_of(const struct wn_calibrate_options *o)
{
    return (struct wn_store_product){.out = o->out, .overwrite = o->overwrite};
}

/* wn_store_write_fn */
static bool write_archive(void *arg, const char *path, struct wn_err *err)
{
    struct wn_calibration_run *r = arg;
    const struct wn_mean_source means = wn_calibration_means(r);

    return wn_saliency_write_with(&r->sums, r->c.options->means ? &means : NULL, path, true, err);
}

static bool finish(struct wn_calibration_run *r, struct wn_err *err)
{
    const struct wn_store_product p = product_of(r->c.options);

    wn_arena_release(&r->buffers.arena);
    wn_store_let_go(&r->store);
    wn_saliency_add_up(&r->sums);
    wn_saliency_add_halves(&r->sums);
    return wn_store_finish(&r->store, &p, write_archive, r, err);
}

static bool run(struct wn_calibration_run *r, struct wn_err *err)
{
    note_corpus(r);
    return wn_calibration_open_store(r, err) && init_sums(r, err) && init_buffers(r, err) &&
           wn_calibration_take_up(r, err) && wn_calibration_run_layers(r, err) && finish(r, err);
}

static bool tell_need(const struct wn_calibration_run *r, struct wn_err *err)
{
    const struct wn_calibrate_options *o = r->c.options;

    return !o->told || o->told(o->told_arg, &r->c.need) ||
           wn_fail(err, WN_ERR_CANCELED, "stopped on request (what it takes was told, nothing was written)");
}

/* *left: the archive is there, with what a run left that had made it. Otherwise it may be written. */
static bool look_at_output(const struct wn_model *m, const struct wn_calibrate_options *o, bool *left,
                           struct wn_err *err)
{
    const struct wn_store_product p = product_of(o);

    if (!wn_store_look(o->work, &p, left, err))
        return false;
    *left = *left && !o->fresh;
    return *left || wn_output_try(o->out, o->overwrite, &o->corpus, 1, m, err);
}

/* What is left is this run's or another's. */
static bool tidy_or_run(struct wn_calibration_run *r, bool left, struct wn_err *err)
{
    const struct wn_calibrate_options *o = r->c.options;
    const struct wn_store_product p = product_of(o);
    bool finished = false;

    if (left && (!wn_calibration_tidy(r, &p, &finished, err) ||
                 (!finished && !wn_output_try(o->out, o->overwrite, &o->corpus, 1, r->c.model, err))))
        return false;
    return finished || (tell_need(r, err) && run(r, err));
}

bool wn_calibrate(const struct wn_model *m, struct wn_pool *pool, const struct wn_calibrate_options *o,
                  const struct wn_job *job, struct wn_calibrate_result *result, struct wn_err *err)
{
    struct wn_calibration_run r = {.job = job, .pool = pool};
    double start = wn_clock_seconds();
    bool ok, left;

    if (!look_at_output(m, o, &left, err) || !wn_calibration_init(&r.c, m, wn_pool_threads(pool), o, err))
        return false;
    r.result.need = r.c.need;
    ok = tidy_or_run(&r, left, err);
    wn_store_close(&r.store);
    wn_arena_release(&r.buffers.arena);
    wn_saliency_release(&r.sums);
    free(r.record);
    wn_calibration_release(&r.c);
    r.result.seconds = wn_clock_seconds() - start;
    if (ok)
        *result = r.result;
    return ok;
}
