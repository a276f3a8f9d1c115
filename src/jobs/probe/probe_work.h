/* The arithmetic of a run: how much there is, and how fast it goes here. */
#ifndef WN_JOBS_PROBE_PROBE_WORK_H
#define WN_JOBS_PROBE_PROBE_WORK_H

#include "model/weights.h"
#include <winnow/config.h>

/* Multiplications for one token in a layer, `context` tokens behind it in the mean; a head's are rows x cols. */
struct wn_work {
    double experts, other;
};

struct wn_work wn_layer_work(const struct wn_config *c, const struct wn_layer *layer, double context);

#endif
