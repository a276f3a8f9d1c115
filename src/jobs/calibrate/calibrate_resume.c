/*
 * Taking up a calibration: which facts tie a work folder to a run, and what of an earlier run is still good.
 */
#include "base/alloc.h"
#include "jobs/calibrate/calibrate_run.h"

#include <inttypes.h>
#include <stdlib.h>

/* wn_walk_record's load */
static void load_record(void *arg, uint32_t layer, const char *record)
{
    wn_record_load(arg, layer, record);
}

bool wn_calibration_open_store(struct wn_calibration_run *r, struct wn_err *err)
{
    const struct wn_calibrate_options *o = r->c.options;
    struct wn_store_open how = {.left = o->fresh ? WN_LEFT_CLEARED : WN_LEFT_REFUSED, .job = r->job};
    char corpus[17], *folder;
    bool ok;

    wn_store_know(&how.facts, "form", "winnow calibration 5");
    if (!wn_store_know_model(&how.facts, wn_model_source(r->c.model), err))
        return false;
    wn_store_know(&how.facts, "sequence", "%" PRIu32, r->c.corpus.longest);
    wn_corpus_fingerprint(&r->c.corpus, corpus);
    wn_store_know(&how.facts, "corpus", "%s", corpus);
    wn_store_know(&how.facts, "record", o->means ? "sums and means" : "sums");
    folder = o->work ? wn_strdup(o->work, err) : wn_asprintf(err, "%s.work", o->out);
    if (!folder)
        return false;
    ok = wn_store_open(&r->store, folder, &how, err);
    free(folder);
    if (!ok)
        return false;
    wn_store_shape(&r->store, r->c.corpus.tokens, (uint64_t)r->c.config->hidden_size * sizeof(float));
    return !r->c.need.held || wn_store_hold(&r->store, wn_calibration_streams(r->c.config), err);
}

bool wn_calibration_take_up(struct wn_calibration_run *r, struct wn_err *err)
{
    const struct wn_walk_record record = {r->record_bytes, load_record, &r->sums};

    if (!wn_walk_take_up(&r->buffers.walk, &record, r->job, &r->result.layers_resumed, err))
        return false;
    /* of a run that is taken up most lies there already */
    return r->result.layers_resumed > 0 || wn_store_check_room(&r->store, r->c.need.activations + r->c.need.means, err);
}
