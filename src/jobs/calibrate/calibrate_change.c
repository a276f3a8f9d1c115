/*
 * What the probe's values of one token come to, before they are summed: lengths, and how far the routed output moves
 * when one of its experts is gone. With g and y the k chosen experts' weights and outputs, r the router's next choice:
 *
 *   y    = sum of g_i y_i
 *   y'_j = (y - g_j y_j + g_r y_r) * (sum of all g) / (sum of the others' g + g_r)        the router renormalises ...
 *   y'_j =  y - g_j y_j + g_r y_r                                                         ... or does not
 *   N(v) = v / sqrt(mean of v^2 + eps) * w       the norm before the way up; v itself where the model has none
 *   change_j = |N(y'_j) - N(y)|
 *
 * A layer without a next choice goes on with k - 1; where those weigh nothing, nothing is left (y' = 0). All in f64,
 * channel by channel, sums over channels in lanes (exact_math.h): one result for all machines, threads and chunks.
 */
#include "jobs/calibrate/calibrate_parts.h"
#include "jobs/exact_math.h"

#include <math.h>
#include <string.h>

#define LANES WN_EXACT_LANES

/*
 * step(at, n, ...) for all channels: LANES of them at a time, the constant that gives the compiler loops of a fixed
 * length, and then those that are left.
 */
#define FOR_LANES(step, width, ...)                                                                                    \
    do {                                                                                                               \
        size_t at_ = 0;                                                                                                \
                                                                                                                       \
        for (; at_ + LANES <= (width); at_ += LANES)                                                                   \
            step(at_, LANES, __VA_ARGS__);                                                                             \
        step(at_, (width)-at_, __VA_ARGS__);                                                                           \
    } while (0)

/* One token at hand. */
struct token {
    const struct wn_changes *c;
    const float *gates, *outputs;
    double *y, *other; /* [width]: the sum; another vector */
    double all;        /* sum of the gates */
    double squares;    /* of y, and the factor of N(y) */
    double factor;
};

/* A chosen expert goes and another enters. */
struct swap {
    const float *out, *in; /* outputs */
    double gate, entering; /* their weights; 0 where nobody enters */
    double regain;         /* the router's factor for those that stay */
    double factor;         /* of N(y') */
};

static inline void add_squares(size_t at, size_t n, const double *y, double *lane)
{
    for (size_t j = 0; j < n; j++)
        lane[j] += y[at + j] * y[at + j];
}

/* Squares of f32 values are exact in f64. */
static inline void add_squares_f32(size_t at, size_t n, const float *y, double *lane)
{
    for (size_t j = 0; j < n; j++)
        lane[j] += (double)y[at + j] * y[at + j];
}

static double length_f32(const float *y, size_t n)
{
    double lane[LANES] = {0};

    FOR_LANES(add_squares_f32, n, y, lane);
    return sqrt(wn_exact_fold(lane));
}

static inline void add_output(size_t at, size_t n, double *y, double gate, const float *out)
{
    double *restrict to = y + at;

    for (size_t j = 0; j < n; j++)
        to[j] += gate * (double)out[at + j];
}

/* other = y' */
static inline void swap_step(size_t at, size_t n, const struct token *t, const struct swap *s, double *lane)
{
    const double *y = t->y + at;
    const float *out = s->out + at, *in = s->in + at;
    double *restrict other = t->other + at;

    for (size_t j = 0; j < n; j++) {
        other[j] = s->regain * ((y[j] - s->gate * (double)out[j]) + s->entering * (double)in[j]);
        lane[j] += other[j] * other[j];
    }
}

/* other = N(y') - N(y) */
static inline void change_step(size_t at, size_t n, const struct token *t, const struct swap *s, double *lane)
{
    const double *y = t->y + at;
    const float *norm = t->c->norm + at;
    double *restrict other = t->other + at;

    for (size_t j = 0; j < n; j++) {
        other[j] = (s->factor * other[j] - t->factor * y[j]) * (double)norm[j];
        lane[j] += other[j] * other[j];
    }
}

static inline void plain_change_step(size_t at, size_t n, const struct token *t, double *lane)
{
    for (size_t j = 0; j < n; j++) {
        t->other[at + j] -= t->y[at + j];
        lane[j] += t->other[at + j] * t->other[at + j];
    }
}

static double norm_factor(const struct wn_changes *c, double squares)
{
    return 1 / sqrt(squares / (double)c->width + c->eps);
}

static void sum_outputs(struct token *t)
{
    double lane[LANES] = {0};
    size_t width = t->c->width;

    memset(t->y, 0, width * sizeof *t->y);
    t->all = 0;
    for (size_t i = 0; i < t->c->k; i++) {
        t->all += (double)t->gates[i];
        FOR_LANES(add_output, width, t->y, (double)t->gates[i], t->outputs + i * width);
    }
    FOR_LANES(add_squares, width, t->y, lane);
    t->squares = wn_exact_fold(lane);
    t->factor = norm_factor(t->c, t->squares);
}

/* The router's factor for those that stay. */
static double regain(const struct token *t, size_t gone, double entering)
{
    double left = entering;

    if (!t->c->renormalize)
        return 1;
    for (size_t i = 0; i < t->c->k; i++)
        left += i == gone ? 0 : (double)t->gates[i];
    return left > 0 ? t->all / left : 0;
}

/* other = N(y') - N(y) without the chosen expert `gone`; returns its length. */
static double take_out(const struct token *t, size_t gone)
{
    const struct wn_changes *c = t->c;
    bool next = c->listed > c->k;
    struct swap s = {.out = t->outputs + gone * c->width,
                     .in = t->outputs + (next ? c->k : gone) * c->width,
                     .gate = (double)t->gates[gone],
                     .entering = next ? (double)t->gates[c->k] : 0};
    double lane[LANES] = {0}, change[LANES] = {0};

    s.regain = regain(t, gone, s.entering);
    FOR_LANES(swap_step, c->width, t, &s, lane);
    s.factor = norm_factor(c, wn_exact_fold(lane));
    if (c->norm)
        FOR_LANES(change_step, c->width, t, &s, change);
    else
        FOR_LANES(plain_change_step, c->width, t, change);
    return sqrt(wn_exact_fold(change));
}

static void token_piece(void *arg, size_t token, unsigned worker)
{
    const struct wn_changes *c = arg;
    const struct wn_record_room *room = c->room;
    struct token t = {.c = c,
                      .gates = c->gates + token * c->listed,
                      .outputs = c->outputs + token * c->listed * c->width,
                      .y = room->vectors + (size_t)worker * 2 * c->width};
    size_t shown = (c->first + token) % c->k;

    t.other = t.y + c->width;
    sum_outputs(&t);
    room->totals[token] = sqrt(t.squares);
    for (size_t i = 0; i < c->k; i++) {
        room->norms[token * c->k + i] = length_f32(t.outputs + i * c->width, c->width);
        room->changes[token * c->k + i] = take_out(&t, i);
        for (size_t at = 0; i == shown && at < c->width; at++)
            room->change[token * c->width + at] = (float)t.other[at];
    }
}

void wn_changes_of(const struct wn_changes *c, struct wn_pool *pool, size_t tokens)
{
    wn_pool_run(pool, token_piece, (void *)(uintptr_t)c, tokens);
}

struct lengths {
    const float *rows;
    size_t width;
    double *lengths;
};

static void length_piece(void *arg, size_t token, unsigned worker)
{
    const struct lengths *l = arg;

    (void)worker;
    l->lengths[token] = length_f32(l->rows + token * l->width, l->width);
}

void wn_row_lengths(struct wn_pool *pool, const float *rows, size_t tokens, size_t width, double *lengths)
{
    wn_pool_run(pool, length_piece, &(struct lengths){rows, width, lengths}, tokens);
}
