/*
 * Names and folders. See file.h.
 */
#include "sys/file.h"
#include "base/alloc.h"
#include "base/checked.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

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

bool wn_path_make_folder(const char *path, struct wn_err *err)
{
    if (mkdir(path, 0777) == 0)
        return true;
    if (errno == EEXIST && wn_path_is_folder(path))
        return true;
    return wn_fail(err, WN_ERR_IO, "folder '%s': %s", path, strerror(errno));
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

static bool add_name(char ***names, size_t *n, const char *name, struct wn_err *err)
{
    /* doubling at the powers of two */
    if ((*n & (*n - 1)) == 0) {
        char **more = wn_realloc(*names, *n ? *n * 2 : 1, sizeof **names, err);

        if (!more)
            return false;
        *names = more;
    }
    (*names)[*n] = wn_strdup(name, err);
    if (!(*names)[*n])
        return false;
    (*n)++;
    return true;
}

bool wn_path_list(const char *folder, char ***names, size_t *n, struct wn_err *err)
{
    DIR *d = opendir(folder);
    struct dirent *e;
    bool ok = true;

    *names = NULL;
    *n = 0;
    if (!d)
        return wn_fail(err, WN_ERR_IO, "folder '%s': %s", folder, strerror(errno));
    while (ok && (errno = 0, e = readdir(d)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            ok = add_name(names, n, e->d_name, err);
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

bool wn_path_space(const char *folder, uint64_t *free_bytes, struct wn_err *err)
{
    struct statvfs v;

    if (statvfs(folder, &v) != 0)
        return wn_fail(err, WN_ERR_IO, "'%s': %s", folder, strerror(errno));
    if (!wn_mul_u64(v.f_bavail, v.f_frsize, free_bytes))
        *free_bytes = UINT64_MAX;
    return true;
}
