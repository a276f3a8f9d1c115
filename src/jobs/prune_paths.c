/* See prune_folder.h: questions about paths that keep an output from landing on its own source. */
#include "base/alloc.h"
#include "jobs/prune_folder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BLOCK_BYTES 512.0 /* the unit of st_blocks */

bool wn_path_same(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
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
