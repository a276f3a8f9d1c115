/* See seal_json.h: what lies in a folder though its record does not tell of it. */
#include "base/alloc.h"
#include "jobs/prune/prune_folder.h"
#include "jobs/prune/seal_json.h"

#include <stdlib.h>
#include <string.h>

/* Kinds of files that loaders read without being told: weights, configs and vocabularies, templates, and code. */
static bool is_loaded(const char *name)
{
    static const char *const ends[] = {".safetensors", ".bin",      ".pt",    ".pth", ".gguf", ".json", ".jsonl",
                                       ".model",       ".tiktoken", ".jinja", ".py",  ".pyc",  ".so"};
    static const char *const names[] = {"merges.txt", "vocab.txt"};

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (wn_ends_with(name, ends[i]))
            return true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool is_in(const json_t *list, const char *name)
{
    const json_t *entry;
    size_t i;

    json_array_foreach(list, i, entry) {
        const char *told = json_string_value(json_object_get(entry, "name"));

        if (told && strcmp(told, name) == 0)
            return true;
    }
    return false;
}

/* Weights are the model's by their place, whatever the record calls them. */
static bool is_weights(const struct wn_source *s, const char *name)
{
    for (size_t i = 0; i < wn_source_file_count(s); i++)
        if (strcmp(wn_path_name(wn_source_file_at(s, i)->file.path), name) == 0)
            return true;
    return false;
}

bool wn_seal_check_names(const json_t *root, const struct wn_source *out, struct wn_err *err)
{
    const json_t *beside = json_object_get(root, "beside");
    char **names;
    size_t n;
    bool ok = true;

    if (!wn_folder_is_whole(out))
        return true;
    if (!wn_path_list(wn_source_folder(out), &names, &n, err))
        return false;
    for (size_t i = 0; ok && i < n; i++)
        ok = names[i][0] == '.' || strcmp(names[i], WN_SEAL_NAME) == 0 || !is_loaded(names[i]) ||
             is_in(beside, names[i]) || is_weights(out, names[i]) ||
             wn_fail(err, WN_ERR_DIFFERENT,
                     "'%s' is not in its record: it was added, and is of a kind that loaders read", names[i]);
    wn_names_free(names, n);
    return ok;
}
