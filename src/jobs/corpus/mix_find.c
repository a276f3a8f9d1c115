/*
 * The first reading: documents are found, judged and noted. And the fetching of one by its note, in the second.
 *
 * Each file is read from its start to its end, as lines of JSON by its name (.jsonl, .ndjson), else as one text.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "jobs/lines.h"
#include "jobs/corpus/mix.h"
#include "jobs/talk.h"
#include "text/split.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

/* The file at hand. */
struct reading {
    struct wn_mix_read *r;
    const struct wn_mix_source *source;
    struct wn_mix_pile *pile;
    struct wn_mix_taken *t;
    struct wn_lines lines;
    uint64_t at; /* offset of what comes next in the file */
    uint32_t file;
};

static bool is_jsonl(const char *path)
{
    return wn_ends_with(path, ".jsonl") || wn_ends_with(path, ".ndjson");
}

static uint32_t hash32(struct wn_bytes text)
{
    return (uint32_t)wn_bytes_hash(text);
}

static uint32_t document_most(const struct wn_mix_spec *spec)
{
    return spec->document_tokens ? spec->document_tokens : WN_MIX_DOCUMENT_TOKENS;
}

/* Cuts the document at the start of text off it and notes it; d tells where text lies. */
static bool note_document(struct reading *f, struct wn_bytes text, struct wn_mix_document d, size_t *bytes,
                          struct wn_err *err)
{
    enum wn_mix_drop why;
    struct wn_mix_count *c;

    if (!wn_mix_cut(f->r->o->vocab, text, document_most(f->r->o->spec), bytes, &d.tokens, err))
        return false;
    text.n = *bytes;
    if (!wn_mix_judge(&f->r->judge, text, &why, err))
        return false;
    d.bytes = (uint32_t)text.n;
    d.file = f->file;
    d.hash = hash32(text);
    c = why == WN_MIX_DROPS ? &f->t->had : &f->t->dropped[why];
    c->documents++;
    c->bytes += d.bytes;
    if (why != WN_MIX_DROPS)
        return true;
    c->tokens += d.tokens;
    f->pile->longest = d.tokens > f->pile->longest ? d.tokens : f->pile->longest;
    return wn_buf_add(&f->pile->documents, &d, sizeof d, err);
}

/* done: bytes of the file that are behind us. */
static bool tell(const struct reading *f, uint64_t done, struct wn_err *err)
{
    return wn_job_step(f->r->job, "reading", f->source->label, wn_min_u64(f->r->bytes + done, f->r->total), f->r->total,
                       "bytes", err);
}

static bool read_plain(struct reading *f, struct wn_err *err)
{
    struct wn_bytes text;
    size_t n;

    if (!wn_lines_want(&f->lines, 3, &text, err))
        return false;
    if (text.n >= 3 && memcmp(text.at, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark is no text */
        wn_lines_pass(&f->lines, 3);
        f->at = 3;
    }
    for (;; f->at += n) {
        if (!wn_lines_want(&f->lines, WN_MIX_DOCUMENT_BYTES, &text, err))
            return false;
        if (text.n == 0)
            return true;
        if (!note_document(f, text, (struct wn_mix_document){.line = f->at}, &n, err) || !tell(f, f->at + n, err))
            return false;
        wn_lines_pass(&f->lines, n);
    }
}

/* Lines that name their source are taken by it; lines without one by whoever names the file. */
static bool is_ours(const struct wn_mix_source *s, const json_t *source)
{
    const char *name = json_string_value(source);

    if (s->from)
        return strcmp(s->from, "*") == 0 || (name && strcmp(name, s->from) == 0);
    return !name || strcmp(name, s->label) == 0;
}

static bool take_object(struct reading *f, const json_t *object, struct wn_mix_document d, struct wn_err *err)
{
    const json_t *text = json_object_get(object, "text");
    struct wn_bytes rest;
    size_t n;

    if (!json_is_string(text))
        return wn_fail(err, WN_ERR_FORMAT, "there is no 'text' in it");
    if (!is_ours(f->source, json_object_get(object, "source"))) {
        f->t->other++;
        return true;
    }
    rest = (struct wn_bytes){json_string_value(text), json_string_length(text)};
    for (; rest.n > 0; rest.at += n, rest.n -= n, d.at += (uint32_t)n)
        if (!note_document(f, rest, d, &n, err))
            return false;
    return true;
}

static bool is_blank(struct wn_bytes line)
{
    while (line.n > 0 && (line.at[line.n - 1] == ' ' || line.at[line.n - 1] == '\t' || line.at[line.n - 1] == '\r'))
        line.n--;
    return line.n == 0;
}

static bool take_line(struct reading *f, struct wn_bytes line, struct wn_err *err)
{
    struct wn_mix_document d = {.line = f->at, .line_bytes = (uint32_t)line.n};
    json_error_t e;
    json_t *object;
    bool ok;

    if (is_blank(line))
        return true;
    object = json_loadb(line.at, line.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (!object)
        return wn_fail(err, WN_ERR_FORMAT, "column %d: %s", e.column, e.text);
    ok = take_object(f, object, d, err);
    json_decref(object);
    return ok;
}

static bool read_jsonl(struct reading *f, struct wn_err *err)
{
    struct wn_bytes line;

    for (;; f->at += line.n + 1) {
        if (!wn_lines_next(&f->lines, &line, err))
            return false;
        if (!line.at)
            return true;
        if (!take_line(f, line, err))
            return wn_fail_in(err, "line %" PRIu64, f->lines.number);
        if (!tell(f, f->at + line.n, err))
            return false;
    }
}

static bool read_file(struct reading *f, const char *path, struct wn_err *err)
{
    bool ok;

    if (!wn_lines_open(&f->lines, path, err))
        return false;
    f->at = 0;
    ok = (is_jsonl(path) ? read_jsonl(f, err) : read_plain(f, err)) || wn_fail_in(err, "'%s'", path);
    wn_lines_close(&f->lines);
    f->r->bytes += f->at;
    return ok;
}

bool wn_mix_find(struct wn_mix_read *r, const struct wn_mix_source *s, struct wn_mix_pile *pile, struct wn_mix_taken *t,
                 struct wn_err *err)
{
    struct reading f = {.r = r, .source = s, .pile = pile, .t = t};

    t->files = pile->files.n;
    for (; f.file < pile->files.n; f.file++)
        if (!read_file(&f, pile->files.paths[f.file], err))
            return false;
    return true;
}

static bool open_file(struct wn_mix_open *open, const char *path, struct wn_err *err)
{
    if (open->path && strcmp(open->path, path) == 0)
        return true;
    if (open->path)
        wn_file_close(&open->file);
    open->path = NULL;
    if (!wn_file_open(&open->file, path, err))
        return false;
    open->path = path;
    return true;
}

void wn_mix_close(struct wn_mix_open *open)
{
    if (open->path)
        wn_file_close(&open->file);
    wn_buf_release(&open->bytes);
    *open = (struct wn_mix_open){0};
}

/* The document's bytes within what was read of its line; NULL when they are not there any more. */
static char *copy_text(struct wn_bytes line, const struct wn_mix_document *d, struct wn_err *err)
{
    json_t *object = d->line_bytes ? json_loadb(line.at, line.n, JSON_ALLOW_NUL, NULL) : NULL;
    const json_t *string = json_object_get(object, "text");
    struct wn_bytes text =
        d->line_bytes ? (struct wn_bytes){json_string_value(string), json_string_length(string)} : line;
    char *copy = NULL;

    if (wn_span_fits(d->at, d->bytes, text.n) && hash32((struct wn_bytes){text.at + d->at, d->bytes}) == d->hash)
        copy = wn_strndup(text.at + d->at, d->bytes, err);
    else
        wn_fail(err, WN_ERR_FORMAT, "it was changed while it was read");
    json_decref(object);
    return copy;
}

char *wn_mix_fetch(struct wn_mix_open *open, const struct wn_mix_pile *pile, const struct wn_mix_document *d,
                   struct wn_err *err)
{
    const char *path = pile->files.paths[d->file];
    size_t n = d->line_bytes ? d->line_bytes : d->bytes;
    char *text = NULL;

    open->bytes.n = 0;
    if (!open_file(open, path, err) || !wn_buf_reserve(&open->bytes, n, err) ||
        !wn_file_read(&open->file, d->line, open->bytes.at, n, err))
        return NULL;
    text = copy_text((struct wn_bytes){open->bytes.at, n}, d, err);
    if (!text)
        wn_fail_in(err, "'%s'", path);
    return text;
}
