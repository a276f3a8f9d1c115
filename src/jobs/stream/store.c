/* See store.h. */
#include "jobs/stream/store_parts.h"
#include "base/alloc.h"
#include "base/checked.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define STATE_LIMIT 65536
#define STATE_NAME  "state.json"
#define CHECK_STEP  ((size_t)1 << 20)
#define LOCK_NAME   "winnow.lock"
#define MADE_KEY    "made" /* in the state: the folder is ours, and goes with what is in it */

static char *stream_path(const struct wn_store *s, uint32_t layer, struct wn_err *err)
{
    return wn_asprintf(err, "%s/stream-%03" PRIu32, s->folder, layer);
}

static char *record_path(const struct wn_store *s, uint32_t layer, struct wn_err *err)
{
    return wn_asprintf(err, "%s/layer-%03" PRIu32, s->folder, layer);
}

static bool has(char *path)
{
    bool there = path && wn_path_exists(path);

    free(path);
    return there;
}

bool wn_store_has_stream(const struct wn_store *s, uint32_t layer)
{
    struct wn_err ignored;

    return has(stream_path(s, layer, &ignored));
}

bool wn_store_has_record(const struct wn_store *s, uint32_t layer)
{
    struct wn_err ignored;

    return has(record_path(s, layer, &ignored));
}

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

/* Removes winnow's own files but for state and lock; what else lies there is not ours. */
static void clear(const struct wn_store *s)
{
    struct wn_err ignored;
    char **names;
    size_t n;

    if (!wn_path_list(s->folder, &names, &n, &ignored))
        return;
    for (size_t i = 0; i < n; i++)
        if (is_ours(names[i]) && strcmp(names[i], STATE_NAME) != 0)
            remove_in(s, names[i]);
    wn_names_free(names, n);
}

/* A folder with the state, with nothing at all, or with what a run leaves that died before its state was written. */
static bool check_folder(const struct wn_store *s, struct wn_err *err)
{
    char **names;
    size_t n;
    const char *foreign = NULL;
    bool state = false;

    if (!wn_path_list(s->folder, &names, &n, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        state |= strcmp(names[i], STATE_NAME) == 0;
        if (strcmp(names[i], LOCK_NAME) != 0 && strcmp(names[i], STATE_NAME ".part") != 0)
            foreign = names[i];
    }
    if (foreign && !state)
        wn_fail(err, WN_ERR_ARG, "'%s' is no work folder of winnow's, but has '%s' in it: name a new folder", s->folder,
                foreign);
    wn_names_free(names, n);
    return state || !foreign;
}

static bool lock_take(struct wn_store *s, struct wn_err *err)
{
    char *path = wn_path_join(s->folder, LOCK_NAME, err);
    bool taken = false, ok = path && wn_lock_take(&s->lock, path, &taken, err);

    free(path);
    if (taken)
        wn_fail(err, WN_ERR_ARG, "another run is at work in '%s', or has just finished", s->folder);
    return ok;
}

static bool state_compare(const char *path, json_t *state, const struct wn_store_fact *facts, size_t n,
                          struct wn_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const char *was = json_string_value(json_object_get(state, facts[i].what));

        if (!was || strcmp(was, facts[i].value) != 0)
            return wn_fail(err, WN_ERR_ARG,
                           "'%s' was left by another run, its %s is '%.63s' and not '%s': take it up with the same "
                           "arguments, or start anew with --fresh",
                           path, facts[i].what, was ? was : "not told", facts[i].value);
    }
    return true;
}

static bool state_write(const struct wn_store *s, const char *path, const struct wn_store_fact *facts, size_t n,
                        struct wn_err *err)
{
    json_t *state = json_object();
    char *text = NULL;
    bool ok = state && json_object_set_new(state, MADE_KEY, json_boolean(s->made)) == 0;

    for (size_t i = 0; i < n && ok; i++)
        ok = json_object_set_new(state, facts[i].what, json_string(facts[i].value)) == 0;
    if (ok)
        text = json_dumps(state, JSON_INDENT(2));
    json_decref(state);
    if (!text)
        return wn_fail(err, WN_ERR_NOMEM, "'%s': no memory for it", path);
    ok = wn_file_put(path, text, strlen(text), true, err);
    free(text);
    return ok;
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

static bool state_agree(struct wn_store *s, const struct wn_store_fact *facts, size_t n, bool fresh, struct wn_err *err)
{
    char *path = wn_path_join(s->folder, STATE_NAME, err);
    json_t *state = NULL;
    bool ok = path && state_read(path, &state, err);

    s->made |= json_is_true(json_object_get(state, MADE_KEY));
    if (ok && !fresh && wn_path_exists(path)) {
        ok = state_compare(path, state, facts, n, err);
    } else if (ok) {
        clear(s);
        ok = state_write(s, path, facts, n, err);
    }
    json_decref(state);
    free(path);
    return ok;
}

bool wn_store_open(struct wn_store *s, const char *folder, const struct wn_store_fact *facts, size_t n, bool fresh,
                   struct wn_err *err)
{
    *s = (struct wn_store){.folder = wn_strdup(folder, err), .made = !wn_path_exists(folder)};
    if (s->folder && wn_path_make_folder(folder, err) && check_folder(s, err) && lock_take(s, err) &&
        state_agree(s, facts, n, fresh, err))
        return true;
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

void wn_store_shape(struct wn_store *s, uint64_t tokens, uint64_t token_bytes)
{
    s->tokens = tokens;
    s->token_bytes = token_bytes;
}

static bool stream_find(const struct wn_store *s, uint32_t layer, struct wn_file *f, struct wn_err *err)
{
    char *path = stream_path(s, layer, err);
    uint64_t bytes = s->tokens * s->token_bytes + WN_DIGEST_BYTES;
    bool ok = path && wn_file_open(f, path, err);

    free(path);
    if (!ok)
        return wn_fail_in(err, "the work folder is damaged, start anew with --fresh");
    if (f->bytes == bytes)
        return true;
    wn_fail(err, WN_ERR_FORMAT,
            "'%s' has %" PRIu64 " bytes and should have %" PRIu64
            ": the work folder is damaged, start anew with --fresh",
            f->path, f->bytes, bytes);
    wn_file_close(f);
    return false;
}

/* The next open stream: from memory, or the file, which what is held is filled from first. */
static bool stream_open(struct wn_store *s, uint32_t layer, struct wn_err *err)
{
    struct wn_file f;

    if (!wn_held_find(s, layer)) {
        if (!stream_find(s, layer, &f, err))
            return false;
        if (!wn_held_load(s, layer, &f, err)) {
            wn_file_close(&f);
            return false;
        }
        if (s->held_count)
            wn_file_close(&f);
        else
            s->stream[s->stream_count] = f;
    }
    s->memory[s->stream_count++] = wn_held_find(s, layer);
    return true;
}

/* The digest of all but the last WN_DIGEST_BYTES, which are `said`. */
static bool stream_digest(const struct wn_file *f, struct wn_fingerprint *print, const struct wn_job *job,
                          uint8_t said[WN_DIGEST_BYTES], uint8_t digest[WN_DIGEST_BYTES], struct wn_err *err)
{
    uint64_t end = f->bytes - WN_DIGEST_BYTES;
    char *buffer = wn_alloc(CHECK_STEP, 1, err);
    bool ok = buffer && wn_fingerprint_begin(print, err);

    for (uint64_t at = 0; ok && at < end; at += CHECK_STEP) {
        size_t n = (size_t)wn_min_u64(CHECK_STEP, end - at);

        ok = wn_file_read(f, at, buffer, n, err) && wn_fingerprint_add(print, buffer, n, err) &&
             wn_job_progress(job, "checking", at + n, end, "bytes", err);
    }
    free(buffer);
    return ok && wn_file_read(f, end, said, WN_DIGEST_BYTES, err) && wn_fingerprint_end(print, digest, err);
}

bool wn_store_check_stream(const struct wn_store *s, uint32_t layer, const struct wn_job *job, struct wn_err *err)
{
    struct wn_fingerprint print = {0};
    uint8_t said[WN_DIGEST_BYTES], digest[WN_DIGEST_BYTES];
    struct wn_file f;
    bool ok;

    if (!stream_find(s, layer, &f, err))
        return false;
    ok = stream_digest(&f, &print, job, said, digest, err);
    if (ok && memcmp(said, digest, sizeof said) != 0)
        ok = wn_fail(err, WN_ERR_FORMAT,
                     "'%s' is not what was written: the work folder is damaged, start anew with --fresh", f.path);
    wn_fingerprint_release(&print);
    wn_file_close(&f);
    return ok;
}

bool wn_store_open_streams(struct wn_store *s, const uint32_t *layers, size_t n, struct wn_err *err)
{
    wn_store_close_streams(s);
    s->stream = wn_alloc(n, sizeof *s->stream, err);
    s->memory = wn_alloc(n, sizeof *s->memory, err);
    if (!s->stream || !s->memory)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!stream_open(s, layers[i], err))
            return false;
    return true;
}

void wn_store_close_streams(struct wn_store *s)
{
    for (size_t i = 0; i < s->stream_count; i++)
        if (!s->memory[i])
            wn_file_close(&s->stream[i]);
    free(s->stream);
    free(s->memory);
    s->stream = NULL;
    s->memory = NULL;
    s->stream_count = 0;
}

bool wn_store_read(const struct wn_store *s, size_t i, uint64_t first, size_t n, float *dst, struct wn_err *err)
{
    assert(i < s->stream_count);
    if (s->memory[i]) {
        memcpy(dst, (const char *)s->memory[i] + first * s->token_bytes, n * (size_t)s->token_bytes);
        return true;
    }
    return wn_file_read(&s->stream[i], first * s->token_bytes, dst, n * (size_t)s->token_bytes, err);
}

bool wn_store_begin_stream(struct wn_store *s, uint32_t layer, struct wn_err *err)
{
    char *path = stream_path(s, layer, err);
    bool ok;

    if (!path)
        return false;
    wn_fingerprint_release(&s->print);
    ok = wn_held_begin(s, layer, err) && wn_fingerprint_begin(&s->print, err) &&
         wn_outfile_open(&s->out, path, true, err);
    free(path);
    return ok;
}

bool wn_store_write(struct wn_store *s, size_t n, const float *src, struct wn_err *err)
{
    size_t bytes = n * (size_t)s->token_bytes;

    wn_held_write(s, s->out.at, src, bytes);
    return wn_fingerprint_add(&s->print, src, bytes, err) && wn_outfile_write(&s->out, src, bytes, err);
}

bool wn_store_commit_stream(struct wn_store *s, struct wn_err *err)
{
    uint8_t digest[WN_DIGEST_BYTES];

    assert(s->out.at == s->tokens * s->token_bytes);
    if (!wn_fingerprint_end(&s->print, digest, err) || !wn_outfile_write(&s->out, digest, sizeof digest, err) ||
        !wn_outfile_commit(&s->out, err))
        return false;
    wn_held_commit(s);
    return true;
}

void wn_store_drop_stream(struct wn_store *s, uint32_t layer)
{
    struct wn_err ignored;
    char *path = stream_path(s, layer, &ignored);

    wn_held_drop(s, layer);
    if (path)
        (void)wn_path_remove(path);
    free(path);
}

bool wn_store_put_record(struct wn_store *s, uint32_t layer, struct wn_bytes record, struct wn_err *err)
{
    uint64_t sum = wn_bytes_hash(record);
    struct wn_buf b = {0};
    char *path = record_path(s, layer, err);
    bool ok;

    ok = path && wn_buf_add(&b, record.at, record.n, err) && wn_buf_add(&b, &sum, sizeof sum, err) &&
         wn_file_put(path, b.at, b.n, true, err);
    wn_buf_release(&b);
    free(path);
    return ok;
}

char *wn_store_get_record(const struct wn_store *s, uint32_t layer, size_t n, struct wn_err *err)
{
    char *path = record_path(s, layer, err), *text;
    uint64_t sum;
    size_t bytes;

    if (!path)
        return NULL;
    text = wn_file_slurp(path, (uint64_t)n + sizeof sum, &bytes, err);
    if (text && bytes == n + sizeof sum)
        memcpy(&sum, text + n, sizeof sum);
    if (text && (bytes != n + sizeof sum || sum != wn_bytes_hash((struct wn_bytes){text, n}))) {
        wn_fail(err, WN_ERR_FORMAT, "'%s' is not what was written: the work folder is damaged, start anew with --fresh",
                path);
        free(text);
        text = NULL;
    }
    free(path);
    return text;
}
