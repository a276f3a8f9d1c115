/*
 * Choosing by predicted loss (plan_loss.h). Each layer has a road from its floor to all its experts: one expert more
 * comes in, or with two banks is raised to its own bytes, whichever saves more per byte from where the layer stands.
 * The stretches of the road's lower convex hull, over bytes, fall in what they save per byte; so the best stretches of
 * all layers, taken in order while they fit, are the best choice there is of whole stretches, and the one that does not
 * fit any more is taken step by step.
 */
#include "jobs/plan/plan_loss.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>

/* Where a layer can stand. */
struct stand {
    uint32_t hi, kept;
    uint64_t bytes;
    double loss;
};

struct road {
    struct stand *stand; /* [n], the first is the floor's; owned */
    size_t n, at;        /* at: where the layer stands now */
};

/* From one corner of a road's hull to the next. */
struct stretch {
    uint32_t layer;
    size_t from, to;
    double rate; /* loss saved per byte */
};

struct solving {
    struct wn_choice *c;
    const struct wn_loss *l;
    struct road *roads;      /* [layer] */
    struct stretch *stretch; /* [stretch_count] */
    size_t stretch_count;
};

static struct stand stand_of(const struct solving *s, uint32_t i, uint32_t hi, uint32_t kept)
{
    const struct wn_choice_layer *l = &s->c->layers[i];

    return (struct stand){hi, kept, hi * l->hi_bytes + (kept - hi) * l->lo_bytes,
                          wn_loss_layer(s->l, i, s->c->fidelity, hi, kept)};
}

/* Below 0 where an expert of fewer bits takes more bytes than its own. */
static int64_t bytes_between(const struct stand *from, const struct stand *to)
{
    return to->bytes < from->bytes ? -(int64_t)(from->bytes - to->bytes) : (int64_t)(to->bytes - from->bytes);
}

static double rate_of(const struct stand *from, const struct stand *to)
{
    int64_t bytes = bytes_between(from, to);

    return (from->loss - to->loss) / (double)(bytes > 0 ? bytes : 1);
}

/* The better of the next steps from where a layer stands; of equal ones the one that brings an expert in. */
static struct stand next_of(const struct solving *s, uint32_t i, const struct stand *now)
{
    const struct wn_choice_layer *l = &s->c->layers[i];
    bool more = now->kept < l->experts, raise = now->hi < now->kept;
    struct stand in, up;

    if (!s->c->lo_bits || !wn_low_is_worth(s->c, l)) {
        /* without a second bank, or where it is a bad trade: whole ones only, behind those that the floor has in it */
        return raise ? stand_of(s, i, now->hi + 1, now->kept) : stand_of(s, i, now->hi + 1, now->kept + 1);
    }
    if (!more)
        return stand_of(s, i, now->hi + 1, now->kept);
    in = stand_of(s, i, now->hi, now->kept + 1);
    if (!raise)
        return in;
    up = stand_of(s, i, now->hi + 1, now->kept);
    return rate_of(now, &up) > rate_of(now, &in) ? up : in;
}

static bool build_road(struct solving *s, uint32_t i, struct wn_err *err)
{
    const struct wn_choice_layer *l = &s->c->layers[i];
    struct road *r = &s->roads[i];
    size_t most = (size_t)(l->experts - l->hi) + (l->experts - l->kept) + 1;

    r->stand = wn_alloc(most, sizeof *r->stand, err);
    if (!r->stand)
        return false;
    r->stand[r->n++] = stand_of(s, i, l->hi, l->kept);
    while (r->stand[r->n - 1].hi < l->experts) {
        assert(r->n < most);
        r->stand[r->n] = next_of(s, i, &r->stand[r->n - 1]);
        r->n++;
    }
    return true;
}

/* Corners of the lower hull: corner [n] becomes their places. */
static size_t find_corners(const struct road *r, size_t *corner)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++) {
        while (n >= 2 && rate_of(&r->stand[corner[n - 2]], &r->stand[corner[n - 1]]) <=
                             rate_of(&r->stand[corner[n - 1]], &r->stand[i]))
            n--;
        corner[n++] = i;
    }
    return n;
}

static int best_first(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;

    if (x->rate != y->rate)
        return x->rate > y->rate ? -1 : 1;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    return (x->from > y->from) - (x->from < y->from);
}

static bool list_stretches(struct solving *s, size_t stands, struct wn_err *err)
{
    size_t *corner = wn_alloc(stands, sizeof *corner, err);

    s->stretch = corner ? wn_alloc(stands, sizeof *s->stretch, err) : NULL;
    for (uint32_t i = 0; s->stretch && i < s->c->n; i++) {
        const struct road *r = &s->roads[i];
        size_t n = find_corners(r, corner);

        for (size_t k = 1; k < n; k++)
            s->stretch[s->stretch_count++] =
                (struct stretch){i, corner[k - 1], corner[k], rate_of(&r->stand[corner[k - 1]], &r->stand[corner[k]])};
    }
    if (s->stretch)
        qsort(s->stretch, s->stretch_count, sizeof *s->stretch, best_first);
    free(corner);
    return s->stretch != NULL;
}

/* As far along the stretch as there is room. Behind one that was not gone to its end, its layer takes no other. */
static void go(struct solving *s, const struct stretch *t, uint64_t *left)
{
    struct road *r = &s->roads[t->layer];

    if (r->at != t->from)
        return;
    while (r->at < t->to) {
        int64_t bytes = bytes_between(&r->stand[r->at], &r->stand[r->at + 1]);

        if (bytes > 0 && (uint64_t)bytes > *left)
            break;
        *left = bytes > 0 ? *left - (uint64_t)bytes : *left + (uint64_t)-bytes;
        r->at++;
    }
    s->c->layers[t->layer].hi = r->stand[r->at].hi;
    s->c->layers[t->layer].kept = r->stand[r->at].kept;
}

static bool solve(struct solving *s, struct wn_err *err)
{
    uint64_t left = s->c->room - wn_choice_bytes(s->c);
    size_t stands = 0;

    s->roads = wn_alloc(s->c->n, sizeof *s->roads, err);
    for (uint32_t i = 0; s->roads && i < s->c->n; i++) {
        if (!build_road(s, i, err))
            return false;
        stands += s->roads[i].n;
    }
    if (!s->roads || !list_stretches(s, stands, err))
        return false;
    for (size_t i = 0; i < s->stretch_count; i++)
        go(s, &s->stretch[i], &left);
    return true;
}

/* ---- the bound ---- */

/*
 * A convex loss lies above its tangent: with x the dropped share now, cost y^p >= cost (x^p + p x^(p-1) (y - x)). What
 * is linear in the shares is least where the experts that are worth the most per byte come first; what each is worth
 * goes to value [layer][place], and the tangents' sum at the floor to *base.
 */
static void take_tangents(const struct wn_choice *c, const struct wn_loss *l, double *const *value, double *base)
{
    *base = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const struct wn_choice_layer *at = &c->layers[i];
        const double *tail = l->layers[i].tail;
        struct wn_choice_layer floor = *at;

        wn_choice_floor(c, &floor);
        for (uint32_t s = 0; s < l->source_count; s++) {
            const double *t = tail + s;
            size_t step = l->source_count;
            double loss, slope, now, least;

            if (!(l->omega[s] > 0))
                continue;
            now = c->fidelity * t[at->kept * step] + (1 - c->fidelity) * t[at->hi * step];
            least = c->fidelity * t[floor.kept * step] + (1 - c->fidelity) * t[floor.hi * step];
            loss = l->omega[s] * wn_loss_of(l, i, s, c->fidelity, at->hi, at->kept);
            slope = now > 0 ? l->power * loss / now : 0;
            *base += loss + slope * (least - now);
            for (uint32_t e = 0; e < at->experts; e++)
                value[i][e] += slope * (t[e * step] - t[(e + 1) * step]);
        }
    }
}

static bool find_bound(const struct wn_choice *c, const struct wn_loss *l, double *bound, struct wn_err *err)
{
    double **value = wn_alloc(c->n, sizeof *value, err), saved, base;
    bool ok = value != NULL;

    for (uint32_t i = 0; ok && i < c->n; i++)
        ok = (value[i] = wn_alloc(c->layers[i].experts, sizeof **value, err)) != NULL;
    if (ok) {
        take_tangents(c, l, value, &base);
        ok = wn_choice_most(c, (const double *const *)value, &saved, err);
        *bound = ok && base > saved ? base - saved : 0;
    }
    for (uint32_t i = 0; value && i < c->n; i++)
        free(value[i]);
    free(value);
    return ok;
}

bool wn_solve_loss(struct wn_choice *c, const struct wn_loss *l, double *bound, struct wn_err *err)
{
    struct solving s = {.c = c, .l = l};
    bool ok = wn_choice_start(c, err) && solve(&s, err) && find_bound(c, l, bound, err);

    for (uint32_t i = 0; s.roads && i < c->n; i++)
        free(s.roads[i].stand);
    free(s.roads);
    free(s.stretch);
    return ok;
}
