/*
 * Mean outputs of several archives: of each expert the mean over all tokens that chose it, which is theirs weighted by
 * their counts. Theirs are rounded to 16 bits, so it is not, to the last bit, that of one run over all tokens. While
 * the merged archive is written, a layer of each is in memory at a time.
 */
#include "base/alloc.h"
#include "base/bits.h"
#include "jobs/calibrate/merge_parts.h"
#include "quant/quant.h"

#include <stdlib.h>
#include <string.h>

bool wn_merge_means_take(struct wn_merge_means *m, const struct wn_saliency *s, const char *path, struct wn_err *err)
{
    size_t entries = (size_t)s->layer_count * s->expert_count;
    struct wn_merge_mean *grown = wn_realloc(m->of, m->count + 1, sizeof *grown, err);
    struct wn_means *means;

    if (!grown)
        return false;
    m->of = grown;
    m->of[m->count] = (struct wn_merge_mean){.counts = wn_alloc(entries, sizeof(uint64_t), err)};
    if (!m->of[m->count++].counts)
        return false;
    memcpy(m->of[m->count - 1].counts, s->counts, entries * sizeof(uint64_t));
    m->expert_count = s->expert_count;
    m->width = s->mean_width;
    means = m->of[m->count - 1].means = wn_means_open(path, err);
    return means &&
           ((means->layers == s->layer_count && means->experts == s->expert_count && means->width == s->mean_width) ||
            wn_fail(err, WN_ERR_IO, "'%s' changed while it was read", path));
}

/* sum += count times mean, for each expert of the layer. */
static bool add_layer(struct wn_merge_means *m, struct wn_merge_mean *of, uint32_t layer, struct wn_err *err)
{
    for (uint32_t e = 0; e < m->expert_count; e++) {
        double count = (double)of->counts[layer * (size_t)m->expert_count + e], *sum = m->sum + (size_t)e * m->width;
        const uint8_t *mean = wn_means_row(of->means, layer, e, err);

        if (!mean)
            return false;
        m->all[e] += count;
        for (size_t i = 0; i < m->width; i++)
            sum[i] += count * (double)wn_f16_to_f32(wn_load16(mean + 2 * i));
    }
    return true;
}

/* struct wn_mean_source */
static bool merged_means(void *arg, uint32_t layer, uint16_t *means, struct wn_err *err)
{
    struct wn_merge_means *m = arg;
    size_t n = (size_t)m->expert_count * m->width;
    double worst;

    memset(m->sum, 0, n * sizeof *m->sum);
    memset(m->all, 0, m->expert_count * sizeof *m->all);
    for (size_t i = 0; i < m->count; i++)
        if (!add_layer(m, &m->of[i], layer, err))
            return false;
    for (size_t e = 0; e < m->expert_count; e++)
        if (!wn_means_round(m->sum + e * m->width, m->all[e], m->width, means + e * m->width, &worst))
            return wn_fail(err, WN_ERR_FORMAT, "mean outputs cannot be merged to %g", worst);
    return true;
}

bool wn_merge_means_source(struct wn_merge_means *m, struct wn_mean_source *source, struct wn_err *err)
{
    m->sum = wn_alloc((size_t)m->expert_count * m->width, sizeof *m->sum, err);
    m->all = m->sum ? wn_alloc(m->expert_count, sizeof *m->all, err) : NULL;
    *source = (struct wn_mean_source){m->width, merged_means, m};
    return m->all != NULL;
}

void wn_merge_means_release(struct wn_merge_means *m)
{
    for (size_t i = 0; i < m->count; i++) {
        wn_means_close(m->of[i].means);
        free(m->of[i].counts);
    }
    free(m->of);
    free(m->sum);
    free(m->all);
    *m = (struct wn_merge_means){0};
}
