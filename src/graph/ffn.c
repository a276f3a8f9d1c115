/*
 * Gated MLPs: y = down (act(gate x) . up x), act and product being SiTU or SwiGLU. The dense layer is one of them, the
 * shared experts are one, and each routed expert is one; whoever has several runs them together, so that a single token
 * with sixteen experts still has work for many threads.
 */
#include "graph/blocks.h"

struct run {
    const struct wn_ctx *ctx;
    const struct wn_mlp_job *jobs;
    size_t n, *first;
};

/* Hands out the job and the block of rows that a piece stands for. */
static const struct wn_mlp_job *job_of_piece(const struct run *r, size_t piece, size_t *row)
{
    size_t i = wn_job_of_piece(r->first, r->n, piece);

    *row = (piece - r->first[i]) * WN_PIECE_ROWS;
    return &r->jobs[i];
}

static void gated_piece(void *arg, size_t piece, unsigned worker)
{
    const struct run *r = arg;
    const struct wn_config *c = r->ctx->config;
    const struct wn_kernels *k = r->ctx->kernels;
    size_t row;
    const struct wn_mlp_job *j = job_of_piece(r, piece, &row);
    size_t inner = (size_t)j->gate->rows, cols = (size_t)j->gate->cols, rows = wn_min_size(WN_PIECE_ROWS, inner - row);
    float *g = j->g + row, *u = j->u + row;

    (void)worker;
    wn_matrix_mul_rows(k, j->gate, row, rows, j->x, cols, j->tokens, g, inner);
    wn_matrix_mul_rows(k, j->up, row, rows, j->x, cols, j->tokens, u, inner);
    for (size_t t = 0; t < j->tokens; t++, g += inner, u += inner) {
        if (c->activation == WN_ACTIVATION_SITU)
            k->situ(g, u, c->situ_beta, c->situ_linear_beta, g, rows);
        else
            k->swiglu(g, u, g, rows);
    }
}

static void down_piece(void *arg, size_t piece, unsigned worker)
{
    const struct run *r = arg;
    size_t row;
    const struct wn_mlp_job *j = job_of_piece(r, piece, &row);
    size_t width = (size_t)j->down->rows, inner = (size_t)j->down->cols;

    (void)worker;
    wn_matrix_mul_rows(r->ctx->kernels, j->down, row, wn_min_size(WN_PIECE_ROWS, width - row), j->g, inner, j->tokens,
                       j->y + row, width);
}

static void cut(struct run *r, bool down)
{
    r->first[0] = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct wn_mlp_job *j = &r->jobs[i];

        r->first[i + 1] = r->first[i];
        if (j->tokens)
            r->first[i + 1] += wn_pieces((size_t)(down ? j->down->rows : j->gate->rows), WN_PIECE_ROWS);
    }
}

void wn_mlp_run(const struct wn_ctx *ctx, const struct wn_mlp_job *jobs, size_t n, size_t *first)
{
    struct run r = {ctx, jobs, n, first};

    cut(&r, false);
    wn_pool_run(ctx->pool, gated_piece, &r, first[n]);
    cut(&r, true);
    wn_pool_run(ctx->pool, down_piece, &r, first[n]);
}

struct buffers {
    float *g, *u; /* [token][intermediate] */
};

static void lay(struct wn_room *r, const struct wn_config *c, uint64_t tokens, struct buffers *b)
{
    b->g = wn_room_f32(r, tokens, c->intermediate_size);
    b->u = wn_room_f32(r, tokens, c->intermediate_size);
}

uint64_t wn_dense_scratch(const struct wn_config *c, uint64_t tokens)
{
    struct wn_room r = {0};
    struct buffers b;

    lay(&r, c, tokens, &b);
    return r.bytes;
}

void wn_dense_forward(const struct wn_ctx *ctx, const struct wn_layer *layer, const float *x, size_t tokens, float *out)
{
    const struct wn_ffn *w = &layer->dense;
    size_t mark = wn_arena_mark(ctx->arena), first[2];
    struct buffers b;

    lay(&(struct wn_room){ctx->arena, 0}, ctx->config, tokens, &b);
    wn_mlp_run(ctx, &(struct wn_mlp_job){&w->gate, &w->up, &w->down, x, tokens, b.g, b.u, out}, 1, first);
    wn_arena_rewind(ctx->arena, mark);
}
