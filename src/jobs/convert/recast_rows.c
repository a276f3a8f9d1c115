/* See recast.h: the bytes of one tensor, row by row. */
#include "base/alloc.h"
#include "base/checked.h"
#include "jobs/convert/recast.h"
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

    if (t->face != WN_FACE_DATA)
        return t->cols / t->group * wn_type_info(wn_recast_file_type(t))->block_bytes;
    if (!wn_type_bytes(t->type, t->cols, &bytes))
        assert(!"rows of whole blocks");
    return bytes;
}

uint64_t wn_recast_bytes(const struct wn_recast_tensor *t)
{
    return t->rows * wn_recast_row_bytes(t);
}

/*
 * What one thread needs beside the output: the row as floats; of an affine row also the faces that are not asked for.
 */
struct room {
    float *values;
    uint8_t *codes, *scales, *biases;
};

size_t wn_recast_room(const struct wn_recast_tensor *t)
{
    return (size_t)t->cols * (sizeof(float) + 1 + 4 * sizeof(uint16_t) / 32) + 64;
}

static struct room room_of(const struct wn_recast_tensor *t, void *room)
{
    size_t cols = (size_t)t->cols;
    uint8_t *at = (uint8_t *)room + cols * sizeof(float);

    return (struct room){room, at, at + cols, at + cols + cols / 32 * sizeof(uint16_t)};
}

static void encode_affine(const struct wn_recast_tensor *t, const struct wn_matrix *m, uint64_t row, struct room r)
{
    struct wn_affine_form form = {wn_affine_bits(t->type), t->group, WN_BF16};

    wn_quant_decode_row(m, row, r.values);
    wn_affine_encode_row(&form, t->rule, r.values, NULL, (size_t)t->cols, r.codes, r.scales, r.biases);
}

static void make_affine(const struct wn_recast_tensor *t, const struct wn_matrix *m, uint64_t row, struct room r,
                        uint8_t *out)
{
    if (t->face == WN_FACE_DATA)
        r.codes = out;
    else if (t->face == WN_FACE_SCALES)
        r.scales = out;
    else
        r.biases = out;
    encode_affine(t, m, row, r);
}

/* Row `row` of m as a row of t. */
static void make_row(const struct wn_recast_tensor *t, const struct wn_matrix *m, uint64_t row, struct room r,
                     uint8_t *out)
{
    const uint8_t *data = m->data + row * m->row_bytes;

    if (wn_affine_bits(t->type)) {
        make_affine(t, m, row, r, out);
    } else if (t->face == WN_FACE_SCALES) {
        memcpy(out, m->scales + row * m->scale_row_bytes, (size_t)t->cols / t->group);
    } else if (m->type == t->type) {
        memcpy(out, data, m->row_bytes);
    } else if (m->type == WN_MXFP4_SPLIT && t->type == WN_MXFP4) {
        wn_mxfp4_split_to_blocks(data, m->scales + row * m->scale_row_bytes, out, (size_t)t->cols);
    } else {
        wn_quant_decode_row(m, row, r.values);
        wn_quant_encoder(t->type)(r.values, out, (size_t)t->cols);
    }
}

/* Rows first .. first + n - 1; with side, the scales and biases of affine rows go there. */
static void make_rows(const struct wn_recast_tensor *t, uint64_t first, uint64_t n, void *room,
                      struct wn_recast_side *side, uint8_t *out)
{
    uint64_t row_bytes = wn_recast_row_bytes(t), row = first, done = 0;
    struct room r = room_of(t, room);

    for (size_t i = 0; done < n && i < t->part_count; i++) {
        const struct wn_matrix *m = &t->parts[i];

        for (; row < m->rows && done < n; row++, done++) {
            if (side) {
                r.scales = side->scales + (first + done) * side->row_bytes;
                r.biases = side->biases + (first + done) * side->row_bytes;
            }
            make_row(t, m, row, r, out + done * row_bytes);
        }
        row -= m->rows;
    }
    assert(done == n);
}

void wn_recast_make(const struct wn_recast_tensor *t, uint64_t first, uint64_t n, void *room, uint8_t *out)
{
    make_rows(t, first, n, room, NULL, out);
}

/* ---- all rows, in order ---- */

struct stream {
    const struct wn_recast_tensor *t;
    uint64_t rows, row_bytes;
    uint64_t at;                 /* first row of the batch */
    uint64_t piece;              /* rows of a piece */
    struct wn_recast_side *side; /* to be filled, or NULL */
    size_t room_bytes;
    uint8_t *room;  /* [threads] */
    uint8_t *batch; /* [BATCH] pieces */
};

static void make_piece(void *arg, size_t piece, unsigned worker)
{
    const struct stream *s = arg;
    uint64_t first = s->at + piece * s->piece, n = wn_min_u64(s->piece, s->rows - first);

    make_rows(s->t, first, n, s->room + worker * s->room_bytes, s->side, s->batch + piece * s->piece * s->row_bytes);
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

static uint64_t rows_of_piece(const struct wn_recast_tensor *t)
{
    uint64_t row_bytes = wn_recast_row_bytes(t), n = row_bytes < PIECE_BYTES && row_bytes ? PIECE_BYTES / row_bytes : 1;

    return wn_min_u64(n, t->rows ? t->rows : 1);
}

uint64_t wn_recast_stream_memory(const struct wn_recast_tensor *t, unsigned threads)
{
    uint64_t side = wn_affine_bits(t->type) ? 2 * t->rows * (t->cols / t->group) * sizeof(uint16_t) : 0;

    return side + BATCH * rows_of_piece(t) * wn_recast_row_bytes(t) + threads * (uint64_t)wn_recast_room(t);
}

/* ---- scales and biases that come with the codes ---- */

static bool side_is_of(const struct wn_recast_side *side, const struct wn_recast_tensor *t)
{
    return side->scales && side->data == t->parts[0].data && side->rows == t->rows && side->type == t->type;
}

static bool side_begin(struct wn_recast_side *side, const struct wn_recast_tensor *t, struct wn_err *err)
{
    size_t row_bytes = (size_t)(t->cols / t->group) * sizeof(uint16_t);

    wn_recast_side_release(side);
    side->scales = wn_alloc((size_t)t->rows, row_bytes, err);
    side->biases = side->scales ? wn_alloc((size_t)t->rows, row_bytes, err) : NULL;
    side->row_bytes = row_bytes;
    side->data = t->parts[0].data;
    side->rows = t->rows;
    side->type = t->type;
    return side->biases != NULL;
}

void wn_recast_side_release(struct wn_recast_side *side)
{
    free(side->scales);
    free(side->biases);
    *side = (struct wn_recast_side){0};
}

bool wn_recast_stream(const struct wn_recast_tensor *t, struct wn_pool *pool, struct wn_recast_side *side,
                      wn_recast_write_fn *write, void *arg, struct wn_err *err)
{
    struct stream s = {.t = t, .rows = t->rows, .row_bytes = wn_recast_row_bytes(t)};
    bool ok, affine = wn_affine_bits(t->type) != 0;

    if (affine && t->face != WN_FACE_DATA && side_is_of(side, t))
        return write(arg, t->face == WN_FACE_SCALES ? side->scales : side->biases,
                     (size_t)(side->rows * side->row_bytes), err);
    if (affine && t->face == WN_FACE_DATA) {
        if (!side_begin(side, t, err))
            return false;
        s.side = side;
    }
    s.piece = rows_of_piece(t);
    s.room_bytes = (wn_recast_room(t) + 63) / 64 * 64;
    s.room = wn_alloc_aligned(wn_pool_threads(pool) * s.room_bytes, err);
    s.batch = s.room ? wn_alloc((size_t)(BATCH * s.piece), (size_t)s.row_bytes, err) : NULL;
    ok = s.batch && stream(&s, pool, write, arg, err);
    free(s.batch);
    wn_free_aligned(s.room);
    return ok;
}
