/*
 * Mixing: files are found and read for documents, then documents are drawn, source by source, and written. See
 * <winnow/corpus.h>.
 *
 * With T tokens written, got of them of a source that is due `share`, and n in its next document: a source may come
 * next when it would not be ahead without that document,
 *
 *   share * (T + n) > got
 *
 * and of those that may, the one comes that would soonest be as far behind as the longest document is long,
 *
 *   (got + longest) / share    is least.
 *
 * (Tijdeman's rule for the chairman of a union of states, with terms of unequal length.) Summed over all sources the
 * first says T + ... > T, so one always may. By it none is ever ahead by more than its last document; how far one falls
 * behind was tried, 0.99 of the longest document at most. To take who is furthest behind is not enough: it fell 1.6
 * behind.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "jobs/corpus/mix.h"
#include "jobs/talk.h"
#include "text/scripts.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

_Static_assert((int)WN_SCRIPT_COUNT == WN_MIX_SCRIPTS, "the public number of scripts");

struct mix {
    const struct wn_mix_options *o;
    const struct wn_job *job;
    struct wn_mix_result *r;
    struct wn_mix_pile *piles; /* [r->count] */
    struct wn_mix_open *open;  /* [r->count] */
    struct wn_scripts *scripts;
    struct wn_outfile out; /* all zero without an output */
    struct wn_buf marks;
    uint64_t total, wanted; /* bytes of all files; tokens */
    uint32_t longest;       /* tokens of the longest document there is */
};

const char *wn_mix_script_name(unsigned script)
{
    return wn_script_name((enum wn_script)script);
}

static bool check_spec(const struct wn_mix_spec *spec, struct wn_err *err)
{
    double sum = 0;

    if (spec->count == 0)
        return wn_fail(err, WN_ERR_ARG, "no source is named");
    for (size_t s = 0; s < spec->count; s++)
        sum += spec->sources[s].share;
    if (spec->percents && spec->percents < spec->count)
        return wn_fail(err, WN_ERR_ARG, "shares in per cent and shares without: give all of them in one way");
    if (spec->percents && (sum < 99 || sum > 101))
        return wn_fail(err, WN_ERR_ARG, "the shares are %.6g %% together, not 100", sum);
    if (spec->document_tokens &&
        (spec->document_tokens < WN_MIX_DOCUMENT_LEAST || spec->document_tokens > WN_MIX_DOCUMENT_MOST))
        return wn_fail(err, WN_ERR_ARG, "documents of %" PRIu32 " tokens: %" PRIu32 " to %" PRIu32 " are possible",
                       spec->document_tokens, WN_MIX_DOCUMENT_LEAST, WN_MIX_DOCUMENT_MOST);
    return true;
}

/* All are regular files that can be read, and none is the output. */
static bool check_files(struct mix *m, const struct wn_mix_files *files, struct wn_err *err)
{
    struct wn_file f;

    if (m->o->out && !wn_output_spares(m->o->out, (const char *const *)files->paths, files->n, NULL, err))
        return false;
    for (size_t i = 0; i < files->n; i++) {
        if (!wn_file_open(&f, files->paths[i], err))
            return false;
        m->total += f.bytes;
        wn_file_close(&f);
    }
    return true;
}

static bool find_files(struct mix *m, const struct wn_mix_source *s, struct wn_mix_files *files, struct wn_err *err)
{
    for (size_t i = 0; i < s->path_count; i++)
        if (!wn_mix_files_add(files, s->paths[i], err))
            return wn_fail_in(err, "source '%s'", s->label);
    wn_mix_files_sort(files);
    return check_files(m, files, err);
}

static bool fail_empty(const struct wn_mix_taken *t, struct wn_err *err)
{
    uint64_t dropped = 0;

    for (int why = 0; why < WN_MIX_DROPS; why++)
        dropped += t->dropped[why].documents;
    if (t->other)
        return wn_fail(err, WN_ERR_ARG, "source '%s' has no text: %" PRIu64 " lines name another 'source'", t->label,
                       t->other);
    return wn_fail(err, WN_ERR_ARG, "source '%s' has no text in %" PRIu64 " files (%" PRIu64 " documents left out)",
                   t->label, t->files, dropped);
}

static bool find_documents(struct mix *m, struct wn_err *err)
{
    const struct wn_mix_spec *spec = m->o->spec;
    struct wn_mix_read read = {.o = m->o, .job = m->job, .judge.lenient = m->o->unfiltered, .total = m->total};
    bool ok = true;

    for (size_t s = 0; ok && s < spec->count; s++) {
        struct wn_mix_taken *t = &m->r->sources[s];

        ok = wn_mix_find(&read, &spec->sources[s], &m->piles[s], t, err) && (t->had.tokens > 0 || fail_empty(t, err));
        m->longest = m->piles[s].longest > m->longest ? m->piles[s].longest : m->longest;
    }
    wn_buf_release(&read.judge.seen);
    return ok;
}

/* How much there can be, by the source that has least for its share. */
static bool settle_total(struct mix *m, struct wn_err *err)
{
    struct wn_mix_result *r = m->r;
    const struct wn_mix_taken *t;

    for (size_t s = 0; s < r->count; s++) {
        uint64_t possible = (uint64_t)((double)r->sources[s].had.tokens / r->sources[s].share);

        if (s > 0 && possible >= r->possible)
            continue;
        r->possible = possible;
        r->scarcest = s;
    }
    t = &r->sources[r->scarcest];
    m->wanted = m->o->spec->tokens ? m->o->spec->tokens : r->possible;
    if (m->wanted > r->possible)
        return wn_fail(err, WN_ERR_ARG,
                       "%" PRIu64 " tokens are wanted, %" PRIu64 " possible: source '%s' has %" PRIu64
                       ", and its share is %.2f %%",
                       m->wanted, r->possible, t->label, t->had.tokens, 100 * t->share);
    return true;
}

/* The next document of a shuffled pile; NULL when all are taken. Asked again it is the same, until one is taken. */
static const struct wn_mix_document *next_of(struct wn_mix_pile *p)
{
    struct wn_mix_document *d = (struct wn_mix_document *)(void *)p->documents.at, swap;
    size_t n = p->documents.n / sizeof *d, other;

    if (p->taken < p->drawn)
        return &d[p->taken];
    if (p->drawn == n)
        return NULL;
    other = p->drawn + (size_t)wn_rng_below(&p->rng, n - p->drawn);
    swap = d[other];
    d[other] = d[p->drawn];
    d[p->drawn] = swap;
    return &d[p->drawn++];
}

static size_t who_comes_next(const struct mix *m)
{
    const struct wn_mix_result *r = m->r;
    double least = HUGE_VAL;
    size_t best = 0;

    for (size_t s = 0; s < r->count; s++) {
        const struct wn_mix_document *d = next_of(&m->piles[s]);
        double share = r->sources[s].share, got = (double)r->sources[s].got.tokens,
               due = (got + (double)m->longest) / share;

        if (share * (double)(r->got.tokens + (d ? d->tokens : 0)) <= got || due >= least)
            continue;
        least = due;
        best = s;
    }
    return best;
}

static bool write_line(struct mix *m, const char *label, struct wn_bytes text, struct wn_err *err)
{
    json_t *j = json_pack("{ss ss%}", "source", label, "text", text.at, text.n);
    char *line = j ? json_dumps(j, JSON_PRESERVE_ORDER) : NULL;
    size_t n = line ? strlen(line) : 0;
    bool ok = line || wn_fail(err, WN_ERR_NOMEM, "a document of %zu bytes: out of memory", text.n);

    if (ok) {
        line[n] = '\n'; /* in place of the NUL */
        m->r->out_bytes += n + 1;
        ok = !m->o->out || wn_outfile_write(&m->out, line, n + 1, err);
    }
    free(line);
    json_decref(j);
    return ok;
}

/* The script of a token: of its first byte that has one, in script[n]. */
static uint8_t token_script(const uint8_t *script, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (script[i] != WN_SCRIPT_NONE)
            return script[i];
    return WN_SCRIPT_NONE;
}

static bool take_census(struct mix *m, struct wn_mix_taken *t, struct wn_bytes text, struct wn_err *err)
{
    uint8_t *script;
    uint32_t *ids;
    size_t n, at = 0, length;

    m->marks.n = 0;
    if (!wn_buf_reserve(&m->marks, text.n, err))
        return false;
    script = (uint8_t *)m->marks.at;
    if (!wn_scripts_mark(m->scripts, text, script, err) ||
        !wn_vocab_encode(m->o->vocab, text.at, text.n, false, &ids, &n, err))
        return false;
    for (size_t i = 0; i < text.n; i++)
        t->chars[script[i]] += ((unsigned char)text.at[i] & 0xc0) != 0x80;
    for (size_t i = 0; i < n; i++, at += length) {
        (void)wn_vocab_token(m->o->vocab, ids[i], &length);
        t->tokens[token_script(script + at, length)]++;
    }
    free(ids);
    return true;
}

static bool take(struct mix *m, size_t s, const struct wn_mix_document *d, struct wn_err *err)
{
    struct wn_mix_taken *t = &m->r->sources[s];
    struct wn_mix_result *r = m->r;
    char *text = wn_mix_fetch(&m->open[s], &m->piles[s], d, err);
    struct wn_bytes bytes = {text, d->bytes};
    bool ok = text && take_census(m, t, bytes, err) && write_line(m, t->label, bytes, err);

    free(text);
    m->piles[s].taken++;
    t->got.documents++;
    t->got.bytes += d->bytes;
    t->got.tokens += d->tokens;
    r->got.documents++;
    r->got.bytes += d->bytes;
    r->got.tokens += d->tokens;
    r->longest = d->tokens > r->longest ? d->tokens : r->longest;
    return ok && wn_job_progress(m->job, "mixing", wn_min_u64(r->got.tokens, m->wanted), m->wanted, "tokens", err);
}

/* Until the next document would be more than is wanted, or is not there. */
static bool take_all(struct mix *m, struct wn_err *err)
{
    for (;;) {
        size_t s = who_comes_next(m);
        const struct wn_mix_document *d = next_of(&m->piles[s]);

        if (!d || (m->o->spec->tokens && d->tokens > m->wanted - m->r->got.tokens))
            break;
        if (!take(m, s, d, err))
            return false;
    }
    for (size_t s = 0; s < m->r->count; s++)
        if (m->r->sources[s].got.tokens == 0)
            return wn_fail(err, WN_ERR_ARG,
                           "of %" PRIu64 " tokens none would be of source '%s': want more tokens, or shorter documents",
                           m->r->got.tokens, m->r->sources[s].label);
    return true;
}

static bool start(struct mix *m, struct wn_err *err)
{
    const struct wn_mix_spec *spec = m->o->spec;
    double sum = 0;

    m->piles = wn_alloc(spec->count, sizeof *m->piles, err);
    m->open = m->piles ? wn_alloc(spec->count, sizeof *m->open, err) : NULL;
    m->r->sources = m->open ? wn_alloc(spec->count, sizeof *m->r->sources, err) : NULL;
    m->scripts = m->r->sources ? wn_scripts_new(err) : NULL;
    if (!m->scripts)
        return false;
    m->r->count = spec->count;
    for (size_t s = 0; s < spec->count; s++)
        sum += spec->sources[s].share;
    for (size_t s = 0; s < spec->count; s++) {
        m->r->sources[s].label = spec->sources[s].label;
        m->r->sources[s].share = spec->sources[s].share / sum;
        /* by the label: what else is in the spec does not change what is drawn of a source */
        m->piles[s].rng.state = spec->seed ^ wn_bytes_hash(wn_bytes_of(spec->sources[s].label));
        if (!find_files(m, &spec->sources[s], &m->piles[s].files, err))
            return false;
    }
    return true;
}

static bool mix(struct mix *m, struct wn_err *err)
{
    if (!start(m, err) || !find_documents(m, err) || !settle_total(m, err))
        return false;
    if (m->o->out && !wn_outfile_open(&m->out, m->o->out, m->o->overwrite, err))
        return false;
    return take_all(m, err) && wn_mix_warn(m->r, err) && (!m->o->out || wn_outfile_commit(&m->out, err));
}

static void release(struct mix *m)
{
    for (size_t s = 0; m->piles && s < m->o->spec->count; s++) {
        wn_mix_files_release(&m->piles[s].files);
        wn_buf_release(&m->piles[s].documents);
        if (m->open)
            wn_mix_close(&m->open[s]);
    }
    free(m->piles);
    free(m->open);
    wn_scripts_free(m->scripts);
    wn_buf_release(&m->marks);
    wn_outfile_abandon(&m->out);
}

bool wn_mix(const struct wn_mix_options *o, const struct wn_job *job, struct wn_mix_result *r, struct wn_err *err)
{
    struct mix m = {.o = o, .job = job, .r = r};
    bool ok;

    *r = (struct wn_mix_result){0};
    ok = check_spec(o->spec, err) && (!o->out || wn_outfile_may_open(o->out, o->overwrite, err)) && mix(&m, err);
    release(&m);
    if (!ok)
        wn_mix_result_release(r);
    return ok;
}

void wn_mix_result_release(struct wn_mix_result *r)
{
    for (size_t i = 0; i < r->warning_count; i++)
        free(r->warnings[i]);
    free(r->warnings);
    free(r->sources);
    *r = (struct wn_mix_result){0};
}
