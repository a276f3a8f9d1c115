/* See plan_curve.h. */
#include "jobs/plan/plan_curve.h"

#include "jobs/exact_math.h"
#include "jobs/plan/plan_loss.h"

#define LEAST       0x1p-1000 /* of what a logarithm is taken */
#define SLOPE_LEAST 0.5       /* losses that hardly grow between two probes are noise, not a law */

/* The share that a probe's mask drops. */
static double dropped_by_probe(const struct wn_saliency *s, enum wn_criterion criterion, uint32_t point, uint32_t layer,
                               uint32_t source)
{
    const uint8_t *mask = s->probes.mask + ((size_t)point * s->layer_count + layer) * s->expert_count;
    double whole = 0, gone = 0;

    for (uint32_t e = 0; e < s->layer_experts[layer]; e++) {
        double v = wn_criterion_source(s, criterion, source, layer, e);

        whole += v;
        gone += mask[e] ? v : 0;
    }
    return whole > 0 ? gone / whole : 0;
}

/* Puts a point in its place; of two that dropped the same the second is left out. */
static void put(struct wn_curve *c, double x, double y)
{
    uint32_t at = c->n;

    for (uint32_t i = 0; i < c->n; i++)
        if (c->x[i] == x)
            return;
    for (; at > 0 && c->x[at - 1] > x; at--) {
        c->x[at] = c->x[at - 1];
        c->y[at] = c->y[at - 1];
    }
    c->x[at] = x;
    c->y[at] = y;
    c->n++;
}

void wn_curve_read(struct wn_curve *c, const struct wn_saliency *s, enum wn_criterion criterion, uint32_t layer,
                   uint32_t source)
{
    c->n = 0;
    for (uint32_t i = 0; i < s->probes.points; i++) {
        double dropped = dropped_by_probe(s, criterion, i, layer, source);
        double kld = s->probes.kld[((size_t)i * s->source_count + source) * s->layer_count + layer];

        if (dropped > LEAST && kld > LEAST)
            put(c, wn_exact_log(dropped), wn_exact_log(kld));
    }
}

/* Of the line through points i and i + 1. */
static double slope_of(const struct wn_curve *c, uint32_t i)
{
    return (c->y[i + 1] - c->y[i]) / (c->x[i + 1] - c->x[i]);
}

static double within(double power)
{
    return power < SLOPE_LEAST ? SLOPE_LEAST : power > WN_POWER_MOST ? WN_POWER_MOST : power;
}

double wn_curve_at(const struct wn_curve *c, double dropped, double power)
{
    uint32_t last = c->n - 1, i = 0;
    double x, slope;

    if (!(dropped > LEAST))
        return 0;
    x = wn_exact_log(dropped);
    while (i < last && c->x[i + 1] <= x)
        i++;
    /* i is the point before x, or the first one */
    if (last == 0)
        slope = power;
    else if (x < c->x[0])
        slope = within(slope_of(c, 0));
    else if (i == last)
        slope = within(slope_of(c, last - 1));
    else
        slope = slope_of(c, i);
    return wn_exact_exp(c->y[i] + slope * (x - c->x[i]));
}
