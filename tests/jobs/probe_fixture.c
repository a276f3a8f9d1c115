/* See probe_fixture.h. */
#include "probe_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *probe_model, *probe_archive, *probe_corpus;

int probe_make_archive(void **state)
{
    static char paths[3][512];
    const char *model = wn_test_data("models/k3-mini");
    struct calibration c = {.model = paths[0], .o = {.corpus = paths[1], .out = paths[2]}};
    struct wn_err err;

    (void)state;
    if (!model)
        return 0;
    (void)snprintf(paths[0], sizeof paths[0], "%s", model);
    (void)snprintf(paths[1], sizeof paths[1], "%s", random_corpus(PROBE_SEQUENCES, PROBE_LENGTH, 400, 7));
    (void)snprintf(paths[2], sizeof paths[2], "%s", wn_test_path(wn_test_folder(), "sal.npz"));
    CHECK_OK(calibrate(&c, &err), &err);
    probe_model = paths[0];
    probe_corpus = paths[1];
    probe_archive = paths[2];
    return 0;
}

struct probing probe_fresh(void)
{
    static const double kept[] = {0.5, 0.75};

    if (!probe_model)
        skip();
    return (struct probing){.o = {.archive = probe_archive,
                                  .corpus = probe_corpus,
                                  .out = wn_test_path(wn_test_folder(), "probed.npz"),
                                  .kept = kept,
                                  .kept_count = 2}};
}

bool probe_run(struct probing *p, struct wn_err *err)
{
    struct wn_model *m = wn_model_open(probe_model, err);
    struct wn_pool *pool = m ? wn_pool_new(p->threads ? p->threads : 1, err) : NULL;
    bool ok = pool && wn_layer_probe(m, pool, &p->o, p->job, &p->result, err);

    wn_pool_free(pool);
    wn_model_close(m);
    return ok;
}
