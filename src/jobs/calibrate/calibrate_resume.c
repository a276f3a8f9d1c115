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

static bool know(struct wn_store_facts *f, const struct wn_calibration *c, struct wn_err *err)
{
    char corpus[17];

    wn_store_know(f, "form", "winnow calibration 5");
    if (!wn_store_know_model(f, wn_model_source(c->model), err))
        return false;
    wn_store_know(f, "sequence", "%" PRIu32, c->corpus.longest);
    wn_corpus_fingerprint(&c->corpus, corpus);
    wn_store_know(f, "corpus", "%s", corpus);
    wn_store_know(f, "record", c->options->means ? "sums and means" : "sums");
    return true;
}

bool wn_calibration_open_store(struct wn_calibration_run *r, struct wn_err *err)
{
    const struct wn_calibrate_options *o = r->c.options;
    struct wn_store_open how = {.left = o->fresh ? WN_LEFT_CLEARED : WN_LEFT_REFUSED, .job = r->job};
    char *folder = wn_store_folder(o->work, o->out, err);
    bool ok = folder && know(&how.facts, &r->c, err) && wn_store_open(&r->store, folder, &how, err);

    free(folder);
    if (!ok)
        return false;
    wn_store_shape(&r->store, r->c.corpus.tokens, (uint64_t)r->c.config->hidden_size * sizeof(float));
    return !r->c.need.held || wn_store_hold(&r->store, wn_calibration_streams(r->c.config), err);
}

bool wn_calibration_tidy(struct wn_calibration_run *r, const struct wn_store_product *p, bool *finished,
                         struct wn_err *err)
{
    struct wn_store_open how = {.job = r->job};
    char *folder = wn_store_folder(r->c.options->work, p->out, err);
    bool ok = folder && know(&how.facts, &r->c, err) && wn_store_tidy(folder, p, &how, finished, err);

    free(folder);
    if (ok && *finished)
        r->result.layers_resumed = r->c.config->layer_count;
    return ok;
}

/* About what the archive takes: its sums as doubles, and the means, which are summed as such, in 16 bits. */
static uint64_t archive_bytes(const struct wn_calibration_run *r)
{
    return r->sum_bytes * (uint64_t)r->c.config->layer_count + r->c.need.means / (sizeof(double) / sizeof(uint16_t));
}

/* Of the streams and means in the work folder, and of the archive, which comes while these are still there. */
static bool check_room(const struct wn_calibration_run *r, struct wn_err *err)
{
    const struct wn_calibrate_options *o = r->c.options;
    uint64_t work = r->c.need.activations + r->c.need.means, archive = archive_bytes(r), room;
    char *folder;
    bool ok;

    /* without --work both lie in one folder's file system */
    if (!wn_store_check_room(&r->store, o->work ? work : work + archive, err))
        return false;
    folder = wn_path_parent(o->out, err);
    ok = folder && wn_path_space(folder, &room, err) &&
         (room >= archive ||
          wn_fail(err, WN_ERR_IO, "'%s' takes about %" PRIu64 " bytes, %" PRIu64 " are free", o->out, archive, room));
    free(folder);
    return ok;
}

bool wn_calibration_take_up(struct wn_calibration_run *r, struct wn_err *err)
{
    const struct wn_walk_record record = {r->record_bytes, load_record, &r->sums};

    if (!wn_walk_take_up(&r->buffers.walk, &record, r->job, &r->result.layers_resumed, err))
        return false;
    /* of a run that is taken up most lies there already */
    if (r->result.layers_resumed > 0 || check_room(r, err))
        return true;
    wn_store_remove(&r->store); /* there is nothing in it that a run could go on with */
    return false;
}
