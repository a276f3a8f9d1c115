/*
 * The sums of one layer, from what the probe shows of each token:
 *
 *   count += 1;  gate += g;  norm += n;  saliency += g n;  sq += (g n)^2;  max = max(max, n)      per source and expert
 *   top2 += g n, where g is one of the token's two largest;  share += g n / |sum of g y over the token's experts|
 *   act_mag[channel] += |z[channel]|                                                              per layer
 *
 * Sums are exact (exact_sum.h), so that none depends on the order of tokens and archives can be merged to the bit.
 *
 * g is the routing weight as it multiplies the output (renormalised and scaled), n = sqrt(sum of y_i^2) the length of
 * the expert's output before that, z what the experts read.
 */
#include "jobs/calibrate/calibrate_parts.h"
#include "jobs/exact_math.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define LANES WN_EXACT_LANES

/* Squares of f32 values are exact in f64; LANES partial sums keep the adder busy, in one order for all machines. */
static double norm_of(const float *y, size_t n)
{
    double lane[LANES] = {0};
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            lane[j] += (double)y[i + j] * y[i + j];
    for (size_t j = 0; i + j < n; j++)
        lane[j] += (double)y[i + j] * y[i + j];
    return sqrt(wn_exact_fold(lane));
}

/* The length of the sum of g y: product by product in f64, channel by channel in the order of the lanes above. */
static double norm_of_sum(const float *gates, const float *outputs, size_t k, size_t width)
{
    double lane[LANES] = {0};

    for (size_t at = 0; at < width; at += LANES) {
        size_t n = width - at < LANES ? width - at : LANES;
        double sum[LANES] = {0};

        for (size_t i = 0; i < k; i++)
            for (size_t j = 0; j < n; j++)
                sum[j] += (double)gates[i] * outputs[i * width + at + j];
        for (size_t j = 0; j < n; j++)
            lane[j] += sum[j] * sum[j];
    }
    return sqrt(wn_exact_fold(lane));
}

struct norms {
    const float *gates;   /* [token][k] */
    const float *outputs; /* [token][k][width] */
    size_t k, width;
    double *norms, *totals; /* [token][k], [token] */
};

static void norms_of_token(void *arg, size_t token, unsigned worker)
{
    const struct norms *n = arg;

    (void)worker;
    for (size_t i = token * n->k; i < (token + 1) * n->k; i++)
        n->norms[i] = norm_of(n->outputs + i * n->width, n->width);
    n->totals[token] = norm_of_sum(n->gates + token * n->k, n->outputs + token * n->k * n->width, n->k, n->width);
}

/* What a token brings along for each of its experts. */
struct routed {
    uint32_t source;      /* its own ... */
    uint32_t owner, half; /* ... and its sequence's */
    double total;         /* |sum of g y| */
    size_t top[2];        /* places of its two largest gates; of equal ones the earlier */
};

static void find_top(struct routed *t, const float *gates, size_t k)
{
    t->top[0] = t->top[1] = k;
    for (size_t i = 0; i < k; i++) {
        if (t->top[0] == k || gates[i] > gates[t->top[0]]) {
            t->top[1] = t->top[0];
            t->top[0] = i;
        } else if (t->top[1] == k || gates[i] > gates[t->top[1]]) {
            t->top[1] = i;
        }
    }
}

static void add(struct wn_saliency *s, enum wn_sum k, size_t at, double v)
{
    wn_exact_add(*wn_sum_at(s, k) + at, s->low[k] + at, v);
}

/* One routed output: its expert, gate and norm, and whether the gate is among the token's top two. */
static void add_one(struct wn_saliency *s, uint32_t layer, const struct routed *t, uint32_t expert, double gate,
                    double norm, bool top)
{
    size_t at = wn_saliency_source_row(s, t->source, layer) + expert;
    double product = gate * norm;

    s->source_counts[at]++;
    add(s, WN_SUM_GATE, at, gate);
    add(s, WN_SUM_NORM, at, norm);
    add(s, WN_SUM_SALIENCY, at, product);
    add(s, WN_SUM_SQ, at, product * product);
    if (top)
        add(s, WN_SUM_TOP2, at, product);
    if (t->total > 0) /* outputs that cancel to nothing have no shares */
        add(s, WN_SUM_SHARE, at, product / t->total);
    /* not fmax: a NaN must stay to be seen, which the sums above see to */
    if (norm > s->max_norm[at])
        s->max_norm[at] = norm;
    add(s, WN_SUM_HALF, wn_saliency_source_row(s, t->half * s->source_count + t->owner, layer) + expert, product);
}

static void add_routed(void *arg, int32_t layer, const uint32_t *ids, const float *weights, const float *outputs,
                       size_t tokens, size_t k, size_t width)
{
    struct wn_records *r = arg;
    const struct wn_sequence *q = r->sequence;

    assert(r->first + tokens <= q->n);
    wn_pool_run(r->pool, norms_of_token, &(struct norms){weights, outputs, k, width, r->norms, r->totals}, tokens);
    for (size_t t = 0; t < tokens; t++) {
        struct routed token = {.source = q->labels ? q->labels[r->first + t] : q->source,
                               .owner = q->source,
                               .half = q->half,
                               .total = r->totals[t]};

        find_top(&token, weights + t * k, k);
        for (size_t i = 0; i < k; i++)
            add_one(r->sums, (uint32_t)layer, &token, ids[t * k + i], (double)weights[t * k + i], r->norms[t * k + i],
                    i == token.top[0] || i == token.top[1]);
    }
}

static void add_input(struct wn_records *r, uint32_t layer, const float *z, size_t tokens, size_t width)
{
    size_t row = (size_t)layer * r->sums->latent_size;
    double *mag = r->sums->act_mag + row, *low = r->sums->low[WN_SUM_INPUT] + row;

    assert(width == r->sums->latent_size);
    for (size_t t = 0; t < tokens; t++)
        for (size_t i = 0; i < width; i++)
            wn_exact_add(&mag[i], &low[i], fabs((double)z[t * width + i]));
    r->sums->act_n[layer] += tokens;
}

static void add_latent(void *arg, const char *name, int32_t layer, const float *data, size_t tokens, size_t width)
{
    if (strcmp(name, "latent_in") == 0)
        add_input(arg, (uint32_t)layer, data, tokens, width);
}

/* Without a latent the experts read the block's normed input. */
static void add_full_width(void *arg, const char *name, int32_t layer, const float *data, size_t tokens, size_t width)
{
    struct wn_records *r = arg;

    if (strcmp(name, "mlp_norm") == 0 && r->sums->layer_experts[layer])
        add_input(r, (uint32_t)layer, data, tokens, width);
}

void wn_records_init(struct wn_records *r, const struct wn_config *c, struct wn_saliency *sums, struct wn_pool *pool,
                     double *norms, double *totals)
{
    *r = (struct wn_records){.sums = sums, .pool = pool, .norms = norms, .totals = totals};
    r->probe = (struct wn_probe){.arg = r, .value = c->latent_size ? add_latent : add_full_width, .routed = add_routed};
}

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
        size_t first = wn_saliency_source_row(s, i, layer);

        for (uint32_t e = 0; e < s->expert_count; e++)
            if (!isfinite(s->sum_gate[first + e]) || !isfinite(s->sum_norm[first + e]) ||
                !isfinite(s->sum_sq[first + e]) || !isfinite(s->sum_share[first + e]))
                return wn_fail(err, WN_ERR_FORMAT,
                               "layer %" PRIu32 ": outputs of expert %" PRIu32 " are not finite (source '%s')", layer,
                               e, s->source[i]);
    }
    return true;
}
