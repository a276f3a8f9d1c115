/*
 * Rows of a matrix times tokens. Up to FEW tokens take the dots of the stored form. More share a decoding: AREA weights
 * at a time, which the first-level cache holds. Short rows are decoded whole and meet all tokens. Long ones are cut by
 * columns and meet TOKENS tokens, each product's lanes waiting in between. By the law of the summing order all ways
 * give the same bits, so where one hands over to the other is only a matter of speed.
 */
#include "kernels/kernels.h"

#include <assert.h>
#include <string.h>

#define LANES     32
#define FEW       3    /* tokens up to which the dots of the stored form are faster */
#define NEAR_ROWS 16   /* whose bytes the second-level cache keeps for the next token */
#define AREA      4096 /* decoded weights at a time: a third of the first-level cache */
#define TILE_ROWS 4    /* of the variants' small tiles */
#define WHOLE     1024 /* rows up to this length are not cut */
#define STEP      512  /* columns of longer ones: whole blocks of every type, and whole rounds of lanes */
#define TOKENS    64   /* met by one decoding of a cut row; their lanes take 64 KiB of stack */

#define NEAT __attribute__((aligned(64))) /* a register's load that crosses cache lines takes two */

/* Asks for a row's bytes before they are needed, while the multipliers work. What is not there is not fetched. */
static void row_ask(const struct wn_matrix *m, uint64_t row)
{
    const struct wn_type_info *info = wn_type_info(m->type);
    size_t bytes = (size_t)m->cols / info->block_elements * info->block_bytes;

    if (row < m->rows)
        for (size_t i = 0; i < bytes; i += 64)
            __builtin_prefetch(m->data + row * m->row_bytes + i);
}

/*
 * Gives the tile its w: rows from row on of a part of a matrix, where they lie if they are floats, or decoded into
 * room.
 */
static void rows_decode(const struct wn_kernels *k, const struct wn_matrix *part, uint64_t row, float *room,
                        struct wn_tile *tile)
{
    if (part->type == WN_F32 && ((uintptr_t)part->data | part->row_bytes) % _Alignof(float) == 0) {
        tile->w = (const float *)(const void *)(part->data + row * part->row_bytes);
        tile->w_stride = part->row_bytes / sizeof(float);
        return;
    }
    tile->w = room;
    tile->w_stride = tile->cols;
    for (size_t r = 0; r < tile->rows; r++)
        k->decode_row(part, row + r, room + r * tile->cols);
}

/*
 * Rows from row on times the tile's tokens, `width` columns at a time. The tile comes with all but w, lanes and cols.
 */
static void mul_rows(const struct wn_kernels *k, const struct wn_matrix *m, uint64_t row, size_t width,
                     struct wn_tile tile)
{
    float room[AREA] NEAT, lanes[AREA / STEP * TOKENS * LANES] NEAT;
    size_t cols = (size_t)m->cols, c = 0;

    tile.lanes = lanes;
    do {
        struct wn_matrix part = wn_matrix_columns(m, c, cols - c < width ? cols - c : width);

        tile.cols = (size_t)part.cols;
        tile.first = c == 0;
        tile.last = c + tile.cols == cols;
        rows_decode(k, &part, row, room, &tile);
        for (size_t r = 0; r < tile.rows; r++)
            row_ask(&part, row + tile.rows + r);
        k->mul_tile(&tile);
        tile.x += width;
        c += width;
    } while (c < cols);
}

static void mul_decoded(const struct wn_kernels *k, const struct wn_matrix *m, uint64_t first, uint64_t n,
                        const float *x, size_t x_stride, size_t tokens, float *y, size_t y_stride)
{
    size_t cols = (size_t)m->cols, width = cols > WHOLE ? STEP : cols > LANES ? cols : LANES;
    size_t rows = AREA / width / TILE_ROWS * TILE_ROWS, some = cols > WHOLE ? TOKENS : tokens;

    for (size_t t = 0; t < tokens; t += some)
        for (uint64_t r = 0; r < n; r += rows)
            mul_rows(k, m, first + r, width,
                     (struct wn_tile){.x = x + t * x_stride,
                                      .y = y + t * y_stride + r,
                                      .rows = n - r < rows ? (size_t)(n - r) : rows,
                                      .tokens = tokens - t < some ? tokens - t : some,
                                      .x_stride = x_stride,
                                      .y_stride = y_stride});
}

/* By the dots of the stored form, a few rows at a time so that they are still near for the next token. */
static bool mul_stored(const struct wn_kernels *k, const struct wn_matrix *m, uint64_t first, uint64_t n,
                       const float *x, size_t x_stride, size_t tokens, float *y, size_t y_stride)
{
    uint64_t rows = tokens > 1 ? NEAR_ROWS : n;

    for (uint64_t r = 0; r < n; r += rows)
        for (size_t t = 0; t < tokens; t++)
            if (!k->dot_rows(m, first + r, (size_t)(n - r < rows ? n - r : rows), x + t * x_stride,
                             y + t * y_stride + r))
                return false;
    return true;
}

void wn_matrix_mul_rows(const struct wn_kernels *k, const struct wn_matrix *m, uint64_t first, uint64_t n,
                        const float *x, size_t x_stride, size_t tokens, float *y, size_t y_stride)
{
    assert(first <= m->rows && n <= m->rows - first);
    if (tokens > FEW || !mul_stored(k, m, first, n, x, x_stride, tokens, y, y_stride))
        mul_decoded(k, m, first, n, x, x_stride, tokens, y, y_stride);
}
