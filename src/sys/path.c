/*
 * Names and folders. See file.h.
 */
#include "sys/file.h"
#include "base/alloc.h"
#include "base/checked.h"

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define BLOCK_BYTES 512.0 /* the unit of st_blocks */

bool wn_path_exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

bool wn_path_is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool wn_path_is_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool wn_path_make_folder(const char *path, struct wn_err *err)
{
    if (mkdir(path, 0777) == 0)
        return true;
    if (errno == EEXIST && wn_path_is_folder(path))
        return true;
    return wn_fail(err, WN_ERR_IO, "folder '%s': %s", path, strerror(errno));
}

bool wn_path_remove(const char *path)
{
    return unlink(path) == 0 || errno == ENOENT;
}

bool wn_path_remove_folder(const char *path)
{
    return rmdir(path) == 0;
}

char *wn_path_join(const char *folder, const char *name, struct wn_err *err)
{
    size_t n = strlen(folder);

    return wn_asprintf(err, "%s%s%s", folder, n > 0 && folder[n - 1] == '/' ? "" : "/", name);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void wn_names_free(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

static bool add_name(char ***names, size_t *n, size_t *room, const char *name, struct wn_err *err)
{
    char **more = wn_grow(*names, room, *n + 1, sizeof **names, err);

    if (!more)
        return false;
    *names = more;
    (*names)[*n] = wn_strdup(name, err);
    return (*names)[*n] && ++*n;
}

bool wn_path_list(const char *folder, char ***names, size_t *n, struct wn_err *err)
{
    DIR *d = opendir(folder);
    struct dirent *e;
    size_t room = 0;
    bool ok = true;

    *names = NULL;
    *n = 0;
    if (!d)
        return wn_fail(err, WN_ERR_IO, "folder '%s': %s", folder, strerror(errno));
    while (ok && (errno = 0, e = readdir(d)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            ok = add_name(names, n, &room, e->d_name, err);
    if (ok && errno != 0)
        ok = wn_fail(err, WN_ERR_IO, "folder '%s': %s", folder, strerror(errno));
    (void)closedir(d);
    if (!ok) {
        wn_names_free(*names, *n);
        *names = NULL;
        *n = 0;
        return false;
    }
    if (*n > 1)
        qsort(*names, *n, sizeof **names, by_bytes);
    return true;
}

char *wn_path_parent(const char *path, struct wn_err *err)
{
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    while (n > 1 && path[n - 1] == '/')
        n--;
    return n ? wn_strndup(path, n, err) : wn_strdup(".", err);
}

const char *wn_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

bool wn_path_same(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* An absolute path without links: each step up is a real folder. */
static bool any_ancestor_is(char *real, const char *folder)
{
    for (;;) {
        char *slash = strrchr(real, '/');

        if (wn_path_same(real, folder))
            return true;
        if (!slash || slash == real)
            return wn_path_same("/", folder);
        *slash = 0;
    }
}

bool wn_path_inside(const char *path, const char *folder)
{
    struct wn_err err;
    char *at = wn_strdup(path, &err), *real = NULL;
    bool inside = false;

    /* the nearest ancestor that exists decides */
    while (at && !(real = realpath(at, NULL))) {
        char *up = wn_path_parent(at, &err);
        bool top = !up || strcmp(up, at) == 0;

        free(at);
        at = up;
        if (top)
            break;
    }
    if (real)
        inside = any_ancestor_is(real, folder);
    free(real);
    free(at);
    return inside;
}

double wn_path_filled(const char *path)
{
    struct stat st;
    double share;

    if (stat(path, &st) != 0 || st.st_size <= 0)
        return 1;
    share = (double)st.st_blocks * BLOCK_BYTES / (double)st.st_size;
    return share < 1 ? share : 1;
}

static _Atomic uint64_t pretended = UINT64_MAX;

void wn_path_pretend_space(uint64_t free_bytes)
{
    atomic_store(&pretended, free_bytes);
}

bool wn_path_space(const char *folder, uint64_t *free_bytes, struct wn_err *err)
{
    struct statvfs v;

    if (statvfs(folder, &v) != 0)
        return wn_fail(err, WN_ERR_IO, "'%s': %s", folder, strerror(errno));
    if (!wn_mul_u64(v.f_bavail, v.f_frsize, free_bytes))
        *free_bytes = UINT64_MAX;
    *free_bytes = wn_min_u64(*free_bytes, atomic_load(&pretended));
    return true;
}
