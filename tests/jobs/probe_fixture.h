/* What the tests of probing share: an archive of k3-mini's, and one run from nothing. */
#ifndef PROBE_FIXTURE_H
#define PROBE_FIXTURE_H

#include "calibrate_fixture.h"
#include <winnow/probe.h>

#define PROBE_LAYERS    8 /* of k3-mini; the first is dense, 0, 3 and 6 bank */
#define PROBE_EXPERTS   64
#define PROBE_HIDDEN    256
#define PROBE_TOP_K     4
#define PROBE_SEQUENCES 4
#define PROBE_LENGTH    20

/* The model, its archive and its corpus: sequences of random tokens, of sources "a" and "b" in turn. */
extern const char *probe_model, *probe_archive, *probe_corpus;

/* A group's setup; without the data it leaves probe_model NULL. */
int probe_make_archive(void **state);

struct probing {
    unsigned threads;
    struct wn_layer_probe_options o;
    const struct wn_job *job;
    struct wn_layer_probe_result result;
};

/* With a new output, at 50 and 75 % of the experts; skips the test without data. */
struct probing probe_fresh(void);
/* Opens the model, runs, closes. */
bool probe_run(struct probing *p, struct wn_err *err);

#endif
