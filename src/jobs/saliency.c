/*
 * See saliency.h: making, adding up and naming an archive. saliency_read.c and saliency_write.c move it from and to a
 * file.
 */
#include "jobs/saliency.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "jobs/fingerprint.h"
#include "sys/file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HASH_STEP ((size_t)1 << 20)

static bool take_labels(struct wn_saliency *s, const char *const *labels, struct wn_err *err)
{
    s->source = wn_alloc(s->source_count, sizeof(*s->source), err);
    if (!s->source)
        return false;
    for (uint32_t i = 0; i < s->source_count; i++) {
        if (!*labels[i])
            return wn_fail(err, WN_ERR_ARG, "source %" PRIu32 " has an empty label", i);
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(labels[i], labels[k]) == 0)
                return wn_fail(err, WN_ERR_ARG, "source label '%s' stands twice", labels[i]);
        s->source[i] = wn_strdup(labels[i], err);
        if (!s->source[i])
            return false;
    }
    return true;
}

static bool take_layers(struct wn_saliency *s, const uint32_t *layer_experts, struct wn_err *err)
{
    s->layer_experts = wn_alloc(s->layer_count, sizeof(*s->layer_experts), err);
    if (!s->layer_experts)
        return false;
    for (uint32_t l = 0; l < s->layer_count; l++) {
        s->layer_experts[l] = layer_experts[l];
        if (layer_experts[l] > s->expert_count)
            s->expert_count = layer_experts[l];
    }
    if (s->expert_count == 0)
        return wn_fail(err, WN_ERR_ARG, "none of the %" PRIu32 " layers has experts", s->layer_count);
    return true;
}

static bool take_sums(struct wn_saliency *s, struct wn_err *err)
{
    size_t all = (size_t)s->layer_count * s->expert_count, each = s->source_count * all;

    return (s->source_tokens = wn_alloc(s->source_count, sizeof(*s->source_tokens), err)) &&
           (s->saliency = wn_alloc(all, sizeof(double), err)) && (s->counts = wn_alloc(all, sizeof(uint64_t), err)) &&
           (s->source_saliency = wn_alloc(each, sizeof(double), err)) &&
           (s->source_counts = wn_alloc(each, sizeof(uint64_t), err)) &&
           (s->sum_gate = wn_alloc(each, sizeof(double), err)) && (s->sum_norm = wn_alloc(each, sizeof(double), err)) &&
           (s->sum_sq = wn_alloc(each, sizeof(double), err)) && (s->max_norm = wn_alloc(each, sizeof(double), err)) &&
           (s->sum_top2 = wn_alloc(each, sizeof(double), err)) &&
           (s->sum_share = wn_alloc(each, sizeof(double), err)) &&
           (s->half_saliency = wn_alloc(2 * all, sizeof(double), err)) &&
           (s->latent_size == 0 ||
            (s->act_mag = wn_alloc((size_t)s->layer_count * s->latent_size, sizeof(double), err))) &&
           (s->act_n = wn_alloc(s->layer_count, sizeof(uint64_t), err));
}

bool wn_saliency_init(struct wn_saliency *s, uint32_t layer_count, const uint32_t *layer_experts, uint32_t top_k,
                      uint32_t latent_size, uint32_t source_count, const char *const *labels, struct wn_err *err)
{
    *s = (struct wn_saliency){
        .layer_count = layer_count, .top_k = top_k, .latent_size = latent_size, .source_count = source_count};
    if (take_layers(s, layer_experts, err) && take_labels(s, labels, err) && take_sums(s, err))
        return true;
    wn_saliency_release(s);
    return false;
}

void wn_saliency_release(struct wn_saliency *s)
{
    for (uint32_t i = 0; s->source && i < s->source_count; i++)
        free(s->source[i]);
    free(s->source);
    free(s->layer_experts);
    free(s->source_tokens);
    free(s->saliency);
    free(s->counts);
    free(s->source_saliency);
    free(s->source_counts);
    free(s->sum_gate);
    free(s->sum_norm);
    free(s->sum_sq);
    free(s->max_norm);
    free(s->sum_top2);
    free(s->sum_share);
    free(s->act_mag);
    free(s->act_n);
    free(s->half_saliency);
    *s = (struct wn_saliency){0};
}

void wn_saliency_add_up(struct wn_saliency *s)
{
    size_t all = (size_t)s->layer_count * s->expert_count;

    memset(s->saliency, 0, all * sizeof(*s->saliency));
    memset(s->counts, 0, all * sizeof(*s->counts));
    s->token_count = 0;
    for (uint32_t i = 0; i < s->source_count; i++) {
        const double *sum = s->source_saliency + i * all;
        const uint64_t *count = s->source_counts + i * all;

        for (size_t k = 0; k < all; k++) {
            s->saliency[k] += sum[k];
            s->counts[k] += count[k];
        }
        s->token_count += s->source_tokens[i];
    }
}

static bool hash_file(struct wn_fingerprint *print, const struct wn_file *f, uint8_t *buffer, char out[17],
                      struct wn_err *err)
{
    uint8_t digest[WN_DIGEST_BYTES];

    for (uint64_t at = 0; at < f->bytes; at += HASH_STEP) {
        size_t n = (size_t)wn_min_u64(HASH_STEP, f->bytes - at);

        if (!wn_file_read(f, at, buffer, n, err) || !wn_fingerprint_add(print, buffer, n, err))
            return false;
    }
    if (!wn_fingerprint_end(print, digest, err))
        return false;
    wn_fingerprint_text(digest, out);
    return true;
}

bool wn_saliency_fingerprint(const char *path, char out[17], struct wn_err *err)
{
    struct wn_fingerprint print = {0};
    struct wn_file f;
    uint8_t *buffer;
    bool ok;

    if (!wn_file_open(&f, path, err))
        return false;
    buffer = wn_alloc(HASH_STEP, 1, err);
    ok = buffer && wn_fingerprint_begin(&print, err) && hash_file(&print, &f, buffer, out, err);
    free(buffer);
    wn_fingerprint_release(&print);
    wn_file_close(&f);
    return ok;
}
