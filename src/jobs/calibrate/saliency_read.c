/*
 * Reading a saliency archive (docs/formats/saliency.md). Keys that other tools write are read as they are, with
 * whatever number type they chose; ours beyond those may be missing. An archive is refused when its arrays contradict
 * each other.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "jobs/calibrate/archive_arrays.h"
#include "jobs/calibrate/saliency_means.h"
#include <winnow/config.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define LABEL_BYTES 256

/* Upper limits that no model comes near; they keep products of claims small. */
#define SOURCES_MAX 65536
#define CORPORA_MAX 65536

/* What the doubles of a sum leave out: at most half a unit in their last place. */
static bool take_low(struct wn_saliency *s, const struct wn_npz *z, enum wn_sum k, const double *sum,
                     struct wn_err *err)
{
    const struct wn_npy *a;
    uint64_t shape[4];
    uint32_t dims = wn_sum_shape(s, k, shape);
    char key[64];
    void *room;

    (void)snprintf(key, sizeof key, "%s_low", wn_sum_key(k));
    if (!wn_archive_find_room(z, key, dims, shape, sizeof(double), &a, &room, err))
        return false;
    s->low[k] = room;
    for (uint64_t i = 0; a && i < a->elements; i++)
        if (!wn_npy_as_f64(a, i, &s->low[k][i]) || !(fabs(s->low[k][i]) <= sum[i] * 0x1p-53))
            return wn_fail(err, WN_ERR_FORMAT, "'%s': entry %" PRIu64 " is more than '%s' leaves out", key, i,
                           wn_sum_key(k));
    return true;
}

static bool take_sum(struct wn_saliency *s, const struct wn_npz *z, enum wn_sum k, struct wn_err *err)
{
    double **sum = wn_sum_at(s, k);
    uint64_t shape[4];
    uint32_t dims = wn_sum_shape(s, k, shape);

    return wn_archive_take_sums(z, wn_sum_key(k), dims, shape, sum, err) && (!*sum || take_low(s, z, k, *sum, err));
}

static bool read_shape(struct wn_saliency *s, const struct wn_npz *z, struct wn_err *err)
{
    const struct wn_npy *a = wn_npz_find(z, "saliency");
    uint64_t layers, experts, top_k = 0;

    if (!a)
        return wn_fail(err, WN_ERR_FORMAT, "there is no array 'saliency' in it");
    if (a->dims != 2 || a->shape[0] == 0 || a->shape[1] == 0 || a->shape[0] > WN_LAYERS_MAX ||
        a->shape[1] > WN_EXPERTS_MAX)
        return wn_fail(err, WN_ERR_FORMAT, "'saliency' is not an array of layers and experts");
    layers = a->shape[0];
    experts = a->shape[1];
    if (!wn_archive_take_number(z, "num_hidden_layers", &layers, err) ||
        !wn_archive_take_number(z, "num_experts", &experts, err) || !wn_archive_take_number(z, "top_k", &top_k, err) ||
        !wn_archive_take_number(z, "n_tokens", &s->token_count, err))
        return false;
    if (layers != a->shape[0] || experts != a->shape[1])
        return wn_fail(err, WN_ERR_FORMAT,
                       "'saliency' has %" PRIu64 " layers of %" PRIu64 " experts, but 'num_hidden_layers' is %" PRIu64
                       " and 'num_experts' %" PRIu64,
                       a->shape[0], a->shape[1], layers, experts);
    if (top_k == 0 && wn_npz_find(z, "top_k"))
        return wn_fail(err, WN_ERR_FORMAT, "'top_k' is 0: a token is given to at least one expert");
    if (top_k > experts)
        return wn_fail(err, WN_ERR_FORMAT, "'top_k' is %" PRIu64 ", but there are %" PRIu64 " experts", top_k, experts);
    s->layer_count = (uint32_t)layers;
    s->expert_count = (uint32_t)experts;
    s->top_k = (uint32_t)top_k;
    return true;
}

static bool read_totals(struct wn_saliency *s, const struct wn_npz *z, struct wn_err *err)
{
    uint64_t shape[2] = {s->layer_count, s->expert_count}, *counts = NULL;

    if (!wn_archive_take_sums(z, "saliency", 2, shape, &s->saliency, err) ||
        !wn_archive_take_counts(z, "counts", 2, shape, &counts, err)) {
        free(counts);
        return false;
    }
    s->counts = counts ? counts : wn_alloc((size_t)(shape[0] * shape[1]), sizeof(*s->counts), err);
    return s->counts != NULL;
}

static bool read_expert_counts(struct wn_saliency *s, const struct wn_npy *per_layer, struct wn_err *err)
{
    int64_t v;

    if (per_layer->dims != 1 || per_layer->elements != s->layer_count)
        return wn_fail(err, WN_ERR_FORMAT, "'expert_counts' does not have %" PRIu32 " entries", s->layer_count);
    for (uint32_t l = 0; l < s->layer_count; l++) {
        if (!wn_npy_as_i64(per_layer, l, &v) || v < 0 || v > s->expert_count)
            return wn_fail(err, WN_ERR_FORMAT, "'expert_counts' of layer %" PRIu32 " is not in 0 .. %" PRIu32, l,
                           s->expert_count);
        s->layer_experts[l] = (uint32_t)v;
    }
    return true;
}

/* Each layer is named once. With expert_counts they are the layers that have some by these. */
static bool read_moe_layers(struct wn_saliency *s, const struct wn_npy *moe, bool counted, struct wn_err *err)
{
    uint8_t *seen = wn_alloc(s->layer_count, 1, err);
    bool ok = seen != NULL;
    int64_t v;

    for (uint64_t i = 0; ok && i < moe->elements; i++) {
        ok = (moe->dims == 1 && wn_npy_as_i64(moe, i, &v) && v >= 0 && v < s->layer_count && !seen[v]) ||
             wn_fail(err, WN_ERR_FORMAT, "'moe_layers': entry %" PRIu64 " is not a new layer of 0 .. %" PRIu32, i,
                     s->layer_count - 1);
        if (!ok)
            break;
        seen[v] = 1;
        if (!counted)
            s->layer_experts[v] = s->expert_count;
    }
    for (uint32_t l = 0; ok && counted && l < s->layer_count; l++)
        ok = (seen[l] != 0) == (s->layer_experts[l] != 0) ||
             wn_fail(err, WN_ERR_FORMAT,
                     "layer %" PRIu32 " is %sin 'moe_layers' and has %" PRIu32 " experts by 'expert_counts'", l,
                     seen[l] ? "" : "not ", s->layer_experts[l]);
    free(seen);
    return ok;
}

/* Which layers have experts: as told, or those with any saliency. */
static bool read_layers(struct wn_saliency *s, const struct wn_npz *z, struct wn_err *err)
{
    const struct wn_npy *moe = wn_npz_find(z, "moe_layers"), *per_layer = wn_npz_find(z, "expert_counts");

    s->layer_experts = wn_alloc(s->layer_count, sizeof(*s->layer_experts), err);
    if (!s->layer_experts || (per_layer && !read_expert_counts(s, per_layer, err)) ||
        (moe && !read_moe_layers(s, moe, per_layer != NULL, err)))
        return false;
    for (uint32_t l = 0; !moe && !per_layer && l < s->layer_count; l++)
        for (uint32_t e = 0; e < s->expert_count; e++)
            if (s->saliency[wn_saliency_row(s, l) + e] > 0)
                s->layer_experts[l] = s->expert_count;
    return true;
}

static bool read_labels(struct wn_saliency *s, const struct wn_npz *z, struct wn_err *err)
{
    const struct wn_npy *labels = wn_npz_find(z, "source_labels");
    char text[LABEL_BYTES];

    if (labels && (labels->kind != WN_NPY_UNICODE || labels->dims != 1 || labels->elements != s->source_count))
        return wn_fail(err, WN_ERR_FORMAT,
                       "'source_labels' is not %" PRIu32 " texts, one for each source of 'per_source'",
                       s->source_count);
    s->source = wn_alloc(s->source_count, sizeof(*s->source), err);
    for (uint32_t i = 0; s->source && i < s->source_count; i++) {
        if (labels && !wn_npy_get_string(labels, i, text, sizeof(text), err))
            return wn_fail_in(err, "'source_labels'");
        s->source[i] = labels ? wn_strdup(text, err) : wn_asprintf(err, "source %" PRIu32, i);
        if (!s->source[i])
            return false;
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(s->source[i], s->source[k]) == 0)
                return wn_fail(err, WN_ERR_FORMAT, "'source_labels' has '%s' twice", text);
    }
    return s->source != NULL;
}

static bool read_sources(struct wn_saliency *s, const struct wn_npz *z, struct wn_err *err)
{
    const struct wn_npy *a = wn_npz_find(z, "per_source");
    uint64_t shape[3] = {a ? a->shape[0] : 0, s->layer_count, s->expert_count}, half[2] = {2, shape[0]};

    if (!a)
        return true;
    if (a->dims != 3 || shape[0] == 0 || shape[0] > SOURCES_MAX)
        return wn_fail(err, WN_ERR_FORMAT, "'per_source' is not an array of sources, layers and experts");
    s->source_count = (uint32_t)shape[0];
    if (!read_labels(s, z, err))
        return false;
    for (unsigned k = 0; k < WN_SUM_INPUT; k++)
        if (!take_sum(s, z, k, err))
            return false;
    if (!wn_archive_take_counts(z, "per_source_counts", 3, shape, &s->source_counts, err) ||
        !wn_archive_take_counts(z, "source_tokens", 1, shape, &s->source_tokens, err) ||
        !wn_archive_take_sums(z, "max_norm", 3, shape, &s->max_norm, err) ||
        !wn_archive_take_counts(z, "source_half_tokens", 2, half, &s->source_half_tokens, err) ||
        !wn_archive_take_counts(z, "source_sequences", 1, shape, &s->source_sequences, err))
        return false;
    if (!s->source_counts &&
        !(s->source_counts = wn_alloc((size_t)(shape[0] * shape[1] * shape[2]), sizeof(*s->source_counts), err)))
        return false;
    if (!s->source_tokens && !(s->source_tokens = wn_alloc((size_t)shape[0], sizeof(*s->source_tokens), err)))
        return false;
    return true;
}

/* The list of a merged archive. */
static bool read_corpora(struct wn_saliency *s, const struct wn_npz *z, struct wn_err *err)
{
    const struct wn_npy *a = wn_npz_find(z, "winnow_corpora");

    if (!a || a->kind != WN_NPY_UNICODE || a->dims != 1 || a->elements == 0)
        return true;
    if (a->elements > CORPORA_MAX)
        return wn_fail(err, WN_ERR_FORMAT, "'winnow_corpora' has %" PRIu64 " entries, more than %d", a->elements,
                       CORPORA_MAX);
    s->corpora = wn_alloc(a->elements, sizeof *s->corpora, err);
    if (!s->corpora)
        return false;
    for (; s->corpus_count < a->elements; s->corpus_count++)
        if (!wn_npy_get_string(a, s->corpus_count, s->corpora[s->corpus_count], sizeof *s->corpora, err))
            return wn_fail_in(err, "'winnow_corpora'");
    return true;
}

static bool read_rest(struct wn_saliency *s, const struct wn_npz *z, struct wn_err *err)
{
    const struct wn_npy *mag = wn_npz_find(z, "act_mag");
    uint64_t latent = mag && mag->dims == 2 && mag->shape[1] <= UINT32_MAX ? mag->shape[1] : 0;
    uint64_t layers = s->layer_count, half[3] = {2, layers, s->expert_count}, *half_tokens = NULL;

    s->latent_size = (uint32_t)latent;
    if (!take_sum(s, z, WN_SUM_INPUT, err) || !wn_archive_take_counts(z, "act_n", 1, &layers, &s->act_n, err) ||
        !wn_archive_take_sums(z, "saliency_half", 3, half, &s->half_saliency, err) ||
        !wn_archive_take_counts(z, "half_tokens", 1, half, &half_tokens, err)) {
        free(half_tokens);
        return false;
    }
    for (int i = 0; half_tokens && i < 2; i++)
        s->half_tokens[i] = half_tokens[i];
    free(half_tokens);
    if (!s->act_n && !(s->act_n = wn_alloc(s->layer_count, sizeof(*s->act_n), err)))
        return false;
    return wn_archive_take_text(z, "winnow_model", s->model_fingerprint, sizeof(s->model_fingerprint), err) &&
           wn_archive_take_text(z, "winnow_corpus", s->corpus_fingerprint, sizeof(s->corpus_fingerprint), err) &&
           read_corpora(s, z, err) && wn_archive_take_text(z, "winnow_settings", s->settings, sizeof(s->settings), err);
}

/* The mean outputs stay in the file (saliency_means.h): only their shape is taken. */
static bool read_mean_shape(struct wn_saliency *s, const struct wn_npz *z, struct wn_err *err)
{
    const struct wn_npy *a = wn_npz_find(z, WN_MEANS_KEY);

    if (!a)
        return true;
    if (a->kind != WN_NPY_F16 || a->dims != 3 || a->shape[0] != s->layer_count || a->shape[1] != s->expert_count ||
        a->shape[2] == 0 || a->shape[2] > UINT32_MAX)
        return wn_fail(err, WN_ERR_FORMAT,
                       "'%s' is not an array of 16-bit floats of %" PRIu32 " layers, %" PRIu32 " experts and channels",
                       WN_MEANS_KEY, s->layer_count, s->expert_count);
    s->mean_width = (uint32_t)a->shape[2];
    return true;
}

/* An expert that its layer does not have can have no sum; one that it has, no more counts than tokens. */
static bool check_totals(const struct wn_saliency *s, struct wn_err *err)
{
    for (uint32_t l = 0; l < s->layer_count; l++) {
        for (uint32_t e = 0; e < s->expert_count; e++) {
            size_t at = wn_saliency_row(s, l) + e;

            if (e >= s->layer_experts[l] && (s->saliency[at] != 0 || s->counts[at] != 0))
                return wn_fail(err, WN_ERR_FORMAT,
                               "layer %" PRIu32 " has %" PRIu32 " experts, but expert %" PRIu32 " has a saliency of %g",
                               l, s->layer_experts[l], e, s->saliency[at]);
            if (s->token_count > 0 && s->counts[at] > s->token_count)
                return wn_fail(err, WN_ERR_FORMAT,
                               "layer %" PRIu32 " expert %" PRIu32 " was chosen %" PRIu64 " times in %" PRIu64
                               " tokens",
                               l, e, s->counts[at], s->token_count);
        }
    }
    return true;
}

/* Archives that do not name top_k still show it: every token chooses that many. */
static void derive_top_k(struct wn_saliency *s)
{
    for (uint32_t l = 0; s->top_k == 0 && s->token_count > 0 && l < s->layer_count; l++) {
        uint64_t sum = 0;

        for (uint32_t e = 0; e < s->expert_count; e++)
            sum += s->counts[wn_saliency_row(s, l) + e];
        if (sum > 0 && sum % s->token_count == 0 && sum / s->token_count <= s->expert_count)
            s->top_k = (uint32_t)(sum / s->token_count);
    }
}

bool wn_saliency_read(struct wn_saliency *s, const char *path, struct wn_err *err)
{
    struct wn_npz z;
    bool ok;

    *s = (struct wn_saliency){0};
    if (!wn_npz_read_but(&z, path, WN_MEANS_KEY, err))
        return false;
    ok = read_shape(s, &z, err) && read_totals(s, &z, err) && read_layers(s, &z, err) && read_sources(s, &z, err) &&
         read_rest(s, &z, err) && read_mean_shape(s, &z, err) && check_totals(s, err) &&
         wn_probes_read(&s->probes, &z, s->source_count, s->layer_count, s->expert_count, s->layer_experts, err);
    wn_npz_release(&z);
    if (ok) {
        derive_top_k(s);
        return true;
    }
    wn_saliency_release(s);
    return wn_fail_in(err, "'%s'", path);
}
