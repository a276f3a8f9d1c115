/* See verify_parts.h: ghosts, the rows and means that no source has (docs/formats/ghosts.md). */
#include "jobs/verify/verify_parts.h"

#include <inttypes.h>
#include <stdio.h>

bool wn_verify_how(const struct wn_verify_options *o, const struct wn_source *source, const struct wn_source *out,
                   struct wn_keep_how *how, struct wn_err *err)
{
    enum wn_ghosts have = wn_keep_ghosts_of(out);

    *how = (struct wn_keep_how){.plan = o->plan};
    if (o->plan)
        how->ghosts = have == WN_GHOSTS_OFF ? WN_GHOSTS_BUILT : have;
    else if (have == WN_GHOSTS_OFF && wn_keep_ghosts_of(source) != WN_GHOSTS_OFF)
        how->ghosts = WN_GHOSTS_OFF;
    return how->ghosts != WN_GHOSTS_MEAN || o->saliency ||
           wn_fail(err, WN_ERR_ARG,
                   "its ghosts have means, which are proved by the archive that they are from: --saliency");
}

void wn_verify_count(const struct wn_keep *k, struct wn_verify_result *r)
{
    for (uint32_t i = 0; i < k->layer_count; i++) {
        const struct wn_keep_layer *l = &k->layers[i];

        r->experts += l->count;
        if (k->ghosts != WN_GHOSTS_OFF)
            r->ghosts += wn_keep_router_rows(k, l) - l->count;
    }
}

/* Old expert of the layer's ghost g; WN_DROPPED: it is not told. */
static uint32_t old_of(const struct wn_keep_layer *l, uint64_t g)
{
    for (uint32_t e = 0; e < l->experts; e++)
        if (l->new_of[e] == WN_DROPPED && g-- == 0)
            return e;
    return WN_DROPPED;
}

bool wn_verify_fail_ghost(const struct wn_keep_layer *l, const struct wn_ghost_byte *b, struct wn_err *err)
{
    uint64_t nth = b->at / b->each;
    uint32_t old = !b->rows ? old_of(l, nth) : nth < l->count ? l->keep[nth] : WN_DROPPED;
    char of[48] = "";

    if (old != WN_DROPPED)
        (void)snprintf(of, sizeof of, " (old expert %" PRIu32 ")", old);
    return wn_fail(err, WN_ERR_DIFFERENT,
                   "layer %" PRIu32 ", %s %" PRIu64 "%s, '%s': byte %" PRIu64 " of its %s, %" PRIu64
                   " of the tensor, is 0x%02x, wanted 0x%02x",
                   l->layer, b->rows ? "new expert" : "ghost", nth, of, b->name, b->at % b->each,
                   b->rows ? "row" : "mean", b->at, b->have, b->want);
}
