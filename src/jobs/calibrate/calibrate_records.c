/*
 * The sums of one layer, from what the probe shows of each token:
 *
 *   count += 1;  gate += g;  norm += n;  saliency += g n;  sq += (g n)^2;  max = max(max, n)      per source and expert
 *   top2 += g n, where g is one of the token's two largest;  share += g n / |sum of g y over the token's experts|
 *   loo += c;  loo_sq += c^2
 *   loo_up += k u;  loo_up_sq += k u^2;  residual_norm += |m|                                     per source and layer
 *   act_mag[channel] += |z[channel]|                                                              per layer
 *
 * Sums are exact (exact_sum.h), so that none depends on the order of tokens and archives can be merged to the bit.
 *
 * g is the routing weight as it multiplies the output (renormalised and scaled), n = sqrt(sum of y_i^2) the length of
 * the expert's output before that, c how far the token's normed routed output moves without the expert
 * (calibrate_change.c), z what the experts read, m the residual mix that enters the block.
 *
 * u is the change behind the way up, by |m|, of one of the token's k experts, so that a token takes the way up once
 * more and not k times: the experts take turns by the token's place in its sequence, which makes k u the sum over all
 * of them without a bias. The change is rounded to f32 for that, as everything is that goes through a matrix.
 */
#include "jobs/calibrate/calibrate_parts.h"

#include <assert.h>
#include <math.h>
#include <string.h>

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

/* One routed output. */
struct output {
    uint32_t expert;
    double gate, norm, change;
    bool top; /* the gate is among the token's top two */
};

static void add_one(struct wn_saliency *s, uint32_t layer, const struct routed *t, const struct output *o)
{
    size_t at = wn_saliency_source_row(s, t->source, layer) + o->expert;
    double gate = o->gate, norm = o->norm, product = gate * norm;

    s->source_counts[at]++;
    add(s, WN_SUM_GATE, at, gate);
    add(s, WN_SUM_NORM, at, norm);
    add(s, WN_SUM_SALIENCY, at, product);
    add(s, WN_SUM_SQ, at, product * product);
    if (o->top)
        add(s, WN_SUM_TOP2, at, product);
    if (t->total > 0) /* outputs that cancel to nothing have no shares */
        add(s, WN_SUM_SHARE, at, product / t->total);
    add(s, WN_SUM_LOO, at, o->change);
    add(s, WN_SUM_LOO_SQ, at, o->change * o->change);
    /* not fmax: a NaN must stay to be seen, which the sums above see to */
    if (norm > s->max_norm[at])
        s->max_norm[at] = norm;
    add(s, WN_SUM_HALF, wn_saliency_source_row(s, t->half * s->source_count + t->owner, layer) + o->expert, product);
}

/* The layer as a whole, from one expert's change: its length behind the way up, the mix's length. */
static void add_layer(struct wn_saliency *s, uint32_t layer, uint32_t source, size_t k, double risen, double mix)
{
    size_t at = (size_t)source * s->layer_count + layer;
    double share = risen / mix;

    add(s, WN_SUM_RESIDUAL, at, mix);
    if (!(mix > 0)) /* nothing is changed by a share of it; a NaN stays in the sum above */
        return;
    add(s, WN_SUM_LOO_UP, at, (double)k * share);
    add(s, WN_SUM_LOO_UP_SQ, at, (double)k * share * share);
}

/* Lengths of the changes in turn behind the way up, all tokens at once. */
static void lift_changes(struct wn_records *r, size_t tokens, size_t width)
{
    const struct wn_ctx *ctx = r->ctx;
    const struct wn_record_room *room = r->room;

    if (ctx->config->latent_size) {
        wn_linear(ctx, &r->layer->mixture.latent_up, room->change, tokens, room->up);
        wn_row_lengths(ctx->pool, room->up, tokens, ctx->config->hidden_size, room->risen);
    } else {
        wn_row_lengths(ctx->pool, room->change, tokens, width, room->risen);
    }
}

static void add_token(struct wn_records *r, uint32_t layer, size_t t, const uint32_t *ids, const float *gates)
{
    const struct wn_sequence *q = r->sequence;
    const struct wn_record_room *room = r->room;
    size_t k = r->top_k;
    struct routed token = {.source = q->labels ? q->labels[r->first + t] : q->source,
                           .owner = q->source,
                           .half = q->half,
                           .total = room->totals[t]};

    find_top(&token, gates, k);
    for (size_t i = 0; i < k; i++) {
        const struct output o = {wn_record_expert(r, ids[i]), (double)gates[i], room->norms[t * k + i],
                                 room->changes[t * k + i], i == token.top[0] || i == token.top[1]};

        if (o.expert != WN_NO_EXPERT)
            add_one(r->sums, layer, &token, &o);
    }
    add_layer(r->sums, layer, token.source, k, room->risen[t], room->mixes[t]);
}

static void add_routed(void *arg, int32_t layer, const uint32_t *ids, const float *weights, const float *outputs,
                       size_t tokens, size_t listed, size_t width)
{
    struct wn_records *r = arg;
    const struct wn_config *c = r->ctx->config;
    const struct wn_changes changes = {.room = r->room,
                                       .gates = weights,
                                       .outputs = outputs,
                                       .k = r->top_k,
                                       .listed = listed,
                                       .width = width,
                                       .renormalize = c->renormalize,
                                       .norm = r->layer->mixture.latent_norm,
                                       .eps = (double)c->rms_norm_eps,
                                       .first = r->first};

    assert(r->first + tokens <= r->sequence->n && (listed == r->top_k || listed == r->top_k + 1));
    wn_changes_of(&changes, r->ctx->pool, tokens);
    lift_changes(r, tokens, width);
    for (size_t t = 0; t < tokens; t++)
        add_token(r, (uint32_t)layer, t, ids + t * listed, weights + t * listed);
    wn_record_add_means(r, ids, outputs, tokens, listed, width);
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

static void take_value(void *arg, const char *name, int32_t layer, const float *data, size_t tokens, size_t width)
{
    struct wn_records *r = arg;

    if (layer < 0 || !r->sums->layer_experts[layer])
        return;
    if (strcmp(name, r->input) == 0)
        add_input(r, (uint32_t)layer, data, tokens, width);
    if (strcmp(name, "mlp_mix") == 0)
        wn_row_lengths(r->ctx->pool, data, tokens, width, r->room->mixes);
}

void wn_records_init(struct wn_records *r, const struct wn_ctx *ctx, struct wn_saliency *sums,
                     const struct wn_record_room *room)
{
    *r = (struct wn_records){.sums = sums, .ctx = ctx, .room = room, .top_k = ctx->config->experts_per_token};
    r->input = ctx->config->latent_size ? "latent_in" : "mlp_norm"; /* without a latent the block's normed input */
    r->probe = (struct wn_probe){.arg = r, .value = take_value, .routed = add_routed, .runner_up = true};
}

void wn_records_begin(struct wn_records *r, const struct wn_layer *layer)
{
    size_t sums = (size_t)r->sums->expert_count * wn_expert_width(r->ctx->config);

    r->layer = layer;
    if (r->room->mean_sums)
        memset(r->room->mean_sums, 0, sums * sizeof *r->room->mean_sums);
}
