/* See probes.h. */
#include "jobs/calibrate/probes.h"

#include "base/alloc.h"
#include "jobs/calibrate/archive_arrays.h"

#include <inttypes.h>
#include <stdlib.h>

#define KEYS 5

/* Nats: logits are of f32, and the model's and the masked one's may be as far apart as those are. */
#define KLD_MOST 1e39

static const char *const keys[KEYS] = {"probe_kept", "probe_mask", "probe_dropped", "probe_kld", "probe_tokens"};

bool wn_probes_init(struct wn_probes *p, uint32_t points, uint32_t sources, uint32_t layers, uint32_t experts,
                    struct wn_err *err)
{
    size_t figures = (size_t)points * sources * layers;

    *p = (struct wn_probes){.points = points};
    if ((p->kept = wn_alloc(points, sizeof *p->kept, err)) &&
        (p->mask = wn_alloc((size_t)points * layers, experts, err)) &&
        (p->dropped = wn_alloc(figures, sizeof *p->dropped, err)) &&
        (p->kld = wn_alloc(figures, sizeof *p->kld, err)) && (p->tokens = wn_alloc(sources, sizeof *p->tokens, err)))
        return true;
    wn_probes_release(p);
    return false;
}

void wn_probes_release(struct wn_probes *p)
{
    free(p->kept);
    free(p->mask);
    free(p->dropped);
    free(p->kld);
    free(p->tokens);
    *p = (struct wn_probes){0};
}

/* What they are an archive of. */
struct shape {
    uint32_t sources, layers, experts;
    const uint32_t *layer_experts;
};

/* All keys are there, or none. */
static bool find_all(const struct wn_npz *z, bool *there, struct wn_err *err)
{
    const char *lacking = NULL, *found = NULL;

    for (int i = 0; i < KEYS; i++)
        *(wn_npz_find(z, keys[i]) ? &found : &lacking) = keys[i];
    *there = found != NULL;
    return !found || !lacking ||
           wn_fail(err, WN_ERR_FORMAT, "there is '%s', but no '%s': the probes are not whole", found, lacking);
}

static bool take_points(struct wn_probes *p, const struct wn_npz *z, struct wn_err *err)
{
    const struct wn_npy *a = wn_npz_find(z, "probe_kept");
    uint64_t points = a->elements;

    if (a->dims != 1 || points == 0 || points > WN_PROBE_POINTS_MOST)
        return wn_fail(err, WN_ERR_FORMAT, "'probe_kept' is not a list of 1 to %d shares", WN_PROBE_POINTS_MOST);
    if (!wn_archive_take_sums(z, "probe_kept", 1, &points, &p->kept, err))
        return false;
    p->points = (uint32_t)points;
    return true;
}

/* A row of the mask is that of a layer which keeps somebody, and goes no further than its experts. */
static bool check_mask(const uint8_t *row, uint32_t point, uint32_t layer, const struct shape *s, struct wn_err *err)
{
    uint32_t gone = 0, own = s->layer_experts[layer];

    for (uint32_t e = 0; e < s->experts; e++) {
        if (e >= own && row[e])
            return wn_fail(err, WN_ERR_FORMAT,
                           "'probe_mask': point %" PRIu32 " drops expert %" PRIu32 " of layer %" PRIu32
                           ", which has %" PRIu32,
                           point, e, layer, own);
        gone += row[e];
    }
    return own == 0 || gone < own ||
           wn_fail(err, WN_ERR_FORMAT, "'probe_mask': point %" PRIu32 " drops all experts of layer %" PRIu32, point,
                   layer);
}

static bool take_mask(struct wn_probes *p, const struct wn_npz *z, const struct shape *s, struct wn_err *err)
{
    const uint64_t shape[3] = {p->points, s->layers, s->experts};
    const struct wn_npy *a;
    void *room;
    int64_t v;

    if (!wn_archive_find_room(z, "probe_mask", 3, shape, 1, &a, &room, err))
        return false;
    p->mask = room;
    for (uint64_t i = 0; i < a->elements; i++) {
        if (!wn_npy_as_i64(a, i, &v) || v < 0 || v > 1)
            return wn_fail(err, WN_ERR_FORMAT, "'probe_mask': entry %" PRIu64 " is neither 0 nor 1", i);
        p->mask[i] = (uint8_t)v;
    }
    for (uint32_t i = 0; i < p->points; i++)
        for (uint32_t l = 0; l < s->layers; l++)
            if (!check_mask(p->mask + ((size_t)i * s->layers + l) * s->experts, i, l, s, err))
                return false;
    return true;
}

static bool drops_somebody(const struct wn_probes *p, const struct shape *s, size_t point, size_t layer)
{
    const uint8_t *row = p->mask + (point * s->layers + layer) * s->experts;

    for (uint32_t e = 0; e < s->experts; e++)
        if (row[e])
            return true;
    return false;
}

/* What was lost without a cause, or more than can be: figures that no probe gives. */
static bool check_loss(const struct wn_probes *p, const struct shape *s, size_t i, struct wn_err *err)
{
    size_t layer = i % s->layers, source = i / s->layers % s->sources, point = i / s->layers / s->sources;

    if (p->kld[i] > KLD_MOST)
        return wn_fail(err, WN_ERR_FORMAT, "'probe_kld': entry %zu is %g nats, and logits of 32 bits give %g at most",
                       i, p->kld[i], KLD_MOST);
    if (p->kld[i] > 0 && p->tokens[source] == 0)
        return wn_fail(err, WN_ERR_FORMAT, "'probe_kld': entry %zu is %g, but source %zu was probed with no tokens", i,
                       p->kld[i], source);
    return !(p->kld[i] > 0) || drops_somebody(p, s, point, layer) ||
           wn_fail(err, WN_ERR_FORMAT,
                   "'probe_kld': entry %zu is %g, but the mask of point %zu drops nobody in layer %zu", i, p->kld[i],
                   point, layer);
}

static bool check_tokens(const struct wn_probes *p, const struct shape *s, struct wn_err *err)
{
    for (uint32_t i = 0; i < s->sources; i++)
        if (p->tokens[i])
            return true;
    return wn_fail(err, WN_ERR_FORMAT, "'probe_tokens': no source was probed with any");
}

/* Shares are no more than 1; layers without experts have nothing. */
static bool check_figures(const struct wn_probes *p, const struct shape *s, struct wn_err *err)
{
    size_t n = (size_t)p->points * s->sources * s->layers;

    for (uint32_t i = 0; i < p->points; i++)
        if (p->kept[i] > 1)
            return wn_fail(err, WN_ERR_FORMAT, "'probe_kept': entry %" PRIu32 " is more than 1", i);
    for (size_t i = 0; i < n; i++) {
        if (p->dropped[i] > 1)
            return wn_fail(err, WN_ERR_FORMAT, "'probe_dropped': entry %zu is more than 1", i);
        if (s->layer_experts[i % s->layers] == 0 && (p->dropped[i] > 0 || p->kld[i] > 0))
            return wn_fail(err, WN_ERR_FORMAT, "'probe_kld': entry %zu is of layer %zu, which has no experts", i,
                           i % s->layers);
        if (!check_loss(p, s, i, err))
            return false;
    }
    return check_tokens(p, s, err);
}

/* What stood for those gone, which archives of before do not tell. */
static bool take_ghosts(struct wn_probes *p, const struct wn_npz *z, struct wn_err *err)
{
    char name[16];

    if (!wn_archive_take_text(z, "probe_ghosts", name, sizeof name, err))
        return wn_fail_in(err, "'probe_ghosts'");
    p->ghosts = WN_GHOSTS_BUILT;
    return !*name || (wn_ghosts_find(name, &p->ghosts) && p->ghosts != WN_GHOSTS_BUILT) ||
           wn_fail(err, WN_ERR_FORMAT, "'probe_ghosts' is '%s', known are 'off', 'skip' and 'mean'", name);
}

static bool read_all(struct wn_probes *p, const struct wn_npz *z, const struct shape *s, struct wn_err *err)
{
    uint64_t shape[3] = {0, s->sources, s->layers}, sources = s->sources;

    if (!take_points(p, z, err))
        return false;
    shape[0] = p->points;
    return take_mask(p, z, s, err) && wn_archive_take_sums(z, "probe_dropped", 3, shape, &p->dropped, err) &&
           wn_archive_take_sums(z, "probe_kld", 3, shape, &p->kld, err) &&
           wn_archive_take_counts(z, "probe_tokens", 1, &sources, &p->tokens, err) && check_figures(p, s, err) &&
           take_ghosts(p, z, err) && wn_archive_take_text(z, "probe_settings", p->settings, sizeof p->settings, err);
}

bool wn_probes_read(struct wn_probes *p, const struct wn_npz *z, uint32_t sources, uint32_t layers, uint32_t experts,
                    const uint32_t *layer_experts, struct wn_err *err)
{
    const struct shape s = {sources, layers, experts, layer_experts};
    bool there;

    *p = (struct wn_probes){0};
    if (!find_all(z, &there, err))
        return false;
    if (!there || read_all(p, z, &s, err))
        return true;
    wn_probes_release(p);
    return false;
}

bool wn_probes_put(const struct wn_probes *p, struct wn_npz *z, uint32_t sources, uint32_t layers, uint32_t experts,
                   struct wn_err *err)
{
    const uint64_t mask[3] = {p->points, layers, experts}, figures[3] = {p->points, sources, layers}, all = sources;

    return wn_archive_put_f64(z, "probe_kept", p->kept, 1, mask, err) &&
           wn_archive_put_flags(z, "probe_mask", p->mask, 3, mask, err) &&
           wn_archive_put_f64(z, "probe_dropped", p->dropped, 3, figures, err) &&
           wn_archive_put_f64(z, "probe_kld", p->kld, 3, figures, err) &&
           wn_archive_put_i64(z, "probe_tokens", p->tokens, 1, &all, err) &&
           wn_archive_put_text(z, "probe_ghosts", p->ghosts == WN_GHOSTS_BUILT ? "" : wn_ghosts_name(p->ghosts), err) &&
           wn_archive_put_text(z, "probe_settings", p->settings, err);
}
