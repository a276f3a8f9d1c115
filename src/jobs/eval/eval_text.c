/*
 * The texts of an evaluation as windows of ids, and their hashes. A text is read once, a piece at a time, and only ids
 * that will be scored stay. Two models can be compared only where a token is the
 * same for both: their vocabularies must have the same ordinary tokens under the same ids. (How text is split before,
 * all have in common: text/pattern.c.)
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "jobs/encode.h"
#include "jobs/eval/eval_parts.h"
#include "jobs/hashing.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* While a window's ids are made: their array, and half of it again where it cannot grow in place. */
#define ENCODE_BYTES_PER_ID 6

/* Special tokens never come out of a text, so their names may differ. */
static bool same_token(const struct wn_vocab *a, const struct wn_vocab *b, uint32_t id)
{
    struct wn_bytes x, y;

    if (wn_vocab_is_special(a, id) || wn_vocab_is_special(b, id))
        return wn_vocab_is_special(a, id) == wn_vocab_is_special(b, id);
    x.at = wn_vocab_token(a, id, &x.n);
    y.at = wn_vocab_token(b, id, &y.n);
    return x.n == y.n && (x.n == 0 || memcmp(x.at, y.at, x.n) == 0);
}

static bool check_vocabularies(const struct wn_eval_job *e, const struct wn_vocab *a, const struct wn_vocab *b,
                               struct wn_err *err)
{
    uint32_t logits = e->side[WN_EVAL_MODEL].config->vocab_size, parent = e->side[WN_EVAL_PARENT].config->vocab_size;

    if (logits != parent || wn_vocab_count(a) != wn_vocab_count(b))
        return wn_fail(err, WN_ERR_ARG,
                       "the model has %" PRIu32 " logits and %" PRIu32 " tokens, the parent %" PRIu32 " and %" PRIu32
                       ": there is no comparing them",
                       logits, wn_vocab_count(a), parent, wn_vocab_count(b));
    for (uint32_t id = 0; id < wn_vocab_count(a); id++)
        if (!same_token(a, b, id))
            return wn_fail(err, WN_ERR_ARG,
                           "token %" PRIu32 " is not the same in the model's and the parent's vocabulary: there is no "
                           "comparing them",
                           id);
    return true;
}

/* A text while it is read: the ids that will be scored, and the number of all. */
struct reading {
    struct wn_eval_job *e;
    struct wn_lines lines;
    struct wn_buf ids;
    uint64_t tokens, most; /* most: ids that can be scored */
};

/*
 * What the process holds at most by now. Where that is more than it may, ids are counted from here on and no longer
 * kept: the refusal that follows names what all of them take (eval_need.c).
 */
static void use(struct reading *r, size_t n, size_t bytes)
{
    struct wn_eval_job *e = r->e;
    uint64_t now = e->before + e->kept + r->lines.held.n + bytes + n * ENCODE_BYTES_PER_ID;

    e->reading = now > e->reading ? now : e->reading;
    if (e->o->ram && now > e->o->ram)
        e->counting = true;
    if (e->counting)
        wn_buf_release(&r->ids);
}

/* wn_take_ids_fn */
static bool take_ids(void *arg, const uint32_t *ids, size_t n, size_t bytes, struct wn_err *err)
{
    struct reading *r = arg;
    uint64_t room = r->tokens < r->most ? r->most - r->tokens : 0;
    size_t kept = (size_t)wn_min_u64(n, room) * sizeof *ids;

    r->tokens += n;
    r->e->kept += kept;
    use(r, n, bytes);
    return r->e->counting || wn_buf_add(&r->ids, ids, kept, err);
}

/* The ids of whole windows are the text's, what is behind them goes. */
static bool keep_windows(struct reading *r, size_t t, struct wn_err *err)
{
    struct wn_eval_job *e = r->e;
    struct wn_eval_domain *d = &e->result->domains[t];
    void *kept;

    d->tokens = r->tokens;
    d->windows = wn_min_u64(r->tokens, r->most) / e->window;
    d->predicted = d->windows * wn_eval_predicted(e);
    if (d->windows == 0)
        return wn_fail(err, WN_ERR_ARG, "%" PRIu64 " tokens, fewer than one window of %" PRIu32, r->tokens, e->window);
    e->text[t].first = e->windows;
    e->windows += (size_t)d->windows;
    if (e->counting)
        return true;
    kept = wn_realloc(r->ids.at, (size_t)d->windows * e->window, sizeof(uint32_t), err);
    if (!kept)
        return false;
    e->text[t].ids = kept;
    r->ids = (struct wn_buf){0};
    return true;
}

static bool read_text(struct wn_eval_job *e, size_t t, const struct wn_vocab *vocab, struct wn_err *err)
{
    const struct wn_eval_text *from = &e->o->texts[t];
    struct wn_eval_domain *d = &e->result->domains[t];
    struct reading r = {.e = e};
    uint8_t digest[WN_DIGEST_BYTES];
    bool ok;

    if (!e->o->max_windows || !wn_mul_u64(e->o->max_windows, e->window, &r.most))
        r.most = UINT64_MAX;
    if (!wn_lines_open(&r.lines, from->path, err))
        return false;
    (void)snprintf(d->domain, sizeof d->domain, "%s", from->domain);
    ok = wn_lines_check_text(&r.lines, err) && wn_encode_rest(vocab, &r.lines, take_ids, &r, err) &&
         wn_lines_digest(&r.lines, digest, err) && keep_windows(&r, t, err);
    if (ok)
        wn_hash_text(digest, WN_DIGEST_BYTES, d->sha256);
    wn_buf_release(&r.ids);
    wn_lines_close(&r.lines);
    return ok || wn_fail_in(err, "'%s'", from->path);
}

bool wn_eval_read_texts(struct wn_eval_job *e, struct wn_err *err)
{
    const struct wn_vocab *vocab[WN_EVAL_SIDES] = {0};

    for (unsigned i = 0; i < e->sides; i++)
        if (!(vocab[i] = wn_model_vocab(e->side[i].model, err)))
            return wn_fail_in(err, "evaluating needs a vocabulary");
    if (e->sides > 1 && !check_vocabularies(e, vocab[WN_EVAL_MODEL], vocab[WN_EVAL_PARENT], err))
        return false;
    wn_memory_give_back();
    e->before = wn_resident_memory();
    for (size_t t = 0; t < e->o->text_count; t++)
        if (!read_text(e, t, vocab[WN_EVAL_MODEL], err))
            return false;
    return true;
}

const uint32_t *wn_eval_window(const struct wn_eval_job *e, size_t window, size_t *text)
{
    size_t t = e->o->text_count - 1;

    while (e->text[t].first > window)
        t--;
    *text = t;
    return e->text[t].ids + (window - e->text[t].first) * e->window;
}
