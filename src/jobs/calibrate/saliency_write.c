/*
 * Writing a saliency archive (docs/formats/saliency.md). The keys come in one order and what is not known is left out,
 * so equal sums give equal files.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/checked.h"
#include "jobs/calibrate/archive_arrays.h"
#include "jobs/calibrate/saliency_means.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

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
    ok = wn_archive_put_i64(z, "moe_layers", list, 1, &moe_count, err);
    for (uint32_t l = 0; l < s->layer_count; l++)
        list[l] = s->layer_experts[l];
    ok = ok && wn_archive_put_i64(z, "expert_counts", list, 1, &shape, err);
    free(list);
    return ok && wn_archive_put_number(z, "num_experts", s->expert_count, err) &&
           wn_archive_put_number(z, "num_hidden_layers", s->layer_count, err);
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
    return wn_archive_put_f64(z, wn_sum_key(k), sum, dims, shape, err) &&
           (!sum || wn_archive_put_f64(z, key, s->low[k], dims, shape, err));
}

static bool put_sources(struct wn_npz *z, const struct wn_saliency *s, struct wn_err *err)
{
    uint64_t shape[3] = {s->source_count, s->layer_count, s->expert_count}, half[2] = {2, s->source_count};

    if (s->source_count == 0)
        return true;
    if (!wn_archive_put_texts(z, "source_labels", (const char *const *)s->source, 1, shape, err) ||
        !wn_archive_put_i64(z, "source_tokens", s->source_tokens, 1, shape, err))
        return false;
    for (unsigned k = 0; k < WN_SUM_INPUT; k++)
        if (!put_sum(z, s, k, err))
            return false;
    return wn_archive_put_counts(z, "per_source_counts", s->source_counts, 3, shape, err) &&
           wn_archive_put_f64(z, "max_norm", s->max_norm, 3, shape, err) &&
           wn_archive_put_i64(z, "source_half_tokens", s->source_half_tokens, 2, half, err) &&
           wn_archive_put_i64(z, "source_sequences", s->source_sequences, 1, shape, err);
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
    ok = wn_archive_put_texts(z, "winnow_corpora", list, 1, &n, err);
    free(list);
    return ok;
}

static bool put_all(struct wn_npz *z, const struct wn_saliency *s, struct wn_err *err)
{
    uint64_t shape[2] = {s->layer_count, s->expert_count}, half[3] = {2, s->layer_count, s->expert_count};

    return wn_archive_put_f64(z, "saliency", s->saliency, 2, shape, err) &&
           wn_archive_put_counts(z, "counts", s->counts, 2, shape, err) &&
           wn_archive_put_number(z, "n_tokens", s->token_count, err) && put_layers(z, s, err) &&
           (s->top_k == 0 || wn_archive_put_number(z, "top_k", s->top_k, err)) && put_sources(z, s, err) &&
           put_sum(z, s, WN_SUM_INPUT, err) && wn_archive_put_counts(z, "act_n", s->act_n, 1, shape, err) &&
           wn_archive_put_f64(z, "saliency_half", s->half_saliency, 3, half, err) &&
           (!s->half_saliency || wn_archive_put_i64(z, "half_tokens", s->half_tokens, 1, half, err)) &&
           wn_archive_put_text(z, "winnow_model", s->model_fingerprint, err) &&
           wn_archive_put_text(z, "winnow_corpus", s->corpus_fingerprint, err) && put_corpora(z, s, err) &&
           wn_archive_put_text(z, "winnow_settings", s->settings, err);
}

/* Layer after layer of mean outputs, as the file comes to them. */
struct filling {
    const struct wn_mean_source *source;
    uint64_t layer_bytes, layer; /* the one that `means` holds, counted from 1; 0: none yet */
    uint16_t *means;             /* owned */
};

/* wn_npz_fill_fn */
static bool fill_means(void *arg, uint64_t at, void *dst, size_t n, struct wn_err *err)
{
    struct filling *f = arg;
    char *to = dst;

    while (n > 0) {
        uint64_t layer = at / f->layer_bytes, within = at % f->layer_bytes;
        size_t take = (size_t)wn_min_u64(n, f->layer_bytes - within);

        if (f->layer != layer + 1 && !f->source->layer(f->source->arg, (uint32_t)layer, f->means, err))
            return false;
        f->layer = layer + 1;
        memcpy(to, (const char *)f->means + within, take);
        to += take;
        at += take;
        n -= take;
    }
    return true;
}

static bool put_means(struct wn_npz *z, const struct wn_saliency *s, struct filling *f, struct wn_err *err)
{
    const uint64_t shape[3] = {s->layer_count, s->expert_count, f->source ? f->source->width : 0};
    struct wn_npy a;

    if (!f->source)
        return true;
    f->layer_bytes = shape[1] * shape[2] * sizeof *f->means;
    f->means = wn_alloc((size_t)f->layer_bytes, 1, err);
    return f->means && wn_npy_shape(&a, WN_NPY_F16, 0, 3, shape, err) &&
           wn_npz_add_filled(z, WN_MEANS_KEY, &a, fill_means, f, err);
}

bool wn_saliency_write_with(const struct wn_saliency *s, const struct wn_mean_source *means, const char *path,
                            bool overwrite, struct wn_err *err)
{
    struct filling f = {.source = means};
    struct wn_npz z = {0};
    bool ok = put_all(&z, s, err) && put_means(&z, s, &f, err) && wn_npz_write(&z, path, overwrite, err);

    wn_npz_release(&z);
    free(f.means);
    return ok;
}

bool wn_saliency_write(const struct wn_saliency *s, const char *path, bool overwrite, struct wn_err *err)
{
    return wn_saliency_write_with(s, NULL, path, overwrite, err);
}
