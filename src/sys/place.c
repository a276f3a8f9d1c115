/*
 * See place.h. The journal has a record for each name, "size mtime name" and a NUL: size and time of the new file, by
 * which it is known when it no longer is a .part (renaming changes neither), or "- -" where nothing new comes. What is
 * to be done about a record shows in which of NAME, NAME.part and NAME.old.part are there, so that it does not matter
 * where the run was killed, nor that a folder's renames reach the disk in no certain order.
 */
#include "sys/place.h"
#include "base/alloc.h"
#include "base/bytes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define JOURNAL_LIMIT ((uint64_t)64 << 20)

static char *old_name(const char *path, struct wn_err *err)
{
    return wn_asprintf(err, "%s.old.part", path);
}

static bool move(const char *from, const char *to, struct wn_err *err)
{
    return (!wn_file_refuses() && rename(from, to) == 0) ||
           wn_fail(err, WN_ERR_IO, "'%s' cannot be called '%s': %s", from, to, strerror(errno));
}

static bool add_record(struct wn_buf *b, const struct wn_placing *p, struct wn_err *err)
{
    struct stat st;

    if (!p->file)
        return wn_buf_printf(b, err, "- - %s", wn_path_name(p->path)) && wn_buf_add(b, "", 1, err);
    if (stat(p->file->part, &st) != 0)
        return wn_fail(err, WN_ERR_IO, "'%s': %s", p->file->part, strerror(errno));
    return wn_buf_printf(b, err, "%" PRIu64 " %" PRId64 " %s", (uint64_t)st.st_size, (int64_t)st.st_mtime,
                         wn_path_name(p->path)) &&
           wn_buf_add(b, "", 1, err);
}

/* The journal is on the disk and locked, or there is none. */
static bool write_journal(const char *journal, const struct wn_placing *p, size_t n, struct wn_lock *lock,
                          struct wn_err *err)
{
    struct wn_buf b = {0};
    bool ok = true;

    for (size_t i = 0; ok && i < n; i++)
        ok = add_record(&b, &p[i], err);
    ok = ok && wn_file_put(journal, b.at, b.n, false, err);
    wn_buf_release(&b);
    if (!ok)
        return false;
    if (wn_lock_take(lock, journal, err))
        return true;
    (void)wn_path_remove(journal);
    return false;
}

static bool set_aside(struct wn_placing *p, struct wn_err *err)
{
    char *old;

    if (!wn_path_exists(p->path))
        return true;
    old = old_name(p->path, err);
    p->aside = old && move(p->path, old, err);
    free(old);
    return p->aside;
}

static bool place_all(struct wn_placing *p, size_t n, bool overwrite, struct wn_err *err)
{
    for (size_t i = n; overwrite && i-- > 0;)
        if (!set_aside(&p[i], err))
            return false;
    for (size_t i = 0; i < n; i++) {
        if (!p[i].file)
            continue;
        p[i].file->overwrite = false; /* its place is free, or somebody else has just taken it */
        if (!wn_outfile_commit(p[i].file, err))
            return false;
        p[i].placed = true;
    }
    return true;
}

static void take_back(struct wn_placing *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct wn_err ignored;
        char *old = p[i].aside ? old_name(p[i].path, &ignored) : NULL;

        if (p[i].placed)
            (void)wn_path_remove(p[i].path);
        if (old && !wn_path_exists(p[i].path))
            (void)rename(old, p[i].path);
        free(old);
    }
}

/* From here on the new files are what counts. */
static bool remove_journal(const char *journal, struct wn_err *err)
{
    char *folder = wn_path_parent(journal, err);
    bool ok = folder &&
              ((!wn_file_refuses() && wn_path_remove(journal)) ||
               wn_fail(err, WN_ERR_IO, "'%s' cannot be removed", journal)) &&
              wn_path_sync(folder, err);

    free(folder);
    return ok;
}

/* Also those of a run that was killed right here. */
static void remove_old(const struct wn_placing *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct wn_err ignored;
        char *old = old_name(p[i].path, &ignored);

        if (old && !wn_file_refuses())
            (void)wn_path_remove(old);
        free(old);
    }
}

bool wn_place(const char *journal, struct wn_placing *p, size_t n, bool overwrite, struct wn_err *err)
{
    struct wn_lock lock = {0};
    bool ok;

    if (n == 1 && p[0].file)
        return wn_outfile_commit(p[0].file, err);
    for (size_t i = 0; i < n; i++)
        if (p[i].file && !wn_outfile_sync(p[i].file, err))
            return false;
    if (!write_journal(journal, p, n, &lock, err))
        return false;
    ok = place_all(p, n, overwrite, err) && remove_journal(journal, err);
    if (ok)
        remove_old(p, n);
    else
        take_back(p, n);
    if (ok)
        wn_lock_release(&lock);
    else
        wn_lock_remove(&lock);
    return ok;
}

static bool is_the_new_one(const char *path, uint64_t size, int64_t mtime)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == size && st.st_mtime == mtime;
}

/* One record: afterwards its new file, if any, is a .part and its old one has the name. */
static bool put_back(const char *folder, const char *record, struct wn_err *err)
{
    char *end, *path, *part = NULL, *old = NULL;
    uint64_t size = strtoull(record, &end, 10);
    int64_t mtime = *end == ' ' ? strtoll(end, &end, 10) : 0;
    bool is_new = record[0] != '-', ok;
    const char *name = is_new ? end + (*end == ' ') : record + strlen("- - ");

    if (!*name || strchr(name, '/'))
        return wn_fail(err, WN_ERR_FORMAT, "a record '%.80s' names no file of the folder", record);
    path = wn_path_join(folder, name, err);
    ok = path && (part = wn_asprintf(err, "%s.part", path)) && (old = old_name(path, err));
    if (ok && is_new && is_the_new_one(path, size, mtime)) {
        if (!wn_path_exists(part))
            ok = move(path, part, err);
        else if (wn_path_same(path, part)) /* its second name had been made, and the first not yet gone */
            (void)wn_path_remove(path);
    }
    if (ok && wn_path_exists(old) && !wn_path_exists(path))
        ok = move(old, path, err);
    free(old);
    free(part);
    free(path);
    return ok;
}

/* A record that the crash cut off has no NUL; nothing had been renamed then. */
static bool put_all_back(const char *journal, struct wn_err *err)
{
    size_t n;
    char *text = wn_file_slurp(journal, JOURNAL_LIMIT, &n, err), *folder = text ? wn_path_parent(journal, err) : NULL;
    bool ok = folder != NULL;

    for (size_t at = 0; ok && at < n && memchr(text + at, 0, n - at); at += strlen(text + at) + 1)
        ok = put_back(folder, text + at, err);
    ok = ok && wn_path_sync(folder, err);
    free(folder);
    free(text);
    return ok;
}

bool wn_place_back(const char *journal, struct wn_err *err)
{
    struct wn_lock lock;
    bool ok;

    if (!wn_path_exists(journal))
        return true;
    if (!wn_lock_take(&lock, journal, err))
        return err->code == WN_ERR_BUSY &&
               wn_fail(err, WN_ERR_BUSY, "'%s': another process is giving the files there their names", journal);
    ok = put_all_back(journal, err) || wn_fail_in(err, "'%s'", journal);
    if (ok)
        wn_lock_remove(&lock);
    else
        wn_lock_release(&lock);
    return ok;
}
