/*
 * What a calibration takes, worked out before it runs: the corpus is read, each layer bound once for its size, and the
 * chunk of tokens chosen that fits the memory allowed.
 */
#include "jobs/calibrate/calibrate_parts.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/number.h"
#include "jobs/prune/keep.h"
#include "jobs/ram.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <stdlib.h>

#define CHUNK_LEAST 16

#define SPEED_PIECES  64
#define SPEED_STEP    ((size_t)4 << 20)
#define SPEED_SECONDS 0.5

static void lay_records(struct wn_room *r, const struct wn_calibration *c, uint64_t chunk, unsigned threads,
                        struct wn_record_room *room)
{
    const struct wn_config *k = c->config;
    uint64_t width = wn_expert_width(k);

    room->norms = wn_room_take(r, chunk, k->experts_per_token, sizeof(double));
    room->changes = wn_room_take(r, chunk, k->experts_per_token, sizeof(double));
    room->totals = wn_room_take(r, chunk, 1, sizeof(double));
    room->mixes = wn_room_take(r, chunk, 1, sizeof(double));
    room->change = wn_room_f32(r, chunk, width);
    room->up = wn_room_f32(r, k->latent_size ? chunk : 0, k->hidden_size);
    room->risen = wn_room_take(r, chunk, 1, sizeof(double));
    room->vectors = wn_room_take(r, threads, 2 * width, sizeof(double));
    room->mean_sums = c->options->means ? wn_room_take(r, k->expert_count, width, sizeof(double)) : NULL;
}

static uint64_t lay_out(struct wn_calibration_buffers *b, const struct wn_calibration *c, uint64_t chunk,
                        unsigned threads)
{
    const struct wn_config *k = c->config;
    struct wn_room r = {.arena = b->arena.at ? &b->arena : NULL};

    b->walk.chunk = (uint32_t)chunk;
    wn_walk_lay(&b->walk, &r, k, c->corpus.longest);
    b->worker_floats = wn_graph_worker_floats(k);
    lay_records(&r, c, chunk, threads, &b->room);
    b->worker_scratch = wn_room_f32(&r, threads, b->worker_floats);
    return wn_add_capped(r.bytes, wn_graph_scratch(k, chunk, c->corpus.longest, true));
}

bool wn_calibration_buffers_init(struct wn_calibration_buffers *b, const struct wn_calibration *c, unsigned threads,
                                 struct wn_err *err)
{
    *b = (struct wn_calibration_buffers){0};
    if (!wn_arena_init(&b->arena, lay_out(b, c, c->need.chunk, threads), err))
        return false;
    (void)lay_out(b, c, c->need.chunk, threads);
    return true;
}

/* The largest layer, and what all of them have in the files. */
static bool measure_layers(const struct wn_model *m, const struct wn_config *k, struct wn_calibrate_need *n,
                           struct wn_err *err)
{
    bool moe = false;

    n->layer = n->model_read = 0;
    for (uint32_t i = 0; i < k->layer_count; i++) {
        struct wn_layer layer;

        if (!wn_layer_bind(m, i, &layer, err))
            return false;
        n->layer = wn_max_u64(n->layer, wn_layer_bytes(m, &layer));
        n->model_read += wn_layer_bytes(m, &layer) - wn_owned_bytes(layer.owned);
        moe |= layer.moe;
        wn_layer_release(&layer);
    }
    return moe || wn_fail(err, WN_ERR_ARG, "'%s' has no routed experts to calibrate", wn_model_path(m));
}

/*
 * Each sum is two doubles. Per expert and source besides a count and a largest norm; two halves and two totals over all
 * sources; and a count per layer. A layer's means, on their way to the work folder.
 */
static uint64_t record_bytes(const struct wn_calibration *c)
{
    const struct wn_config *k = c->config;
    const struct wn_saliency shape = {.layer_count = k->layer_count,
                                      .expert_count = k->expert_count,
                                      .source_count = c->corpus.source_count,
                                      .latent_size = wn_expert_width(k)};
    uint64_t words = (uint64_t)k->expert_count * (2 * (uint64_t)shape.source_count + 4) + 1;

    for (unsigned i = 0; i < WN_SUMS; i++)
        words += 2 * (uint64_t)wn_sum_blocks(&shape, i) * wn_sum_width(&shape, i);
    return words * k->layer_count * sizeof(double) + wn_calibration_mean_bytes(c);
}

struct sizing {
    struct wn_calibration *c;
    unsigned threads;
    uint64_t embedding;
};

/* wn_ram_fn. The phases do not overlap: embedding, the layers, and writing the archive (sums, and their arrays). */
static uint64_t size_chunk(void *arg, uint32_t chunk)
{
    const struct sizing *z = arg;
    struct wn_calibrate_need *n = &z->c->need;
    struct wn_calibration_buffers b = {0};

    n->scratch = lay_out(&b, z->c, chunk, z->threads);
    n->peak = wn_max_u64(wn_add_capped(n->scratch + n->held, n->records + wn_max_u64(n->layer, z->embedding)),
                         2 * n->records);
    n->peak = wn_add_capped(wn_max_u64(wn_add_capped(n->peak, n->base), z->c->corpus.reading), WN_RAM_UNFORESEEN);
    return n->peak;
}

static bool fit_ram(struct wn_calibration *c, unsigned threads, uint64_t embedding, struct wn_err *err)
{
    struct sizing z = {c, threads, embedding};
    const struct wn_ram_walk walk = {.what = "calibrating",
                                     .ram = c->options->ram,
                                     .activations = c->need.activations,
                                     .layer = c->need.layer,
                                     .longest = c->corpus.longest,
                                     .least = CHUNK_LEAST,
                                     .need = size_chunk,
                                     .arg = &z};

    return wn_ram_fit_walk(&walk, &c->need.held, &c->need.chunk, err);
}

/*
 * How often a stream of all tokens is read or written: the embeddings are written; a layer reads the banks of those
 * below it and the stream that enters it, and writes the one that leaves it, but for the last.
 */
static uint64_t moved_streams(const struct wn_config *k)
{
    uint64_t streams = 1, banks = 0;

    for (uint32_t i = 0; i < k->layer_count; i++) {
        streams += banks + 1 + (i + 1 < k->layer_count);
        banks += wn_layer_banks(k, i);
    }
    return streams;
}

size_t wn_calibration_streams(const struct wn_config *k)
{
    size_t streams = 0, banks = 0;

    for (uint32_t i = 0; i < k->layer_count; i++) {
        streams = (size_t)wn_max_u64(streams, banks + 1 + (i + 1 < k->layer_count));
        banks += wn_layer_banks(k, i);
    }
    return streams;
}

static bool work_out(struct wn_calibration *c, unsigned threads, struct wn_err *err)
{
    const struct wn_config *k = c->config;
    struct wn_calibrate_need *n = &c->need;
    struct wn_ends ends;
    uint64_t embedding, streams = wn_calibration_streams(k);

    n->sequences = c->corpus.sequence_count;
    n->tokens = c->corpus.tokens;
    n->sources = c->corpus.source_count;
    if (!wn_mul_u64(streams * k->hidden_size * sizeof(float), n->tokens, &n->activations))
        return wn_fail(err, WN_ERR_ARG, "activations of %" PRIu64 " tokens are too large", n->tokens);
    if (!measure_layers(c->model, k, n, err) || !wn_ends_bind(c->model, &ends, err))
        return false;
    embedding = ends.embedding.rows * ends.embedding.row_bytes;
    wn_ends_release(&ends);
    n->model_read += embedding;
    n->moved = moved_streams(k) * k->hidden_size * sizeof(float) * n->tokens;
    n->records = record_bytes(c);
    n->means = (uint64_t)k->layer_count * wn_calibration_mean_bytes(c);
    wn_source_drop_pages(wn_model_source(c->model));
    wn_memory_give_back();
    n->base = wn_resident_memory() + c->corpus.left_out;
    return fit_ram(c, threads, embedding, err);
}

static bool read_corpus(struct wn_calibration *c, struct wn_err *err)
{
    const struct wn_calibrate_options *o = c->options;
    struct wn_corpus_options read = {
        .path = o->corpus, .sequence = o->sequence, .max_tokens = o->max_tokens, .memory = o->ram};

    return wn_corpus_read_for(&c->corpus, c->model, &read, err);
}

bool wn_calibration_init(struct wn_calibration *c, const struct wn_model *m, unsigned threads,
                         const struct wn_calibrate_options *o, struct wn_err *err)
{
    *c = (struct wn_calibration){.model = m, .config = wn_model_config(m), .options = o};
    if (!wn_keep_no_ghosts(wn_model_source(m), err) || !read_corpus(c, err))
        return false;
    if (work_out(c, threads, err))
        return true;
    wn_calibration_release(c);
    return false;
}

bool wn_calibrate_read_speed(const struct wn_model *m, double *bytes_per_second, struct wn_err *err)
{
    const struct wn_source *s = wn_model_source(m);
    size_t n = wn_source_tensor_count(s), step = n / SPEED_PIECES + 1;
    char *buffer = wn_alloc(SPEED_STEP, 1, err);
    double start = wn_clock_seconds(), seconds;
    uint64_t bytes = 0;
    bool ok = buffer != NULL;

    for (size_t i = step / 2; ok && i < n && wn_clock_seconds() - start < SPEED_SECONDS; i += step) {
        const struct wn_tensor *t = wn_source_tensor_at(s, i);
        size_t take = (size_t)wn_min_u64(t->bytes, SPEED_STEP);

        ok = wn_source_read(s, t, (t->bytes - take) / 2, buffer, take, err);
        bytes += take;
    }
    free(buffer);
    seconds = wn_clock_seconds() - start;
    *bytes_per_second = ok && seconds > 0 ? (double)bytes / seconds : 0;
    return ok;
}

void wn_calibration_release(struct wn_calibration *c)
{
    wn_corpus_release(&c->corpus);
}

bool wn_calibrate_plan(const struct wn_model *m, unsigned threads, const struct wn_calibrate_options *o,
                       struct wn_calibrate_need *need, struct wn_err *err)
{
    struct wn_calibration c;

    if (!wn_calibration_init(&c, m, threads, o, err))
        return false;
    *need = c.need;
    wn_calibration_release(&c);
    return true;
}
