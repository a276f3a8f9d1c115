/*
 * A work folder: whose it is, what its run is made of, and how it goes. See store.h.
 */
#include "base/alloc.h"
#include "jobs/stream/store_parts.h"

#include <stdlib.h>

#define STATE_LIMIT  65536
#define STATE_NAME   "state.json"
#define MADE_KEY     "made" /* in the state: the folder is ours, and goes with what is in it */
#define REMOVING_KEY "removing"

/* "stream-012" and the like: what stream_path and record_path make of a number. */
static bool is_numbered(const char *name, size_t n, const char *start)
{
    size_t digits = strlen(start);

    if (n < digits + 3 || strncmp(name, start, digits) != 0)
        return false;
    for (size_t i = digits; i < n; i++)
        if (name[i] < '0' || name[i] > '9')
            return false;
    return n == digits + 3 || name[digits] != '0';
}

/* Winnow's own files, whole or being written, but for the lock. */
static bool is_ours(const char *name)
{
    size_t n = strlen(name);

    if (wn_ends_with(name, ".part"))
        n -= strlen(".part");
    return (n == strlen(STATE_NAME) && memcmp(name, STATE_NAME, n) == 0) || is_numbered(name, n, "stream-") ||
           is_numbered(name, n, "layer-");
}

static void remove_in(const struct wn_store *s, const char *name)
{
    struct wn_err ignored;
    char *path = wn_path_join(s->folder, name, &ignored);

    if (path)
        (void)wn_path_remove(path);
    free(path);
}

/*
 * A folder with the state, with nothing at all, or with what a run leaves that died before its state was written: that
 * was an empty folder, most likely of its own making.
 */
static bool check_folder(struct wn_store *s, struct wn_err *err)
{
    char **names;
    size_t n;
    const char *foreign = NULL;
    bool state = false;

    if (!wn_path_list(s->folder, &names, &n, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        state |= strcmp(names[i], STATE_NAME) == 0;
        if (strcmp(names[i], WN_STORE_LOCK) != 0 && strcmp(names[i], STATE_NAME ".part") != 0)
            foreign = names[i];
    }
    if (foreign && !state)
        wn_fail(err, WN_ERR_ARG, "'%s' is no work folder of winnow's, but has '%s' in it: name a new folder", s->folder,
                foreign);
    wn_names_free(names, n);
    s->made |= n > 0 && !state && !foreign;
    return state || !foreign;
}

static bool lock_take(struct wn_store *s, struct wn_err *err)
{
    char *path = wn_path_join(s->folder, WN_STORE_LOCK, err);
    bool ok = path && wn_lock_take(&s->lock, path, err);

    free(path);
    if (!ok && err->code == WN_ERR_BUSY)
        wn_fail(err, WN_ERR_BUSY, "another run is at work in '%s', or has just finished", s->folder);
    return ok;
}

/* The number of the first fact that is another one; their number: all are the same. */
static size_t state_compare(json_t *state, const struct wn_store_facts *f)
{
    size_t i = 0;

    for (; i < f->n; i++) {
        const char *was = json_string_value(json_object_get(state, f->fact[i].what));

        if (!was || strcmp(was, f->fact[i].value) != 0)
            break;
    }
    return i;
}

/* fact is not what the state says. */
static bool fail_other(const char *path, json_t *state, const struct wn_store_fact *fact, const char *advice,
                       struct wn_err *err)
{
    const char *was = json_string_value(json_object_get(state, fact->what));

    return wn_fail(err, WN_ERR_ARG, "'%s' was left by another run, its %s is '%.63s' and not '%s': %s", path,
                   fact->what, was ? was : "not told", fact->value, advice);
}

/* *anew: what lies there is to go. */
static bool state_judge(const char *path, json_t *state, const struct wn_store_open *o, bool *anew, struct wn_err *err)
{
    size_t other = state_compare(state, &o->facts);
    const struct wn_store_fact *fact = &o->facts.fact[other];

    *anew = other < o->facts.n;
    if (!*anew)
        return true;
    if (o->left == WN_LEFT_REFUSED || other == 0)
        return fail_other(path, state, fact, "take it up with the same arguments, or start anew with --fresh", err);
    (void)fail_other(path, state, fact, "starting anew", err);
    wn_job_note(o->job, err->msg);
    return true;
}

/* Takes state. */
static bool state_put(const struct wn_store *s, json_t *state, struct wn_err *err)
{
    char *path = wn_path_join(s->folder, STATE_NAME, err), *text = NULL;
    bool ok;

    if (path && state && json_object_set_new(state, MADE_KEY, json_boolean(s->made)) == 0)
        text = json_dumps(state, JSON_INDENT(2));
    ok = text && wn_file_put(path, text, strlen(text), true, err);
    if (path && !text)
        wn_fail(err, WN_ERR_NOMEM, "'%s': no memory for it", path);
    json_decref(state);
    free(text);
    free(path);
    return ok;
}

static bool state_write(const struct wn_store *s, const struct wn_store_facts *f, struct wn_err *err)
{
    json_t *state = json_object();
    bool ok = state != NULL;

    for (size_t i = 0; i < f->n && ok; i++)
        ok = json_object_set_new(state, f->fact[i].what, json_string(f->fact[i].value)) == 0;
    if (ok)
        return state_put(s, state, err);
    json_decref(state);
    return wn_fail(err, WN_ERR_NOMEM, "'%s': no memory for its state", s->folder);
}

/* What an earlier run wrote; *state NULL when there is none, or what is there is no JSON. */
static bool state_read(const char *path, json_t **state, struct wn_err *err)
{
    size_t bytes;
    char *text;

    *state = NULL;
    if (!wn_path_exists(path))
        return true;
    text = wn_file_slurp(path, STATE_LIMIT, &bytes, err);
    if (!text)
        return false;
    *state = json_loadb(text, bytes, 0, NULL);
    free(text);
    return true;
}

json_t *wn_store_state_load(const char *folder, struct wn_err *err)
{
    char *path = wn_path_join(folder, STATE_NAME, err);
    json_t *state = NULL;
    bool ok = path && state_read(path, &state, err);

    free(path);
    return ok ? state : NULL;
}

bool wn_store_state_is_of(json_t *state, const struct wn_store_facts *f)
{
    return state_compare(state, f) == f->n;
}

bool wn_store_state_set(const struct wn_store *s, const char *key, json_t *value, struct wn_err *err)
{
    json_t *state = wn_store_state_load(s->folder, err);

    if (!json_is_object(state)) {
        json_decref(state);
        state = json_object();
    }
    if (json_object_set_new(state, key, value) == 0)
        return state_put(s, state, err);
    json_decref(state);
    return wn_fail(err, WN_ERR_NOMEM, "'%s': no memory for its state", s->folder);
}

/*
 * Removes winnow's own files but for state and lock; what else lies there is not ours. Records without their streams
 * would be taken for finished layers, so the state first says what is going on, for whoever comes after a kill.
 */
static void clear(const struct wn_store *s)
{
    struct wn_err ignored;
    char **names;
    size_t n;

    bool told = wn_store_state_set(s, REMOVING_KEY, json_true(), &ignored);

    (void)told; /* a disk that is full is no reason to leave what fills it */
    if (!wn_path_list(s->folder, &names, &n, &ignored))
        return;
    for (size_t i = 0; i < n; i++)
        if (is_ours(names[i]) && strcmp(names[i], STATE_NAME) != 0)
            remove_in(s, names[i]);
    wn_names_free(names, n);
}

static bool state_agree(struct wn_store *s, const struct wn_store_open *o, struct wn_err *err)
{
    char *path = wn_path_join(s->folder, STATE_NAME, err);
    json_t *state = NULL;
    bool ok = path && state_read(path, &state, err), there = ok && wn_path_exists(path), anew = true;

    s->made |= json_is_true(json_object_get(state, MADE_KEY));
    if (there && o->left == WN_LEFT_FINISHED)
        anew = false;
    else if (there && o->left != WN_LEFT_CLEARED && !json_is_true(json_object_get(state, REMOVING_KEY)))
        ok = state_judge(path, state, o, &anew, err);
    if (ok && anew && there)
        clear(s);
    if (ok && anew)
        ok = state_write(s, &o->facts, err);
    json_decref(state);
    free(path);
    return ok;
}

bool wn_store_open(struct wn_store *s, const char *folder, const struct wn_store_open *o, struct wn_err *err)
{
    bool made = !wn_path_exists(folder);

    *s = (struct wn_store){.folder = wn_strdup(folder, err), .made = made};
    if (s->folder && wn_path_make_folder(folder, err) && check_folder(s, err) && lock_take(s, err) &&
        state_agree(s, o, err))
        return true;
    if (made) { /* nothing says that it is ours yet */
        wn_lock_remove(&s->lock);
        (void)wn_path_remove_folder(folder);
    }
    wn_store_close(s);
    return false;
}

void wn_store_close(struct wn_store *s)
{
    if (!s->folder)
        return;
    wn_store_close_streams(s);
    wn_store_let_go(s);
    wn_outfile_abandon(&s->out);
    wn_fingerprint_release(&s->print);
    wn_lock_release(&s->lock);
    free(s->folder);
    *s = (struct wn_store){0};
}

void wn_store_remove(struct wn_store *s)
{
    wn_store_close_streams(s);
    clear(s);
    remove_in(s, STATE_NAME); /* last: without it, what lies there would not be known as ours */
    wn_lock_remove(&s->lock);
    if (s->made)
        (void)wn_path_remove_folder(s->folder);
    wn_store_close(s);
}
