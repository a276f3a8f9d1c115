/* See consume.h. */
#include "jobs/prune/consume.h"
#include "base/alloc.h"
#include "jobs/talk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARK_LIMIT ((uint64_t)1 << 16)
#define PROBE      4096

/*
 * The mark names the output, however it is spelled, so that no other one is made of what is left: by its real path, or
 * if it has no name yet, by that of its folder.
 */
static bool find_real(struct wn_consume *c, const char *out, struct wn_err *err)
{
    char *plain = wn_strdup(out, err), *folder, *real;
    size_t n = plain ? strlen(plain) : 0;

    if (!plain)
        return false;
    while (n > 1 && plain[n - 1] == '/')
        plain[--n] = 0;
    c->out = realpath(plain, NULL);
    folder = c->out ? NULL : wn_path_parent(plain, err);
    real = folder ? realpath(folder, NULL) : NULL;
    if (real)
        c->out = wn_path_join(real, wn_path_name(plain), err);
    else if (folder)
        wn_fail(err, WN_ERR_IO, "'%s': there is no such folder to put '%s' in", folder, out);
    free(real);
    free(folder);
    free(plain);
    return c->out != NULL;
}

static bool read_mark(struct wn_consume *c, struct wn_err *err)
{
    size_t n;
    char *text = wn_file_slurp(c->mark, MARK_LIMIT, &n, err);
    bool ok = text && (strcmp(text, c->out) == 0 ||
                       wn_fail(err, WN_ERR_ARG, "the source has given bytes away to '%s', and cannot become '%s'", text,
                               c->out));

    free(text);
    c->begun = ok;
    return ok;
}

static bool check_files(const struct wn_source *s, struct wn_err *err)
{
    for (size_t i = 0; i < wn_source_file_count(s); i++) {
        const char *path = wn_source_file_at(s, i)->file.path;

        if (!wn_path_is_sole(path))
            return wn_fail(err, WN_ERR_ARG,
                           "'%s' is a link, or has another name: somebody else reads it, and it is not given away",
                           path);
        if (access(path, W_OK) != 0)
            return wn_fail(err, WN_ERR_IO, "'%s' may not be written, so it cannot be given away", path);
    }
    return true;
}

/* Tried out on a file of our own, before hours of work. */
static bool check_system(const struct wn_consume *c, struct wn_err *err)
{
    char zeros[PROBE] = {0}, *probe = wn_asprintf(err, "%s.probe.part", c->mark);
    bool ok = probe && wn_file_put(probe, zeros, sizeof zeros, true, err);

    ok = ok && wn_file_punch(probe, 0, sizeof zeros, err);
    if (probe)
        (void)wn_path_remove(probe);
    free(probe);
    return ok;
}

static bool find_last(struct wn_consume *c, struct wn_err *err)
{
    c->last = wn_alloc(wn_source_file_count(c->keep->source), sizeof *c->last, err);
    for (size_t i = 0; c->last && i < c->keep->tensor_count; i++) {
        const struct wn_keep_tensor *t = &c->keep->tensors[i];

        if (t->from && c->last[t->from->file] < t->file)
            c->last[t->from->file] = t->file;
    }
    return c->last != NULL;
}

bool wn_consume_init(struct wn_consume *c, const struct wn_keep *keep, const char *out, bool recast, struct wn_err *err)
{
    *c = (struct wn_consume){.on = true, .keep = keep};
    if (recast)
        return wn_fail(err, WN_ERR_ARG, "a source is consumed only by copies within its container");
    if (!find_real(c, out, err))
        return false;
    c->mark = wn_source_consumed_mark(keep->source, err);
    if (!c->mark || (wn_path_exists(c->mark) && !read_mark(c, err)))
        return false;
    return check_files(keep->source, err) && check_system(c, err) && find_last(c, err);
}

/*
 * The output's files have their names on the disk, and so has its folder, which may be new: a crash must not take away
 * what nothing is left to make again.
 */
static bool sync_names(const struct wn_consume *c, struct wn_err *err)
{
    char *folder = wn_path_parent(c->out, err);
    bool ok = folder && (!wn_path_is_folder(c->out) || wn_path_sync(c->out, err)) && wn_path_sync(folder, err);

    free(folder);
    return ok;
}

/* The mark is on the disk before the first byte goes. */
static bool put_mark(struct wn_consume *c, struct wn_err *err)
{
    if (c->begun)
        return true;
    c->begun = wn_file_put(c->mark, c->out, strlen(c->out), false, err);
    return c->begun;
}

/* All of a source file behind its header, once nothing takes from it any more; before that, tensor by tensor. */
static bool free_files(const struct wn_consume *c, uint32_t file, struct wn_err *err)
{
    for (size_t i = 0; i < wn_source_file_count(c->keep->source); i++) {
        const struct wn_source_file *f = wn_source_file_at(c->keep->source, i);

        if (c->last[i] == file && f->file.bytes > f->header_bytes &&
            !wn_file_punch(f->file.path, f->header_bytes, f->file.bytes - f->header_bytes, err))
            return false;
    }
    return true;
}

bool wn_consume_file(struct wn_consume *c, uint32_t file, struct wn_err *err)
{
    if (!c->on)
        return true;
    if (!sync_names(c, err) || !put_mark(c, err))
        return false;
    for (size_t i = 0; i < c->keep->tensor_count; i++) {
        const struct wn_keep_tensor *t = &c->keep->tensors[i];

        if (t->from && t->file == file && c->last[t->from->file] > file &&
            !wn_file_punch(wn_source_file_at(c->keep->source, t->from->file)->file.path, t->from->at, t->from->bytes,
                           err))
            return false;
    }
    return free_files(c, file, err);
}

bool wn_consume_end(const struct wn_consume *c, const struct wn_job *job, struct wn_err *err)
{
    char *line;

    if (!c->on)
        return true;
    line = wn_asprintf(err, "the weights of '%s' are given away; what is left of its files can be removed",
                       wn_source_path(c->keep->source));
    if (line)
        wn_job_note(job, line);
    free(line);
    return line != NULL;
}

void wn_consume_release(struct wn_consume *c)
{
    free(c->out);
    free(c->mark);
    free(c->last);
    *c = (struct wn_consume){0};
}
