/*
 * Decoded rows times tokens. The product is walked in small tiles of rows x tokens, whose sums stay in registers over
 * all columns: one register of lanes after the other, so that a pair of row and token needs one accumulator, and each
 * loaded register is used several times.
 */
#ifndef WN_KERNELS_VARIANT_TILE_H
#define WN_KERNELS_VARIANT_TILE_H

#define TILE_ROWS 4 /* as many as fold together */

/* A small tile: where its rows and tokens start, and its lanes [rows][tokens][32]. */
struct small {
    const float *w, *x;
    float *lanes;
};

/*
 * Lanes g .. g + WIDTH - 1 of each pair over all columns. rows and tokens are constants where this is inlined. Tails
 * take no part in lanes that they do not reach: see v32_first.
 */
INLINE void tile_lanes(const struct wn_tile *p, const struct small *s, size_t g, const size_t rows, const size_t tokens)
{
    const size_t whole = p->cols / LANES * LANES;
    vf sum[TILE_ROWS][TILE_TOKENS], value[TILE_TOKENS];

    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t t = 0; t < tokens; t++)
            sum[r][t] = p->first ? vf_set(0) : vf_load(s->lanes + (r * tokens + t) * LANES + g);
    }
    for (size_t i = g; i < whole; i += LANES) {
        UNROLL
        for (size_t t = 0; t < tokens; t++)
            value[t] = vf_load(s->x + t * p->x_stride + i);
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            vf weight = vf_load(s->w + r * p->w_stride + i);

            UNROLL
            for (size_t t = 0; t < tokens; t++)
                sum[r][t] = vf_fma(weight, value[t], sum[r][t]);
        }
    }
    if (p->cols > whole + g) {
        size_t tail = p->cols - whole - g, i = whole + g;

        UNROLL
        for (size_t r = 0; r < rows; r++) {
            vf weight = vf_load_first(s->w + r * p->w_stride + i, tail);

            UNROLL
            for (size_t t = 0; t < tokens; t++)
                sum[r][t] =
                    vf_pick(vf_first(tail), vf_fma(weight, vf_load_first(s->x + t * p->x_stride + i, tail), sum[r][t]),
                            sum[r][t]);
        }
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t t = 0; t < tokens; t++)
            vf_store(s->lanes + (r * tokens + t) * LANES + g, sum[r][t]);
    }
}

/* Rows r .. r + rows - 1 and tokens t .. t + tokens - 1 of the product. */
INLINE void tile(const struct wn_tile *p, size_t r, size_t t, const size_t rows, const size_t tokens)
{
    float near[TILE_ROWS * TILE_TOKENS * LANES] __attribute__((aligned(64)));
    struct small s = {p->w + r * p->w_stride, p->x + t * p->x_stride, near};

    if (!p->first || !p->last)
        s.lanes = p->lanes + (t * p->rows + r * tokens) * LANES;
    for (size_t g = 0; g < LANES; g += WIDTH)
        tile_lanes(p, &s, g, rows, tokens);
    for (size_t i = 0; p->last && i < tokens; i++) {
        float *y = p->y + (t + i) * p->y_stride + r;
        v32 lanes[TILE_ROWS];

        UNROLL
        for (size_t j = 0; j < rows; j++)
            lanes[j] = v32_load(s.lanes + (j * tokens + i) * LANES);
        if (rows == TILE_ROWS)
            v32_fold_4(lanes, y);
        else
            *y = v32_fold(lanes[0]);
    }
}

/* Tiles of `tokens` tokens from t on, for all rows. */
INLINE void tile_column(const struct wn_tile *p, size_t t, const size_t tokens)
{
    size_t r = 0;

    for (; p->rows - r >= TILE_ROWS; r += TILE_ROWS)
        tile(p, r, t, TILE_ROWS, tokens);
    for (; r < p->rows; r++)
        tile(p, r, t, 1, tokens);
}

static void mul_tile(const struct wn_tile *p)
{
    for (size_t t = 0; t < p->tokens;) {
        /* as even as can be: 4 + 4 tokens keep the multipliers busier than 6 + 2 */
        size_t left = p->tokens - t, parts = (left + TILE_TOKENS - 1) / TILE_TOKENS,
               tokens = (left + parts - 1) / parts;

        switch (tokens) {
        case 1:
            tile_column(p, t, 1);
            break;
        case 2:
            tile_column(p, t, 2);
            break;
        case 3:
            tile_column(p, t, 3);
            break;
#if TILE_TOKENS > 3
        case 4:
            tile_column(p, t, 4);
            break;
        case 5:
            tile_column(p, t, 5);
            break;
        case 6:
            tile_column(p, t, 6);
            break;
#endif
        }
        t += tokens;
    }
}

#endif
