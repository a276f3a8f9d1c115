/* See by_layer.h. */
#include "jobs/by_layer.h"

#include <string.h>

size_t wn_by_layer(const void *rows, size_t n, size_t row_bytes, uint32_t layer)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        uint32_t here;

        memcpy(&here, (const char *)rows + mid * row_bytes, sizeof here);
        if (here == layer)
            return mid;
        if (here < layer)
            low = mid + 1;
        else
            high = mid;
    }
    return n;
}
