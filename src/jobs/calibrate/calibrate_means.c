/*
 * The mean output of each expert of a layer: summed in f64, a channel's tokens in their order, so that threads and
 * chunks change nothing; rounded to 16 bits when the layer is done, and put behind its record in the work folder, from
 * where the archive is written.
 */
#include "jobs/calibrate/calibrate_run.h"

#include "base/checked.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_CHANNELS 256

struct adding {
    const struct wn_records *r;
    const uint32_t *ids;
    const float *outputs;
    size_t tokens, listed, width;
};

static void add_piece(void *arg, size_t piece, unsigned worker)
{
    const struct adding *a = arg;
    size_t first = piece * PIECE_CHANNELS, n = wn_min_size(PIECE_CHANNELS, a->width - first), k = a->r->top_k;

    (void)worker;
    for (size_t t = 0; t < a->tokens; t++)
        for (size_t i = t * a->listed; i < t * a->listed + k; i++) {
            uint32_t expert = wn_record_expert(a->r, a->ids[i]);
            const float *y = a->outputs + i * a->width + first;
            double *sum;

            if (expert == WN_NO_EXPERT)
                continue;
            sum = a->r->room->mean_sums + (size_t)expert * a->width + first;
            for (size_t at = 0; at < n; at++)
                sum[at] += (double)y[at];
        }
}

void wn_record_add_means(const struct wn_records *r, const uint32_t *ids, const float *outputs, size_t tokens,
                         size_t listed, size_t width)
{
    struct adding a = {r, ids, outputs, tokens, listed, width};

    if (r->room->mean_sums)
        wn_pool_run(r->ctx->pool, add_piece, &a, (width + PIECE_CHANNELS - 1) / PIECE_CHANNELS);
}

bool wn_record_means(const struct wn_records *r, uint32_t layer, uint16_t *means, struct wn_err *err)
{
    const struct wn_saliency *s = r->sums;
    size_t width = wn_expert_width(r->ctx->config);

    for (uint32_t e = 0; e < s->expert_count; e++) {
        uint64_t count = 0;
        double worst;

        for (uint32_t i = 0; i < s->source_count; i++)
            count += s->source_counts[wn_saliency_source_row(s, i, layer) + e];
        if (!wn_means_round(r->room->mean_sums + e * width, (double)count, (uint32_t)width, means + e * width, &worst))
            return wn_fail(err, WN_ERR_FORMAT,
                           "the mean output of expert %" PRIu32 " has a channel of %g, and 16-bit floats end at 65504: "
                           "calibrate without means",
                           e, worst);
    }
    return true;
}

/* struct wn_mean_source: what the work folder has of a layer. */
static bool stored_means(void *arg, uint32_t layer, uint16_t *means, struct wn_err *err)
{
    const struct wn_calibration_run *r = arg;
    char *record = wn_store_get_record(&r->store, layer, r->record_bytes, err);

    if (!record)
        return false;
    memcpy(means, record + r->sum_bytes, wn_calibration_mean_bytes(&r->c));
    free(record);
    return true;
}

struct wn_mean_source wn_calibration_means(struct wn_calibration_run *r)
{
    return (struct wn_mean_source){wn_expert_width(r->c.config), stored_means, r};
}
