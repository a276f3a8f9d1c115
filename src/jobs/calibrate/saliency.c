/*
 * See saliency.h: making, adding up and naming an archive. saliency_read.c and saliency_write.c move it from and to a
 * file.
 */
#include "jobs/calibrate/saliency.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "jobs/fingerprint.h"
#include "sys/file.h"

#include <inttypes.h>
#include <stddef.h>
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

/* What the sums are; the blocks are of sources (two of each for halves), or there is one for all. */
static const struct sum {
    const char *key;
    size_t pointer;
    enum { OF_SOURCES, OF_HALVES, OF_ALL } blocks;
    enum { EXPERTS, CHANNELS, LAYER } width;
} sums[WN_SUMS] = {
    [WN_SUM_SALIENCY] = {"per_source", offsetof(struct wn_saliency, source_saliency), OF_SOURCES, EXPERTS},
    [WN_SUM_GATE] = {"sum_gate", offsetof(struct wn_saliency, sum_gate), OF_SOURCES, EXPERTS},
    [WN_SUM_NORM] = {"sum_norm", offsetof(struct wn_saliency, sum_norm), OF_SOURCES, EXPERTS},
    [WN_SUM_SQ] = {"sum_sq", offsetof(struct wn_saliency, sum_sq), OF_SOURCES, EXPERTS},
    [WN_SUM_TOP2] = {"sum_top2", offsetof(struct wn_saliency, sum_top2), OF_SOURCES, EXPERTS},
    [WN_SUM_SHARE] = {"sum_share", offsetof(struct wn_saliency, sum_share), OF_SOURCES, EXPERTS},
    [WN_SUM_LOO] = {"loo", offsetof(struct wn_saliency, loo), OF_SOURCES, EXPERTS},
    [WN_SUM_LOO_SQ] = {"loo_sq", offsetof(struct wn_saliency, loo_sq), OF_SOURCES, EXPERTS},
    [WN_SUM_LOO_UP] = {"loo_up", offsetof(struct wn_saliency, loo_up), OF_SOURCES, LAYER},
    [WN_SUM_LOO_UP_SQ] = {"loo_up_sq", offsetof(struct wn_saliency, loo_up_sq), OF_SOURCES, LAYER},
    [WN_SUM_RESIDUAL] = {"residual_norm", offsetof(struct wn_saliency, residual_norm), OF_SOURCES, LAYER},
    [WN_SUM_HALF] = {"per_source_half", offsetof(struct wn_saliency, source_half), OF_HALVES, EXPERTS},
    [WN_SUM_INPUT] = {"act_mag", offsetof(struct wn_saliency, act_mag), OF_ALL, CHANNELS},
};

const char *wn_sum_key(enum wn_sum k)
{
    return sums[k].key;
}

double **wn_sum_at(struct wn_saliency *s, enum wn_sum k)
{
    return (double **)(void *)((char *)s + sums[k].pointer);
}

size_t wn_sum_blocks(const struct wn_saliency *s, enum wn_sum k)
{
    return sums[k].blocks == OF_ALL ? 1 : sums[k].blocks == OF_HALVES ? (size_t)2 * s->source_count : s->source_count;
}

uint32_t wn_sum_width(const struct wn_saliency *s, enum wn_sum k)
{
    return sums[k].width == CHANNELS ? s->latent_size : sums[k].width == EXPERTS ? s->expert_count : 1;
}

uint32_t wn_sum_shape(const struct wn_saliency *s, enum wn_sum k, uint64_t shape[4])
{
    uint32_t n = 0;

    if (sums[k].blocks == OF_HALVES)
        shape[n++] = 2;
    if (sums[k].blocks != OF_ALL)
        shape[n++] = s->source_count;
    shape[n++] = s->layer_count;
    if (sums[k].width != LAYER)
        shape[n++] = wn_sum_width(s, k);
    return n;
}

static bool take_sums(struct wn_saliency *s, struct wn_err *err)
{
    size_t all = (size_t)s->layer_count * s->expert_count, each = s->source_count * all;

    for (unsigned k = 0; k < WN_SUMS; k++) {
        size_t n = wn_sum_blocks(s, k) * s->layer_count * wn_sum_width(s, k);
        double **sum = wn_sum_at(s, k);

        if (n && (!(*sum = wn_alloc(n, sizeof(double), err)) || !(s->low[k] = wn_alloc(n, sizeof(double), err))))
            return false;
    }
    return (s->source_tokens = wn_alloc(s->source_count, sizeof(*s->source_tokens), err)) &&
           (s->saliency = wn_alloc(all, sizeof(double), err)) && (s->counts = wn_alloc(all, sizeof(uint64_t), err)) &&
           (s->source_counts = wn_alloc(each, sizeof(uint64_t), err)) &&
           (s->max_norm = wn_alloc(each, sizeof(double), err)) &&
           (s->half_saliency = wn_alloc(2 * all, sizeof(double), err)) &&
           (s->source_half_tokens = wn_alloc(2 * (size_t)s->source_count, sizeof(uint64_t), err)) &&
           (s->source_sequences = wn_alloc(s->source_count, sizeof(uint64_t), err)) &&
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
    for (unsigned k = 0; k < WN_SUMS; k++) {
        free(*wn_sum_at(s, k));
        free(s->low[k]);
    }
    free(s->source);
    free(s->layer_experts);
    free(s->source_tokens);
    free(s->saliency);
    free(s->counts);
    free(s->source_counts);
    free(s->max_norm);
    free(s->act_n);
    free(s->half_saliency);
    free(s->source_half_tokens);
    free(s->source_sequences);
    free(s->corpora);
    wn_probes_release(&s->probes);
    *s = (struct wn_saliency){0};
}

void wn_saliency_settle(struct wn_saliency *s, uint32_t layer)
{
    for (unsigned k = 0; k < WN_SUMS; k++) {
        double *sum = *wn_sum_at(s, k), *low = s->low[k];
        size_t width = wn_sum_width(s, k), blocks = wn_sum_blocks(s, k);

        for (size_t b = 0; sum && low && b < blocks; b++)
            for (size_t i = (b * s->layer_count + layer) * width, end = i + width; i < end; i++)
                wn_exact_settle(&sum[i], &low[i]);
    }
}

/* out[n] becomes the sum of its blocks [blocks][n], each the nearest double to the exact one. */
static void add_blocks(const double *sum, const double *low, size_t blocks, size_t n, double *out)
{
    for (size_t i = 0; i < n; i++) {
        double part = 0;

        out[i] = 0;
        for (size_t b = 0; b < blocks; b++) {
            wn_exact_add(&out[i], &part, sum[b * n + i]);
            if (low)
                wn_exact_add(&out[i], &part, low[b * n + i]);
        }
        out[i] += part;
    }
}

void wn_saliency_total(struct wn_saliency *s)
{
    add_blocks(s->source_saliency, s->low[WN_SUM_SALIENCY], s->source_count, (size_t)s->layer_count * s->expert_count,
               s->saliency);
}

void wn_saliency_add_up(struct wn_saliency *s)
{
    size_t all = (size_t)s->layer_count * s->expert_count;

    wn_saliency_total(s);
    memset(s->counts, 0, all * sizeof(*s->counts));
    s->token_count = 0;
    for (uint32_t i = 0; i < s->source_count; i++) {
        for (size_t k = 0; k < all; k++)
            s->counts[k] += s->source_counts[i * all + k];
        s->token_count += s->source_tokens[i];
    }
}

void wn_saliency_add_halves(struct wn_saliency *s)
{
    size_t all = (size_t)s->layer_count * s->expert_count, half = s->source_count * all;
    const double *low = s->low[WN_SUM_HALF];

    for (uint32_t h = 0; h < 2; h++) {
        add_blocks(s->source_half + h * half, low ? low + h * half : NULL, s->source_count, all,
                   s->half_saliency + h * all);
        s->half_tokens[h] = 0;
        for (uint32_t i = 0; i < s->source_count; i++)
            s->half_tokens[h] += s->source_half_tokens[h * s->source_count + i];
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
