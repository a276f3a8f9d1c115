/*
 * How a run ends, and what a run that was killed at its end left. See store.h. The state knows the product by length
 * and time of last change, which its renaming does not alter, before it has its name. So whoever finds a product under
 * that name with these knows that this run made it, however much of the folder is still there.
 */
#include "base/alloc.h"
#include "jobs/stream/store_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FINISHED_KEY "finished" /* in the state */

struct stamp {
    char text[128];
};

/* "LENGTH TIME LENGTH TIME": of the product, which lies at path, and of what it is made of. */
static bool take_stamp(const char *path, const struct wn_store_product *p, struct stamp *s)
{
    uint64_t bytes, from_bytes = 0;
    int64_t changed, from_changed = 0;

    if (!wn_path_stamp(path, &bytes, &changed) || (p->from && !wn_path_stamp(p->from, &from_bytes, &from_changed)))
        return false;
    (void)snprintf(s->text, sizeof s->text, "%" PRIu64 " %" PRId64 " %" PRIu64 " %" PRId64, bytes, changed, from_bytes,
                   from_changed);
    return true;
}

/* part: the product, whole and on the disk. */
static bool give_name(const struct wn_store *s, const char *part, const struct wn_store_product *p, struct wn_err *err)
{
    struct wn_outfile out;
    struct stamp stamp;
    uint64_t bytes;
    int64_t changed;

    if (!take_stamp(part, p, &stamp) || !wn_path_stamp(part, &bytes, &changed))
        return wn_fail(err, WN_ERR_IO, "'%s' has gone, or what it was made of", part);
    if (!wn_store_state_set(s, FINISHED_KEY, json_string(stamp.text), err) ||
        !wn_outfile_adopt(&out, p->out, p->overwrite, bytes, true, err))
        return false;
    if (wn_outfile_commit(&out, err))
        return true;
    wn_outfile_abandon(&out);
    return false;
}

bool wn_store_finish(struct wn_store *s, const struct wn_store_product *p, wn_store_write_fn *write, void *arg,
                     struct wn_err *err)
{
    char *part = wn_asprintf(err, "%s.part", p->out);
    bool ok = part && write(arg, part, err);

    if (ok && !give_name(s, part, p, err)) {
        (void)wn_path_remove(part);
        ok = false;
    }
    free(part);
    if (ok)
        wn_store_remove(s);
    return ok;
}

static bool is_bare(const char *folder)
{
    struct wn_err ignored;
    char **names;
    size_t n;
    bool bare;

    if (!wn_path_is_folder(folder) || !wn_path_list(folder, &names, &n, &ignored))
        return false;
    bare = n == 0 || (n == 1 && strcmp(names[0], WN_STORE_LOCK) == 0);
    wn_names_free(names, n);
    return bare;
}

/*
 * The last steps of a run that ends, and the first of one that begins, leave a folder with nothing but the lock in it,
 * or nothing. One that was killed there leaves it for good, and nobody can tell any more whose it was: here it goes.
 * One with anything else in it, or of a run at work, stays.
 */
static void sweep(const char *folder)
{
    struct wn_err ignored;
    struct wn_lock lock;
    char *path;

    if (!is_bare(folder) || !(path = wn_path_join(folder, WN_STORE_LOCK, &ignored)))
        return;
    if (wn_lock_take(&lock, path, &ignored)) {
        wn_lock_remove(&lock);
        (void)wn_path_remove_folder(folder); /* which refuses when a run has begun in it meanwhile */
    }
    free(path);
}

/* The state of a folder whose run finished, and whose product is there; NULL: it did not, or is not. */
static json_t *find_finished(const char *folder, const struct wn_store_product *p)
{
    struct wn_err ignored;
    struct stamp stamp;
    json_t *state = wn_path_is_folder(folder) ? wn_store_state_load(folder, &ignored) : NULL;
    const char *told = json_string_value(json_object_get(state, FINISHED_KEY));

    if (told && take_stamp(p->out, p, &stamp) && strcmp(told, stamp.text) == 0)
        return state;
    json_decref(state);
    return NULL;
}

char *wn_store_folder(const char *named, const char *out, struct wn_err *err)
{
    return named ? wn_strdup(named, err) : wn_asprintf(err, "%s.work", out);
}

bool wn_store_look(const char *named, const struct wn_store_product *p, bool *left, struct wn_err *err)
{
    char *folder = wn_store_folder(named, p->out, err);
    json_t *state;

    if (!folder)
        return false;
    if (!named)
        sweep(folder);
    state = find_finished(folder, p);
    *left = state != NULL;
    json_decref(state);
    free(folder);
    return true;
}

bool wn_store_tidy(const char *folder, const struct wn_store_product *p, struct wn_store_open *o, bool *finished,
                   struct wn_err *err)
{
    json_t *state = find_finished(folder, p);
    struct wn_store s;
    char *line;

    *finished = state && wn_store_state_is_of(state, &o->facts);
    json_decref(state);
    if (!*finished)
        return true;
    o->left = WN_LEFT_FINISHED;
    if (!wn_store_open(&s, folder, o, err))
        return false;
    wn_store_remove(&s);
    line = wn_asprintf(err, "'%s' was complete already; leftovers of the run that made it are removed", p->out);
    if (line)
        wn_job_note(o->job, line);
    free(line);
    return line != NULL;
}
