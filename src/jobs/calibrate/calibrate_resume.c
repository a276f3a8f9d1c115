/*
 * Taking up a calibration: which facts tie a work folder to a run, and what of an earlier run is still good.
 */
#include "base/alloc.h"
#include "jobs/calibrate/calibrate_run.h"
#include "jobs/talk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define FACTS 5

static void note_resumed(const struct wn_calibration_run *r)
{
    char line[512];

    snprintf(line, sizeof line, "going on behind layer %" PRIu32 ", which an earlier run finished ('%s')",
             r->result.layers_resumed - 1, r->store.folder);
    wn_job_note(r->job, line);
}

/* Streams that no layer from `next` on reads are what a killed run could not remove. */
static void drop_stale_streams(struct wn_calibration_run *r, uint32_t next)
{
    const struct wn_config *c = r->c.config;

    for (uint32_t i = 0; i < c->layer_count; i++)
        if (i != next && !(i < next && wn_layer_banks(c, i)))
            wn_store_drop_stream(&r->store, i);
}

static bool load_records(struct wn_calibration_run *r, struct wn_err *err)
{
    uint32_t *done = &r->result.layers_resumed;

    for (*done = 0; *done < r->c.config->layer_count && wn_store_has_record(&r->store, *done); (*done)++) {
        char *record = wn_store_get_record(&r->store, *done, r->record_bytes, err);

        if (!record)
            return false;
        wn_record_load(&r->sums, *done, record);
        free(record);
    }
    drop_stale_streams(r, *done);
    if (*done)
        note_resumed(r);
    return true;
}

/* What lies there may have lain there long: the streams that the next layer reads are looked at as a whole. */
static bool check_streams(const struct wn_calibration_run *r, struct wn_err *err)
{
    uint32_t next = r->result.layers_resumed;

    if (next == r->c.config->layer_count || (next == 0 && !wn_store_has_stream(&r->store, 0)))
        return true;
    for (uint32_t i = 0; i <= next; i++)
        if ((i == next || wn_layer_banks(r->c.config, i)) && !wn_store_check_stream(&r->store, i, r->job, err))
            return false;
    return true;
}

static bool check_disk(const struct wn_calibration_run *r, struct wn_err *err)
{
    uint64_t room, need = r->c.need.activations;

    if (r->result.layers_resumed)
        return true; /* most of it lies there already */
    if (!wn_path_space(r->store.folder, &room, err))
        return false;
    return room >= need || wn_fail(err, WN_ERR_IO, "'%s': the activations take %" PRIu64 " bytes, %" PRIu64 " are free",
                                   r->store.folder, need, room);
}

bool wn_calibration_open_store(struct wn_calibration_run *r, struct wn_err *err)
{
    const struct wn_calibrate_options *o = r->c.options;
    struct wn_store_fact facts[FACTS] = {
        [0] = {.what = "form", .value = "winnow calibration 4"}, [3] = {.what = "sequence"}, [4] = {.what = "corpus"}};
    char fingerprint[17], *folder;
    bool ok;

    if (!wn_walk_facts(r->c.model, facts + 1, err))
        return false;
    snprintf(facts[3].value, sizeof facts[3].value, "%" PRIu32, r->c.corpus.longest);
    wn_corpus_fingerprint(&r->c.corpus, fingerprint);
    snprintf(facts[4].value, sizeof facts[4].value, "%s", fingerprint);
    folder = o->work ? wn_strdup(o->work, err) : wn_asprintf(err, "%s.work", o->out);
    if (!folder)
        return false;
    ok = wn_store_open(&r->store, folder, facts, FACTS, o->fresh, err);
    free(folder);
    if (!ok)
        return false;
    wn_store_shape(&r->store, r->c.corpus.tokens, (uint64_t)r->c.config->hidden_size * sizeof(float));
    return !r->c.need.held || wn_store_hold(&r->store, wn_calibration_streams(r->c.config), err);
}

bool wn_calibration_take_up(struct wn_calibration_run *r, struct wn_err *err)
{
    return load_records(r, err) && check_streams(r, err) && check_disk(r, err);
}
