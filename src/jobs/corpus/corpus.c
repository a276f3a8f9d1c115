/*
 * From what was read of a corpus to sequences: cutting and interleaving. See corpus.h.
 */
#include "base/alloc.h"
#include "jobs/corpus/corpus_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static bool cut_texts(struct wn_corpus_reader *r, uint32_t length, struct wn_err *err)
{
    for (uint32_t s = 0; s < r->source_count; s++) {
        struct wn_gathered *g = &r->source[s];

        if (g->tokens < length)
            return wn_fail(err, WN_ERR_ARG,
                           "source '%s' has %" PRIu64 " tokens, fewer than one sequence of %" PRIu32
                           ": give it more text, or leave it out",
                           g->label.at, g->tokens, length);
        for (g->spans = 0; (g->spans + 1) * length <= g->tokens; g->spans++) {
            struct wn_span span = {.at = g->spans * length, .n = length, .source = s, .k = g->spans};

            if (!wn_buf_add(&r->spans, &span, sizeof span, err))
                return false;
        }
    }
    return true;
}

/* Sequence k of n stands at (k + 1/2) / n of the way; on ties the earlier source is first. */
static int span_order(const void *a, const void *b)
{
    const struct wn_span *x = a, *y = b;
    uint64_t left = (2 * (uint64_t)x->k + 1) * y->of, right = (2 * (uint64_t)y->k + 1) * x->of;

    if (left != right)
        return left < right ? -1 : 1;
    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    return x->k < y->k ? -1 : x->k > y->k;
}

static void count_sequence(struct wn_corpus *c, const struct wn_sequence *q)
{
    c->tokens += q->n;
    if (q->n > c->longest)
        c->longest = q->n;
    if (!q->labels)
        c->source[q->source].tokens += q->n;
    for (uint32_t i = 0; q->labels && i < q->n; i++)
        c->source[q->labels[i]].tokens++;
}

static bool take_sequences(struct wn_corpus *c, struct wn_corpus_reader *r, struct wn_err *err)
{
    struct wn_span *spans = (struct wn_span *)(void *)r->spans.at;
    size_t n = r->spans.n / sizeof *spans;
    uint64_t limit = r->o->max_tokens ? r->o->max_tokens : UINT64_MAX;

    for (size_t i = 0; i < n; i++)
        spans[i].of = r->source[spans[i].source].spans;
    if (n)
        qsort(spans, n, sizeof *spans, span_order);
    c->sequence = wn_alloc(n, sizeof *c->sequence, err);
    if (!c->sequence)
        return false;
    for (size_t i = 0; i < n && spans[i].n <= limit - c->tokens; i++) {
        const struct wn_span *p = &spans[i];
        const uint16_t *labels = c->labels[p->source];

        c->sequence[i] = (struct wn_sequence){.ids = c->ids[p->source] + p->at,
                                              .labels = labels ? labels + p->at : NULL,
                                              .n = p->n,
                                              .source = p->source,
                                              .half = (uint32_t)(p->k & 1)};
        count_sequence(c, &c->sequence[i]);
        c->sequence_count = i + 1;
    }
    return true;
}

/* The gathered ids, with what growing left over given back. */
static void *hand_over(struct wn_buf *b)
{
    struct wn_err ignored;
    void *p = b->n ? wn_realloc(b->at, b->n, 1, &ignored) : NULL;

    if (!p)
        p = b->at;
    *b = (struct wn_buf){0};
    return p;
}

static bool hand_sources(struct wn_corpus *c, struct wn_corpus_reader *r, struct wn_err *err)
{
    c->source = wn_alloc(r->source_count, sizeof *c->source, err);
    c->ids = wn_alloc(r->source_count, sizeof *c->ids, err);
    c->labels = wn_alloc(r->source_count, sizeof *c->labels, err);
    if (!c->source || !c->ids || !c->labels)
        return false;
    for (c->source_count = 0; c->source_count < r->source_count; c->source_count++) {
        struct wn_gathered *g = &r->source[c->source_count];
        uint32_t s = c->source_count;

        c->source[s].label = wn_strdup(g->label.at, err);
        if (!c->source[s].label)
            return false;
        c->source[s].read = g->tokens;
        c->ids[s] = hand_over(&g->ids);
        c->labels[s] = hand_over(&g->labels);
    }
    return true;
}

/* How many tokens must be allowed so that each source has a sequence that starts with it; spans are in their order. */
static uint64_t enough_tokens(const struct wn_corpus_reader *r)
{
    const struct wn_span *spans = (const struct wn_span *)(const void *)r->spans.at;
    uint64_t sum = 0, enough = 0;

    for (size_t i = 0; i < r->spans.n / sizeof *spans; i++) {
        sum += spans[i].n;
        if (spans[i].k == 0)
            enough = sum;
    }
    return enough;
}

static bool check_taken(const struct wn_corpus *c, const struct wn_corpus_reader *r, struct wn_err *err)
{
    for (uint32_t s = 0; s < c->source_count; s++) {
        if (c->source[s].tokens > 0)
            continue;
        /* of labels that begin no sequence it is not known which one has them */
        if (r->source[s].spans == 0)
            return wn_fail(err, WN_ERR_ARG,
                           "'%s': no sequence of source '%s' fits into %" PRIu64 " tokens: allow more tokens",
                           r->o->path, c->source[s].label, r->o->max_tokens);
        return wn_fail(err, WN_ERR_ARG,
                       "'%s': no sequence of source '%s' fits into %" PRIu64 " tokens: %" PRIu64
                       " are enough for each source to have one",
                       r->o->path, c->source[s].label, r->o->max_tokens, enough_tokens(r));
    }
    return true;
}

static bool assemble(struct wn_corpus *c, struct wn_corpus_reader *r, struct wn_err *err)
{
    uint32_t length = r->o->sequence ? r->o->sequence : WN_CORPUS_SEQUENCE;

    c->given = r->tokens;
    memcpy(c->file_fingerprint, r->fingerprint, sizeof c->file_fingerprint);
    if (r->source_count == 0)
        return wn_fail(err, WN_ERR_FORMAT, "'%s': there is no text in it", r->o->path);
    if (c->given && r->o->sequence)
        return wn_fail(err, WN_ERR_ARG,
                       "'%s': its lines of tokens are the sequences, so a length of %" PRIu32
                       " (--seq) cannot be had: leave it out",
                       r->o->path, r->o->sequence);
    if (!c->given && !cut_texts(r, length, err))
        return wn_fail_in(err, "'%s'", r->o->path);
    wn_corpus_use(r, (c->given ? 0 : r->spans.n) + r->spans.n / sizeof(struct wn_span) * sizeof *c->sequence, 0);
    c->reading = r->counting && r->most <= r->o->memory ? r->o->memory + 1 : r->most;
    if (r->counting) {
        c->left_out = r->held;
        c->longest = c->given ? r->longest : length;
        return hand_sources(c, r, err);
    }
    if (!hand_sources(c, r, err) || !take_sequences(c, r, err))
        return false;
    for (uint32_t s = 0; s < c->source_count && !c->given; s++)
        c->source[s].partial = c->source[s].read % length;
    return check_taken(c, r, err);
}

bool wn_corpus_read(struct wn_corpus *c, const struct wn_corpus_options *o, struct wn_err *err)
{
    struct wn_corpus_reader r = {.o = o};
    bool ok;

    *c = (struct wn_corpus){0};
    if (o->sequence > WN_SEQUENCE_MOST)
        return wn_fail(err, WN_ERR_ARG, "sequences of %" PRIu32 " tokens: at most %" PRIu32, o->sequence,
                       WN_SEQUENCE_MOST);
    ok = wn_corpus_gather(&r, err) && assemble(c, &r, err);
    for (uint32_t s = 0; s < r.source_count; s++) {
        free((void *)(uintptr_t)r.source[s].label.at);
        wn_buf_release(&r.source[s].ids);
        wn_buf_release(&r.source[s].labels);
    }
    free(r.source);
    wn_buf_release(&r.spans);
    wn_buf_release(&r.ids);
    wn_buf_release(&r.labels);
    if (!ok)
        wn_corpus_release(c);
    return ok;
}

void wn_corpus_release(struct wn_corpus *c)
{
    for (uint32_t s = 0; s < c->source_count; s++) {
        free(c->source[s].label);
        free(c->ids[s]);
        free(c->labels[s]);
    }
    free(c->source);
    free(c->ids);
    free(c->labels);
    free(c->sequence);
    *c = (struct wn_corpus){0};
}

void wn_corpus_fingerprint(const struct wn_corpus *c, char out[17])
{
    uint64_t h = wn_bytes_hash((struct wn_bytes){NULL, 0});

    for (uint32_t s = 0; s < c->source_count; s++)
        h = h * 31 + wn_bytes_hash(wn_bytes_of(c->source[s].label));
    for (size_t i = 0; i < c->sequence_count; i++) {
        const struct wn_sequence *q = &c->sequence[i];

        h = h * 31 + q->n;
        h = h * 31 + q->source;
        h = h * 31 + wn_bytes_hash((struct wn_bytes){(const char *)q->ids, q->n * sizeof *q->ids});
        if (q->labels)
            h = h * 31 + wn_bytes_hash((struct wn_bytes){(const char *)q->labels, q->n * sizeof *q->labels});
    }
    snprintf(out, 17, "%016" PRIx64, h);
}
