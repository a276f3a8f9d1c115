/* See corpus.h: a corpus for a model. */
#include "jobs/corpus/corpus.h"
#include "model/weights.h"
#include "sys/clock.h"

#include <inttypes.h>

bool wn_corpus_read_for(struct wn_corpus *c, const struct wn_model *m, struct wn_corpus_options *o, struct wn_err *err)
{
    const struct wn_config *k = wn_model_config(m);
    struct wn_err no_vocab;
    uint32_t longest;

    o->vocab = wn_model_vocab(m, &no_vocab);
    o->vocab_size = k->vocab_size;
    wn_memory_give_back();
    o->before = wn_resident_memory();
    if (!wn_corpus_read(c, o, err))
        return false;
    longest = c->longest;
    if (!k->context_length || longest <= k->context_length)
        return true;
    wn_corpus_release(c);
    return wn_fail(err, WN_ERR_ARG, "sequences of %" PRIu32 " tokens, and the model's context is %" PRIu32, longest,
                   k->context_length);
}
