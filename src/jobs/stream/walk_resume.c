/*
 * A walk that goes on where an earlier run stopped: what makes a layer finished, and what of an earlier run is still
 * good. store.h says why a run may be killed anywhere.
 */
#include "jobs/stream/walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const struct wn_config *config_of(const struct wn_walk *w)
{
    return wn_model_config(w->model);
}

void wn_walk_note_resumed(const struct wn_store *s, const struct wn_job *job, uint32_t done)
{
    char line[512];

    if (done == 0)
        return;
    (void)snprintf(line, sizeof line, "going on behind layer %" PRIu32 ", which an earlier run finished ('%s')",
                   done - 1, s->folder);
    wn_job_note(job, line);
}

/* Streams that no layer from `next` on reads are what a killed run could not remove. */
static void drop_stale_streams(const struct wn_walk *w, uint32_t next)
{
    const struct wn_config *c = config_of(w);

    for (uint32_t i = 0; i <= c->layer_count; i++)
        if (i != next && !(i < next && wn_layer_banks(c, i)))
            wn_store_drop_stream(w->store, i);
}

/*
 * What lies there may have lain there long: the streams that are read next are looked at as a whole. None is read
 * behind a last layer that writes none, or before the embeddings are there.
 */
static bool check_streams(const struct wn_walk *w, const struct wn_job *job, uint32_t next, struct wn_err *err)
{
    if ((next == config_of(w)->layer_count && !w->keep_last) || (next == 0 && !wn_store_has_stream(w->store, 0)))
        return true;
    for (uint32_t i = 0; i <= next; i++)
        if ((i == next || wn_layer_banks(config_of(w), i)) && !wn_store_check_stream(w->store, i, job, err))
            return false;
    return true;
}

bool wn_walk_take_up(const struct wn_walk *w, const struct wn_walk_record *record, const struct wn_job *job,
                     uint32_t *done, struct wn_err *err)
{
    for (*done = 0; *done < config_of(w)->layer_count && wn_store_has_record(w->store, *done); (*done)++) {
        char *bytes = wn_store_get_record(w->store, *done, record->bytes, err);

        if (!bytes)
            return false;
        if (record->load)
            record->load(record->arg, *done, bytes);
        free(bytes);
    }
    drop_stale_streams(w, *done);
    wn_walk_note_resumed(w->store, job, *done);
    return check_streams(w, job, *done, err);
}

bool wn_walk_commit(const struct wn_walk *w, uint32_t i, struct wn_bytes record, struct wn_err *err)
{
    uint64_t all = w->store->tokens;

    if (wn_walk_writes(w, i) && !wn_store_commit_stream(w->store, err))
        return false;
    /* told on either side of what counts, so that a stop is seen there */
    if (!w->told(w->arg, all, err) || !wn_store_put_record(w->store, i, record, err) || !w->told(w->arg, all, err))
        return false;
    wn_store_close_streams(w->store);
    if (!wn_layer_banks(config_of(w), i))
        wn_store_drop_stream(w->store, i);
    return true;
}
