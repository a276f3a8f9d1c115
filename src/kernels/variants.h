/* The variants: each function puts what its processor does better over the scalar entries, and sets the name. */
#ifndef WN_KERNELS_VARIANTS_H
#define WN_KERNELS_VARIANTS_H

#include "kernels/kernels.h"

void wn_kernels_fill_avx2(struct wn_kernels *k);
void wn_kernels_fill_avx512(struct wn_kernels *k);
void wn_kernels_fill_neon(struct wn_kernels *k);

#endif
