/*
 * Dot products and row decoding of a variant: the loops around the forms of forms.h, written once.
 */
#ifndef WN_KERNELS_VARIANT_DOT_H
#define WN_KERNELS_VARIANT_DOT_H

/* How many elements stand behind the last block of 32: none unless every element is stored by itself. */
INLINE size_t tail_of(size_t n, const struct form f)
{
    return f.bytes % LANES == 0 && f.blocks == 1 ? n % LANES : 0;
}

/* Elements 32 j and on of the span at p. */
INLINE v32 block_of(const struct form f, const uint8_t *p, const struct shared *h, size_t j)
{
    v32 r;

#define STEP(i) r.at[i] = f.part(p, h, j, i);
    EACH(STEP)
#undef STEP
    return r;
}

/* The last n < 32 elements of a row, from p on, the others 0. */
INLINE v32 block_tail(const struct form f, const uint8_t *p, size_t n)
{
    const size_t element_bytes = f.bytes / LANES;
    uint8_t copy[sizeof(float) * LANES] __attribute__((aligned(64))) = {0};

    memcpy(copy, p, n * element_bytes);
    return block_of(f, copy, NULL, 0);
}

/* What the blocks of span s share, of `rows` rows; asks for the bytes `ahead` of it. */
INLINE void spans_unpack(const struct form f, const struct stored *w, size_t s, size_t ahead, struct shared *h,
                         const size_t rows)
{
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        const uint8_t *p = w[r].data + s * f.bytes;

        UNROLL
        for (size_t i = 0; i < f.bytes; i += 64)
            __builtin_prefetch(p + ahead + i);
        f.span(&w[r], p, s, &h[r]);
    }
}

/* Adds the products of block j of span s and x to the lanes of `rows` rows. */
INLINE void block_multiply(const struct form f, const struct stored *w, size_t s, size_t j, const struct shared *h,
                           const float *x, v32 *lanes, const size_t rows)
{
    v32 value = in_pairs(f) ? v32_apart(v32_load(x)) : v32_load(x);

    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t i = 0; i < REGS; i++)
            lanes[r].at[i] = vf_fma(f.part(w[r].data + s * f.bytes, &h[r], j, i), value.at[i], lanes[r].at[i]);
    }
}

/* The same of all blocks of spans s .. end - 1. */
INLINE void spans_multiply(const struct form f, const struct stored *w, size_t s, size_t end, size_t ahead,
                           const float *x, v32 *lanes, const size_t rows)
{
    struct shared h[DOT_ROWS];

    for (; s < end; s++) {
        spans_unpack(f, w, s, ahead, h, rows);
        UNROLL
        for (size_t j = 0; j < f.blocks; j++)
            block_multiply(f, w, s, j, h, x + (s * f.blocks + j) * LANES, lanes, rows);
    }
}

/*
 * y[i] = row i . x for `rows` rows, a constant. One row alone waits for its own sums: a lane's next addition needs the
 * one before. Rows side by side fill those waits and share the loads of x.
 *
 * The row `ahead` bytes further on is asked for meanwhile: a row of 4-bit weights is shorter than a page, and a
 * processor that reads ahead by itself starts anew in each. Asking for what is not there does nothing.
 */
INLINE void dot_side_by_side(const struct form f, struct stored *w, size_t ahead, size_t scales_ahead, const float *x,
                             size_t n, float *y, const size_t rows)
{
    v32 lanes[DOT_ROWS];
    struct side side[DOT_ROWS];
    size_t s = 0, spans = n / LANES / f.blocks, tail = tail_of(n, f);

    UNROLL
    for (size_t r = 0; r < rows; r++) {
        lanes[r] = v32_set(0);
        w[r].side = &side[r];
    }
    while (s < spans) {
        size_t end = f.span == span_affine && spans - s > SIDE ? s + SIDE : spans;
        bool exact = f.part == part_affine8;

        if (f.span == span_affine)
            for (size_t r = 0; r < rows; r++)
                exact &= side_unpack(&w[r], s, spans - s, scales_ahead, &side[r]);
        if (exact)
            spans_multiply(exact_form(f), w, s, end, ahead, x, lanes, rows);
        else
            spans_multiply(f, w, s, end, ahead, x, lanes, rows);
        s = end;
    }
    if (tail) {
        v32 value = v32_load_first(x + s * LANES, tail);

        UNROLL
        for (size_t r = 0; r < rows; r++)
            lanes[r] =
                v32_first(tail, v32_fma(block_tail(f, w[r].data + s * f.bytes, tail), value, lanes[r]), lanes[r]);
    }
    UNROLL
    for (size_t r = 0; r < rows; r++)
        lanes[r] = in_pairs(f) ? v32_together(lanes[r]) : lanes[r];
    if (rows == 4)
        v32_fold_4(lanes, y);
    else
        UNROLL
    for (size_t r = 0; r < rows; r++)
        y[r] = v32_fold(lanes[r]);
}

INLINE float dot(const struct form f, struct stored w, const float *x, size_t n)
{
    float y;

    dot_side_by_side(f, &w, 0, 0, x, n, &y, 1);
    return y;
}

static float dot_f32(const float *w, const float *x, size_t n)
{
    return dot(form_F32, (struct stored){.data = (const uint8_t *)w}, x, n);
}

static float dot_bf16(const uint8_t *w, const float *x, size_t n)
{
    return dot(form_BF16, (struct stored){.data = w}, x, n);
}

static float dot_f16(const uint8_t *w, const float *x, size_t n)
{
    return dot(form_F16, (struct stored){.data = w}, x, n);
}

static float dot_q8_0(const uint8_t *w, const float *x, size_t n)
{
    return dot(form_Q8_0, (struct stored){.data = w}, x, n);
}

static float dot_mxfp4(const uint8_t *w, const float *x, size_t n)
{
    return dot(form_MXFP4, (struct stored){.data = w}, x, n);
}

static float dot_mxfp4_split(const uint8_t *packed, const uint8_t *scales, const float *x, size_t n)
{
    return dot(form_MXFP4_SPLIT, (struct stored){.data = packed, .scales = scales}, x, n);
}

static struct stored stored_row(const struct wn_matrix *m, uint64_t row)
{
    struct stored w = {.data = m->data + row * m->row_bytes};

    if (m->scales)
        w.scales = m->scales + row * m->scale_row_bytes;
    if (m->biases) {
        w.biases = m->biases + row * m->scale_row_bytes;
        w.scale_type = m->scale_type;
    }
    return w;
}

INLINE void dot_all_rows(const struct form f, const struct wn_matrix *m, uint64_t first, size_t n, const float *x,
                         float *y)
{
    struct stored w[DOT_ROWS];
    size_t i = 0;

    for (; n - i >= DOT_ROWS; i += DOT_ROWS) {
        for (size_t r = 0; r < DOT_ROWS; r++)
            w[r] = stored_row(m, first + i + r);
        dot_side_by_side(f, w, DOT_ROWS * m->row_bytes, DOT_ROWS * m->scale_row_bytes, x, (size_t)m->cols, y + i,
                         DOT_ROWS);
    }
    for (; i < n; i++)
        y[i] = dot(f, stored_row(m, first + i), x, (size_t)m->cols);
}

static bool dot_rows(const struct wn_matrix *m, uint64_t first, size_t n, const float *x, float *y)
{
    switch (form_of(m)) {
#define ROWS(name, part, span, blocks, bytes)                                                                          \
    case FORM_##name:                                                                                                  \
        dot_all_rows(form_##name, m, first, n, x, y);                                                                  \
        return true;
        FORMS(ROWS)
#undef ROWS
    default:
        return false;
    }
}

INLINE void decode(const struct form f, struct stored w, float *dst, size_t n)
{
    struct side side;
    size_t s = 0, spans = n / LANES / f.blocks, tail = tail_of(n, f);

    w.side = &side;
    for (; s < spans; s++) {
        const uint8_t *p = w.data + s * f.bytes;
        struct shared h;

        if (f.span == span_affine && s % SIDE == 0)
            side_unpack(&w, s, spans - s, 0, &side);
        f.span(&w, p, s, &h);
        UNROLL
        for (size_t j = 0; j < f.blocks; j++) {
            v32 value = block_of(f, p, &h, j);

            v32_store(dst + (s * f.blocks + j) * LANES, in_pairs(f) ? v32_together(value) : value);
        }
    }
    if (tail)
        v32_store_first(dst + s * LANES, block_tail(f, w.data + s * f.bytes, tail), tail);
}

static void decode_row(const struct wn_matrix *m, uint64_t row, float *dst)
{
    struct stored w = stored_row(m, row);

    switch (form_of(m)) {
#define ROW(name, part, span, blocks, bytes)                                                                           \
    case FORM_##name:                                                                                                  \
        decode(form_##name, w, dst, (size_t)m->cols);                                                                  \
        break;
        FORMS(ROW)
#undef ROW
    default:
        wn_quant_decode_row(m, row, dst);
    }
}

#endif
