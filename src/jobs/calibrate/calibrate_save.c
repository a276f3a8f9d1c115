/*
 * A layer's sums as bytes, for the work folder, and the look at them before they go there.
 */
#include "jobs/calibrate/calibrate_parts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum direction { COUNT, SAVE, LOAD };

/* Moves n bytes between the sums and the record at *at, which goes on. */
static void move(enum direction d, char *record, size_t *at, void *sums, size_t n)
{
    if (d == SAVE)
        memcpy(record + *at, sums, n);
    else if (d == LOAD)
        memcpy(sums, record + *at, n);
    *at += n;
}

/* Row after row of that layer; the sums' pointers are only asked for their places. */
static size_t walk(const struct wn_saliency *s, uint32_t layer, char *record, enum direction d)
{
    struct wn_saliency *sums = (struct wn_saliency *)(uintptr_t)s;
    size_t at = 0;

    for (unsigned k = 0; k < WN_SUMS; k++) {
        size_t width = wn_sum_width(s, k), row = width * sizeof(double), blocks = width ? wn_sum_blocks(s, k) : 0;

        for (size_t b = 0; b < blocks; b++) {
            move(d, record, &at, *wn_sum_at(sums, k) + (b * s->layer_count + layer) * width, row);
            move(d, record, &at, s->low[k] + (b * s->layer_count + layer) * width, row);
        }
    }
    for (uint32_t i = 0; i < s->source_count; i++) {
        size_t first = wn_saliency_source_row(s, i, layer);

        move(d, record, &at, s->source_counts + first, s->expert_count * sizeof *s->source_counts);
        move(d, record, &at, s->max_norm + first, s->expert_count * sizeof *s->max_norm);
    }
    move(d, record, &at, s->act_n + layer, sizeof *s->act_n);
    return at;
}

size_t wn_record_save(const struct wn_saliency *s, uint32_t layer, char *record)
{
    return walk(s, layer, record, record ? SAVE : COUNT);
}

void wn_record_load(struct wn_saliency *s, uint32_t layer, const char *record)
{
    (void)walk(s, layer, (char *)(uintptr_t)record, LOAD);
}

bool wn_record_check(const struct wn_saliency *s, uint32_t layer, struct wn_err *err)
{
    for (uint32_t i = 0; i < s->source_count; i++) {
        size_t first = wn_saliency_source_row(s, i, layer), at = (size_t)i * s->layer_count + layer;

        for (uint32_t e = 0; e < s->expert_count; e++)
            if (!isfinite(s->sum_gate[first + e]) || !isfinite(s->sum_norm[first + e]) ||
                !isfinite(s->sum_sq[first + e]) || !isfinite(s->sum_share[first + e]) ||
                !isfinite(s->loo_sq[first + e]))
                return wn_fail(err, WN_ERR_FORMAT,
                               "layer %" PRIu32 ": outputs of expert %" PRIu32 " are not finite (source '%s')", layer,
                               e, s->source[i]);
        if (!isfinite(s->loo_up_sq[at]) || !isfinite(s->residual_norm[at]))
            return wn_fail(err, WN_ERR_FORMAT, "layer %" PRIu32 ": its residual mix is not finite (source '%s')", layer,
                           s->source[i]);
    }
    return true;
}
