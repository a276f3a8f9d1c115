/* Any bytes as a calibration corpus: sequences that add up, or a refusal in a sentence. */
#include "jobs/corpus/corpus.h"
#include "sys/file.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(const struct wn_corpus *c)
{
    uint64_t tokens = 0, by_source = 0;

    for (size_t i = 0; i < c->sequence_count; i++) {
        const struct wn_sequence *q = &c->sequence[i];

        assert(q->n > 0 && q->n <= c->longest && q->source < c->source_count && q->half < 2);
        for (uint32_t t = 0; t < q->n; t++)
            assert(q->ids[t] < 100 && (!q->labels || q->labels[t] < c->source_count));
        tokens += q->n;
    }
    for (uint32_t s = 0; s < c->source_count; s++)
        by_source += c->source[s].tokens;
    assert(tokens == c->tokens && by_source == tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char path[64];
    struct wn_corpus_options o = {.path = path, .vocab_size = 100};
    struct wn_corpus c;
    struct wn_err err = {0};

    snprintf(path, sizeof path, "/tmp/winnow-fuzz-%ld.jsonl", (long)getpid());
    if (!wn_file_put(path, data, n, true, &err))
        return 0;
    if (wn_corpus_read(&c, &o, &err)) {
        check(&c);
        wn_corpus_release(&c);
    } else {
        assert(err.code != WN_OK && err.msg[0] != '\0' && strlen(err.msg) < sizeof err.msg);
    }
    (void)unlink(path);
    return 0;
}
