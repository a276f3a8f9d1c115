/* See recast.h: the bytes of one tensor, row by row. */
#include "base/alloc.h"
#include "base/checked.h"
#include "jobs/recast.h"
#include "quant/quant.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES ((size_t)256 << 10) /* made by one thread at a time */
#define BATCH       32                  /* pieces written together */

enum wn_type wn_recast_file_type(const struct wn_recast_tensor *t)
{
    if (t->face == WN_FACE_SCALES && t->type == WN_MXFP4_SPLIT)
        return WN_U8;
    if (t->face != WN_FACE_DATA)
        return WN_BF16;
    return t->type == WN_MXFP4_SPLIT || wn_affine_bits(t->type) ? WN_U32 : t->type;
}

uint64_t wn_recast_row_bytes(const struct wn_recast_tensor *t)
{
    uint64_t bytes = 0;

    if (!wn_type_bytes(t->type, t->cols, &bytes))
        assert(!"rows of whole blocks");
    return bytes;
}

uint64_t wn_recast_bytes(const struct wn_recast_tensor *t)
{
    return t->rows * wn_recast_row_bytes(t);
}

/* Row `row` of m as a row of another type. */
static void make_row(const struct wn_matrix *m, uint64_t row, enum wn_type type, float *room, uint8_t *out)
{
    size_t cols = (size_t)m->cols;

    if (m->type == type) {
        memcpy(out, m->data + row * m->row_bytes, m->row_bytes);
    } else if (m->type == WN_MXFP4_SPLIT && type == WN_MXFP4) {
        wn_mxfp4_split_to_blocks(m->data + row * m->row_bytes, m->scales + row * m->scale_row_bytes, out, cols);
    } else {
        wn_quant_decode_row(m, row, room);
        wn_quant_encoder(type)(room, out, cols);
    }
}

void wn_recast_make(const struct wn_recast_tensor *t, uint64_t first, uint64_t n, float *room, uint8_t *out)
{
    uint64_t row_bytes = wn_recast_row_bytes(t), done = 0;

    for (size_t i = 0; done < n && i < t->part_count; i++) {
        const struct wn_matrix *m = &t->parts[i];

        for (; first < m->rows && done < n; first++, done++)
            make_row(m, first, t->type, room, out + done * row_bytes);
        first -= m->rows;
    }
    assert(done == n);
}

/* ---- all rows, in order ---- */

struct stream {
    const struct wn_recast_tensor *t;
    uint64_t rows, row_bytes;
    uint64_t at;    /* first row of the batch */
    uint64_t piece; /* rows of a piece */
    float *room;    /* [threads][cols] */
    uint8_t *batch; /* [BATCH] pieces */
};

static void make_piece(void *arg, size_t piece, unsigned worker)
{
    const struct stream *s = arg;
    uint64_t first = s->at + piece * s->piece, n = wn_min_u64(s->piece, s->rows - first);

    wn_recast_make(s->t, first, n, s->room + worker * s->t->cols, s->batch + piece * s->piece * s->row_bytes);
}

static bool stream(struct stream *s, struct wn_pool *pool, wn_recast_write_fn *write, void *arg, struct wn_err *err)
{
    for (; s->at < s->rows; s->at += BATCH * s->piece) {
        uint64_t n = wn_min_u64(BATCH * s->piece, s->rows - s->at);

        wn_pool_run(pool, make_piece, s, (size_t)((n + s->piece - 1) / s->piece));
        if (!write(arg, s->batch, (size_t)(n * s->row_bytes), err))
            return false;
    }
    return true;
}

bool wn_recast_stream(const struct wn_recast_tensor *t, struct wn_pool *pool, wn_recast_write_fn *write, void *arg,
                      struct wn_err *err)
{
    struct stream s = {.t = t, .rows = t->rows, .row_bytes = wn_recast_row_bytes(t)};
    bool ok;

    s.piece = s.row_bytes < PIECE_BYTES ? PIECE_BYTES / s.row_bytes : 1;
    s.piece = wn_min_u64(s.piece, s.rows ? s.rows : 1);
    s.room = wn_alloc((size_t)wn_pool_threads(pool) * (size_t)t->cols, sizeof *s.room, err);
    s.batch = s.room ? wn_alloc((size_t)(BATCH * s.piece), (size_t)s.row_bytes, err) : NULL;
    ok = s.batch && stream(&s, pool, write, arg, err);
    free(s.batch);
    free(s.room);
    return ok;
}
