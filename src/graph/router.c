/*
 * Which experts a token takes, and how much of each:
 *
 *   score = sigmoid(x . gate);  choice = score + bias;  the top k by falling choice, then score, then rising index
 *   weight = score / (sum of the chosen scores + 1e-20) * routed_scaling_factor
 *
 * The bias chooses and never weighs. All in f32; the chosen scores are summed in that order, so that a pruned model has
 * the bits of the full one with the dropped experts masked. Only experts that equal each other in choice and score are
 * told apart by their numbers: for them it takes a plan that keeps their order, as a sorted one does.
 */
#include "graph/blocks.h"

#include <assert.h>
#include <math.h>

static bool before(const float *choice, const float *scores, uint32_t a, uint32_t b)
{
    return choice[a] > choice[b] || (choice[a] == choice[b] && scores[a] > scores[b]);
}

/* Puts expert e, which has a higher index than all of them, into the ordered list of the n best so far (room k). */
static size_t insert(uint32_t *ids, size_t n, size_t k, const float *choice, const float *scores, uint32_t e)
{
    size_t at = n;

    while (at > 0 && before(choice, scores, e, ids[at - 1]))
        at--;
    if (at == k)
        return n;
    if (n < k)
        n++;
    for (size_t i = n - 1; i > at; i--)
        ids[i] = ids[i - 1];
    ids[at] = e;
    return n;
}

static bool chosen(const uint32_t *ids, size_t n, uint32_t e)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == e)
            return true;
    return false;
}

/*
 * Fills ids[k] in order. Scores that are no numbers have no order: if they leave room, it is filled with the
 * lowest experts that may be chosen, so that a damaged weight gives NaN logits and not a stray index.
 */
static void choose(const float *choice, const float *scores, const float *bias, uint32_t experts, size_t k,
                   uint32_t *ids)
{
    size_t n = 0;

    for (uint32_t e = 0; e < experts; e++)
        if (choice[e] > -INFINITY)
            n = insert(ids, n, k, choice, scores, e);
    for (int masked = 0; masked <= 1; masked++)
        for (uint32_t e = 0; e < experts && n < k; e++)
            if ((bias[e] > -INFINITY) != masked && !chosen(ids, n, e))
                ids[n++] = e;
}

struct routing {
    const struct wn_ctx *ctx;
    const float *bias;
    size_t experts, listed;
    float *scores, *choice, *weights;
    uint32_t *ids;
};

static void route_piece(void *arg, size_t token, unsigned worker)
{
    const struct routing *r = arg;
    const struct wn_config *c = r->ctx->config;
    size_t k = c->experts_per_token;
    float *scores = r->scores + token * r->experts, *choice = r->choice + token * r->experts;
    float *weights = r->weights + token * r->listed, sum = 0.0f;
    uint32_t *ids = r->ids + token * r->listed;

    (void)worker;
    r->ctx->kernels->sigmoid(scores, scores, r->experts);
    r->ctx->kernels->add(scores, r->bias, choice, r->experts);
    choose(choice, scores, r->bias, (uint32_t)r->experts, r->listed, ids);
    for (size_t i = 0; i < k; i++)
        sum += scores[ids[i]];
    for (size_t i = 0; i < r->listed; i++)
        weights[i] = (c->renormalize ? scores[ids[i]] / (sum + 1e-20f) : scores[ids[i]]) * c->routed_scaling_factor;
}

void wn_router_choose(const struct wn_ctx *ctx, const float *bias, size_t experts, size_t tokens, size_t listed,
                      float *scores, float *choice, uint32_t *ids, float *weights)
{
    struct routing r = {ctx, bias, experts, listed, scores, choice, weights, ids};

    assert(listed >= ctx->config->experts_per_token && listed <= experts);
    wn_pool_run(ctx->pool, route_piece, &r, tokens);
}
