/* See saliency_means.h. */
#include "jobs/calibrate/saliency_means.h"

#include "quant/quant.h"

#define EXPONENT 0x7c00 /* all ones: infinity, or no number */

bool wn_means_finite(uint16_t v)
{
    return (v & EXPONENT) != EXPONENT;
}

bool wn_means_round(const double *sum, double count, uint32_t width, uint16_t *means, double *worst)
{
    for (uint32_t i = 0; i < width; i++) {
        double mean = count > 0 ? sum[i] / count : 0;

        means[i] = wn_f32_to_f16((float)mean);
        if (!wn_means_finite(means[i])) {
            *worst = mean;
            return false;
        }
    }
    return true;
}
