/*
 * Which archives can be added up, and what all of them have. See merge_parts.h.
 */
#include "base/alloc.h"
#include "jobs/calibrate/merge_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool any_count(const uint64_t *counts, size_t n)
{
    for (size_t i = 0; counts && i < n; i++)
        if (counts[i])
            return true;
    return false;
}

/* What is not in an archive is NULL or nothing but zeros (saliency.h). */
static bool has(const struct wn_saliency *s, unsigned part)
{
    size_t all = (size_t)s->layer_count * s->expert_count;

    switch (part) {
    case WN_SUM_HALF:
        return s->source_half && s->source_half_tokens && s->source_sequences;
    case WN_PART_MAX_NORM:
        return s->max_norm != NULL;
    case WN_PART_SOURCE_COUNTS:
        return any_count(s->source_counts, s->source_count * all);
    case WN_PART_SOURCE_TOKENS:
        return any_count(s->source_tokens, s->source_count);
    case WN_PART_COUNTS:
        return any_count(s->counts, all);
    case WN_PART_TOKENS:
        return s->token_count > 0;
    case WN_PART_MEANS:
        return s->mean_width > 0 && any_count(s->counts, all);
    case WN_PART_HALVES:
        return s->half_saliency != NULL;
    default:
        /* no pointer is changed: only its place is asked for */
        return *wn_sum_at((struct wn_saliency *)(uintptr_t)s, part) != NULL;
    }
}

static void look_at_parts(struct wn_merge_look *m, const struct wn_saliency *s, const char *path)
{
    for (unsigned k = 0; k < WN_PARTS; k++) {
        bool there = has(s, k);

        m->some[k] |= there;
        if (!there && !m->lacks[k])
            m->lacks[k] = path;
        if (k < WN_SUMS && there && !s->low[k])
            m->exact = false;
    }
}

static bool take_shape(struct wn_merge_look *m, const struct wn_saliency *s, const char *path, struct wn_err *err)
{
    m->first = path;
    m->layer_count = s->layer_count;
    m->expert_count = s->expert_count;
    m->exact = m->same_settings = true;
    memcpy(m->settings, s->settings, sizeof m->settings);
    m->layer_experts = wn_alloc(s->layer_count, sizeof *m->layer_experts, err);
    if (!m->layer_experts)
        return false;
    memcpy(m->layer_experts, s->layer_experts, s->layer_count * sizeof *m->layer_experts);
    return true;
}

static bool check_shape(const struct wn_merge_look *m, const struct wn_saliency *s, struct wn_err *err)
{
    if (s->layer_count != m->layer_count || s->expert_count != m->expert_count)
        return wn_fail(err, WN_ERR_ARG,
                       "%" PRIu32 " layers of %" PRIu32 " experts, but '%s' has %" PRIu32 " of %" PRIu32,
                       s->layer_count, s->expert_count, m->first, m->layer_count, m->expert_count);
    for (uint32_t l = 0; l < s->layer_count; l++)
        if (s->layer_experts[l] != m->layer_experts[l])
            return wn_fail(err, WN_ERR_ARG, "layer %" PRIu32 " has %" PRIu32 " experts, in '%s' %" PRIu32, l,
                           s->layer_experts[l], m->first, m->layer_experts[l]);
    return true;
}

/* A number that an archive may leave open; those that tell must agree. */
static bool agree(uint32_t *known, uint32_t told, const char *what, struct wn_err *err)
{
    if (*known && told && *known != told)
        return wn_fail(err, WN_ERR_ARG, "its %s is %" PRIu32 ", that of the archives before it %" PRIu32, what, told,
                       *known);
    *known = told ? told : *known;
    return true;
}

static bool agree_on_model(struct wn_merge_look *m, const struct wn_saliency *s, struct wn_err *err)
{
    if (*m->model && *s->model_fingerprint && strcmp(m->model, s->model_fingerprint) != 0)
        return wn_fail(err, WN_ERR_ARG, "its model is '%s', that of the archives before it '%s'", s->model_fingerprint,
                       m->model);
    if (*s->model_fingerprint)
        memcpy(m->model, s->model_fingerprint, sizeof m->model);
    return agree(&m->top_k, s->top_k, "top-k", err) && agree(&m->latent_size, s->latent_size, "latent size", err) &&
           agree(&m->mean_width, s->mean_width, "width of mean outputs", err);
}

/* Into its place among the rising ones. */
static bool take_corpus(struct wn_merge_look *m, const char *corpus, const char *path, struct wn_err *err)
{
    size_t at = 0, n = m->corpus_count;
    char(*grown)[17];
    const char **from;

    while (at < n && strcmp(m->corpora[at], corpus) < 0)
        at++;
    if (at < n && strcmp(m->corpora[at], corpus) == 0)
        return wn_fail(err, WN_ERR_ARG, "its corpus '%s' is in '%s' already, and would count twice", corpus,
                       m->from[at]);
    grown = wn_realloc(m->corpora, n + 1, sizeof *grown, err);
    if (!grown)
        return false;
    m->corpora = grown;
    from = wn_realloc(m->from, n + 1, sizeof *from, err);
    if (!from)
        return false;
    m->from = from;
    memmove(grown + at + 1, grown + at, (n - at) * sizeof *grown);
    memmove(from + at + 1, from + at, (n - at) * sizeof *from);
    (void)snprintf(grown[at], sizeof grown[at], "%s", corpus);
    from[at] = path;
    m->corpus_count++;
    return true;
}

static bool take_corpora(struct wn_merge_look *m, const struct wn_saliency *s, const char *path, struct wn_err *err)
{
    if (s->corpus_count == 0)
        return !*s->corpus_fingerprint || take_corpus(m, s->corpus_fingerprint, path, err);
    for (uint32_t i = 0; i < s->corpus_count; i++)
        if (!take_corpus(m, s->corpora[i], path, err))
            return false;
    return true;
}

static bool take_label(struct wn_merge_look *m, const char *label, struct wn_err *err)
{
    char **grown;

    for (uint32_t i = 0; i < m->label_count; i++)
        if (strcmp(m->label[i], label) == 0)
            return true;
    grown = wn_realloc(m->label, (size_t)m->label_count + 1, sizeof *grown, err);
    if (!grown)
        return false;
    m->label = grown;
    grown[m->label_count] = wn_strdup(label, err);
    return grown[m->label_count] && ++m->label_count;
}

bool wn_merge_look_at(struct wn_merge_look *m, const struct wn_saliency *s, const char *path, struct wn_err *err)
{
    bool ok = m->first || take_shape(m, s, path, err);

    ok = ok && check_shape(m, s, err) && agree_on_model(m, s, err) && take_corpora(m, s, path, err);
    for (uint32_t i = 0; ok && i < s->source_count; i++)
        ok = take_label(m, s->source[i], err);
    if (!ok)
        return wn_fail_in(err, "'%s' cannot be merged", path);
    m->same_settings &= strcmp(m->settings, s->settings) == 0;
    look_at_parts(m, s, path);
    return true;
}

bool wn_merge_check(const struct wn_merge_look *m, const struct wn_saliency *s, struct wn_err *err)
{
    bool same = check_shape(m, s, err) && (!s->latent_size || s->latent_size == m->latent_size);

    for (unsigned k = 0; k < WN_PARTS; k++)
        same = same && (m->lacks[k] || has(s, k));
    return same || wn_fail(err, WN_ERR_IO, "it changed while it was read");
}

void wn_merge_look_release(struct wn_merge_look *m)
{
    for (uint32_t i = 0; i < m->label_count; i++)
        free(m->label[i]);
    free(m->label);
    free(m->layer_experts);
    free(m->corpora);
    free(m->from);
    *m = (struct wn_merge_look){0};
}
