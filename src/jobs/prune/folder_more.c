/* See folder_more.h. */
#include "jobs/prune/folder_more.h"
#include "jobs/prune/prune_folder.h"

#include <stdlib.h>
#include <string.h>

static bool ends_with_any(const char *name, const char *const *ends, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (wn_ends_with(name, ends[i]))
            return true;
    return false;
}

bool wn_name_is_weights(const char *name)
{
    static const char *const ends[] = {".safetensors", ".gguf", ".bin", ".pt", ".pth", ".npz", ".h5", ".onnx"};

    return ends_with_any(name, ends, sizeof ends / sizeof ends[0]);
}

/* Kinds of files that loaders read without being told: weights, configs and vocabularies, templates, and code. */
static bool is_loaded(const char *name)
{
    static const char *const ends[] = {".json", ".jsonl", ".model", ".tiktoken", ".jinja", ".py", ".pyc", ".so"};

    return wn_name_is_weights(name) || ends_with_any(name, ends, sizeof ends / sizeof ends[0]) ||
           strcmp(name, "merges.txt") == 0 || strcmp(name, "vocab.txt") == 0;
}

static bool check_name(const struct wn_source *out, const char *name, const char *complaint, struct wn_err *err)
{
    char *path = wn_path_join(wn_source_folder(out), name, err);
    bool harmless = path && (name[0] == '.' || !is_loaded(name) || wn_path_is_folder(path));

    if (path && !harmless)
        wn_fail(err, WN_ERR_DIFFERENT, "'%s' %s", name, complaint);
    free(path);
    return harmless;
}

bool wn_folder_check_more(const struct wn_source *out, wn_folder_known_fn *known, const void *arg,
                          const char *complaint, bool *more, struct wn_err *err)
{
    char **names;
    size_t n;
    bool ok = true;

    if (!wn_folder_is_whole(out))
        return true;
    if (!wn_path_list(wn_source_folder(out), &names, &n, err))
        return false;
    for (size_t i = 0; ok && i < n; i++) {
        if (wn_source_has_file(out, names[i]) || known(arg, names[i]))
            continue;
        *more = true;
        ok = check_name(out, names[i], complaint, err);
    }
    wn_names_free(names, n);
    return ok;
}
