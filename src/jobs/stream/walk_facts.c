/* What ties a work folder to a model (walk.h). */
#include "jobs/stream/walk.h"

#include <inttypes.h>
#include <stdio.h>

/* A few bytes of every file's data, spread over it: headers alone do not tell one training run from the next. */
static bool sample_data(const struct wn_source *s, uint64_t *hash, struct wn_err *err)
{
    size_t n = wn_source_tensor_count(s), step = n / 1024 + 1;

    *hash = 0;
    for (size_t i = 0; i < n; i += step) {
        const struct wn_tensor *t = wn_source_tensor_at(s, i);
        char bytes[64];
        size_t take = t->bytes < sizeof bytes ? (size_t)t->bytes : sizeof bytes;

        if (!wn_source_read(s, t, (t->bytes - take) / 2, bytes, take, err))
            return false;
        *hash = *hash * 31 + wn_bytes_hash((struct wn_bytes){bytes, take});
    }
    return true;
}

bool wn_walk_facts(const struct wn_model *m, struct wn_store_fact facts[WN_WALK_FACTS], struct wn_err *err)
{
    const struct wn_source *source = wn_model_source(m);
    char fingerprint[17];
    uint64_t sample;

    if (!sample_data(source, &sample, err))
        return false;
    wn_source_fingerprint(source, fingerprint);
    facts[0].what = "model";
    (void)snprintf(facts[0].value, sizeof facts[0].value, "%s", fingerprint);
    facts[1].what = "weights";
    (void)snprintf(facts[1].value, sizeof facts[1].value, "%016" PRIx64, sample);
    return true;
}
