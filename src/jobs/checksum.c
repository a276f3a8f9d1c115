/* See checksum.h. */
#include "jobs/checksum.h"

#include <string.h>
#include <xxhash.h>

bool wn_checksum_begin(struct wn_checksum *c, struct wn_err *err)
{
    if (!c->state)
        c->state = XXH3_createState();
    return (c->state && XXH3_128bits_reset(c->state) == XXH_OK) ||
           wn_fail(err, WN_ERR_NOMEM, "the XXH3 of the hash library failed");
}

/* Refuses nothing but a NULL. */
void wn_checksum_add(struct wn_checksum *c, const void *bytes, size_t n)
{
    if (n > 0)
        (void)XXH3_128bits_update(c->state, bytes, n);
}

void wn_checksum_end(const struct wn_checksum *c, uint8_t sum[WN_CHECKSUM_BYTES])
{
    XXH128_canonical_t canonical;

    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(c->state));
    memcpy(sum, canonical.digest, WN_CHECKSUM_BYTES);
}

void wn_checksum_release(struct wn_checksum *c)
{
    (void)XXH3_freeState(c->state);
    c->state = NULL;
}
