/*
 * Perplexity: windows through a session, logits through a log-softmax. See eval.h for what is predicted.
 *
 *   nll(next) = ln sum_i exp(l_i - max) + max - l_next        l in f32, all else in f64
 *
 * Logits of several positions are kept and scored together, one position a piece of work; each sum has one order.
 */
#include "base/alloc.h"
#include "jobs/exact_math.h"
#include "jobs/talk.h"
#include "sys/file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <winnow/eval.h>

#define WINDOW     512
#define CHUNK      512
#define HELD       16 /* positions */
#define LANES      8
#define TEXT_LIMIT ((uint64_t)1 << 32)

struct scorer {
    struct wn_pool *pool;
    size_t vocab;
    float *logits;       /* [HELD][vocab] */
    uint32_t next[HELD]; /* what followed each position */
    double nll[HELD];
    size_t held;
    const uint32_t *ids; /* of the window */
    double sum;          /* over all scored positions of the text */
};

/* Non-finite when a logit is. */
static double nll_of(const float *l, size_t n, uint32_t next)
{
    double lane[LANES] = {0}, max;
    float top = l[0];
    size_t i = 0;

    for (size_t k = 1; k < n; k++)
        top = l[k] > top ? l[k] : top;
    max = (double)top;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lane[k] += wn_exact_exp((double)l[i + k] - max);
    for (size_t k = 0; i + k < n; k++)
        lane[k] += wn_exact_exp((double)l[i + k] - max);
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t k = 0; k < half; k++)
            lane[k] += lane[k + half];
    return wn_exact_log(lane[0]) + (max - (double)l[next]);
}

static bool all_finite(const float *l, size_t n)
{
    float zero = 0;

    /* x * 0 is 0 for finite x and NaN otherwise */
    for (size_t i = 0; i < n; i++)
        zero += l[i] * 0.0f;
    return zero == 0;
}

static void score_piece(void *arg, size_t at, unsigned worker)
{
    struct scorer *s = arg;
    const float *l = s->logits + at * s->vocab;

    (void)worker;
    s->nll[at] = all_finite(l, s->vocab) ? nll_of(l, s->vocab, s->next[at]) : (double)NAN;
}

static void score_held(struct scorer *s)
{
    wn_pool_run(s->pool, score_piece, s, s->held);
    for (size_t i = 0; i < s->held; i++)
        s->sum += s->nll[i];
    s->held = 0;
}

struct eval {
    const struct wn_eval_options *o;
    const struct wn_job *job;
    const struct wn_vocab *vocab;
    struct wn_session *session;
    struct scorer scorer;
    uint32_t window;
    /* of the text at hand */
    char phase[80];
    uint64_t before, total; /* tokens of windows done, of all */
    struct wn_err stopped;  /* why a callback said stop */
};

/* `position` tokens of the window are computed. False when the listener asked to stop. */
static bool tell(struct eval *e, uint64_t position)
{
    return wn_job_progress(e->job, e->phase, e->before + position, e->total, "tokens", &e->stopped);
}

/* wn_watch_fn: a window of a large model takes minutes, a layer of it no second. */
static bool on_layer(void *arg, uint64_t position, uint32_t layer)
{
    (void)layer;
    return tell(arg, position);
}

/* wn_logits_fn */
static bool take_logits(void *arg, uint64_t position, const float *logits)
{
    struct eval *e = arg;
    struct scorer *s = &e->scorer;

    memcpy(s->logits + s->held * s->vocab, logits, s->vocab * sizeof *logits);
    s->next[s->held++] = s->ids[position + 1];
    if (s->held < HELD)
        return true;
    score_held(s);
    return tell(e, position + 1);
}

static bool score_window(struct eval *e, const uint32_t *ids, struct wn_err *err)
{
    e->scorer.ids = ids;
    e->scorer.held = 0;
    wn_session_reset(e->session);
    /* the window's last token predicts nothing, so it need not be computed */
    if (!wn_session_feed(e->session, ids, e->window - 1, take_logits, e, err)) {
        if (err->code == WN_ERR_CANCELED)
            *err = e->stopped;
        return false;
    }
    score_held(&e->scorer);
    return true;
}

static bool score_windows(struct eval *e, const uint32_t *ids, struct wn_eval_domain *d, struct wn_err *err)
{
    double *sum = &e->scorer.sum;

    snprintf(e->phase, sizeof e->phase, "evaluating %s", d->domain);
    e->total = d->windows * e->window;
    *sum = 0;
    for (uint64_t w = 0; w < d->windows; w++) {
        e->before = w * e->window;
        if (!score_window(e, ids + e->before, err))
            return false;
        if (!isfinite(*sum))
            return wn_fail(err, WN_ERR_FORMAT, "window %" PRIu64 ": the model's logits are not finite", w + 1);
        if (!wn_job_progress(e->job, e->phase, e->before + e->window, e->total, "tokens", err))
            return false;
    }
    d->predicted = d->windows * (e->window - 1);
    d->nll = *sum / (double)d->predicted;
    d->perplexity = wn_exact_exp(d->nll);
    return true;
}

static bool score_text(struct eval *e, const char *text, size_t n, struct wn_eval_domain *d, struct wn_err *err)
{
    uint32_t *ids;
    size_t count;
    bool ok;

    if (!wn_vocab_encode(e->vocab, text, n, false, &ids, &count, err))
        return false;
    d->tokens = count;
    d->windows = count / e->window;
    if (e->o->max_windows && d->windows > e->o->max_windows)
        d->windows = e->o->max_windows;
    if (d->windows == 0)
        ok = wn_fail(err, WN_ERR_ARG, "%zu tokens, fewer than one window of %" PRIu32, count, e->window);
    else
        ok = score_windows(e, ids, d, err);
    free(ids);
    return ok;
}

static bool score_file(struct eval *e, const struct wn_eval_text *t, struct wn_eval_domain *d, struct wn_err *err)
{
    size_t n;
    char *text;
    bool ok;

    *d = (struct wn_eval_domain){0};
    snprintf(d->domain, sizeof d->domain, "%s", t->domain);
    text = wn_file_slurp(t->path, TEXT_LIMIT, &n, err);
    if (!text)
        return false;
    ok = score_text(e, text, n, d, err);
    free(text);
    return ok || wn_fail_in(err, "'%s'", t->path);
}

static bool check_options(const struct eval *e, const struct wn_config *c, struct wn_err *err)
{
    if (e->window < 2 || (c->context_length && e->window > c->context_length))
        return wn_fail(err, WN_ERR_ARG, "windows of %" PRIu32 " tokens: wanted 2 to %" PRIu32, e->window,
                       c->context_length ? c->context_length : UINT32_MAX);
    for (size_t i = 0; i < e->o->text_count; i++)
        if (strlen(e->o->texts[i].domain) >= sizeof((struct wn_eval_domain *)0)->domain)
            return wn_fail(err, WN_ERR_ARG, "domain '%s': its name is longer than 63 bytes", e->o->texts[i].domain);
    return true;
}

bool wn_eval(const struct wn_model *m, const struct wn_weights *w, struct wn_pool *pool,
             const struct wn_eval_options *o, const struct wn_job *job, struct wn_eval_domain *results,
             struct wn_err *err)
{
    const struct wn_config *c = wn_model_config(m);
    struct eval e = {.o = o, .job = job, .window = o->window ? o->window : WINDOW};
    struct wn_session_options session = {.context = e.window, .chunk = e.window < CHUNK ? e.window : CHUNK};
    bool ok;

    e.vocab = wn_model_vocab(m, err);
    if (!e.vocab)
        return wn_fail_in(err, "evaluating needs a vocabulary");
    if (!check_options(&e, c, err))
        return false;
    e.scorer = (struct scorer){.pool = pool, .vocab = c->vocab_size};
    e.scorer.logits = wn_alloc((size_t)HELD * c->vocab_size, sizeof(float), err);
    e.session = e.scorer.logits ? wn_session_new(m, w, pool, &session, err) : NULL;
    ok = e.session != NULL;
    if (ok)
        wn_session_watch(e.session, on_layer, &e);
    for (size_t i = 0; ok && i < o->text_count; i++)
        ok = score_file(&e, &o->texts[i], &results[i], err);
    wn_session_free(e.session);
    free(e.scorer.logits);
    return ok;
}
