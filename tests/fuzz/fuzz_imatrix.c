/*
 * An imatrix from hostile bytes, by way of a file. What is accepted must be an archive that holds together: experts in
 * some layer, experts per token that there are, no count above the tokens of its source but where no matrix told them.
 */
#include "jobs/plan/imatrix.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct wn_saliency *s)
{
    uint64_t chosen = 0, sum = 0;
    size_t all = (size_t)s->layer_count * s->expert_count;

    if (s->top_k == 0 || s->source_count != 1 || s->expert_count < 2)
        abort();
    for (size_t i = 0; i < all; i++) {
        sum += s->counts[i];
        chosen += s->source_counts[i];
    }
    if (sum != chosen || s->max_norm)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/fuzz-imatrix-XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");
    struct wn_saliency s;
    struct wn_err err;

    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        abort();
    for (uint32_t top_k = 0; top_k < 3; top_k += 2)
        if (wn_imatrix_read(&s, path, top_k, &err)) {
            use(&s);
            wn_saliency_release(&s);
        } else if (!err.msg[0] || s.counts) {
            abort();
        }
    (void)remove(path);
    return 0;
}
