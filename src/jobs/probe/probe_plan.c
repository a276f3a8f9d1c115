/*
 * What probing takes, worked out before it runs: corpus and archive are read, the masks made, each layer bound once for
 * its size, and the chunk of tokens chosen that fits the memory allowed.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "base/number.h"
#include "jobs/made_for.h"
#include "jobs/prune/keep.h"
#include "jobs/probe/probe_parts.h"
#include "jobs/probe/probe_work.h"
#include "jobs/ram.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void wn_way_take(const struct wn_probing *p, struct wn_walk *w, uint32_t way)
{
    w->branch = way ? wn_way_layer(p, way) : p->config->layer_count;
    w->apart = way * (p->config->layer_count + 1);
}

/* ---- what it is made from ---- */

static bool read_corpus(struct wn_probing *p, struct wn_err *err)
{
    const struct wn_layer_probe_options *o = p->options;
    struct wn_corpus_options read = {.path = o->corpus,
                                     .sequence = o->sequence,
                                     .max_tokens = o->max_tokens ? o->max_tokens : WN_PROBE_TOKENS,
                                     .memory = o->ram};

    return wn_corpus_read_for(&p->corpus, p->model, &read, err);
}

/* The layers of the archive are the model's. */
static bool check_archive(const struct wn_probing *p, struct wn_err *err)
{
    const struct wn_saliency *s = &p->archive;
    const struct wn_config *c = p->config;

    if (s->layer_count != c->layer_count)
        return wn_fail(err, WN_ERR_ARG, "the archive has %" PRIu32 " layers, the model %" PRIu32, s->layer_count,
                       c->layer_count);
    for (uint32_t i = 0; i < c->layer_count; i++) {
        uint32_t experts = c->layers[i].moe ? c->layers[i].expert_count : 0;

        if (s->layer_experts[i] != experts)
            return wn_fail(err, WN_ERR_ARG,
                           "layer %" PRIu32 " has %" PRIu32 " experts in the archive and %" PRIu32 " in the model", i,
                           s->layer_experts[i], experts);
    }
    if (!p->options->force_plan && *s->model_fingerprint &&
        !wn_made_for("the archive is of", s->model_fingerprint, wn_model_source(p->model), NULL, err))
        return false;
    return s->source_count > 0 || wn_fail(err, WN_ERR_ARG, "the archive has no sums per source");
}

static bool take_layers(struct wn_probing *p, struct wn_err *err)
{
    p->layer = wn_alloc(p->config->layer_count, sizeof *p->layer, err);
    for (uint32_t i = 0; p->layer && i < p->config->layer_count; i++)
        if (p->config->layers[i].moe)
            p->layer[p->layer_count++] = i;
    return p->layer && (p->layer_count > 0 || wn_fail(err, WN_ERR_ARG, "no layer has experts"));
}

static bool read_archive(struct wn_probing *p, struct wn_err *err)
{
    if (!wn_saliency_read(&p->archive, p->options->archive, err))
        return false;
    if (!check_archive(p, err))
        return wn_fail_in(err, "'%s'", p->options->archive);
    return true;
}

/* Each source of the corpus is one of the archive. */
static bool match_sources(struct wn_probing *p, struct wn_err *err)
{
    const struct wn_saliency *s = &p->archive;

    p->source = wn_alloc(p->corpus.source_count, sizeof *p->source, err);
    for (uint32_t i = 0; p->source && i < p->corpus.source_count; i++) {
        const char *label = p->corpus.source[i].label;
        uint32_t k = 0;

        while (k < s->source_count && strcmp(s->source[k], label) != 0)
            k++;
        if (k == s->source_count)
            return wn_fail(err, WN_ERR_ARG, "'%s': its source '%s' is none of '%s'", p->options->corpus, label,
                           p->options->archive);
        p->source[i] = k;
    }
    return p->source != NULL;
}

/* ---- how much there is to do ---- */

static double mean_context(const struct wn_corpus *c)
{
    double sum = 0;

    for (size_t i = 0; i < c->sequence_count; i++)
        sum += (double)c->sequence[i].n * ((double)c->sequence[i].n + 1) / 2;
    return c->tokens ? sum / (double)c->tokens : 0;
}

static uint64_t ways_through(const struct wn_probing *p, uint32_t layer)
{
    uint64_t n = 0;

    for (uint32_t way = 0; way < wn_way_count(p); way++)
        n += wn_way_passes(p, way, layer);
    return n;
}

/* The largest layer; what all of them have in the files; the arithmetic of all ways through them. */
static bool measure_layers(struct wn_probing *p, struct wn_err *err)
{
    struct wn_layer_probe_need *n = &p->need;
    double context = mean_context(&p->corpus), tokens = (double)p->corpus.tokens;

    for (uint32_t i = 0; i < p->config->layer_count; i++) {
        uint64_t ways = ways_through(p, i);
        struct wn_layer layer;
        struct wn_work work;

        if (!wn_layer_bind(p->model, i, &layer, err))
            return false;
        work = wn_layer_work(p->config, &layer, context);
        n->layer = wn_max_u64(n->layer, wn_layer_bytes(p->model, &layer));
        n->model_read += wn_layer_bytes(p->model, &layer) - wn_owned_bytes(layer.owned);
        n->token_layers += ways * p->corpus.tokens;
        n->expert_work += work.experts * tokens * (double)ways;
        n->other_work += work.other * tokens * (double)ways;
        wn_layer_release(&layer);
    }
    return true;
}

/* Streams that are there at a time at most, by taking all ways through all layers as probe_ways.c does. */
static uint64_t streams_at_most(const struct wn_probing *p)
{
    uint64_t now = 1, peak = 1;

    for (uint32_t i = 0; i < p->config->layer_count; i++) {
        bool bank = wn_layer_banks(p->config, i);

        for (uint32_t way = 0; way < wn_way_count(p); way++) {
            if (!wn_way_passes(p, way, i))
                continue;
            peak = wn_max_u64(peak, ++now);
            if (way && wn_way_has(p, way, i) && !bank)
                now--;
        }
        if (!bank)
            now--;
    }
    return peak;
}

/* How often a stream of all tokens is read or written. */
static uint64_t moved_streams(const struct wn_probing *p)
{
    uint64_t streams = 1, banks = 0;

    for (uint32_t i = 0; i < p->config->layer_count; i++) {
        streams += ways_through(p, i) * (banks + 2);
        banks += wn_layer_banks(p->config, i);
    }
    return streams + wn_way_count(p) * (banks + 1);
}

/* ---- memory ---- */

static uint64_t lay_out(struct wn_probing_buffers *b, const struct wn_probing *p, uint32_t chunk, unsigned threads)
{
    struct wn_room r = {.arena = b->arena.at ? &b->arena : NULL};
    uint32_t rows = wn_probing_rows(chunk);

    b->walk.chunk = chunk;
    wn_walk_lay(&b->walk, &r, p->config, p->corpus.longest);
    b->worker_floats = wn_graph_worker_floats(p->config);
    b->worker_scratch = wn_room_f32(&r, threads, b->worker_floats);
    for (int i = 0; i < 2; i++)
        b->logits[i] = wn_room_f32(&r, rows, p->config->vocab_size);
    b->kld = wn_room_take(&r, rows, 1, sizeof *b->kld);
    b->rows = wn_room_take(&r, rows, 1, sizeof *b->rows);
    return wn_add_capped(r.bytes, wn_graph_scratch(p->config, chunk, p->corpus.longest, false));
}

bool wn_probing_buffers_init(struct wn_probing_buffers *b, const struct wn_probing *p, unsigned threads,
                             struct wn_err *err)
{
    *b = (struct wn_probing_buffers){0};
    if (!wn_arena_init(&b->arena, lay_out(b, p, p->need.chunk, threads), err))
        return false;
    (void)lay_out(b, p, p->need.chunk, threads);
    return true;
}

/* Sums of all probes, and the same of a sequence as a record. */
static uint64_t record_bytes(const struct wn_probing *p)
{
    return 2 * (uint64_t)wn_way_count(p) * p->archive.source_count * sizeof(double);
}

struct sizing {
    struct wn_probing *p;
    unsigned threads;
    uint64_t ends;
};

/* wn_ram_fn */
static uint64_t size_chunk(void *arg, uint32_t chunk)
{
    const struct sizing *z = arg;
    struct wn_layer_probe_need *n = &z->p->need;
    struct wn_probing_buffers b = {0};

    n->scratch = lay_out(&b, z->p, chunk, z->threads);
    n->peak = wn_add_capped(wn_add_capped(n->scratch, n->held), n->records + wn_max_u64(n->layer, z->ends));
    n->peak = wn_add_capped(wn_max_u64(wn_add_capped(n->peak, n->base), z->p->corpus.reading), WN_RAM_UNFORESEEN);
    return n->peak;
}

static bool fit_ram(struct sizing *z, struct wn_err *err)
{
    struct wn_layer_probe_need *n = &z->p->need;
    const struct wn_ram_walk walk = {.what = "probing",
                                     .ram = z->p->options->ram,
                                     .activations = n->activations,
                                     .layer = n->layer,
                                     .longest = z->p->corpus.longest,
                                     .least = WN_LOGIT_ROWS,
                                     .need = size_chunk,
                                     .arg = z};

    return wn_ram_fit_walk(&walk, &n->held, &n->chunk, err);
}

static bool work_out(struct wn_probing *p, unsigned threads, struct wn_err *err)
{
    struct wn_layer_probe_need *n = &p->need;
    struct sizing z = {.p = p, .threads = threads};
    uint64_t stream = p->config->hidden_size * sizeof(float);
    struct wn_ends ends;

    n->sequences = p->corpus.sequence_count;
    n->tokens = p->corpus.tokens;
    n->sources = p->corpus.source_count;
    n->layers = p->layer_count;
    n->points = p->probes.points;
    n->token_heads = wn_way_count(p) * n->tokens;
    if (!wn_mul_u64(stream, n->tokens, &stream) || !wn_mul_u64(stream, moved_streams(p), &n->moved))
        return wn_fail(err, WN_ERR_ARG, "activations of %" PRIu64 " tokens are too large", n->tokens);
    n->activations = stream * streams_at_most(p);
    if (!measure_layers(p, err) || !wn_ends_bind(p->model, &ends, err))
        return false;
    z.ends = wn_max_u64(ends.embedding.rows * ends.embedding.row_bytes, ends.head.rows * ends.head.row_bytes) +
             wn_owned_bytes(ends.owned);
    n->other_work += (double)n->token_heads * (double)ends.head.rows * (double)ends.head.cols;
    n->model_read += ends.embedding.rows * ends.embedding.row_bytes + ends.head.rows * ends.head.row_bytes;
    wn_ends_release(&ends);
    n->records = record_bytes(p);
    wn_source_drop_pages(wn_model_source(p->model));
    wn_memory_give_back();
    n->base = wn_resident_memory() + p->corpus.left_out;
    return fit_ram(&z, err);
}

void wn_probing_release(struct wn_probing *p)
{
    wn_corpus_release(&p->corpus);
    wn_saliency_release(&p->archive);
    for (uint32_t i = 0; p->dropped && i < p->probes.points; i++)
        wn_dropped_release(&p->dropped[i]);
    free(p->dropped);
    wn_probes_release(&p->probes);
    free(p->source);
    free(p->layer);
}

bool wn_probing_init(struct wn_probing *p, const struct wn_model *m, unsigned threads,
                     const struct wn_layer_probe_options *o, struct wn_err *err)
{
    *p = (struct wn_probing){.model = m, .config = wn_model_config(m), .options = o};
    if (wn_keep_no_ghosts(wn_model_source(m), err) && take_layers(p, err) && read_archive(p, err) &&
        read_corpus(p, err) && match_sources(p, err) && wn_probing_mask(p, err) && work_out(p, threads, err))
        return true;
    wn_probing_release(p);
    return false;
}

bool wn_layer_probe_plan(const struct wn_model *m, unsigned threads, const struct wn_layer_probe_options *o,
                         struct wn_layer_probe_need *need, struct wn_err *err)
{
    struct wn_probing p;

    if (!wn_probing_init(&p, m, threads, o, err))
        return false;
    *need = p.need;
    wn_probing_release(&p);
    return true;
}
