/*
 * Adding archives up. A sum of the result is the exact sum of theirs, so its bits are those of one run over all tokens.
 * The one thing that depends on the order of corpora is which of a source's sequences are the odd ones: an archive that
 * comes behind an odd number of them has its halves turned over.
 */
#include "base/alloc.h"
#include "jobs/fingerprint.h"
#include "jobs/calibrate/merge_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winnow/version.h>

#define COUNT_MOST ((uint64_t)1 << 53) /* counts are doubles in the file */

static bool by_source(const struct wn_merge_look *m)
{
    return !m->lacks[WN_SUM_SALIENCY];
}

static void drop_counts(uint64_t **counts)
{
    free(*counts);
    *counts = NULL;
}

/* What some archive lacks. */
static void drop_parts(const struct wn_merge_look *m, struct wn_saliency *t)
{
    for (unsigned k = 0; k < WN_SUMS; k++) {
        double **sum = wn_sum_at(t, k);

        if (!m->lacks[k])
            continue;
        free(*sum);
        free(t->low[k]);
        *sum = t->low[k] = NULL;
    }
    if (m->lacks[WN_SUM_HALF]) {
        drop_counts(&t->source_half_tokens);
        drop_counts(&t->source_sequences);
    }
    if (m->lacks[WN_PART_MAX_NORM]) {
        free(t->max_norm);
        t->max_norm = NULL;
    }
    if (m->lacks[WN_PART_HALVES]) {
        free(t->half_saliency);
        t->half_saliency = NULL;
    }
    if (m->lacks[WN_SUM_INPUT])
        t->latent_size = 0;
}

/* The hash of all corpora's, whatever order they came in. */
static bool name_corpora(const struct wn_merge_look *m, struct wn_saliency *t, struct wn_err *err)
{
    struct wn_fingerprint print = {0};
    uint8_t digest[WN_DIGEST_BYTES];
    bool ok;

    if (m->corpus_count == 0)
        return true;
    t->corpora = wn_alloc(m->corpus_count, sizeof *t->corpora, err);
    if (!t->corpora)
        return false;
    t->corpus_count = m->corpus_count;
    memcpy(t->corpora, m->corpora, m->corpus_count * sizeof *t->corpora);
    ok = wn_fingerprint_begin(&print, err) &&
         wn_fingerprint_add(&print, t->corpora, t->corpus_count * sizeof *t->corpora, err) &&
         wn_fingerprint_end(&print, digest, err);
    wn_fingerprint_release(&print);
    if (ok)
        wn_fingerprint_text(digest, t->corpus_fingerprint);
    return ok;
}

bool wn_merge_begin(const struct wn_merge_look *m, struct wn_saliency *t, struct wn_err *err)
{
    if (!wn_saliency_init(t, m->layer_count, m->layer_experts, m->top_k, m->lacks[WN_SUM_INPUT] ? 0 : m->latent_size,
                          by_source(m) ? m->label_count : 0, (const char *const *)m->label, err))
        return false;
    if (t->expert_count != m->expert_count) {
        wn_fail(err, WN_ERR_ARG, "'%s' has %" PRIu32 " experts, but no layer with more than %" PRIu32, m->first,
                m->expert_count, t->expert_count);
        wn_saliency_release(t);
        return false;
    }
    drop_parts(m, t);
    memcpy(t->model_fingerprint, m->model, sizeof m->model);
    (void)snprintf(t->settings, sizeof t->settings, "winnow " WINNOW_VERSION ", merged: %.200s",
                   m->same_settings ? m->settings : "of runs with different settings");
    if (name_corpora(m, t, err))
        return true;
    wn_saliency_release(t);
    return false;
}

/* Where the sources of an archive are among all, and whether their halves are turned over. */
struct place {
    uint32_t source;
    uint32_t turned; /* 0 or 1 */
};

static uint32_t find_source(const struct wn_saliency *t, const char *label)
{
    uint32_t i = 0;

    while (i < t->source_count && strcmp(t->source[i], label) != 0)
        i++;
    return i;
}

static bool place_sources(const struct wn_saliency *t, const struct wn_saliency *s, struct place *place,
                          struct wn_err *err)
{
    for (uint32_t i = 0; i < s->source_count; i++) {
        place[i].source = find_source(t, s->source[i]);
        if (place[i].source == t->source_count)
            return wn_fail(err, WN_ERR_FORMAT, "source '%s' was not there a moment ago", s->source[i]);
        place[i].turned = t->source_half ? t->source_sequences[place[i].source] & 1 : 0;
    }
    return true;
}

static void add_row(double *sum, double *low, const double *add, const double *add_low, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        wn_exact_add(&sum[i], &low[i], add[i]);
        if (add_low)
            wn_exact_add(&sum[i], &low[i], add_low[i]);
    }
}

/* The block of the result that block b of the archive is part of. */
static size_t block_of(const struct wn_saliency *t, const struct wn_saliency *s, enum wn_sum k,
                       const struct place *place, size_t b)
{
    const struct place *p;

    if (k == WN_SUM_INPUT)
        return 0;
    p = &place[b % s->source_count];
    if (k != WN_SUM_HALF)
        return p->source;
    return (b / s->source_count ^ p->turned) * t->source_count + p->source;
}

static void add_sums(struct wn_saliency *t, struct wn_saliency *s, const struct place *place)
{
    for (unsigned k = 0; k < WN_SUMS; k++) {
        size_t n = (size_t)t->layer_count * wn_sum_width(t, k);
        double *sum = *wn_sum_at(t, k), *add = *wn_sum_at(s, k), *low = s->low[k];

        for (size_t b = 0; sum && b < wn_sum_blocks(s, k); b++) {
            size_t to = block_of(t, s, k, place, b);

            add_row(sum + to * n, t->low[k] + to * n, add + b * n, low ? low + b * n : NULL, n);
        }
    }
}

static bool add_counts(uint64_t *counts, const uint64_t *add, size_t n, const char *key, struct wn_err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (add[i] > COUNT_MOST || counts[i] + add[i] > COUNT_MOST)
            return wn_fail(err, WN_ERR_ARG, "'%s': entry %zu would be more than %" PRIu64, key, i, COUNT_MOST);
        counts[i] += add[i];
    }
    return true;
}

static bool add_source(struct wn_saliency *t, const struct wn_saliency *s, uint32_t i, struct place p,
                       struct wn_err *err)
{
    size_t n = (size_t)t->layer_count * t->expert_count, to = p.source;

    for (size_t e = 0; t->max_norm && e < n; e++)
        if (s->max_norm[i * n + e] > t->max_norm[to * n + e])
            t->max_norm[to * n + e] = s->max_norm[i * n + e];
    for (uint32_t h = 0; t->source_half && h < 2; h++)
        if (!add_counts(&t->source_half_tokens[(h ^ p.turned) * t->source_count + to],
                        &s->source_half_tokens[h * s->source_count + i], 1, "source_half_tokens", err))
            return false;
    return add_counts(t->source_counts + to * n, s->source_counts + i * n, n, "per_source_counts", err) &&
           add_counts(&t->source_tokens[to], &s->source_tokens[i], 1, "source_tokens", err) &&
           (!t->source_half ||
            add_counts(&t->source_sequences[to], &s->source_sequences[i], 1, "source_sequences", err));
}

/*
 * What there is once for all sources. Where the sums by source are at hand, saliency and halves are made of those in
 * the end instead.
 */
static bool add_totals(const struct wn_merge_look *m, struct wn_saliency *t, const struct wn_saliency *s,
                       struct wn_err *err)
{
    size_t n = (size_t)t->layer_count * t->expert_count;

    for (size_t i = 0; !by_source(m) && i < n; i++)
        t->saliency[i] += s->saliency[i];
    for (size_t i = 0; t->half_saliency && !t->source_half && i < 2 * n; i++)
        t->half_saliency[i] += s->half_saliency[i];
    return add_counts(t->counts, s->counts, n, "counts", err) &&
           add_counts(t->half_tokens, s->half_tokens, 2, "half_tokens", err) &&
           add_counts(t->act_n, s->act_n, t->layer_count, "act_n", err) &&
           add_counts(&t->token_count, &s->token_count, 1, "n_tokens", err);
}

bool wn_merge_add(const struct wn_merge_look *m, struct wn_saliency *t, const struct wn_saliency *s, struct wn_err *err)
{
    struct place *place;
    bool ok;

    if (!add_totals(m, t, s, err))
        return false;
    if (!by_source(m) && m->lacks[WN_SUM_INPUT])
        return true;
    place = wn_alloc((size_t)s->source_count + 1, sizeof *place, err);
    ok = place && (!by_source(m) || place_sources(t, s, place, err));
    if (ok)
        add_sums(t, (struct wn_saliency *)(uintptr_t)s, place); /* only its pointers' places are asked for */
    for (uint32_t i = 0; ok && by_source(m) && i < s->source_count; i++)
        ok = add_source(t, s, i, place[i], err);
    free(place);
    return ok;
}

static void zero(uint64_t *counts, size_t n)
{
    for (size_t i = 0; counts && i < n; i++)
        counts[i] = 0;
}

/* Counts that only some archives tell are no counts. */
static void forget_partial_counts(const struct wn_merge_look *m, struct wn_saliency *t)
{
    size_t n = (size_t)t->layer_count * t->expert_count;

    if (m->lacks[WN_PART_SOURCE_COUNTS])
        zero(t->source_counts, t->source_count * n);
    if (m->lacks[WN_PART_SOURCE_TOKENS])
        zero(t->source_tokens, t->source_count);
    if (m->lacks[WN_PART_COUNTS])
        zero(t->counts, n);
    if (m->lacks[WN_PART_TOKENS])
        t->token_count = 0;
    if (m->lacks[WN_SUM_INPUT])
        zero(t->act_n, t->layer_count);
    if (m->lacks[WN_PART_HALVES])
        zero(t->half_tokens, 2);
}

static bool check_finite(const double *sum, size_t n, const char *key, struct wn_err *err)
{
    for (size_t i = 0; sum && i < n; i++)
        if (!isfinite(sum[i]))
            return wn_fail(err, WN_ERR_ARG, "'%s': entry %zu would be no finite number", key, i);
    return true;
}

bool wn_merge_end(const struct wn_merge_look *m, struct wn_saliency *t, struct wn_err *err)
{
    size_t n = (size_t)t->layer_count * t->expert_count;
    uint64_t tokens = t->token_count;

    for (uint32_t l = 0; l < t->layer_count; l++)
        wn_saliency_settle(t, l);
    if (by_source(m))
        wn_saliency_total(t);
    if (t->source_half && t->half_saliency)
        wn_saliency_add_halves(t);
    t->token_count = tokens;
    forget_partial_counts(m, t);
    for (unsigned k = 0; k < WN_SUMS; k++)
        if (!check_finite(*wn_sum_at(t, k), wn_sum_blocks(t, k) * t->layer_count * wn_sum_width(t, k), wn_sum_key(k),
                          err))
            return false;
    return check_finite(t->saliency, n, "saliency", err) && check_finite(t->half_saliency, 2 * n, "saliency_half", err);
}
