/*
 * A session: one timeline of tokens, and everything a token needs, taken when the session is made. A prompt is computed
 * in chunks; no result depends on their size.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "engine/engine.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_CONTEXT 4096
#define DEFAULT_CHUNK   128
/* Positions whose logits are computed together when all are wanted: the head is read once for so many. */
#define LOGIT_ROWS 16

/* The sizes that everything else follows from. */
struct sizes {
    uint32_t context, chunk;
    size_t logit_rows, worker_floats;
    uint64_t arena, row_floats, logit_floats; /* UINT64_MAX when 64 bits do not count them, as in struct wn_room */
};

static struct sizes sizes_of(const struct wn_config *c, const struct wn_session_options *o)
{
    struct sizes z = {.context = o->context ? o->context : (uint32_t)wn_min_size(c->context_length, DEFAULT_CONTEXT)};

    z.chunk = (uint32_t)wn_min_size(o->chunk ? o->chunk : DEFAULT_CHUNK, z.context);
    z.logit_rows = wn_min_size(LOGIT_ROWS, z.chunk);
    z.arena = wn_graph_scratch(c, z.chunk, z.context, false);
    z.worker_floats = wn_graph_worker_floats(c);
    z.row_floats = wn_mul_capped((uint64_t)z.chunk * c->hidden_size, (uint64_t)wn_bank_count(c) + 1);
    z.logit_floats = (uint64_t)z.logit_rows * c->vocab_size;
    return z;
}

static uint64_t scratch_bytes(const struct sizes *z, unsigned threads)
{
    uint64_t floats = wn_add_capped((uint64_t)threads * z->worker_floats + z->logit_floats, z->row_floats);

    return wn_add_capped(z->arena, wn_mul_capped(floats, sizeof(float)));
}

void wn_session_need(const struct wn_config *c, const struct wn_session_options *o, unsigned threads,
                     struct wn_session_memory *need)
{
    struct sizes z = sizes_of(c, o);

    wn_state_need(c, z.context, &need->state, &need->cache);
    need->scratch = scratch_bytes(&z, threads);
}

void wn_session_routing(const struct wn_session *s, struct wn_routing *r)
{
    *r = (struct wn_routing){.tokens = s->meter.tokens, .chosen = s->meter.chosen, .ghosts = s->meter.ghosts};
    for (uint32_t i = 0; i < s->ctx.config->layer_count; i++)
        r->lost += s->meter.lost[i];
}

void wn_session_taken(const struct wn_session *s, struct wn_session_memory *taken)
{
    size_t floats = wn_pool_threads(s->ctx.pool) * s->ctx.worker_floats;

    floats += s->stream.bank_stride * (wn_bank_count(s->ctx.config) + 1);
    floats += s->logit_rows * s->ctx.config->vocab_size;
    taken->state = s->state.recurrent_floats * sizeof(float);
    taken->cache = s->state.cache_floats * sizeof(float);
    taken->scratch = s->arena.size + floats * sizeof(float);
}

static bool allocate(struct wn_session *s, const struct sizes *z, struct wn_err *err)
{
    const struct wn_config *c = s->ctx.config;

    if (!wn_state_init(&s->state, c, z->context, err) || !wn_arena_init(&s->arena, z->arena, err))
        return false;
    s->workers = wn_alloc_aligned(wn_pool_threads(s->ctx.pool) * z->worker_floats * sizeof(float), err);
    s->rows = s->workers ? wn_alloc_aligned((size_t)z->row_floats * sizeof(float), err) : NULL;
    s->logits = s->rows ? wn_alloc_aligned((size_t)z->logit_floats * sizeof(float), err) : NULL;
    s->meter.lost = s->logits ? wn_alloc(c->layer_count, sizeof *s->meter.lost, err) : NULL;
    if (!s->meter.lost)
        return false;
    s->ctx.meter = &s->meter;
    s->ctx.arena = &s->arena;
    s->ctx.worker_scratch = s->workers;
    s->ctx.worker_floats = z->worker_floats;
    s->stream.bank_stride = (size_t)z->chunk * c->hidden_size;
    s->stream.p = s->rows;
    s->stream.banks = s->rows + s->stream.bank_stride;
    return true;
}

/* The context must be one that the model has, and all sizes such that no sum of them was too large to count. */
static bool check_sizes(const struct wn_config *c, const struct wn_session_options *o, const struct sizes *z,
                        unsigned threads, struct wn_err *err)
{
    struct wn_session_memory need;

    if (z->context > c->context_length)
        return wn_fail(err, WN_ERR_ARG, "a context of %" PRIu32 " tokens is wanted, the model has %" PRIu32, z->context,
                       c->context_length);
    wn_session_need(c, o, threads, &need);
    if (wn_add_capped(wn_add_capped(need.state, need.cache), need.scratch) > PTRDIFF_MAX)
        return wn_fail(err, WN_ERR_NOMEM,
                       "a session of %" PRIu32 " tokens, %" PRIu32 " at once, is more than a process can have: %" PRIu64
                       " bytes of state, %" PRIu64 " of cache, %" PRIu64 " of scratch",
                       z->context, z->chunk, need.state, need.cache, need.scratch);
    return true;
}

struct wn_session *wn_session_new_with(const struct wn_weights *w, struct wn_pool *pool,
                                       const struct wn_kernels *kernels, const struct wn_session_options *o,
                                       struct wn_err *err)
{
    const struct wn_config *c = w->config;
    struct sizes z = sizes_of(c, o);
    struct wn_session *s;

    if (!check_sizes(c, o, &z, wn_pool_threads(pool), err))
        return NULL;
    s = wn_alloc(1, sizeof *s, err);
    if (!s)
        return NULL;
    s->weights = w;
    s->ctx = (struct wn_ctx){.config = c, .kernels = kernels, .pool = pool};
    s->context = z.context;
    s->chunk = z.chunk;
    s->logit_rows = z.logit_rows;
    if (!allocate(s, &z, err)) {
        wn_session_free(s);
        wn_fail_in(err, "a session of %" PRIu32 " tokens", z.context);
        return NULL;
    }
    return s;
}

struct wn_session *wn_session_new(const struct wn_model *m, const struct wn_weights *w, struct wn_pool *pool,
                                  const struct wn_session_options *o, struct wn_err *err)
{
    const struct wn_kernels *kernels = wn_kernels_get(err);

    if (!kernels)
        return NULL;
    if (wn_model_config(m) != w->config) {
        wn_fail(err, WN_ERR_ARG, "the weights are not those of '%s'", wn_model_path(m));
        return NULL;
    }
    return wn_session_new_with(w, pool, kernels, o, err);
}

void wn_session_free(struct wn_session *s)
{
    if (!s)
        return;
    wn_state_release(&s->state);
    wn_arena_release(&s->arena);
    wn_free_aligned(s->workers);
    wn_free_aligned(s->rows);
    wn_free_aligned(s->logits);
    free(s->meter.lost);
    free(s);
}

void wn_session_probe(struct wn_session *s, const struct wn_probe *probe)
{
    assert(!probe || !probe->runner_up);
    s->ctx.probe = probe;
}

void wn_session_watch(struct wn_session *s, wn_watch_fn *fn, void *arg)
{
    s->watch = fn;
    s->watch_arg = arg;
}

/* Runs up to a chunk of tokens through all layers; the stream then holds what the head needs. */
static bool run_chunk(struct wn_session *s, const uint32_t *ids, size_t n, struct wn_err *err)
{
    s->stream.tokens = n;
    wn_embed(&s->ctx, &s->weights->ends, ids, &s->stream);
    for (uint32_t i = 0; i < s->ctx.config->layer_count; i++) {
        if (s->watch && !s->watch(s->watch_arg, s->position, i)) {
            wn_fail(err, WN_ERR_CANCELED, "stopped in layer %" PRIu32 " behind position %" PRIu64, i, s->position);
            wn_session_reset(s);
            return false;
        }
        wn_layer_forward(&s->ctx, &s->weights->layers[i], &s->stream, &s->state.layers[i], s->position);
    }
    s->position += n;
    s->last = NULL;
    return true;
}

/* Logits of tokens first .. first + n - 1 of the chunk just run. */
static void compute_logits(struct wn_session *s, size_t first, size_t n)
{
    wn_logits(&s->ctx, &s->weights->ends, &s->stream, first, n, s->logits);
    if (first + n == s->stream.tokens)
        s->last = s->logits + (n - 1) * s->ctx.config->vocab_size;
}

static bool tell_logits(struct wn_session *s, wn_logits_fn *on_logits, void *arg, struct wn_err *err)
{
    uint64_t start = s->position - s->stream.tokens;

    for (size_t first = 0; first < s->stream.tokens; first += s->logit_rows) {
        size_t n = wn_min_size(s->logit_rows, s->stream.tokens - first);

        compute_logits(s, first, n);
        for (size_t i = 0; i < n; i++)
            if (!on_logits(arg, start + first + i, s->logits + i * s->ctx.config->vocab_size)) {
                s->last = NULL; /* in the last batch they are there, but no caller should have to know which that was */
                return wn_fail(err, WN_ERR_CANCELED, "stopped at position %" PRIu64, start + first + i);
            }
    }
    return true;
}

static bool check_ids(const struct wn_session *s, const uint32_t *ids, size_t n, struct wn_err *err)
{
    if (n > s->context - s->position)
        return wn_fail(err, WN_ERR_ARG, "%zu tokens after %" PRIu64 " do not fit a context of %" PRIu32, n, s->position,
                       s->context);
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= s->ctx.config->vocab_size)
            return wn_fail(err, WN_ERR_ARG, "token %zu of %zu is %" PRIu32 ", the vocabulary has %" PRIu32, i + 1, n,
                           ids[i], s->ctx.config->vocab_size);
    return true;
}

bool wn_session_advance(struct wn_session *s, const uint32_t *ids, size_t n, struct wn_err *err)
{
    assert(n <= s->chunk);
    return check_ids(s, ids, n, err) && run_chunk(s, ids, n, err);
}

bool wn_session_feed(struct wn_session *s, const uint32_t *ids, size_t n, wn_logits_fn *on_logits, void *arg,
                     struct wn_err *err)
{
    if (!check_ids(s, ids, n, err))
        return false;
    while (n > 0) {
        size_t take = wn_min_size(s->chunk, n);

        if (!run_chunk(s, ids, take, err))
            return false;
        ids += take;
        n -= take;
        if (on_logits && !tell_logits(s, on_logits, arg, err))
            return false;
        if (!on_logits && n == 0)
            compute_logits(s, take - 1, 1);
    }
    return true;
}

const float *wn_session_logits(const struct wn_session *s)
{
    return s->last;
}

uint64_t wn_session_position(const struct wn_session *s)
{
    return s->position;
}

void wn_session_reset(struct wn_session *s)
{
    wn_state_reset(&s->state);
    s->position = 0;
    s->last = NULL;
}

const char *wn_kernels_name(struct wn_err *err)
{
    const struct wn_kernels *k = wn_kernels_get(err);

    return k ? k->name : NULL;
}
