/* See twins.h: what the tensors of the two must have in common. */
#include "jobs/prune/twins.h"
#include "base/alloc.h"
#include "model/parts.h"
#include "quant/quant.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP ((size_t)256 << 10)

/*
 * The cosine of an angle. Rows of one router in two types are next to parallel. An expert's in 1.6 bits have 0.8 and
 * more with what they were made of; those of two experts, or of two models, are next to square.
 */
#define ROUTER_COSINE 0.9
#define EXPERT_COSINE 0.5

struct pair {
    const struct wn_source *first, *second;
    const struct wn_tensor *a, *b; /* of the same name, one in each */
    struct wn_part part;
};

/* ---- shapes ---- */

static const char *shape_text(const struct wn_tensor *t, char *text, size_t size)
{
    size_t n = 0;

    text[0] = 0;
    for (uint32_t d = 0; d < t->dims && n < size; d++)
        n += (size_t)snprintf(text + n, size - n, "%s%" PRIu64, d ? ", " : "", t->shape[d]);
    return text;
}

static bool check_shape(const struct pair *p, struct wn_err *err)
{
    char a[128], b[128];

    if (p->part.axis == WN_AXIS_NONE
            ? wn_shape_is_alike(p->a->dims, p->a->shape, p->b->dims, p->b->shape)
            : p->a->dims == p->b->dims && memcmp(p->a->shape, p->b->shape, p->a->dims * sizeof p->a->shape[0]) == 0)
        return true;
    return wn_fail(err, WN_ERR_ARG, "tensor '%s' is [%s] in the first and [%s] in the second", p->a->name,
                   shape_text(p->a, a, sizeof a), shape_text(p->b, b, sizeof b));
}

/* Of what only one of them has, experts and routers are missed. */
static bool check_missing(const struct wn_source *in, const struct wn_source *other, const char *where,
                          struct wn_err *err)
{
    for (size_t i = 0; i < wn_source_tensor_count(in); i++) {
        const struct wn_tensor *t = wn_source_tensor_at(in, i);
        struct wn_part part;

        wn_part_of(WN_CONTAINER_GGUF, t->name, &part);
        if (part.axis != WN_AXIS_NONE && !wn_source_find(other, t->name))
            return wn_fail(err, WN_ERR_ARG, "tensor '%s' is in the %s only%s", t->name, where,
                           part.low ? ", which is a graded build itself" : "");
    }
    return true;
}

/* ---- values ---- */

bool wn_twins_row(const struct wn_source *s, const struct wn_tensor *t, uint64_t row, float *dst, struct wn_err *err)
{
    uint64_t cols = t->dims ? t->shape[t->dims - 1] : 1, bytes;
    wn_decode_fn *decode = wn_quant_decoder(t->type);
    uint8_t *blocks;
    bool ok;

    if (!decode || !wn_type_bytes(t->type, cols, &bytes))
        return wn_fail(err, WN_ERR_ARG, "rows of %" PRIu64 " weights of type %s cannot be decoded", cols,
                       wn_type_info(t->type)->name);
    blocks = wn_alloc((size_t)bytes, 1, err);
    ok = blocks && wn_source_read(s, t, row * bytes, blocks, (size_t)bytes, err);
    if (ok)
        decode(blocks, dst, (size_t)cols);
    free(blocks);
    return ok || wn_fail_in(err, "tensor '%s'", t->name);
}

/* Rows first .. first + n - 1 of both; *cosine is 1 where one side has nothing but zeros, or what is no number. */
static bool find_cosine(const struct pair *p, uint64_t row, double *cosine, struct wn_err *err)
{
    size_t cols = (size_t)p->a->shape[p->a->dims - 1];
    float *x = wn_alloc(2 * cols, sizeof *x, err), *y = x + cols;
    double xx = 0, yy = 0, xy = 0;
    bool ok = x && wn_twins_row(p->first, p->a, row, x, err) && wn_twins_row(p->second, p->b, row, y, err);

    for (size_t i = 0; ok && i < cols; i++) {
        xx += (double)x[i] * (double)x[i];
        yy += (double)y[i] * (double)y[i];
        xy += (double)x[i] * (double)y[i];
    }
    free(x);
    *cosine = xx > 0 && yy > 0 && isfinite(xx) && isfinite(yy) ? xy / sqrt(xx * yy) : 1;
    return ok;
}

/* Row `row`, which is expert `expert`'s, must point the same way in both. */
static bool check_row(const struct pair *p, uint64_t row, uint64_t expert, double least, struct wn_err *err)
{
    double cosine;

    if (!find_cosine(p, row, &cosine, err))
        return false;
    return cosine >= least ||
           wn_fail(err, WN_ERR_ARG,
                   "layer %" PRId32 ", expert %" PRIu64
                   ": the cosine between its rows of '%s' (%s and %s) is %.3f, of one model it is %.1f or more",
                   p->part.layer, expert, p->a->name, wn_type_info(p->a->type)->name, wn_type_info(p->b->type)->name,
                   cosine, least);
}

static bool compare_routers(const struct pair *p, uint8_t *x, uint8_t *y, struct wn_err *err)
{
    for (uint64_t at = 0, n; at < p->a->bytes; at += n) {
        size_t i = 0;

        n = wn_source_common_hole(p->first, p->a, at, p->second, p->b, at);
        if (n > 0)
            continue;
        n = p->a->bytes - at < STEP ? p->a->bytes - at : STEP;
        if (!wn_source_read(p->first, p->a, at, x, (size_t)n, err) ||
            !wn_source_read(p->second, p->b, at, y, (size_t)n, err))
            return false;
        if (memcmp(x, y, (size_t)n) == 0)
            continue;
        while (x[i] == y[i])
            i++;
        return wn_fail(err, WN_ERR_ARG,
                       "layer %" PRId32 ", expert %" PRIu64 ": byte %" PRIu64
                       " of the router's '%s' is 0x%02x in the first and 0x%02x in the second",
                       p->part.layer, (at + i) / (p->a->bytes / p->a->shape[0]), at + i, p->a->name, x[i], y[i]);
    }
    return true;
}

static bool check_router(const struct pair *p, struct wn_err *err)
{
    uint8_t *x;
    bool ok;

    if (p->a->type != p->b->type) {
        uint64_t rows = p->a->dims > 1 ? p->a->shape[0] : 1;

        for (uint64_t e = 0; e < rows; e++)
            if (!check_row(p, e, e, ROUTER_COSINE, err))
                return false;
        return true;
    }
    x = wn_alloc(2, STEP, err);
    ok = x && compare_routers(p, x, x + STEP, err);
    free(x);
    return ok;
}

/* The row in the middle of the first, the middle and the last expert. */
static bool check_experts(const struct pair *p, struct wn_err *err)
{
    uint64_t experts = p->a->shape[0], rows = p->a->dims > 2 ? p->a->shape[1] : 1;
    const uint64_t some[] = {0, experts / 2, experts - 1};

    if (!wn_quant_decoder(p->b->type))
        return wn_fail(err, WN_ERR_ARG, "tensor '%s' is of type %s in the second, which winnow cannot compute with",
                       p->b->name, wn_type_info(p->b->type)->name);
    for (size_t i = 0; wn_quant_decoder(p->a->type) && rows > 0 && i < sizeof some / sizeof some[0]; i++)
        if (!check_row(p, some[i] * rows + rows / 2, some[i], EXPERT_COSINE, err))
            return false;
    return true;
}

/* A router's bias of one number an expert has no rows of its own; an expert with one number has no direction. */
static bool check_values(const struct pair *p, struct wn_err *err)
{
    if (p->part.axis != WN_AXIS_OUTER || p->a->dims == 0 || wn_tensor_elements(p->a) == 0)
        return true;
    if (p->part.router)
        return check_router(p, err);
    return p->a->dims < 2 || check_experts(p, err);
}

bool wn_twins_check(const struct wn_source *first, const struct wn_source *second, struct wn_err *err)
{
    struct pair p = {.first = first, .second = second};

    if (!wn_source_gguf(first) || !wn_source_gguf(second))
        return wn_fail(err, WN_ERR_ARG, "the %s is no GGUF: two parents are two GGUFs of one model",
                       wn_source_gguf(first) ? "second" : "first");
    if (!wn_twins_check_meta(first, second, err) || !check_missing(first, second, "first", err) ||
        !check_missing(second, first, "second", err))
        return false;
    for (size_t i = 0; i < wn_source_tensor_count(first); i++) {
        p.a = wn_source_tensor_at(first, i);
        p.b = wn_source_find(second, p.a->name);
        wn_part_of(WN_CONTAINER_GGUF, p.a->name, &p.part);
        if (p.b && (!check_shape(&p, err) || !check_values(&p, err)))
            return false;
    }
    return true;
}
