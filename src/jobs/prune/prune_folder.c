/* See prune_folder.h. */
#include "jobs/prune/prune_folder.h"
#include "base/alloc.h"
#include "jobs/prune/folder_known.h"
#include "jobs/prune/folder_more.h"
#include "jobs/prune/prune_meta.h"
#include "jobs/prune/seal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_NAME "config.json"

bool wn_folder_is_whole(const struct wn_source *s)
{
    return wn_path_is_folder(wn_source_path(s));
}

static void say_left_behind(const struct wn_job *job, const char *name, const char *why)
{
    char line[512];

    if (!job || !job->note)
        return;
    (void)snprintf(line, sizeof(line), "'%s' is not copied: %s", name, why);
    job->note(job->arg, line);
}

/* Decides about one name of the source's folder, which is *path. */
static bool take_name(struct wn_folder *f, const struct wn_keep *k, char *name, const char *path,
                      const struct wn_job *job, struct wn_err *err)
{
    struct wn_file file;

    if (wn_source_has_file(k->source, name) || strcmp(name, WN_SAFETENSORS_INDEX) == 0)
        return true;
    if (name[0] == '.' || wn_ends_with(name, ".part")) {
        say_left_behind(job, name, name[0] == '.' ? "it is hidden" : "it is an unfinished file");
        return true;
    }
    if (strcmp(name, WN_SEAL_NAME) == 0) {
        say_left_behind(job, name, "it tells of the source's own files");
        return true;
    }
    if (!wn_path_is_file(path)) {
        say_left_behind(job, name, wn_path_is_folder(path) ? "it is a folder" : "it is no regular file");
        return true;
    }
    if (wn_name_is_weights(name)) {
        say_left_behind(job, name, "it is not one of the model's files");
        return true;
    }
    if (strcmp(name, CONFIG_NAME) == 0) {
        f->has_config = true;
        return true;
    }
    if (!wn_file_open(&file, path, err))
        return false;
    f->bytes += file.bytes;
    wn_file_close(&file);
    f->copied[f->n] = wn_strdup(name, err);
    return f->copied[f->n++] != NULL;
}

/* Strikes out what is none of a single file's model; names that stay keep their order. */
static bool keep_known(char **names, size_t *n, const char *folder, struct wn_err *err)
{
    struct wn_known known;
    bool ok = wn_known_init(&known, folder, err);
    size_t kept = 0;

    for (size_t i = 0; ok && i < *n; i++) {
        if (wn_known_has(&known, names[i]))
            names[kept++] = names[i];
        else
            free(names[i]);
    }
    if (ok)
        *n = kept;
    wn_known_release(&known);
    return ok;
}

static bool list_folder(struct wn_folder *f, const struct wn_keep *k, const struct wn_job *job, struct wn_err *err)
{
    const char *folder = wn_source_folder(k->source);
    char **names;
    size_t n;
    bool ok;

    if (!wn_path_list(folder, &names, &n, err))
        return false;
    ok = (wn_folder_is_whole(k->source) || keep_known(names, &n, folder, err)) &&
         (f->copied = wn_alloc(n, sizeof(*f->copied), err)) != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        char *path = wn_path_join(folder, names[i], err);

        ok = path && take_name(f, k, names[i], path, job, err);
        free(path);
    }
    wn_names_free(names, n);
    return ok;
}

static bool make_config(struct wn_folder *f, const struct wn_keep *k, const struct wn_plan *plan, struct wn_err *err)
{
    char *path, *text = NULL;
    size_t n;
    bool ok;

    if (!f->has_config)
        return k->identity || wn_fail(err, WN_ERR_FORMAT,
                                      "'%s' has no " CONFIG_NAME ", so nothing would tell the new number of experts",
                                      wn_source_folder(k->source));
    path = wn_path_join(wn_source_folder(k->source), CONFIG_NAME, err);
    ok = path && (text = wn_file_slurp(path, WN_CONFIG_BYTES_MAX, &n, err)) &&
         (wn_prune_config(k, plan, text, n, &f->config, err) || wn_fail_in(err, "'%s'", path));
    if (ok)
        f->bytes += f->config.n;
    free(text);
    free(path);
    return ok;
}

bool wn_folder_init(struct wn_folder *f, const struct wn_keep *k, const struct wn_plan *plan, const struct wn_job *job,
                    struct wn_err *err)
{
    *f = (struct wn_folder){0};
    if (wn_source_container(k->source) != WN_CONTAINER_SAFETENSORS)
        return true;
    if (list_folder(f, k, job, err) && make_config(f, k, plan, err))
        return true;
    wn_folder_release(f);
    return false;
}

bool wn_folder_recast(struct wn_folder *f, const struct wn_keep *k, const struct wn_recast_out *made,
                      const char *plan_name, struct wn_err *err)
{
    char *path = wn_path_join(wn_source_folder(k->source), CONFIG_NAME, err), *text = NULL;
    struct wn_buf config = {0};
    size_t n;
    bool ok = path && (text = wn_file_slurp(path, WN_CONFIG_BYTES_MAX, &n, err)) &&
              (wn_recast_config(&made->recast, &made->list, text, n, plan_name, &config, err) ||
               wn_fail_in(err, "'%s'", path));

    free(text);
    free(path);
    if (!ok) {
        wn_buf_release(&config);
        return false;
    }
    f->bytes += config.n - f->config.n;
    wn_buf_release(&f->config);
    f->config = config;
    return true;
}

void wn_folder_release(struct wn_folder *f)
{
    for (size_t i = 0; i < f->n; i++)
        free(f->copied[i]);
    free(f->copied);
    wn_buf_release(&f->config);
    *f = (struct wn_folder){0};
}

static bool copy_one(const char *folder, const char *name, struct wn_sink *sink, struct wn_err *err)
{
    char *path = wn_path_join(folder, name, err);
    struct wn_outfile *to;
    struct wn_file from;
    bool ok = path && wn_file_open(&from, path, err);

    free(path);
    if (!ok)
        return false;
    to = wn_sink_beside(sink, name, err);
    ok = to && wn_outfile_copy(to, &from, 0, from.bytes, err) && wn_outfile_finish(to, err);
    wn_file_close(&from);
    return ok;
}

bool wn_folder_write(const struct wn_folder *f, const struct wn_keep *k, struct wn_sink *sink, struct wn_err *err)
{
    for (size_t i = 0; i < f->n; i++)
        if (!copy_one(wn_source_folder(k->source), f->copied[i], sink, err))
            return false;
    return true;
}

bool wn_folder_write_config(const struct wn_folder *f, struct wn_sink *sink, struct wn_err *err)
{
    struct wn_outfile *config;

    if (!f->has_config)
        return true;
    config = wn_sink_beside(sink, CONFIG_NAME, err);
    return config && wn_outfile_write(config, f->config.at, f->config.n, err) && wn_outfile_finish(config, err);
}
