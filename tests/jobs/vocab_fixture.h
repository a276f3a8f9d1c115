/* The vocabulary of the bundled model, for a group of tests: cmocka_run_group_tests(tests, open_vocab, close_vocab). */
#ifndef WN_TEST_VOCAB_FIXTURE_H
#define WN_TEST_VOCAB_FIXTURE_H

#include <winnow/vocab.h>

extern struct wn_vocab *vocab; /* NULL: the model is not there, and the test skips */

int open_vocab(void **state);
int close_vocab(void **state);

#endif
