/*
 * What ties a work folder to a run: the facts of store.h, put together.
 */
#include "jobs/stream/store.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void wn_store_know(struct wn_store_facts *f, const char *what, const char *fmt, ...)
{
    struct wn_store_fact *fact = &f->fact[f->n++];
    va_list args;

    assert(f->n <= WN_STORE_FACTS);
    fact->what = what;
    va_start(args, fmt);
    (void)vsnprintf(fact->value, sizeof fact->value, fmt, args);
    va_end(args);
}

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

bool wn_store_know_model(struct wn_store_facts *f, const struct wn_source *s, struct wn_err *err)
{
    char fingerprint[17];
    uint64_t sample;

    if (!sample_data(s, &sample, err))
        return false;
    wn_source_fingerprint(s, fingerprint);
    wn_store_know(f, "model", "%s", fingerprint);
    wn_store_know(f, "weights", "%016" PRIx64, sample);
    return true;
}
