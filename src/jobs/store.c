/* See store.h. */
#include "jobs/store.h"
#include "base/alloc.h"
#include "base/checked.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define STATE_LIMIT 65536

/* ---- names ---- */

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

static bool starts_with(const char *name, const char *start)
{
    return strncmp(name, start, strlen(start)) == 0;
}

/* Removes winnow's own files, but for the lock; what else lies there is not ours. */
static void clear(const struct wn_store *s)
{
    struct wn_err ignored;
    char **names;
    size_t n;

    if (!wn_path_list(s->folder, &names, &n, &ignored))
        return;
    for (size_t i = 0; i < n; i++) {
        char *path = wn_path_join(s->folder, names[i], &ignored);

        if (path && (starts_with(names[i], "stream-") || starts_with(names[i], "layer-") ||
                     starts_with(names[i], "state.json")))
            (void)unlink(path);
        free(path);
    }
    wn_names_free(names, n);
}

/* ---- the folder, its lock and its state ---- */

/* flock, not fcntl: it also keeps two runs of one process apart. */
static bool lock_take(struct wn_store *s, struct wn_err *err)
{
    char *path = wn_path_join(s->folder, "lock", err);
    struct stat st;

    if (!path)
        return false;
    s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (s->lock_fd < 0)
        wn_fail(err, WN_ERR_IO, "'%s': %s", path, strerror(errno));
    free(path);
    if (s->lock_fd < 0)
        return false;
    if (flock(s->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? wn_fail(err, WN_ERR_ARG, "another calibration is at work in '%s'", s->folder)
                                    : wn_fail(err, WN_ERR_IO, "'%s/lock': %s", s->folder, strerror(errno));
    /* whoever held it may just have finished and removed it */
    if (fstat(s->lock_fd, &st) != 0 || st.st_nlink == 0)
        return wn_fail(err, WN_ERR_ARG, "another calibration has just finished in '%s'", s->folder);
    return true;
}

static bool state_compare(const char *path, const struct wn_store_fact *facts, size_t n, struct wn_err *err)
{
    size_t bytes;
    char *text = wn_file_slurp(path, STATE_LIMIT, &bytes, err);
    json_t *state = text ? json_loadb(text, bytes, 0, NULL) : NULL;
    bool same = true;

    free(text);
    if (!text)
        return false;
    for (size_t i = 0; i < n && same; i++) {
        const char *was = json_string_value(json_object_get(state, facts[i].what));

        same = was && strcmp(was, facts[i].value) == 0;
        if (!same)
            wn_fail(err, WN_ERR_ARG,
                    "'%s' was left by another run, its %s is '%.63s' and not '%s': take it up with the same arguments, "
                    "or start anew with --fresh",
                    path, facts[i].what, was ? was : "not told", facts[i].value);
    }
    json_decref(state);
    return same;
}

static bool state_write(const char *path, const struct wn_store_fact *facts, size_t n, struct wn_err *err)
{
    json_t *state = json_object();
    char *text = NULL;
    bool ok = state != NULL;

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

static bool state_agree(struct wn_store *s, const struct wn_store_fact *facts, size_t n, bool fresh, struct wn_err *err)
{
    char *path = wn_path_join(s->folder, "state.json", err);
    bool ok;

    if (!path)
        return false;
    if (!fresh && wn_path_exists(path)) {
        ok = state_compare(path, facts, n, err);
    } else {
        clear(s);
        ok = state_write(path, facts, n, err);
    }
    free(path);
    return ok;
}

bool wn_store_open(struct wn_store *s, const char *folder, const struct wn_store_fact *facts, size_t n, bool fresh,
                   struct wn_err *err)
{
    *s = (struct wn_store){.lock_fd = -1};
    s->folder = wn_strdup(folder, err);
    if (s->folder && wn_path_make_folder(folder, err) && lock_take(s, err) && state_agree(s, facts, n, fresh, err))
        return true;
    wn_store_close(s);
    return false;
}

void wn_store_close(struct wn_store *s)
{
    if (!s->folder)
        return;
    wn_store_close_streams(s);
    wn_outfile_abandon(&s->out);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    free(s->folder);
    *s = (struct wn_store){.lock_fd = -1};
}

void wn_store_remove(struct wn_store *s)
{
    struct wn_err ignored;
    char *lock = wn_path_join(s->folder, "lock", &ignored);

    wn_store_close_streams(s);
    clear(s);
    if (lock)
        (void)unlink(lock);
    free(lock);
    (void)rmdir(s->folder);
    wn_store_close(s);
}

/* ---- streams ---- */

void wn_store_shape(struct wn_store *s, uint64_t tokens, uint64_t token_bytes)
{
    s->tokens = tokens;
    s->token_bytes = token_bytes;
}

static bool stream_open(struct wn_store *s, uint32_t layer, struct wn_err *err)
{
    char *path = stream_path(s, layer, err);
    struct wn_file *f = &s->stream[s->stream_count];
    bool ok;

    if (!path)
        return false;
    ok = wn_file_open(f, path, err);
    free(path);
    if (!ok)
        return wn_fail_in(err, "the work folder is damaged, start anew with --fresh");
    s->stream_count++;
    return f->bytes == s->tokens * s->token_bytes || wn_fail(err, WN_ERR_FORMAT,
                                                             "'%s' has %" PRIu64 " bytes and should have %" PRIu64
                                                             ": the work folder is damaged, start anew with --fresh",
                                                             f->path, f->bytes, s->tokens * s->token_bytes);
}

bool wn_store_open_streams(struct wn_store *s, const uint32_t *layers, size_t n, struct wn_err *err)
{
    wn_store_close_streams(s);
    s->stream = wn_alloc(n, sizeof *s->stream, err);
    if (!s->stream)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!stream_open(s, layers[i], err))
            return false;
    return true;
}

void wn_store_close_streams(struct wn_store *s)
{
    for (size_t i = 0; i < s->stream_count; i++)
        wn_file_close(&s->stream[i]);
    free(s->stream);
    s->stream = NULL;
    s->stream_count = 0;
}

bool wn_store_read(const struct wn_store *s, size_t i, uint64_t first, size_t n, float *dst, struct wn_err *err)
{
    assert(i < s->stream_count);
    return wn_file_read(&s->stream[i], first * s->token_bytes, dst, n * (size_t)s->token_bytes, err);
}

bool wn_store_begin_stream(struct wn_store *s, uint32_t layer, struct wn_err *err)
{
    char *path = stream_path(s, layer, err);
    bool ok;

    if (!path)
        return false;
    ok = wn_outfile_open(&s->out, path, true, err);
    free(path);
    return ok;
}

bool wn_store_write(struct wn_store *s, size_t n, const float *src, struct wn_err *err)
{
    return wn_outfile_write(&s->out, src, n * (size_t)s->token_bytes, err);
}

bool wn_store_commit_stream(struct wn_store *s, struct wn_err *err)
{
    assert(s->out.at == s->tokens * s->token_bytes);
    return wn_outfile_commit(&s->out, err);
}

void wn_store_drop_stream(struct wn_store *s, uint32_t layer)
{
    struct wn_err ignored;
    char *path = stream_path(s, layer, &ignored);

    if (path)
        (void)unlink(path);
    free(path);
}

/* ---- records ---- */

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
