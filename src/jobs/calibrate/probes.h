/*
 * What a saliency archive knows of its layers one by one (docs/formats/saliency.md): for each layer, what it costs at
 * the output when some of its experts are gone and all other layers are whole. `winnow probe` measures it, planning
 * reads it.
 */
#ifndef WN_JOBS_CALIBRATE_PROBES_H
#define WN_JOBS_CALIBRATE_PROBES_H

#include "formats/npz.h"
#include <winnow/model.h>

/* Shares of experts at which layers are probed: more than this nobody needs. */
#define WN_PROBE_POINTS_MOST 16

struct wn_probes {
    uint32_t points;       /* 0: there are none, and every pointer is NULL */
    double *kept;          /* [point] share of the experts that stayed where they were probed, 0..1; owned, like all */
    uint8_t *mask;         /* [point][layer][expert] 1: gone, when that layer is probed */
    double *dropped;       /* [point][source][layer] share of the criterion's sum that went with them, 0..1 */
    double *kld;           /* [point][source][layer] nats a token, against the whole model; 0 for dense layers */
    uint64_t *tokens;      /* [source] that were probed with */
    enum wn_ghosts ghosts; /* what stood for those gone; WN_GHOSTS_BUILT: not told, in archives of before */
    char settings[256];    /* for people: criterion, weights, sequences */
};

/* All zero, with room for so much. */
WN_CHECKED bool wn_probes_init(struct wn_probes *p, uint32_t points, uint32_t sources, uint32_t layers,
                               uint32_t experts, struct wn_err *err);
void wn_probes_release(struct wn_probes *p);

/*
 * Reads them from an archive of so many sources, layers and experts; layer_experts [layers]. An archive without probes
 * gives none. Refused (WN_ERR_FORMAT, by key and entry): some of the keys without the others, other shapes, numbers
 * that are not finite or out of range, a layer that keeps nobody or has figures without having experts. *p is all zero
 * on failure.
 */
WN_CHECKED bool wn_probes_read(struct wn_probes *p, const struct wn_npz *z, uint32_t sources, uint32_t layers,
                               uint32_t experts, const uint32_t *layer_experts, struct wn_err *err);
/* Adds their arrays, all keys of this kind. */
WN_CHECKED bool wn_probes_put(const struct wn_probes *p, struct wn_npz *z, uint32_t sources, uint32_t layers,
                              uint32_t experts, struct wn_err *err);

#endif
