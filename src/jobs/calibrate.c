/*
 * A calibration run: the embeddings of all tokens into the store, then layer after layer over all sequences.
 *
 *   stream L -> layer L (fresh state for every sequence, chunk by chunk; the probe adds to the sums) -> stream L + 1
 *   commit:  stream L + 1 in place;  record of L in place (L is now finished);  stream L removed unless L banks it
 *
 * store.h says why a run may be killed anywhere in this. What comes out depends on the tokens only: chunks, threads and
 * interruptions change no bit of a stream (graph.h) and no sum (calibrate_parts.h).
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "jobs/calibrate_parts.h"
#include "jobs/store.h"
#include "jobs/talk.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winnow/version.h>

#define FACTS 5

struct run {
    struct wn_calibration c;
    const struct wn_job *job;
    struct wn_pool *pool;
    struct wn_store store;
    struct wn_saliency sums;
    struct wn_calibration_buffers buffers;
    struct wn_records records;
    struct wn_ctx ctx;
    char *record; /* [record_bytes] */
    size_t record_bytes;
    struct wn_calibrate_result result;
};

/* ---- talk ---- */

static bool progress(const struct run *r, const char *doing, uint32_t layer, uint64_t tokens, struct wn_err *err)
{
    char phase[48];

    snprintf(phase, sizeof phase, "%s layer %" PRIu32, doing, layer);
    return wn_job_progress(r->job, phase, tokens, r->c.corpus.tokens, "tokens", err);
}

static void note_corpus(const struct run *r)
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
    if (c->given && r->c.options->sequence)
        wn_job_note(r->job, "the corpus brings its sequences itself: the length asked for is not used");
}

static void note_resumed(const struct run *r)
{
    char line[512];

    snprintf(line, sizeof line, "going on behind layer %" PRIu32 ", which an earlier run finished ('%s')",
             r->result.layers_resumed - 1, r->store.folder);
    wn_job_note(r->job, line);
}

/* ---- what was there before ---- */

/* Streams that no layer from `next` on reads are what a killed run could not remove. */
static void drop_stale_streams(struct run *r, uint32_t next)
{
    const struct wn_config *c = r->c.config;

    for (uint32_t i = 0; i < c->layer_count; i++)
        if (i != next && !(i < next && wn_layer_banks(c, i)))
            wn_store_drop_stream(&r->store, i);
}

static bool take_up(struct run *r, struct wn_err *err)
{
    uint32_t *done = &r->result.layers_resumed;

    for (*done = 0; *done < r->c.config->layer_count && wn_store_has_record(&r->store, *done); (*done)++) {
        char *record = wn_store_get_record(&r->store, *done, r->record_bytes, err);

        if (!record)
            return false;
        wn_record_load(&r->sums, *done, record);
        free(record);
    }
    drop_stale_streams(r, *done);
    if (*done)
        note_resumed(r);
    return true;
}

static bool check_disk(const struct run *r, struct wn_err *err)
{
    uint64_t room, need = r->c.need.activations;

    if (r->result.layers_resumed)
        return true; /* most of it lies there already */
    if (!wn_path_space(r->store.folder, &room, err))
        return false;
    return room >= need || wn_fail(err, WN_ERR_IO, "'%s': the activations take %" PRIu64 " bytes, %" PRIu64 " are free",
                                   r->store.folder, need, room);
}

/* A few bytes of every file's data, spread over it: headers alone do not tell one training run from the next. */
static bool sample_data(const struct wn_source *s, uint64_t *hash, struct wn_err *err)
{
    size_t n = wn_source_tensor_count(s), step = n / 1024 + 1;

    *hash = 0;
    for (size_t i = 0; i < n; i += step) {
        const struct wn_tensor *t = wn_source_tensor_at(s, i);
        char bytes[64];
        size_t take = t->bytes < sizeof bytes ? (size_t)t->bytes : sizeof bytes;

        if (!wn_source_read(s, t, (t->bytes - take) / 2, bytes, take, err))
            return false;
        *hash = *hash * 31 + wn_bytes_hash((struct wn_bytes){bytes, take});
    }
    return true;
}

static bool open_store(struct run *r, struct wn_err *err)
{
    const struct wn_calibrate_options *o = r->c.options;
    const struct wn_source *source = wn_model_source(r->c.model);
    struct wn_store_fact facts[FACTS] = {
        {.what = "form"}, {.what = "model"}, {.what = "weights"}, {.what = "sequence"}, {.what = "corpus"}};
    char fingerprint[17], *folder;
    uint64_t sample;
    bool ok;

    if (!sample_data(source, &sample, err))
        return false;
    snprintf(facts[0].value, sizeof facts[0].value, "winnow calibration 1");
    wn_source_fingerprint(source, fingerprint);
    snprintf(facts[1].value, sizeof facts[1].value, "%s", fingerprint);
    snprintf(facts[2].value, sizeof facts[2].value, "%016" PRIx64, sample);
    snprintf(facts[3].value, sizeof facts[3].value, "%" PRIu32, r->c.corpus.longest);
    wn_corpus_fingerprint(&r->c.corpus, fingerprint);
    snprintf(facts[4].value, sizeof facts[4].value, "%s", fingerprint);
    folder = o->work ? wn_strdup(o->work, err) : wn_asprintf(err, "%s.work", o->out);
    if (!folder)
        return false;
    ok = wn_store_open(&r->store, folder, facts, FACTS, o->fresh, err);
    free(folder);
    wn_store_shape(&r->store, r->c.corpus.tokens, (uint64_t)r->c.config->hidden_size * sizeof(float));
    return ok;
}

/* ---- the sums ---- */

static bool init_sums(struct run *r, struct wn_err *err)
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
    memcpy(r->sums.half_tokens, c->half_tokens, sizeof c->half_tokens);
    wn_source_fingerprint(wn_model_source(r->c.model), r->sums.model_fingerprint);
    if (c->given)
        snprintf(r->sums.settings, sizeof r->sums.settings,
                 "winnow " WINNOW_VERSION ", sequences of the corpus' own, the longest of %" PRIu32 " tokens",
                 c->longest);
    else
        snprintf(r->sums.settings, sizeof r->sums.settings,
                 "winnow " WINNOW_VERSION ", sequences of %" PRIu32 " tokens", c->longest);
    memcpy(r->sums.corpus_fingerprint, r->c.corpus_fingerprint, sizeof r->sums.corpus_fingerprint);
    return true;
}

static bool init_buffers(struct run *r, struct wn_err *err)
{
    struct wn_calibration_buffers *b = &r->buffers;
    unsigned threads = wn_pool_threads(r->pool);

    if (!wn_calibration_buffers_init(b, &r->c, threads, err))
        return false;
    wn_records_init(&r->records, r->c.config, &r->sums, r->pool, b->norms);
    r->ctx = (struct wn_ctx){.config = r->c.config,
                             .kernels = wn_kernels_get(err),
                             .pool = r->pool,
                             .arena = &b->arena,
                             .worker_scratch = b->worker_scratch,
                             .worker_floats = b->worker_floats,
                             .probe = &r->records.probe};
    r->record_bytes = wn_record_save(&r->sums, 0, NULL);
    r->record = wn_alloc(r->record_bytes, 1, err);
    return r->ctx.kernels && r->record;
}

/* ---- embedding ---- */

static bool embed_sequence(struct run *r, const struct wn_ends *ends, const struct wn_sequence *q, struct wn_err *err)
{
    for (size_t first = 0; first < q->n; first += r->c.need.chunk) {
        struct wn_stream stream = {.p = r->buffers.p, .tokens = wn_min_size(r->c.need.chunk, q->n - first)};

        wn_embed(&r->ctx, ends, q->ids + first, &stream);
        if (!wn_store_write(&r->store, stream.tokens, stream.p, err))
            return false;
    }
    return true;
}

static bool embed(struct run *r, struct wn_err *err)
{
    const struct wn_corpus *c = &r->c.corpus;
    struct wn_ends ends;
    bool ok;

    if (!wn_ends_bind(r->c.model, &ends, err))
        return false;
    ok = wn_store_begin_stream(&r->store, 0, err);
    for (size_t i = 0; ok && i < c->sequence_count; i++)
        ok = embed_sequence(r, &ends, &c->sequence[i], err);
    ok = ok && wn_store_commit_stream(&r->store, err);
    wn_ends_release(&ends);
    wn_calibration_drop_pages(r->c.model);
    return ok || wn_fail_in(err, "embedding");
}

/* ---- a layer ---- */

/* The layer's state of an empty sequence. */
static struct wn_layer_state empty_state(struct run *r, uint32_t layer)
{
    const struct wn_config *c = r->c.config;
    size_t width = (size_t)c->kda_heads * c->kda_head_dim, tail = (size_t)(c->conv_taps - 1) * width;
    float *kda = r->buffers.state, *tails = kda + width * c->kda_head_dim;

    if (c->layers[layer].attention == WN_ATTENTION_MLA)
        return (struct wn_layer_state){.cache = r->buffers.cache};
    memset(kda, 0, r->buffers.state_floats * sizeof *kda);
    return (struct wn_layer_state){.kda = kda, .tail_q = tails, .tail_k = tails + tail, .tail_v = tails + 2 * tail};
}

/* Tokens first .. first + n - 1 of the store: banks and running stream in, the layer, the stream out. */
static bool run_chunk(struct run *r, const struct wn_layer *layer, struct wn_layer_state *state, uint64_t first,
                      size_t n, struct wn_err *err)
{
    size_t stride = (size_t)r->c.need.chunk * r->c.config->hidden_size, banks = r->store.stream_count - 1;
    struct wn_stream stream = {.p = r->buffers.p,
                               .banks = r->buffers.banks,
                               .bank_stride = stride,
                               .bank_count = (uint32_t)banks,
                               .tokens = n};

    for (size_t i = 0; i < banks; i++)
        if (!wn_store_read(&r->store, i, first, n, stream.banks + i * stride, err))
            return false;
    if (!wn_store_read(&r->store, banks, first, n, stream.p, err))
        return false;
    wn_layer_forward(&r->ctx, layer, &stream, state, r->records.first);
    return layer->index + 1 == r->c.config->layer_count || wn_store_write(&r->store, n, stream.p, err);
}

static bool run_sequences(struct run *r, const struct wn_layer *layer, struct wn_err *err)
{
    const struct wn_corpus *c = &r->c.corpus;
    uint64_t done = 0;

    for (size_t i = 0; i < c->sequence_count; i++) {
        const struct wn_sequence *q = &c->sequence[i];
        struct wn_layer_state state = empty_state(r, layer->index);

        r->records.sequence = q;
        for (size_t first = 0; first < q->n; first += r->c.need.chunk) {
            size_t n = wn_min_size(r->c.need.chunk, q->n - first);

            r->records.first = first;
            if (!run_chunk(r, layer, &state, done, n, err))
                return false;
            done += n;
            if (!progress(r, "calibrating", layer->index, done, err))
                return false;
        }
    }
    return wn_record_check(&r->sums, layer->index, err);
}

/* The streams that layer i reads: its banks, oldest first, and the one that enters it. */
static bool open_streams(struct run *r, uint32_t i, struct wn_err *err)
{
    uint32_t *layers = wn_alloc((size_t)i + 1, sizeof *layers, err);
    size_t n = 0;
    bool ok;

    if (!layers)
        return false;
    for (uint32_t k = 0; k < i; k++)
        if (wn_layer_banks(r->c.config, k))
            layers[n++] = k;
    layers[n++] = i;
    ok = wn_store_open_streams(&r->store, layers, n, err);
    free(layers);
    return ok;
}

/* What makes layer i finished; see store.h. */
static bool commit(struct run *r, uint32_t i, struct wn_err *err)
{
    bool last = i + 1 == r->c.config->layer_count;

    (void)wn_record_save(&r->sums, i, r->record);
    if (!last && !wn_store_commit_stream(&r->store, err))
        return false;
    if (!progress(r, "storing", i, r->c.corpus.tokens, err) ||
        !wn_store_put_record(&r->store, i, (struct wn_bytes){r->record, r->record_bytes}, err))
        return false;
    r->result.layers_done++;
    if (!progress(r, "finished", i, r->c.corpus.tokens, err))
        return false;
    wn_store_close_streams(&r->store);
    if (!wn_layer_banks(r->c.config, i))
        wn_store_drop_stream(&r->store, i);
    return true;
}

static bool run_layer(struct run *r, uint32_t i, struct wn_err *err)
{
    bool last = i + 1 == r->c.config->layer_count, ok;
    struct wn_layer layer;

    if (!wn_layer_bind(r->c.model, i, &layer, err))
        return false;
    wn_layer_will_need(r->c.model, &layer);
    ok = open_streams(r, i, err) && (last || wn_store_begin_stream(&r->store, i + 1, err)) &&
         run_sequences(r, &layer, err) && commit(r, i, err);
    wn_layer_release(&layer);
    wn_calibration_drop_pages(r->c.model);
    return ok || wn_fail_in(err, "calibrating layer %" PRIu32, i);
}

/* ---- the whole ---- */

static bool run_layers(struct run *r, struct wn_err *err)
{
    uint32_t first = r->result.layers_resumed;

    if (first == 0 && !wn_store_has_stream(&r->store, 0) && !embed(r, err))
        return false;
    for (uint32_t i = first; i < r->c.config->layer_count; i++)
        if (!run_layer(r, i, err))
            return false;
    return true;
}

static bool write_archive(struct run *r, struct wn_err *err)
{
    wn_arena_release(&r->buffers.arena);
    wn_saliency_add_up(&r->sums);
    if (!wn_saliency_write(&r->sums, r->c.options->out, r->c.options->overwrite, err))
        return false;
    wn_store_remove(&r->store);
    return true;
}

static bool run(struct run *r, struct wn_err *err)
{
    note_corpus(r);
    return open_store(r, err) && init_sums(r, err) && init_buffers(r, err) && take_up(r, err) && check_disk(r, err) &&
           run_layers(r, err) && write_archive(r, err);
}

/* What would only be found out at the end. */
static bool check_out(const struct wn_calibrate_options *o, struct wn_err *err)
{
    const char *slash = strrchr(o->out, '/');
    char *folder;
    bool there;

    if (!o->overwrite && wn_path_exists(o->out))
        return wn_fail(err, WN_ERR_ARG, "'%s' exists already", o->out);
    if (!slash || slash == o->out)
        return true;
    folder = wn_strndup(o->out, (size_t)(slash - o->out), err);
    if (!folder)
        return false;
    there = wn_path_is_folder(folder);
    free(folder);
    return there || wn_fail(err, WN_ERR_ARG, "'%s' cannot be written: there is no such folder", o->out);
}

bool wn_calibrate(const struct wn_model *m, struct wn_pool *pool, const struct wn_calibrate_options *o,
                  const struct wn_job *job, struct wn_calibrate_result *result, struct wn_err *err)
{
    struct run r = {.job = job, .pool = pool};
    double start = wn_clock_seconds();
    bool ok;

    if (!check_out(o, err) || !wn_calibration_init(&r.c, m, wn_pool_threads(pool), o, err))
        return false;
    r.result.need = r.c.need;
    ok = run(&r, err);
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
