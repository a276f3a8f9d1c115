/*
 * What the calibration tests share: the golden corpus as JSONL, small corpora of random tokens, and one run from
 * nothing.
 */
#ifndef CALIBRATE_FIXTURE_H
#define CALIBRATE_FIXTURE_H

#include "wn_test.h"
#include <winnow/calibrate.h>

#define TINY "golden/text/tiny-a/hf"

/* The golden calibration tokens, a source for each token, as a JSONL file in a new folder. */
const char *golden_corpus(void);

/* `lines` sequences of `length` random ids below `vocab`, sources "a", "b", "a" ..., as JSONL in a new folder. */
const char *random_corpus(unsigned lines, unsigned length, unsigned vocab, uint64_t seed);

struct calibration {
    const char *model;
    unsigned threads;
    struct wn_calibrate_options o;
    const struct wn_job *job;
    struct wn_calibrate_result result;
};

/* Opens the model, runs, closes. */
bool calibrate(struct calibration *c, struct wn_err *err);

/* tiny-a, a random corpus of short sequences, and the archive, with means, of a run that nobody disturbed. */
#define CALIBRATE_LAYERS 13
extern const char *calibrate_model, *calibrate_corpus, *calibrate_whole;

/* For a group's setup; *seconds: what that run took. False, and calibrate_model stays NULL: there is no data. */
bool calibrate_make_whole(unsigned sequences, double *seconds);
/* The same run with a new output; skips the test without data. */
struct calibration calibrate_fresh(void);
/* The work folder that a run has by default. Good until the next call. */
const char *calibrate_work(const struct calibration *c);

#endif
