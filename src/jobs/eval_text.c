/*
 * The texts of an evaluation as windows of ids, and their hashes. Two models can be compared only where a token is the
 * same for both: their vocabularies must have the same ordinary tokens under the same ids. (How text is split before, all have
 * in common: text/pattern.c.)
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "jobs/eval_parts.h"
#include "jobs/fingerprint.h"
#include "sys/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_LIMIT ((uint64_t)1 << 32)

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

/* Takes the ids. */
static bool keep_windows(struct wn_eval_job *e, size_t t, uint32_t *ids, size_t count, struct wn_err *err)
{
    struct wn_eval_domain *d = &e->result->domains[t];
    uint32_t *kept;

    d->tokens = count;
    d->windows = count / e->window;
    if (e->o->max_windows && d->windows > e->o->max_windows)
        d->windows = e->o->max_windows;
    d->predicted = d->windows * wn_eval_predicted(e);
    if (d->windows == 0) {
        free(ids);
        return wn_fail(err, WN_ERR_ARG, "%zu tokens, fewer than one window of %" PRIu32, count, e->window);
    }
    e->text[t] = (struct wn_eval_ids){ids, e->windows};
    e->windows += (size_t)d->windows;
    kept = wn_realloc(ids, (size_t)d->windows * e->window, sizeof *ids, err);
    if (kept)
        e->text[t].ids = kept;
    return kept != NULL;
}

bool wn_eval_hash(const char *bytes, size_t n, char out[65], struct wn_err *err)
{
    struct wn_fingerprint f;
    uint8_t digest[WN_DIGEST_BYTES];
    bool ok;

    if (!wn_fingerprint_begin(&f, err))
        return false;
    ok = wn_fingerprint_add(&f, bytes, n, err) && wn_fingerprint_end(&f, digest, err);
    wn_fingerprint_release(&f);
    for (int i = 0; ok && i < WN_DIGEST_BYTES; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", digest[i]);
    return ok;
}

static bool read_text(struct wn_eval_job *e, size_t t, const struct wn_vocab *vocab, struct wn_err *err)
{
    const struct wn_eval_text *from = &e->o->texts[t];
    struct wn_eval_domain *d = &e->result->domains[t];
    uint32_t *ids;
    size_t n, count;
    char *text = wn_file_slurp(from->path, TEXT_LIMIT, &n, err);
    bool ok;

    if (!text)
        return false;
    (void)snprintf(d->domain, sizeof d->domain, "%s", from->domain);
    ok = wn_eval_hash(text, n, d->sha256, err) && wn_vocab_encode(vocab, text, n, false, &ids, &count, err) &&
         keep_windows(e, t, ids, count, err);
    free(text);
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
