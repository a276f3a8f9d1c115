/*
 * What one sequence keeps while a model reads it, by layer. Sessions allocate these bytes and `inspect` prints them.
 */
#ifndef WN_MODEL_MEMORY_H
#define WN_MODEL_MEMORY_H

#include <winnow/config.h>

/* Recurrent state of a KDA layer, in f32: a matrix per head and the tails of three convolutions. MLA layers: 0. */
uint64_t wn_layer_state_bytes(const struct wn_config *c, uint32_t layer);
/* What an MLA layer caches of each token: the latent and the shared key part, in f32. KDA layers: 0. */
uint64_t wn_layer_cache_bytes_per_token(const struct wn_config *c, uint32_t layer);

#endif
