/*
 * Reading a corpus: lines, and what a line says.
 *
 * The file is read line by line, so that only the ids (four bytes a token, six where lines bring tokens) stay in
 * memory.
 */
#include "jobs/corpus_parts.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "jobs/lines.h"
#include "sys/file.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_LIMIT ((uint64_t)1 << 32)

static bool is_blank(struct wn_bytes line)
{
    for (size_t i = 0; i < line.n; i++)
        if (line.at[i] != ' ' && line.at[i] != '\t' && line.at[i] != '\r')
            return false;
    return true;
}

static bool source_find(struct wn_corpus_reader *r, struct wn_bytes label, uint32_t *source, struct wn_err *err)
{
    struct wn_gathered *grown;
    char *copy;

    for (*source = 0; *source < r->source_count; (*source)++)
        if (wn_bytes_equal(r->source[*source].label, label))
            return true;
    if (label.n == 0 || label.n > WN_CORPUS_LABEL_BYTES || memchr(label.at, 0, label.n))
        return wn_fail(err, WN_ERR_FORMAT, "a 'source' has 1 to %d bytes, this one %zu", WN_CORPUS_LABEL_BYTES,
                       label.n);
    if (r->source_count == WN_CORPUS_SOURCES)
        return wn_fail(err, WN_ERR_FORMAT, "more than %d sources", WN_CORPUS_SOURCES);
    grown = wn_grow(r->source, &r->source_room, r->source_count + 1, sizeof *grown, err);
    if (!grown)
        return false;
    r->source = grown;
    copy = wn_strndup(label.at, label.n, err);
    if (!copy)
        return false;
    r->source[r->source_count++] = (struct wn_gathered){.label = {copy, label.n}};
    return true;
}

static bool ids_check(const struct wn_corpus_reader *r, const uint32_t *ids, size_t n, struct wn_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= r->o->vocab_size)
            return wn_fail(err, WN_ERR_FORMAT, "token %zu is %" PRIu32 ", the model knows 0 to %" PRIu32, i, ids[i],
                           r->o->vocab_size - 1);
    return true;
}

static bool add_text(struct wn_corpus_reader *r, uint32_t source, const char *text, size_t n, struct wn_err *err)
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

static struct wn_bytes json_text(const json_t *string)
{
    return (struct wn_bytes){json_string_value(string), json_string_length(string)};
}

/* The source of each of n tokens: "source" is one label, or an array of n. */
static bool token_label(struct wn_corpus_reader *r, const json_t *source, size_t i, size_t n, uint16_t *label,
                        struct wn_err *err)
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

static bool add_tokens(struct wn_corpus_reader *r, const json_t *source, const json_t *tokens, struct wn_err *err)
{
    size_t n = json_array_size(tokens);
    struct wn_span span = {.n = (uint32_t)n};
    uint16_t label, first;

    if (!json_is_array(tokens) || n == 0 || n > WN_SEQUENCE_MOST)
        return wn_fail(err, WN_ERR_FORMAT, "'tokens' is not an array of 1 to %" PRIu32 " ids", WN_SEQUENCE_MOST);
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

static bool add_object(struct wn_corpus_reader *r, const json_t *line, struct wn_err *err)
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

static bool add_line(struct wn_corpus_reader *r, struct wn_bytes line, struct wn_err *err)
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

static bool read_lines(struct wn_corpus_reader *r, struct wn_lines *l, struct wn_err *err)
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

/* JSONL by its name, or because the first line that is not blank is an object with a "source". */
static bool is_jsonl(struct wn_lines *l, bool *jsonl, struct wn_err *err)
{
    struct wn_bytes line = {NULL, 0};
    json_t *object;

    *jsonl = true;
    if (wn_ends_with(l->file.path, ".jsonl"))
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

static bool read_plain(struct wn_corpus_reader *r, struct wn_err *err)
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

bool wn_corpus_gather(struct wn_corpus_reader *r, struct wn_err *err)
{
    struct wn_lines l;
    bool jsonl, ok;

    if (!wn_lines_open(&l, r->o->path, err))
        return false;
    ok = is_jsonl(&l, &jsonl, err) && (jsonl ? read_lines(r, &l, err) : read_plain(r, err));
    wn_lines_close(&l);
    return ok;
}
