/*
 * What comes out of all ways: KLD of each probe against the whole model for each token, summed per source in the order
 * of the tokens, sequence by sequence, each with a record of its sums. The whole model's logits are computed once for
 * all probes.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "jobs/probe/probe_parts.h"
#include "jobs/talk.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct scoring {
    struct wn_probing_run *run;
    struct wn_walk walk;
    struct wn_ends ends;
    double *sums; /* [way - 1][source] of the sequence at hand; owned */
    size_t vocab;
    uint64_t done; /* tokens times heads */
};

static size_t sum_count(const struct wn_probing *p)
{
    return (size_t)(wn_way_count(p) - 1) * p->archive.source_count;
}

/* Logits of tokens first .. first + n - 1 of all, by the way that the walk was pointed at. */
static bool make_logits(struct scoring *s, uint64_t first, size_t n, float *logits, struct wn_err *err)
{
    struct wn_stream stream;

    if (!wn_walk_open_last(&s->walk, err) || !wn_walk_read(&s->walk, first, n, &stream, err))
        return false;
    wn_logits(s->walk.ctx, &s->ends, &stream, 0, n, logits);
    wn_store_close_streams(s->walk.store);
    s->done += n;
    return true;
}

/* A row of the whole model's logits is looked at once. */
static void whole_piece(void *arg, size_t i, unsigned worker)
{
    struct scoring *s = arg;
    const float *l = s->run->buffers.logits[0] + i * s->vocab;

    (void)worker;
    s->run->buffers.rows[i] = (struct wn_row){0};
    if (wn_row_is_finite(l, s->vocab))
        s->run->buffers.rows[i] = wn_row_of(l, s->vocab);
}

static void probe_piece(void *arg, size_t i, unsigned worker)
{
    struct scoring *s = arg;
    const struct wn_probing_buffers *b = &s->run->buffers;
    const float *l = b->logits[1] + i * s->vocab;
    struct wn_row row;

    (void)worker;
    b->kld[i] = (double)NAN;
    if (!b->rows[i].logits || !wn_row_is_finite(l, s->vocab))
        return;
    row = wn_row_of(l, s->vocab);
    b->kld[i] = wn_row_kld(&b->rows[i], &row, s->vocab);
}

static bool add_rows(struct scoring *s, uint32_t way, const struct wn_sequence *q, size_t first, size_t n,
                     struct wn_err *err)
{
    const struct wn_probing *p = &s->run->p;
    double *sum = s->sums + (size_t)(way - 1) * p->archive.source_count;

    for (size_t i = 0; i < n; i++) {
        double kld = s->run->buffers.kld[i];

        if (!isfinite(kld))
            return wn_fail(err, WN_ERR_FORMAT,
                           "the logits of token %zu of a sequence are not finite (whole, or with layer %" PRIu32
                           " probed)",
                           first + i, wn_way_layer(p, way));
        sum[p->source[q->labels ? q->labels[first + i] : q->source]] += kld;
    }
    return true;
}

/* Tokens first .. first + n - 1 of the sequence, which are tokens `at` ... of all. */
static bool score_rows(struct scoring *s, const struct wn_sequence *q, uint64_t at, size_t first, size_t n,
                       struct wn_err *err)
{
    const struct wn_probing *p = &s->run->p;

    wn_way_take(p, &s->walk, 0);
    if (!make_logits(s, at, n, s->run->buffers.logits[0], err))
        return false;
    wn_pool_run(s->run->pool, whole_piece, s, n);
    for (uint32_t way = 1; way < wn_way_count(p); way++) {
        wn_way_take(p, &s->walk, way);
        if (!make_logits(s, at, n, s->run->buffers.logits[1], err))
            return false;
        wn_pool_run(s->run->pool, probe_piece, s, n);
        if (!add_rows(s, way, q, first, n, err) ||
            !wn_job_progress(s->run->job, "scoring", s->done, p->need.token_heads, "tokens", err))
            return false;
    }
    return true;
}

static bool score_sequence(struct scoring *s, size_t i, uint64_t at, uint32_t record, struct wn_err *err)
{
    const struct wn_probing *p = &s->run->p;
    const struct wn_sequence *q = &p->corpus.sequence[i];
    size_t rows = wn_probing_rows(p->need.chunk), bytes = sum_count(p) * sizeof *s->sums;

    memset(s->sums, 0, bytes);
    for (size_t first = 0; first < q->n; first += rows)
        if (!score_rows(s, q, at + first, first, wn_min_size(rows, q->n - first), err))
            return wn_fail_in(err, "sequence %zu", i);
    return wn_store_put_record(&s->run->store, record, (struct wn_bytes){(const char *)s->sums, bytes}, err);
}

/* The sums of a sequence that an earlier run scored. */
static bool take_up(struct scoring *s, uint32_t record, uint64_t tokens, struct wn_err *err)
{
    size_t bytes = sum_count(&s->run->p) * sizeof *s->sums;
    char *text = wn_store_get_record(&s->run->store, record, bytes, err);

    if (!text)
        return false;
    memcpy(s->sums, text, bytes);
    free(text);
    s->done += tokens * wn_way_count(&s->run->p);
    return true;
}

/* Records of sequences are numbered behind those of layers. */
static bool score_all(struct scoring *s, struct wn_err *err)
{
    const struct wn_probing *p = &s->run->p;
    uint64_t at = 0;

    for (size_t i = 0; i < p->corpus.sequence_count; i++) {
        uint32_t record = p->config->layer_count + (uint32_t)i;

        if (!(wn_store_has_record(&s->run->store, record) ? take_up(s, record, p->corpus.sequence[i].n, err)
                                                          : score_sequence(s, i, at, record, err)))
            return false;
        for (size_t k = 0; k < sum_count(p); k++)
            s->run->sums[k] += s->sums[k];
        at += p->corpus.sequence[i].n;
    }
    return true;
}

bool wn_probing_score(struct wn_probing_run *r, struct wn_err *err)
{
    struct scoring s = {.run = r, .walk = r->buffers.walk, .vocab = r->p.config->vocab_size};
    bool ok;

    s.sums = wn_alloc(sum_count(&r->p), sizeof *s.sums, err);
    r->sums = s.sums ? wn_alloc(sum_count(&r->p), sizeof *r->sums, err) : NULL;
    ok = r->sums && wn_ends_bind(r->p.model, &s.ends, err);
    if (ok)
        ok = score_all(&s, err) || wn_fail_in(err, "scoring");
    wn_store_close_streams(&r->store);
    wn_ends_release(&s.ends);
    free(s.sums);
    return ok;
}
