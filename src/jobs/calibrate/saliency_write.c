/*
 * Writing a saliency archive (docs/formats/saliency.md). The keys come in one order and what is not known is left out,
 * so equal sums give equal files.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "formats/npz.h"
#include "jobs/calibrate/saliency.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Hands the array over, or releases it. */
static bool add(struct wn_npz *z, const char *key, struct wn_npy *a, struct wn_err *err)
{
    if (wn_npz_add(z, key, a, err))
        return true;
    wn_npy_release(a);
    return false;
}

/* Adds an array of values that are eight bytes each in memory and in the file; NULL adds nothing. */
static bool put_words(struct wn_npz *z, const char *key, enum wn_npy_kind kind, const void *values, uint32_t dims,
                      const uint64_t *shape, struct wn_err *err)
{
    struct wn_npy a;

    if (!values)
        return true;
    if (!wn_npy_init(&a, kind, 0, dims, shape, err))
        return false;
    memcpy(a.data, values, (size_t)a.elements * sizeof(double));
    return add(z, key, &a, err);
}

static bool put_f64(struct wn_npz *z, const char *key, const double *values, uint32_t dims, const uint64_t *shape,
                    struct wn_err *err)
{
    return put_words(z, key, WN_NPY_F64, values, dims, shape, err);
}

static bool put_i64(struct wn_npz *z, const char *key, const uint64_t *values, uint32_t dims, const uint64_t *shape,
                    struct wn_err *err)
{
    return put_words(z, key, WN_NPY_I64, values, dims, shape, err);
}

/* Counts are floats in the archives that exist; all that can occur are exact in one. */
static bool put_counts(struct wn_npz *z, const char *key, const uint64_t *values, uint32_t dims, const uint64_t *shape,
                       struct wn_err *err)
{
    struct wn_npy a;

    if (!values)
        return true;
    if (!wn_npy_init(&a, WN_NPY_F64, 0, dims, shape, err))
        return false;
    for (uint64_t i = 0; i < a.elements; i++)
        ((double *)a.data)[i] = (double)values[i];
    return add(z, key, &a, err);
}

static bool put_number(struct wn_npz *z, const char *key, uint64_t value, struct wn_err *err)
{
    return put_i64(z, key, &value, 0, NULL, err);
}

static bool put_texts(struct wn_npz *z, const char *key, const char *const *texts, uint32_t dims, const uint64_t *shape,
                      struct wn_err *err)
{
    struct wn_npy a;
    uint64_t n = dims ? shape[0] : 1;
    size_t width = 1;

    /* a text has at most as many characters as bytes */
    for (uint64_t i = 0; i < n; i++)
        width = strlen(texts[i]) > width ? strlen(texts[i]) : width;
    if (!wn_npy_init(&a, WN_NPY_UNICODE, (uint32_t)width, dims, shape, err))
        return false;
    for (uint64_t i = 0; i < n; i++) {
        if (!wn_npy_set_string(&a, i, texts[i], err)) {
            wn_npy_release(&a);
            return false;
        }
    }
    return add(z, key, &a, err);
}

static bool put_text(struct wn_npz *z, const char *key, const char *text, struct wn_err *err)
{
    return !*text || put_texts(z, key, &text, 0, NULL, err);
}

static bool put_layers(struct wn_npz *z, const struct wn_saliency *s, struct wn_err *err)
{
    uint64_t shape = s->layer_count, moe_count = 0;
    uint64_t *list = wn_alloc(s->layer_count, sizeof(*list), err);
    bool ok;

    if (!list)
        return false;
    for (uint32_t l = 0; l < s->layer_count; l++)
        if (s->layer_experts[l])
            list[moe_count++] = l;
    ok = put_i64(z, "moe_layers", list, 1, &moe_count, err);
    for (uint32_t l = 0; l < s->layer_count; l++)
        list[l] = s->layer_experts[l];
    ok = ok && put_i64(z, "expert_counts", list, 1, &shape, err);
    free(list);
    return ok && put_number(z, "num_experts", s->expert_count, err) &&
           put_number(z, "num_hidden_layers", s->layer_count, err);
}

/* A sum, and under its key with "_low" behind what the doubles leave out. */
static bool put_sum(struct wn_npz *z, const struct wn_saliency *s, enum wn_sum k, struct wn_err *err)
{
    /* nothing is changed: only the place of a pointer is asked for */
    const double *sum = *wn_sum_at((struct wn_saliency *)(uintptr_t)s, k);
    uint64_t shape[4];
    uint32_t dims = wn_sum_shape(s, k, shape);
    char key[64];

    (void)snprintf(key, sizeof key, "%s_low", wn_sum_key(k));
    return put_f64(z, wn_sum_key(k), sum, dims, shape, err) && (!sum || put_f64(z, key, s->low[k], dims, shape, err));
}

static bool put_sources(struct wn_npz *z, const struct wn_saliency *s, struct wn_err *err)
{
    uint64_t shape[3] = {s->source_count, s->layer_count, s->expert_count}, half[2] = {2, s->source_count};

    if (s->source_count == 0)
        return true;
    if (!put_texts(z, "source_labels", (const char *const *)s->source, 1, shape, err) ||
        !put_i64(z, "source_tokens", s->source_tokens, 1, shape, err))
        return false;
    for (unsigned k = 0; k < WN_SUM_INPUT; k++)
        if (!put_sum(z, s, k, err))
            return false;
    return put_counts(z, "per_source_counts", s->source_counts, 3, shape, err) &&
           put_f64(z, "max_norm", s->max_norm, 3, shape, err) &&
           put_i64(z, "source_half_tokens", s->source_half_tokens, 2, half, err) &&
           put_i64(z, "source_sequences", s->source_sequences, 1, shape, err);
}

static bool put_corpora(struct wn_npz *z, const struct wn_saliency *s, struct wn_err *err)
{
    uint64_t n = s->corpus_count;
    const char **list;
    bool ok;

    if (n == 0)
        return true;
    list = wn_alloc(n, sizeof *list, err);
    if (!list)
        return false;
    for (uint32_t i = 0; i < s->corpus_count; i++)
        list[i] = s->corpora[i];
    ok = put_texts(z, "winnow_corpora", list, 1, &n, err);
    free(list);
    return ok;
}

static bool put_all(struct wn_npz *z, const struct wn_saliency *s, struct wn_err *err)
{
    uint64_t shape[2] = {s->layer_count, s->expert_count}, half[3] = {2, s->layer_count, s->expert_count};

    return put_f64(z, "saliency", s->saliency, 2, shape, err) && put_counts(z, "counts", s->counts, 2, shape, err) &&
           put_number(z, "n_tokens", s->token_count, err) && put_layers(z, s, err) &&
           (s->top_k == 0 || put_number(z, "top_k", s->top_k, err)) && put_sources(z, s, err) &&
           put_sum(z, s, WN_SUM_INPUT, err) && put_counts(z, "act_n", s->act_n, 1, shape, err) &&
           put_f64(z, "saliency_half", s->half_saliency, 3, half, err) &&
           (!s->half_saliency || put_i64(z, "half_tokens", s->half_tokens, 1, half, err)) &&
           put_text(z, "winnow_model", s->model_fingerprint, err) &&
           put_text(z, "winnow_corpus", s->corpus_fingerprint, err) && put_corpora(z, s, err) &&
           put_text(z, "winnow_settings", s->settings, err);
}

bool wn_saliency_write(const struct wn_saliency *s, const char *path, bool overwrite, struct wn_err *err)
{
    struct wn_npz z = {0};
    bool ok = put_all(&z, s, err) && wn_npz_write(&z, path, overwrite, err);

    wn_npz_release(&z);
    return ok;
}
