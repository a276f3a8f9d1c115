/* Streams and records of a work folder: store.h. The folder itself is in store_folder.c. */
#include "jobs/stream/store_parts.h"
#include "base/alloc.h"
#include "base/checked.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK_STEP ((size_t)1 << 20)

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

bool wn_store_check_room(const struct wn_store *s, uint64_t bytes, struct wn_err *err)
{
    uint64_t room;

    if (!wn_path_space(s->folder, &room, err))
        return false;
    return room >= bytes ||
           wn_fail(err, WN_ERR_IO, "'%s': what the run leaves there takes %" PRIu64 " bytes, %" PRIu64 " are free",
                   s->folder, bytes, room);
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
    char *path = record_path(s, layer, err);
    struct wn_outfile out = {0};
    bool ok = path && wn_outfile_open(&out, path, true, err);

    if (ok) {
        ok = wn_outfile_write(&out, record.at, record.n, err) && wn_outfile_write(&out, &sum, sizeof sum, err) &&
             wn_outfile_commit(&out, err);
        if (!ok)
            wn_outfile_abandon(&out);
    }
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
