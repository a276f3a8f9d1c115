/*
 * See plan_budget.h. The problem with free numbers per layer is a knapsack in which each expert is out, in with few
 * bits, or in with all: steps of so much value for so many bytes. Taken by falling value per byte they give the linear
 * optimum, whose last step is cut; the whole steps that still fit behind it give the choice. Steps are small against
 * the room (one expert of tens of thousands), so the two hardly differ.
 */
#include "jobs/plan/plan_budget.h"
#include "base/alloc.h"
#include "base/checked.h"

#include <inttypes.h>
#include <stdlib.h>

enum kind { COMES_LOW, COMES_WHOLE, RAISED };

/* Expert `place` of a layer's ranking comes in, or is raised to its own bytes. */
struct step {
    double gain, rate; /* value, and value per byte */
    uint64_t bytes;
    uint32_t layer, place;
    enum kind kind;
};

void wn_choice_release(struct wn_choice *c)
{
    for (uint32_t i = 0; c->layers && i < c->n; i++) {
        free(c->layers[i].rank);
        free(c->layers[i].before);
    }
    free(c->layers);
    *c = (struct wn_choice){0};
}

static double value_of(const struct wn_choice *c, const struct wn_choice_layer *l, uint32_t hi, uint32_t kept)
{
    return l->before[hi] + c->fidelity * (l->before[kept] - l->before[hi]);
}

double wn_choice_value(const struct wn_choice *c)
{
    double sum = 0;

    for (uint32_t i = 0; i < c->n; i++)
        sum += value_of(c, &c->layers[i], c->layers[i].hi, c->layers[i].kept);
    return sum;
}

static uint64_t layer_bytes(const struct wn_choice_layer *l)
{
    return l->hi * l->hi_bytes + (l->kept - l->hi) * l->lo_bytes;
}

uint64_t wn_choice_bytes(const struct wn_choice *c)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < c->n; i++)
        sum += layer_bytes(&c->layers[i]);
    return sum;
}

void wn_choose_same(struct wn_choice *c, uint32_t hi, uint32_t lo)
{
    for (uint32_t i = 0; i < c->n; i++) {
        c->layers[i].hi = hi;
        c->layers[i].kept = hi + lo;
    }
}

static uint32_t narrowest(const struct wn_choice *c)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; i < c->n; i++)
        least = c->layers[i].experts < least ? c->layers[i].experts : least;
    return least;
}

void wn_choice_floor(const struct wn_choice *c, struct wn_choice_layer *l)
{
    uint32_t hi = c->lo_bits ? (c->protect ? c->protect : 1) : c->floor;

    l->kept = c->floor < l->experts ? c->floor : l->experts;
    l->kept = c->protect > l->kept ? c->protect : l->kept;
    l->hi = hi < l->kept && c->lo_bits ? hi : l->kept;
}

bool wn_choice_start(struct wn_choice *c, struct wn_err *err)
{
    for (uint32_t i = 0; i < c->n; i++)
        wn_choice_floor(c, &c->layers[i]);
    if (wn_choice_bytes(c) <= c->room)
        return true;
    return wn_fail(err, WN_ERR_ARG,
                   "%" PRIu64 " bytes are left for experts, the floor of %" PRIu32 " in each of %" PRIu32
                   " layers takes %" PRIu64,
                   c->room, c->floor, c->n, wn_choice_bytes(c));
}

bool wn_low_is_worth(const struct wn_choice *c, const struct wn_choice_layer *l)
{
    return c->lo_bits && c->fidelity * (double)l->hi_bytes > (double)l->lo_bytes;
}

static int best_first(const void *a, const void *b)
{
    const struct step *x = a, *y = b;

    if (x->rate != y->rate)
        return x->rate > y->rate ? -1 : 1;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return (x->layer > y->layer) - (x->layer < y->layer);
}

static void add_step(struct step *s, size_t *n, struct step step)
{
    step.rate = step.gain / (double)(step.bytes ? step.bytes : 1);
    s[(*n)++] = step;
}

/* All steps from the floor, best first. value NULL: scores, scaled. */
static size_t list_steps(const struct wn_choice *c, const double *const *value, struct step *s)
{
    size_t n = 0;

    for (uint32_t i = 0; i < c->n; i++) {
        struct wn_choice_layer l = c->layers[i];
        bool two = wn_low_is_worth(c, &l); /* in two steps */

        wn_choice_floor(c, &l);
        for (uint32_t k = l.hi; k < l.experts; k++) {
            /* a score falls with k to the bit, as differences of before[] would not */
            double worth = value ? value[i][k] : l.rank[k].score * l.scale;

            if (k >= l.kept && two)
                add_step(s, &n, (struct step){c->fidelity * worth, 0, l.lo_bytes, i, k, COMES_LOW});
            else if (k >= l.kept)
                add_step(s, &n, (struct step){worth, 0, l.hi_bytes, i, k, COMES_WHOLE});
            if (two || k < l.kept)
                add_step(s, &n, (struct step){(1 - c->fidelity) * worth, 0, l.hi_bytes - l.lo_bytes, i, k, RAISED});
        }
    }
    qsort(s, n, sizeof *s, best_first);
    return n;
}

/* Takes a step if it fits and those before it in its layer were taken. */
static void take(struct wn_choice *c, const struct step *s, uint64_t *left)
{
    struct wn_choice_layer *l = &c->layers[s->layer];

    if (s->bytes > *left || (s->kind != COMES_LOW && l->hi != s->place) ||
        (s->kind == RAISED ? l->kept <= s->place : l->kept != s->place))
        return;
    *left -= s->bytes;
    l->hi += s->kind != COMES_LOW;
    l->kept += s->kind != RAISED;
}

static uint64_t floor_bytes(const struct wn_choice *c)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < c->n; i++) {
        struct wn_choice_layer l = c->layers[i];

        wn_choice_floor(c, &l);
        sum += layer_bytes(&l);
    }
    return sum;
}

/* sum, and the best steps while there is room, and of the first that does not fit a part. */
static double relaxed(double sum, const struct step *s, size_t n, uint64_t room)
{
    for (size_t i = 0; i < n; i++) {
        sum += s[i].bytes <= room ? s[i].gain : s[i].rate * (double)room;
        room -= s[i].bytes <= room ? s[i].bytes : room;
    }
    return sum;
}

/* Room for all steps; *s is the caller's. */
static bool new_steps(const struct wn_choice *c, struct step **s, struct wn_err *err)
{
    size_t most = 0;

    for (uint32_t i = 0; i < c->n; i++)
        most += 2 * (size_t)c->layers[i].experts;
    *s = wn_alloc(most, sizeof **s, err);
    return *s != NULL;
}

bool wn_choice_most(const struct wn_choice *c, const double *const *value, double *most, struct wn_err *err)
{
    struct step *s;

    if (!new_steps(c, &s, err))
        return false;
    *most = relaxed(0, s, list_steps(c, value, s), c->room - floor_bytes(c));
    free(s);
    return true;
}

bool wn_solve_apart(struct wn_choice *c, struct wn_err *err)
{
    struct step *s;
    uint64_t left;
    size_t n;

    if (!wn_choice_start(c, err) || !new_steps(c, &s, err))
        return false;
    left = c->room - wn_choice_bytes(c);
    n = list_steps(c, NULL, s);
    c->bound = relaxed(wn_choice_value(c), s, n, left);
    for (size_t i = 0; i < n; i++)
        take(c, &s[i], &left);
    free(s);
    return true;
}

/* Bytes of one expert more in each layer. */
static void add_rows(const struct wn_choice *c, uint64_t *hi_row, uint64_t *lo_row)
{
    *hi_row = *lo_row = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        *hi_row += c->layers[i].hi_bytes;
        *lo_row += c->layers[i].lo_bytes;
    }
}

static double value_of_same(const struct wn_choice *c, uint32_t hi, uint32_t kept)
{
    double sum = 0;

    for (uint32_t i = 0; i < c->n; i++)
        sum += value_of(c, &c->layers[i], hi, kept);
    return sum;
}

/* With lo_bits: the best pair; hi and lo that are not 0 are given. *best is negative when none fits. */
static void try_pairs(const struct wn_choice *c, uint32_t hi, uint32_t lo, uint32_t most, double *best,
                      uint32_t *best_hi, uint32_t *best_lo)
{
    uint32_t least = c->protect ? c->protect : 1;
    uint64_t hi_row, lo_row;

    add_rows(c, &hi_row, &lo_row);
    for (uint32_t h = hi ? hi : least; h <= (hi ? hi : most) && h * hi_row <= c->room; h++) {
        uint64_t fit = lo_row ? (c->room - h * hi_row) / lo_row : 0;
        uint32_t l = lo ? lo : (uint32_t)wn_min_u64(fit, most - h);
        double value;

        if (l > fit || h + l > most || h + l < c->floor)
            continue;
        value = value_of_same(c, h, h + l);
        if (value > *best) {
            *best = value;
            *best_hi = h;
            *best_lo = l;
        }
    }
}

bool wn_solve_same(struct wn_choice *c, uint32_t hi, uint32_t lo, struct wn_err *err)
{
    uint32_t most = narrowest(c);
    uint64_t hi_row, lo_row;
    double best = -1;

    if (!wn_solve_apart(c, err)) /* for the bound */
        return false;
    if (!c->lo_bits) {
        add_rows(c, &hi_row, &lo_row);
        hi = (uint32_t)wn_min_u64(most, hi_row ? c->room / hi_row : most);
        wn_choose_same(c, hi, 0);
        return true;
    }
    try_pairs(c, hi, lo, most, &best, &hi, &lo);
    if (best < 0)
        return wn_fail(err, WN_ERR_ARG,
                       "%" PRIu64 " bytes are left for experts, and no pair with %" PRIu32 " whole ones and %" PRIu32
                       " of %" PRIu32 " bits (0: as many as fit) and a floor of %" PRIu32 " fits into them",
                       c->room, hi, lo, c->lo_bits, c->floor);
    wn_choose_same(c, hi, lo);
    return true;
}
