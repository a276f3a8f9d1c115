/* See wn_output_spares in <winnow/job.h>. */
#include "base/alloc.h"
#include "model/weights.h"

#include <stdlib.h>
#include <winnow/job.h>

struct output {
    const char *path;
    char *part; /* owned */
};

/* False, with the reason, when the output or its .part is the file that `what` ("the input") is. */
static bool differs(const struct output *o, const char *input, const char *what, struct wn_err *err)
{
    if (wn_path_same(o->path, input))
        return wn_fail(err, WN_ERR_ARG, "the output '%s' is %s '%s'", o->path, what, input);
    if (wn_path_same(o->part, input))
        return wn_fail(err, WN_ERR_ARG, "'%s', as which the output is written first, is %s '%s'", o->part, what, input);
    return true;
}

/* A folder's config and tokenizer are as much the model as its shards. */
static bool spares_folder(const struct output *o, const char *folder, struct wn_err *err)
{
    char **names;
    size_t n;
    bool ok = true;

    if (!wn_path_list(folder, &names, &n, err))
        return false;
    for (size_t i = 0; ok && i < n; i++) {
        char *path = wn_path_join(folder, names[i], err);

        ok = path && differs(o, path, "a file of the model's folder,", err);
        free(path);
    }
    wn_names_free(names, n);
    return ok;
}

static bool spares_model(const struct output *o, const struct wn_source *s, struct wn_err *err)
{
    for (size_t i = 0; i < wn_source_file_count(s); i++)
        if (!differs(o, wn_source_file_at(s, i)->file.path, "a file of the model,", err))
            return false;
    return wn_source_container(s) != WN_CONTAINER_SAFETENSORS || spares_folder(o, wn_source_folder(s), err);
}

bool wn_output_spares(const char *out, const char *const *inputs, size_t n, const struct wn_model *m,
                      struct wn_err *err)
{
    struct output o = {out, wn_asprintf(err, "%s.part", out)};
    bool ok = o.part != NULL;

    for (size_t i = 0; ok && i < n; i++)
        ok = !inputs[i] || differs(&o, inputs[i], "the input", err);
    /* what does not exist is nobody's; a model's folder is only walked when it must be */
    if (ok && m && (wn_path_exists(out) || wn_path_exists(o.part)))
        ok = spares_model(&o, wn_model_source(m), err);
    free(o.part);
    return ok;
}
