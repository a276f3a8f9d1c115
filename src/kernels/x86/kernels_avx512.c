/*
 * The avx512 variant: variant/ over the registers of registers_avx512.h, and nothing else of ours that is not inline.
 */
#include "kernels/x86/registers_avx512.h"

#include "kernels/variant/lanes.h"
#include "kernels/variant/math.h"
#include "kernels/variant/forms.h"
#include "kernels/variant/forms_k.h"
#include "kernels/variant/forms_all.h"
#include "kernels/variant/dot.h"
#include "kernels/variant/tile.h"
#include "kernels/variant/vector.h"
#include "kernels/variant/table.h"
#include "kernels/variants.h"

void wn_kernels_fill_avx512(struct wn_kernels *k)
{
    variant_fill(k, "avx512");
}
