/* Look-up in tables whose rows lie by rising layer, as those of plans, keeps and fits do. */
#ifndef WN_JOBS_BY_LAYER_H
#define WN_JOBS_BY_LAYER_H

#include <stddef.h>
#include <stdint.h>

/* The number of the layer's row among rows [n] of row_bytes, each of which begins with a uint32_t layer; n: none is. */
size_t wn_by_layer(const void *rows, size_t n, size_t row_bytes, uint32_t layer);

#endif
