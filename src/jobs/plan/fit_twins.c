/*
 * See fit.h: a second bank that comes from another GGUF of the same model. Its experts weigh what they weigh there, and
 * what is left of one is measured against the first parent, row by row.
 */
#include "base/alloc.h"
#include "jobs/plan/fit.h"
#include "jobs/prune/twins.h"
#include "model/parts.h"

#include <inttypes.h>
#include <stdlib.h>

#define EXPERTS_SAMPLED 4 /* of each stack, spread over their numbers */
#define ROWS_SAMPLED    4 /* of each of them */

bool wn_fit_is_of_two(const struct wn_fit *f)
{
    return f->options.lo_source != NULL;
}

static struct wn_fit_layer *layer_of(const struct wn_fit *f, const struct wn_part *part)
{
    for (uint32_t i = 0; i < f->layer_count && part->axis == WN_AXIS_OUTER && !part->router; i++)
        if (f->layers[i].layer == (uint32_t)part->layer)
            return &f->layers[i];
    return NULL;
}

struct sample {
    const struct wn_source *whole, *low;
    double error, energy; /* sums of squares */
};

static bool add_row(struct sample *s, const struct wn_tensor *a, const struct wn_tensor *b, uint64_t row, float *room,
                    struct wn_err *err)
{
    size_t n = (size_t)a->shape[a->dims - 1];
    float *back = room + n;

    if (!wn_twins_row(s->whole, a, row, room, err) || !wn_twins_row(s->low, b, row, back, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        double x = room[i], d = x - back[i];

        s->energy += x * x;
        s->error += d * d;
    }
    return true;
}

/* Some rows of some experts of a stack. */
static bool add_stack(struct sample *s, const struct wn_tensor *a, const struct wn_tensor *b, struct wn_err *err)
{
    uint64_t experts = a->shape[0], rows = a->dims == 3 ? a->shape[1] : 0;
    float *room = rows ? wn_alloc(2 * (size_t)a->shape[2], sizeof *room, err) : NULL;
    bool ok = room || !rows;

    for (uint64_t e = 0; rows && e < EXPERTS_SAMPLED && e < experts; e++)
        for (uint64_t r = 0; ok && r < ROWS_SAMPLED && r < rows; r++)
            ok = add_row(s, a, b, experts * e / EXPERTS_SAMPLED * rows + rows * r / ROWS_SAMPLED, room, err);
    free(room);
    return ok;
}

/* The nearest width below that plans have a word for: IQ1_S is 2, MXFP4 and Q4_K are 4, Q8_0 is 8. */
static unsigned width(uint64_t bytes, uint64_t weights)
{
    double bits = weights ? 8 * (double)bytes / (double)weights : 0;

    return bits < 3 ? 2 : bits >= 8 ? 8 : bits >= 7 ? 6 : (unsigned)bits;
}

static bool check_layers(const struct wn_fit *f, struct wn_err *err)
{
    for (uint32_t i = 0; i < f->layer_count; i++) {
        const struct wn_fit_layer *l = &f->layers[i];

        if (l->low_slab > l->slab)
            return wn_fail(err, WN_ERR_ARG,
                           "layer %" PRIu32 ": an expert takes %" PRIu64 " bytes in '%s' and %" PRIu64
                           " in '%s': a second bank is the smaller one",
                           l->layer, l->low_slab / l->experts, f->options.lo_source, l->slab / l->experts, f->path);
    }
    return true;
}

bool wn_fit_add_twin(struct wn_fit *f, const struct wn_source *whole, struct wn_err *err)
{
    struct wn_source *low = wn_source_open(f->options.lo_source, err);
    struct sample s = {.whole = whole, .low = low};
    uint64_t bytes = 0, weights = 0;
    bool ok =
        low && (wn_twins_check(whole, low, err) || wn_fail_in(err, "'%s' with '%s'", f->path, f->options.lo_source));

    for (size_t i = 0; ok && i < wn_source_tensor_count(low); i++) {
        const struct wn_tensor *t = wn_source_tensor_at(low, i);
        struct wn_fit_layer *l;
        struct wn_part part;

        wn_part_of(WN_CONTAINER_GGUF, t->name, &part);
        l = layer_of(f, &part);
        if (!l)
            continue;
        l->low_slab += t->bytes;
        bytes += t->bytes;
        weights += wn_tensor_elements(t);
        ok = add_stack(&s, wn_source_find(whole, t->name), t, err);
    }
    ok = ok && check_layers(f, err);
    f->options.lo_bits = width(bytes, weights);
    wn_fit_set_fidelity(f, s.error, s.energy);
    wn_source_close(low);
    return ok;
}
