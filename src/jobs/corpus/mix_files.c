/* The files of a source: see mix.h. */
#include "base/alloc.h"
#include "jobs/corpus/mix.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MOST 64 /* folders within folders; links may go round */

static bool add_file(struct wn_mix_files *f, const char *path, struct wn_err *err)
{
    char **grown = wn_grow(f->paths, &f->room, f->n + 1, sizeof *grown, err);

    if (!grown)
        return false;
    f->paths = grown;
    f->paths[f->n] = wn_strdup(path, err);
    return f->paths[f->n] && ++f->n;
}

static bool add_found(struct wn_mix_files *f, const char *path, int depth, struct wn_err *err);

static bool add_folder(struct wn_mix_files *f, const char *folder, int depth, struct wn_err *err)
{
    char **names;
    size_t n;
    bool ok = true;

    if (depth == DEPTH_MOST)
        return wn_fail(err, WN_ERR_ARG, "'%s': folders %d deep: does a link go round?", folder, DEPTH_MOST);
    if (!wn_path_list(folder, &names, &n, err))
        return false;
    for (size_t i = 0; ok && i < n; i++) {
        char *path = names[i][0] == '.' ? NULL : wn_path_join(folder, names[i], err);

        ok = path ? add_found(f, path, depth + 1, err) : names[i][0] == '.';
        free(path);
    }
    wn_names_free(names, n);
    return ok;
}

/* What is neither a file nor a folder (a device, a link to nothing) is nobody's text. */
static bool add_found(struct wn_mix_files *f, const char *path, int depth, struct wn_err *err)
{
    if (wn_path_is_folder(path))
        return add_folder(f, path, depth, err);
    return !wn_path_is_file(path) || add_file(f, path, err);
}

static bool add_matching(struct wn_mix_files *f, const char *pattern, struct wn_err *err)
{
    glob_t found;
    int code = glob(pattern, GLOB_NOSORT, NULL, &found);
    bool ok = true;

    if (code == GLOB_NOMATCH)
        return wn_fail(err, WN_ERR_IO, "'%s': there is no such file, nor one that it matches", pattern);
    if (code != 0)
        return wn_fail(err, code == GLOB_NOSPACE ? WN_ERR_NOMEM : WN_ERR_IO, "'%s': looking for files failed", pattern);
    for (size_t i = 0; ok && i < found.gl_pathc; i++)
        ok = add_found(f, found.gl_pathv[i], 0, err);
    globfree(&found);
    return ok;
}

bool wn_mix_files_add(struct wn_mix_files *f, const char *path, struct wn_err *err)
{
    size_t before = f->n;
    bool ok = true;

    if (wn_path_is_folder(path))
        ok = add_folder(f, path, 0, err);
    else if (wn_path_exists(path))
        ok = add_file(f, path, err); /* a pipe is refused where it is opened */
    else
        ok = add_matching(f, path, err);
    return ok && (f->n > before || wn_fail(err, WN_ERR_ARG, "'%s': there is no file in it", path));
}

static int path_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void wn_mix_files_sort(struct wn_mix_files *f)
{
    size_t n = 0;

    if (f->n)
        qsort(f->paths, f->n, sizeof *f->paths, path_order);
    for (size_t i = 0; i < f->n; i++) {
        if (n > 0 && strcmp(f->paths[n - 1], f->paths[i]) == 0)
            free(f->paths[i]);
        else
            f->paths[n++] = f->paths[i];
    }
    f->n = n;
}

void wn_mix_files_release(struct wn_mix_files *f)
{
    for (size_t i = 0; i < f->n; i++)
        free(f->paths[i]);
    free(f->paths);
    *f = (struct wn_mix_files){0};
}
