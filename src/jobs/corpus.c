/*
 * From the corpus file to tagged sequences: lines, what a line says, cutting and interleaving. See corpus.h.
 *
 * The file is read line by line, so that only the ids (four bytes a token, six where lines bring tokens) stay in
 * memory.
 */
#include "jobs/corpus.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "jobs/lines.h"
#include "sys/file.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_LIMIT   ((uint64_t)1 << 32)
#define SEQUENCE_MAX ((uint32_t)1 << 24)

static bool is_blank(struct wn_bytes line)
{
    for (size_t i = 0; i < line.n; i++)
        if (line.at[i] != ' ' && line.at[i] != '\t' && line.at[i] != '\r')
            return false;
    return true;
}

/* ---- what has been read so far ---- */

/* A sequence before the buffers of ids have found their last place. */
struct span {
    size_t at;
    uint32_t n, source;
    size_t k, of; /* the k-th of its source's */
};

struct gathered {
    struct wn_bytes label;
    struct wn_buf ids, labels; /* uint32_t, uint16_t */
    size_t spans;
};

struct reader {
    const struct wn_corpus_options *o;
    struct gathered *source;
    uint32_t source_count;
    struct wn_buf spans; /* struct span */
    bool texts, tokens;  /* kinds of lines seen */
};

static bool source_find(struct reader *r, struct wn_bytes label, uint32_t *source, struct wn_err *err)
{
    struct gathered *grown;
    char *copy;

    for (*source = 0; *source < r->source_count; (*source)++)
        if (wn_bytes_equal(r->source[*source].label, label))
            return true;
    if (label.n == 0 || label.n > WN_CORPUS_LABEL_BYTES || memchr(label.at, 0, label.n))
        return wn_fail(err, WN_ERR_FORMAT, "a 'source' has 1 to %d bytes, this one %zu", WN_CORPUS_LABEL_BYTES,
                       label.n);
    if (r->source_count == WN_CORPUS_SOURCES)
        return wn_fail(err, WN_ERR_FORMAT, "more than %d sources", WN_CORPUS_SOURCES);
    grown = wn_realloc(r->source, r->source_count + 1, sizeof *grown, err);
    if (!grown)
        return false;
    r->source = grown;
    copy = wn_strndup(label.at, label.n, err);
    if (!copy)
        return false;
    r->source[r->source_count++] = (struct gathered){.label = {copy, label.n}};
    return true;
}

static bool ids_check(const struct reader *r, const uint32_t *ids, size_t n, struct wn_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= r->o->vocab_size)
            return wn_fail(err, WN_ERR_FORMAT, "token %zu is %" PRIu32 ", the model knows 0 to %" PRIu32, i, ids[i],
                           r->o->vocab_size - 1);
    return true;
}

static bool add_text(struct reader *r, uint32_t source, const char *text, size_t n, struct wn_err *err)
{
    uint32_t *ids;
    size_t count;
    bool ok;

    if (!r->o->vocab)
        return wn_fail(err, WN_ERR_ARG, "text needs a vocabulary, and the model brings none");
    if (!wn_vocab_encode(r->o->vocab, text, n, false, &ids, &count, err))
        return false;
    ok = ids_check(r, ids, count, err) && wn_buf_add(&r->source[source].ids, ids, count * sizeof *ids, err);
    free(ids);
    return ok;
}

/* ---- one line of JSON ---- */

static struct wn_bytes json_text(const json_t *string)
{
    return (struct wn_bytes){json_string_value(string), json_string_length(string)};
}

/* The source of each of n tokens: "source" is one label, or an array of n. */
static bool token_label(struct reader *r, const json_t *source, size_t i, size_t n, uint16_t *label, struct wn_err *err)
{
    const json_t *one = json_is_array(source) ? json_array_get(source, i) : source;
    uint32_t found;

    if (json_is_array(source) && json_array_size(source) != n)
        return wn_fail(err, WN_ERR_FORMAT, "%zu labels in 'source' for %zu 'tokens'", json_array_size(source), n);
    if (!json_is_string(one))
        return wn_fail(err, WN_ERR_FORMAT, "'source' is not a string, nor an array of one string for each token");
    if (!source_find(r, json_text(one), &found, err))
        return false;
    *label = (uint16_t)found;
    return true;
}

static bool token_id(const json_t *tokens, size_t i, uint32_t *id, struct wn_err *err)
{
    const json_t *one = json_array_get(tokens, i);
    json_int_t v = json_integer_value(one);

    if (!json_is_integer(one) || v < 0 || v > UINT32_MAX)
        return wn_fail(err, WN_ERR_FORMAT, "token %zu is not a whole number of 32 bits", i);
    *id = (uint32_t)v;
    return true;
}

static bool add_tokens(struct reader *r, const json_t *source, const json_t *tokens, struct wn_err *err)
{
    size_t n = json_array_size(tokens);
    struct span span = {.n = (uint32_t)n};
    uint16_t label, first;

    if (!json_is_array(tokens) || n == 0 || n > SEQUENCE_MAX)
        return wn_fail(err, WN_ERR_FORMAT, "'tokens' is not an array of 1 to %" PRIu32 " ids", SEQUENCE_MAX);
    if (!token_label(r, source, 0, n, &first, err))
        return false;
    span.source = first;
    span.at = r->source[first].ids.n / sizeof(uint32_t);
    span.k = r->source[first].spans;
    for (size_t i = 0; i < n; i++) {
        uint32_t id;

        /* source_find may move r->source, so it is looked up anew each time */
        if (!token_label(r, source, i, n, &label, err) || !token_id(tokens, i, &id, err) ||
            !wn_buf_add(&r->source[first].ids, &id, sizeof id, err) ||
            !wn_buf_add(&r->source[first].labels, &label, sizeof label, err))
            return false;
    }
    if (!ids_check(r, (const uint32_t *)(const void *)r->source[first].ids.at + span.at, n, err) ||
        !wn_buf_add(&r->spans, &span, sizeof span, err))
        return false;
    r->source[first].spans++;
    return true;
}

static bool add_object(struct reader *r, const json_t *line, struct wn_err *err)
{
    const json_t *source = json_object_get(line, "source"), *text = json_object_get(line, "text"),
                 *tokens = json_object_get(line, "tokens");
    uint32_t at;

    if (!source)
        return wn_fail(err, WN_ERR_FORMAT, "there is no 'source'");
    if ((text != NULL) == (tokens != NULL))
        return wn_fail(err, WN_ERR_FORMAT, "there is %s of 'text' and 'tokens', wanted one", text ? "each" : "none");
    r->texts |= text != NULL;
    r->tokens |= tokens != NULL;
    if (r->texts && r->tokens)
        return wn_fail(err, WN_ERR_FORMAT, "'%s' after lines with '%s': a corpus has one kind",
                       text ? "text" : "tokens", text ? "tokens" : "text");
    if (tokens)
        return add_tokens(r, source, tokens, err);
    if (!json_is_string(source) || !json_is_string(text))
        return wn_fail(err, WN_ERR_FORMAT, "'source' and 'text' must be strings");
    return source_find(r, json_text(source), &at, err) &&
           add_text(r, at, json_string_value(text), json_string_length(text), err);
}

static bool add_line(struct reader *r, struct wn_bytes line, struct wn_err *err)
{
    json_error_t e;
    json_t *object = json_loadb(line.at, line.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    bool ok;

    if (!object)
        return wn_fail(err, WN_ERR_FORMAT, "column %d: %s", e.column, e.text);
    ok = add_object(r, object, err);
    json_decref(object);
    return ok;
}

static bool read_lines(struct reader *r, struct wn_lines *l, struct wn_err *err)
{
    struct wn_bytes line;

    for (;;) {
        if (!wn_lines_next(l, &line, err))
            return wn_fail_in(err, "'%s'", r->o->path);
        if (!line.at)
            return true;
        if (!is_blank(line) && !add_line(r, line, err))
            return wn_fail_in(err, "'%s': line %" PRIu64, r->o->path, l->number);
    }
}

/* ---- the two kinds of file ---- */

static bool name_ends(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);

    return n >= m && strcmp(path + n - m, end) == 0;
}

/* JSONL by its name, or because the first line that is not blank is an object with a "source". */
static bool is_jsonl(struct wn_lines *l, bool *jsonl, struct wn_err *err)
{
    struct wn_bytes line = {NULL, 0};
    json_t *object;

    *jsonl = true;
    if (name_ends(l->file.path, ".jsonl"))
        return true;
    do
        if (!wn_lines_next(l, &line, err))
            return false;
    while (line.at && is_blank(line));
    object = line.at ? json_loadb(line.at, line.n, JSON_ALLOW_NUL, NULL) : NULL;
    *jsonl = object && json_object_get(object, "source");
    json_decref(object);
    wn_lines_rewind(l);
    return true;
}

static bool read_plain(struct reader *r, struct wn_err *err)
{
    struct wn_bytes label = wn_bytes_of("text");
    uint32_t source;
    size_t n;
    char *text;
    bool ok;

    text = wn_file_slurp(r->o->path, TEXT_LIMIT, &n, err);
    if (!text)
        return false;
    ok = source_find(r, label, &source, err) && add_text(r, source, text, n, err);
    free(text);
    return ok || wn_fail_in(err, "'%s'", r->o->path);
}

static bool read_file(struct reader *r, struct wn_err *err)
{
    struct wn_lines l;
    bool jsonl, ok;

    if (!wn_lines_open(&l, r->o->path, err))
        return false;
    ok = is_jsonl(&l, &jsonl, err) && (jsonl ? read_lines(r, &l, err) : read_plain(r, err));
    wn_lines_close(&l);
    return ok;
}

/* ---- cutting and interleaving ---- */

static bool cut_texts(struct reader *r, uint32_t length, struct wn_err *err)
{
    for (uint32_t s = 0; s < r->source_count; s++) {
        struct gathered *g = &r->source[s];
        size_t tokens = g->ids.n / sizeof(uint32_t);

        if (tokens < length)
            return wn_fail(err, WN_ERR_ARG,
                           "source '%s' has %zu tokens, fewer than one sequence of %" PRIu32
                           ": give it more text, or leave it out",
                           g->label.at, tokens, length);
        for (g->spans = 0; (g->spans + 1) * length <= tokens; g->spans++) {
            struct span span = {.at = g->spans * length, .n = length, .source = s, .k = g->spans};

            if (!wn_buf_add(&r->spans, &span, sizeof span, err))
                return false;
        }
    }
    return true;
}

/* Sequence k of n stands at (k + 1/2) / n of the way; on ties the earlier source is first. */
static int span_order(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
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
    c->half_tokens[q->half] += q->n;
    if (q->n > c->longest)
        c->longest = q->n;
    if (!q->labels)
        c->source[q->source].tokens += q->n;
    for (uint32_t i = 0; q->labels && i < q->n; i++)
        c->source[q->labels[i]].tokens++;
}

static bool take_sequences(struct wn_corpus *c, struct reader *r, struct wn_err *err)
{
    struct span *spans = (struct span *)(void *)r->spans.at;
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
        const struct span *p = &spans[i];
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

static bool hand_sources(struct wn_corpus *c, struct reader *r, struct wn_err *err)
{
    c->source = wn_alloc(r->source_count, sizeof *c->source, err);
    c->ids = wn_alloc(r->source_count, sizeof *c->ids, err);
    c->labels = wn_alloc(r->source_count, sizeof *c->labels, err);
    if (!c->source || !c->ids || !c->labels)
        return false;
    for (c->source_count = 0; c->source_count < r->source_count; c->source_count++) {
        struct gathered *g = &r->source[c->source_count];
        uint32_t s = c->source_count;

        c->source[s].label = wn_strdup(g->label.at, err);
        if (!c->source[s].label)
            return false;
        c->source[s].read = g->ids.n / sizeof(uint32_t);
        c->ids[s] = hand_over(&g->ids);
        c->labels[s] = hand_over(&g->labels);
    }
    return true;
}

static bool check_taken(const struct wn_corpus *c, const struct wn_corpus_options *o, struct wn_err *err)
{
    for (uint32_t s = 0; s < c->source_count; s++)
        if (c->source[s].tokens == 0)
            return wn_fail(err, WN_ERR_ARG,
                           "'%s': no sequence of source '%s' fits into %" PRIu64 " tokens: allow more tokens", o->path,
                           c->source[s].label, o->max_tokens);
    return true;
}

static bool assemble(struct wn_corpus *c, struct reader *r, struct wn_err *err)
{
    uint32_t length = r->o->sequence ? r->o->sequence : WN_CORPUS_SEQUENCE;

    c->given = r->tokens;
    if (r->source_count == 0)
        return wn_fail(err, WN_ERR_FORMAT, "'%s': there is no text in it", r->o->path);
    if (!c->given && !cut_texts(r, length, err))
        return wn_fail_in(err, "'%s'", r->o->path);
    if (!hand_sources(c, r, err) || !take_sequences(c, r, err))
        return false;
    for (uint32_t s = 0; s < c->source_count && !c->given; s++)
        c->source[s].partial = c->source[s].read % length;
    return check_taken(c, r->o, err);
}

bool wn_corpus_read(struct wn_corpus *c, const struct wn_corpus_options *o, struct wn_err *err)
{
    struct reader r = {.o = o};
    bool ok;

    *c = (struct wn_corpus){0};
    if (o->sequence > SEQUENCE_MAX)
        return wn_fail(err, WN_ERR_ARG, "sequences of %" PRIu32 " tokens: at most %" PRIu32, o->sequence, SEQUENCE_MAX);
    ok = read_file(&r, err) && assemble(c, &r, err);
    for (uint32_t s = 0; s < r.source_count; s++) {
        free((void *)(uintptr_t)r.source[s].label.at);
        wn_buf_release(&r.source[s].ids);
        wn_buf_release(&r.source[s].labels);
    }
    free(r.source);
    wn_buf_release(&r.spans);
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
