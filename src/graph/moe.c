/*
 * The mixture of experts. A token is routed from its full width, goes down to the experts' width (the latent; models
 * without one stay at full width), through its k experts, is summed, normed and brought up; the shared experts read the
 * full width:
 *
 *   z = W_down x;  y = sum over ranks of w_e * expert_e(z), from +0 by falling choice with fused multiply-adds
 *   out = W_up RMSNorm(y) + shared(x)
 *
 * A (token, rank) pair is one row of work. Rows are grouped by expert, so that each weight of a chosen expert is read
 * once per call and an expert that nobody chose is not touched; the sum then picks each token's rows out by rank again,
 * which makes it the same for any chunk and any numbering of the experts. The runner-up that a probe asks for is one
 * more row of each token, which the sum does not pick.
 *
 * A row of the router may belong to a ghost (weights.h): the token's other experts keep their weights as if it were
 * there, its row of work does not exist, and in the sum its mean output takes its place, or nothing does.
 */
#include "graph/blocks.h"

#include <assert.h>
#include <math.h>
#include <string.h>

struct buffers {
    float *scores, *choice;     /* [token][expert] */
    float *weights;             /* [token][listed] */
    uint32_t *ids;              /* [token][listed]: row of the router */
    size_t *row;                /* [token][listed]: the pair's row among the grouped; a ghost has none */
    size_t *first_row;          /* [experts + 1]: where each expert's rows begin */
    float *z;                   /* [token][width], latent models only */
    float *in, *y;              /* [row][width] */
    float *g, *u;               /* [row][moe_intermediate] */
    float *sum;                 /* [token][width] */
    float *shared_g, *shared_u; /* [token][shared intermediate] */
    float *routed;              /* [token][hidden] */
    struct wn_mlp_job *jobs;    /* [experts with rows + shared] */
    size_t *first_piece;
};

static size_t width_of(const struct wn_config *c)
{
    return c->latent_size ? c->latent_size : c->hidden_size;
}

static void lay(struct wn_room *r, const struct wn_config *c, uint64_t tokens, bool runner_up, struct buffers *b)
{
    uint64_t rows = tokens * ((uint64_t)c->experts_per_token + runner_up), width = width_of(c),
             inner = c->moe_intermediate_size;
    uint64_t shared_inner = inner * c->shared_experts, most_jobs = wn_min_u64(c->expert_count, rows) + 1;

    b->scores = wn_room_f32(r, tokens, c->router_rows);
    b->choice = wn_room_f32(r, tokens, c->router_rows);
    b->weights = wn_room_f32(r, rows, 1);
    b->ids = wn_room_take(r, rows, 1, sizeof *b->ids);
    b->row = wn_room_take(r, rows, 1, sizeof *b->row);
    b->first_row = wn_room_take(r, (uint64_t)c->expert_count + 1, 1, sizeof *b->first_row);
    b->z = wn_room_f32(r, c->latent_size ? tokens : 0, width);
    b->in = wn_room_f32(r, rows, width);
    b->y = wn_room_f32(r, rows, width);
    b->g = wn_room_f32(r, rows, inner);
    b->u = wn_room_f32(r, rows, inner);
    b->sum = wn_room_f32(r, tokens, width);
    b->shared_g = wn_room_f32(r, tokens, shared_inner);
    b->shared_u = wn_room_f32(r, tokens, shared_inner);
    b->routed = wn_room_f32(r, tokens, c->hidden_size);
    b->jobs = wn_room_take(r, most_jobs, 1, sizeof *b->jobs);
    b->first_piece = wn_room_take(r, most_jobs + 1, 1, sizeof *b->first_piece);
}

uint64_t wn_moe_scratch(const struct wn_config *c, uint64_t tokens, bool runner_up)
{
    struct wn_room r = {0};
    struct buffers b;

    lay(&r, c, tokens, runner_up, &b);
    return r.bytes;
}

struct moe {
    const struct wn_ctx *ctx;
    const struct wn_moe_weights *w;
    struct buffers b;
    const float *x, *z; /* z is x without a latent */
    size_t tokens, k, width;
    size_t listed; /* choices of a token: its k, and maybe the runner-up */
    int32_t layer;
};

/* The expert behind the choice of pair i, or WN_GHOST + its number. */
static uint32_t behind(const struct moe *m, size_t i)
{
    return m->w->serves ? m->w->serves[m->b.ids[i]] : m->b.ids[i];
}

static bool is_ghost(uint32_t expert)
{
    return (expert & WN_GHOST) != 0;
}

/* Counting sort of the pairs by expert: first_row and row. */
static void group_rows(const struct moe *m)
{
    size_t pairs = m->tokens * m->listed, *first = m->b.first_row;

    memset(first, 0, (m->w->expert_count + 1) * sizeof *first);
    for (size_t i = 0; i < pairs; i++)
        if (!is_ghost(behind(m, i)))
            first[behind(m, i) + 1]++;
    for (size_t e = 0; e < m->w->expert_count; e++)
        first[e + 1] += first[e];
    for (size_t i = 0; i < pairs; i++)
        if (!is_ghost(behind(m, i)))
            m->b.row[i] = first[behind(m, i)]++;
    /* each entry has moved on to the next expert's beginning */
    memmove(first + 1, first, m->w->expert_count * sizeof *first);
    first[0] = 0;
}

static void gather_piece(void *arg, size_t token, unsigned worker)
{
    const struct moe *m = arg;

    (void)worker;
    for (size_t i = token * m->listed; i < (token + 1) * m->listed; i++)
        if (!is_ghost(behind(m, i)))
            memcpy(m->b.in + m->b.row[i] * m->width, m->z + token * m->width, m->width * sizeof(float));
}

static size_t add_jobs(const struct moe *m, float *shared_out)
{
    const struct wn_config *c = m->ctx->config;
    const struct buffers *b = &m->b;
    size_t n = 0;

    for (size_t e = 0; e < m->w->expert_count; e++) {
        const struct wn_expert *x = &m->w->experts[e];
        size_t row = b->first_row[e], rows = b->first_row[e + 1] - row;

        if (rows)
            b->jobs[n++] = (struct wn_mlp_job){&x->gate,
                                               &x->up,
                                               &x->down,
                                               b->in + row * m->width,
                                               rows,
                                               b->g + row * c->moe_intermediate_size,
                                               b->u + row * c->moe_intermediate_size,
                                               b->y + row * m->width};
    }
    if (c->shared_experts)
        b->jobs[n++] = (struct wn_mlp_job){&m->w->shared.gate, &m->w->shared.up, &m->w->shared.down, m->x,
                                           m->tokens,          b->shared_g,      b->shared_u,        shared_out};
    return n;
}

/* What pair i gives before it is weighted, NULL: nothing; room [width] for a mean. */
static const float *output_of(const struct moe *m, size_t i, float *room)
{
    uint32_t expert = behind(m, i);

    if (!is_ghost(expert))
        return m->b.y + m->b.row[i] * m->width;
    if (m->w->ghosts.rows == 0)
        return NULL;
    m->ctx->kernels->decode_row(&m->w->ghosts, expert & ~WN_GHOST, room);
    return room;
}

static void sum_piece(void *arg, size_t token, unsigned worker)
{
    const struct moe *m = arg;
    float *sum = m->b.sum + token * m->width;

    (void)worker;
    memset(sum, 0, m->width * sizeof *sum);
    for (size_t i = token * m->listed; i < token * m->listed + m->k; i++) {
        const float *y = output_of(m, i, m->b.in + i * m->width); /* the experts have read it */

        if (y)
            m->ctx->kernels->axpy(m->b.weights[i], y, sum, m->width);
    }
}

static void count_ghosts(const struct moe *m)
{
    struct wn_route_meter *meter = m->ctx->meter;

    if (!meter)
        return;
    meter->tokens += m->tokens;
    meter->chosen += m->tokens * m->k;
    for (size_t t = 0; m->w->serves && t < m->tokens; t++) {
        double all = 0, lost = 0;

        for (size_t i = t * m->listed; i < t * m->listed + m->k; i++) {
            bool ghost = is_ghost(behind(m, i));

            meter->ghosts += ghost;
            all += (double)m->b.weights[i];
            lost += ghost ? (double)m->b.weights[i] : 0;
        }
        if (all > 0) /* or all of the gates are too small for a number: nothing is routed anywhere */
            meter->lost[m->layer] += lost / all;
    }
}

static void show_routed(const struct moe *m)
{
    const struct wn_probe *p = m->ctx->probe;
    size_t pairs = m->tokens * m->listed;
    float *outputs = m->b.in; /* the experts have read it */

    if (!p || !p->routed)
        return;
    assert(outputs);
    for (size_t i = 0; i < pairs; i++) {
        float *to = outputs + i * m->width;
        const float *y = output_of(m, i, to);

        if (!y)
            memset(to, 0, m->width * sizeof *to);
        else if (y != to)
            memcpy(to, y, m->width * sizeof *to);
    }
    p->routed(p->arg, m->layer, m->b.ids, m->b.weights, outputs, m->tokens, m->listed, m->width);
}

static bool has_runner_up(const struct wn_moe_weights *w, size_t k)
{
    size_t open = 0;

    for (uint64_t i = 0; i < w->router.rows; i++)
        open += w->router_bias[i] > -INFINITY;
    return open > k;
}

/* Router and way down, both from the full width. */
static void route(struct moe *m)
{
    const struct wn_ctx *ctx = m->ctx;
    const struct wn_linear_job jobs[] = {{&m->w->router, m->x, m->b.scores}, {&m->w->latent_down, m->x, m->b.z}};
    bool latent = ctx->config->latent_size != 0;

    wn_linear_group(ctx, jobs, latent ? 2 : 1, m->tokens);
    m->z = latent ? m->b.z : m->x;
    wn_show(ctx, "latent_in", m->layer, m->z, m->tokens, m->width);
    wn_router_choose(ctx, m->w->router_bias, m->w->router.rows, m->tokens, m->listed, m->b.scores, m->b.choice,
                     m->b.ids, m->b.weights);
    wn_show(ctx, "router_scores", m->layer, m->b.scores, m->tokens, m->w->router.rows);
    wn_show(ctx, "router_choice_scores", m->layer, m->b.choice, m->tokens, m->w->router.rows);
}

/* Weighted sum, its norm, and the way up into routed [token][hidden]. */
static void combine(const struct moe *m, float *routed)
{
    const struct wn_ctx *ctx = m->ctx;
    const struct wn_config *c = ctx->config;

    wn_pool_run(ctx->pool, sum_piece, (void *)m, m->tokens);
    wn_show(ctx, "latent_sum", m->layer, m->b.sum, m->tokens, m->width);
    if (m->w->latent_norm)
        wn_norm_rows(ctx, m->b.sum, m->width, m->w->latent_norm, c->rms_norm_eps, m->b.sum, m->width, m->tokens,
                     m->width);
    if (c->latent_size)
        wn_linear(ctx, &m->w->latent_up, m->b.sum, m->tokens, routed);
    else
        memcpy(routed, m->b.sum, m->tokens * m->width * sizeof *routed);
}

void wn_moe_forward(const struct wn_ctx *ctx, const struct wn_layer *layer, const float *x, size_t tokens, float *out)
{
    const struct wn_config *c = ctx->config;
    size_t mark = wn_arena_mark(ctx->arena);
    struct moe m = {.ctx = ctx,
                    .w = &layer->mixture,
                    .x = x,
                    .tokens = tokens,
                    .k = c->experts_per_token,
                    .width = width_of(c),
                    .layer = (int32_t)layer->index};
    bool runner_up = ctx->probe && ctx->probe->runner_up;
    size_t jobs;

    assert(m.w->router.rows >= m.k && m.w->router.rows <= c->router_rows && m.w->expert_count <= c->expert_count);
    m.listed = m.k + (runner_up && has_runner_up(m.w, m.k));
    lay(&(struct wn_room){ctx->arena, 0}, c, tokens, runner_up, &m.b);
    route(&m);
    count_ghosts(&m);
    group_rows(&m);
    wn_pool_run(ctx->pool, gather_piece, &m, tokens);
    jobs = add_jobs(&m, out);
    wn_mlp_run(ctx, m.b.jobs, jobs, m.b.first_piece);
    show_routed(&m);
    if (c->shared_experts) {
        combine(&m, m.b.routed);
        ctx->kernels->add(m.b.routed, out, out, tokens * c->hidden_size);
    } else {
        combine(&m, out);
    }
    wn_arena_rewind(ctx->arena, mark);
}
