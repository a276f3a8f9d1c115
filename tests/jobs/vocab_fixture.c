/* See vocab_fixture.h. */
#include "vocab_fixture.h"

#include "wn_test.h"

struct wn_vocab *vocab;

int open_vocab(void **state)
{
    const char *path = wn_test_data("models/k3-mini");
    struct wn_err err;

    (void)state;
    vocab = path ? wn_vocab_open(path, &err) : NULL;
    return 0;
}

int close_vocab(void **state)
{
    (void)state;
    wn_vocab_free(vocab);
    return 0;
}
