/*
 * Matrix products, cut into blocks of rows: a piece computes its rows for all tokens of the call, so each weight is
 * read once. An output is one row's sum by itself, in the kernels' order, and so knows nothing of the cut.
 */
#include "graph/blocks.h"

#include <assert.h>

struct group {
    const struct wn_ctx *ctx;
    const struct wn_linear_job *jobs;
    size_t first[WN_LINEAR_GROUP + 1];
    size_t n, tokens;
};

static void group_piece(void *arg, size_t piece, unsigned worker)
{
    const struct group *g = arg;
    size_t i = wn_job_of_piece(g->first, g->n, piece);
    const struct wn_linear_job *job = &g->jobs[i];
    size_t row = (piece - g->first[i]) * WN_PIECE_ROWS;
    size_t rows = wn_min_size(WN_PIECE_ROWS, (size_t)job->m->rows - row);

    (void)worker;
    wn_matrix_mul_rows(g->ctx->kernels, job->m, row, rows, job->x, (size_t)job->m->cols, g->tokens, job->y + row,
                       (size_t)job->m->rows);
}

void wn_linear_group(const struct wn_ctx *ctx, const struct wn_linear_job *jobs, size_t n, size_t tokens)
{
    struct group g = {.ctx = ctx, .jobs = jobs, .n = n, .tokens = tokens};

    assert(n <= WN_LINEAR_GROUP);
    for (size_t i = 0; i < n; i++)
        g.first[i + 1] = g.first[i] + wn_pieces((size_t)jobs[i].m->rows, WN_PIECE_ROWS);
    wn_pool_run(ctx->pool, group_piece, &g, g.first[n]);
}

void wn_linear(const struct wn_ctx *ctx, const struct wn_matrix *m, const float *x, size_t tokens, float *y)
{
    wn_linear_group(ctx, &(struct wn_linear_job){m, x, y}, 1, tokens);
}
