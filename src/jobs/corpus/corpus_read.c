/*
 * Reading a corpus: lines, and what a line says.
 *
 * The file is read once, line by line or window by window, so that only ids stay in memory. What that takes is added up
 * as it goes: with a limit the bytes allowed are kept, and a need can be told that does not depend on measuring.
 */
#include "jobs/corpus/corpus_parts.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/number.h"
#include "jobs/encode.h"
#include "text/split.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/*
 * What jansson takes for a line: its bytes while they are gathered and as strings, both growing by doubling, and a
 * block for each value, of which there is one more than there are commas.
 */
#define JSON_BYTES_PER_BYTE  3
#define JSON_BYTES_PER_VALUE 48
/* Arrays of ids grow, and where the C library cannot let one grow where it is, what it leaves lies idle for a while. */
#define GROWING_SHARE 16
/* Code that runs for the first time, what is small and many: 0.5 to 2 MB were seen. Left free of what is allowed. */
#define UNFORESEEN ((uint64_t)3 << 20)
/* What a refusal names above what was added up, since the process holds a little more or less at each start. */
#define NAMED_SLACK ((uint64_t)4 << 20)

void wn_corpus_use(struct wn_corpus_reader *r, uint64_t kept, uint64_t passing)
{
    uint64_t now;

    r->held += kept;
    now = r->o->before + r->held + r->held / GROWING_SHARE + passing;
    r->most = now > r->most ? now : r->most;
    if (r->o->memory == 0 || r->counting || now + UNFORESEEN <= r->o->memory)
        return;
    r->counting = true;
    for (uint32_t s = 0; s < r->source_count; s++) {
        wn_buf_release(&r->source[s].ids);
        wn_buf_release(&r->source[s].labels);
    }
}

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
    if (memchr(label.at, '=', label.n) || memchr(label.at, ',', label.n))
        return wn_fail(err, WN_ERR_FORMAT, "source '%.*s': no '=' or ',' may be in it, --weights could not name it",
                       (int)label.n, label.at);
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

/* How many of the next n tokens of a source may be taken at all: none behind its first max_tokens. */
static size_t tokens_wanted(const struct wn_corpus_reader *r, uint32_t source, size_t n)
{
    uint64_t most = r->o->max_tokens ? r->o->max_tokens : UINT64_MAX, have = r->source[source].tokens;

    return (size_t)wn_min_u64(n, most > have ? most - have : 0);
}

struct text_source {
    struct wn_corpus_reader *r;
    uint32_t source;
};

/* wn_take_ids_fn */
static bool take_ids(void *arg, const uint32_t *ids, size_t n, size_t bytes, struct wn_err *err)
{
    const struct text_source *t = arg;
    struct wn_corpus_reader *r = t->r;
    struct wn_gathered *g = &r->source[t->source];
    size_t kept = tokens_wanted(r, t->source, n) * sizeof *ids;

    g->tokens += n;
    wn_corpus_use(r, kept, r->line_bytes + WN_ENCODE_BYTES_PER_BYTE * (uint64_t)bytes);
    return ids_check(r, ids, n, err) && (r->counting || wn_buf_add(&g->ids, ids, kept, err));
}

static bool need_vocab(const struct wn_corpus_reader *r, struct wn_err *err)
{
    return r->o->vocab || wn_fail(err, WN_ERR_ARG, "text needs a vocabulary, and the model brings none");
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

/* A line's ids and labels, gathered in r->ids and r->labels, to its first source. */
static bool add_sequence(struct wn_corpus_reader *r, size_t n, struct wn_err *err)
{
    struct wn_span span = {.n = (uint32_t)n, .source = *(const uint16_t *)(const void *)r->labels.at};
    struct wn_gathered *g = &r->source[span.source];
    bool wanted = tokens_wanted(r, span.source, n) == n;

    span.at = g->ids.n / sizeof(uint32_t);
    span.k = g->spans++;
    g->tokens += n;
    r->longest = span.n > r->longest ? span.n : r->longest;
    wn_corpus_use(r, sizeof span + (wanted ? r->ids.n + r->labels.n : 0), r->line_bytes + r->ids.n + r->labels.n);
    if (!wn_buf_add(&r->spans, &span, sizeof span, err))
        return false;
    return !wanted || r->counting ||
           (wn_buf_add(&g->ids, r->ids.at, r->ids.n, err) && wn_buf_add(&g->labels, r->labels.at, r->labels.n, err));
}

static bool add_tokens(struct wn_corpus_reader *r, const json_t *source, const json_t *tokens, struct wn_err *err)
{
    size_t n = json_array_size(tokens);

    if (!json_is_array(tokens) || n == 0 || n > WN_SEQUENCE_MOST)
        return wn_fail(err, WN_ERR_FORMAT, "'tokens' is not an array of 1 to %" PRIu32 " ids", WN_SEQUENCE_MOST);
    r->ids.n = r->labels.n = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t id;
        uint16_t label;

        if (!token_label(r, source, i, n, &label, err) || !token_id(tokens, i, &id, err) ||
            !wn_buf_add(&r->ids, &id, sizeof id, err) || !wn_buf_add(&r->labels, &label, sizeof label, err))
            return false;
    }
    return ids_check(r, (const uint32_t *)(const void *)r->ids.at, n, err) && add_sequence(r, n, err);
}

static bool add_object(struct wn_corpus_reader *r, const json_t *line, struct wn_err *err)
{
    const json_t *source = json_object_get(line, "source"), *text = json_object_get(line, "text"),
                 *tokens = json_object_get(line, "tokens");
    struct text_source to = {.r = r};

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
    return need_vocab(r, err) && source_find(r, json_text(source), &to.source, err) &&
           wn_encode_text(r->o->vocab, json_text(text), take_ids, &to, err);
}

/* What the line at hand takes until it is done with. A short one is read in any case, so that the need can be told. */
static bool note_line(struct wn_corpus_reader *r, struct wn_bytes line, struct wn_err *err)
{
    char enough[WN_SIZE_TEXT_BYTES], allowed[WN_SIZE_TEXT_BYTES];
    uint64_t values = 1, need;

    for (size_t i = 0; i < line.n; i++)
        values += line.at[i] == ',';
    r->line_bytes = WN_LINES_AHEAD + line.n + line.n * JSON_BYTES_PER_BYTE + values * JSON_BYTES_PER_VALUE;
    need = r->o->before + r->held + r->line_bytes + UNFORESEEN;
    if (r->o->memory == 0 || line.n <= WN_LINES_AHEAD || need <= r->o->memory)
        return true;
    return wn_fail(err, WN_ERR_ARG,
                   "to take its %zu bytes apart needs %s of memory, and %s are allowed: allow more, or make several "
                   "lines of it",
                   line.n, wn_size_text(need + NAMED_SLACK, enough), wn_size_text(r->o->memory, allowed));
}

static bool add_line(struct wn_corpus_reader *r, struct wn_bytes line, struct wn_err *err)
{
    json_error_t e;
    json_t *object;
    bool ok;

    if (!note_line(r, line, err))
        return false;
    object = json_loadb(line.at, line.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);

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

/*
 * The first line that is not blank, as far as an object's would be one; nothing of it where the text starts otherwise.
 */
static bool first_line(struct wn_lines *l, struct wn_bytes *line, struct wn_err *err)
{
    struct wn_bytes next;
    size_t at = 0, n;
    const char *end = NULL;

    do
        if (!wn_lines_want(l, at + 1, &next, err))
            return false;
    while (at < next.n && strchr(" \t\r\n", next.at[at]) && next.at[at] && ++at <= WN_LINE_MOST);
    *line = (struct wn_bytes){NULL, 0};
    if (at >= next.n || next.at[at] != '{')
        return true;
    for (n = at; !end && n < next.n && n - at <= WN_LINE_MOST;) {
        n = next.n;
        end = memchr(next.at + at, '\n', next.n - at);
        if (!end && !wn_lines_want(l, n + 1, &next, err))
            return false;
    }
    *line = (struct wn_bytes){next.at + at, end ? (size_t)(end - next.at) - at : next.n - at};
    return true;
}

/* JSONL by its name, or because the first line that is not blank is an object with a "source". */
static bool is_jsonl(struct wn_lines *l, bool *jsonl, struct wn_err *err)
{
    struct wn_bytes line;
    json_t *object;

    *jsonl = true;
    if (wn_ends_with(l->in.path, ".jsonl"))
        return true;
    if (!first_line(l, &line, err))
        return false;
    /* one too long to look at is not taken for text silently: reading it as a line will say so */
    if (line.n > WN_LINE_MOST)
        return true;
    object = line.at ? json_loadb(line.at, line.n, JSON_ALLOW_NUL, NULL) : NULL;
    *jsonl = object && json_object_get(object, "source");
    json_decref(object);
    return true;
}

static bool read_plain(struct wn_corpus_reader *r, struct wn_lines *l, struct wn_err *err)
{
    struct text_source to = {.r = r};

    r->line_bytes = WN_WINDOW_BYTES + WN_LINES_AHEAD;
    return (wn_lines_check_text(l, err) && need_vocab(r, err) && source_find(r, wn_bytes_of("text"), &to.source, err) &&
            wn_encode_rest(r->o->vocab, l, take_ids, &to, err)) ||
           wn_fail_in(err, "'%s'", r->o->path);
}

bool wn_corpus_gather(struct wn_corpus_reader *r, struct wn_err *err)
{
    struct wn_lines l;
    bool jsonl, ok;

    if (!wn_lines_open(&l, r->o->path, err))
        return false;
    ok = is_jsonl(&l, &jsonl, err) && (jsonl ? read_lines(r, &l, err) : read_plain(r, &l, err)) &&
         wn_lines_fingerprint(&l, r->fingerprint, err);
    wn_lines_close(&l);
    return ok;
}
