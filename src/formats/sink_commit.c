/*
 * See sink.h: what lies beside the weights, and how all of it gets its names at once (sys/place.h), with what goes when
 * it has.
 */
#include "base/alloc.h"
#include "formats/safetensors_index.h"
#include "formats/sink_parts.h"
#include "sys/place.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Of a name in the folder that the weights are in. */
static char *path_beside(const struct wn_sink *s, const char *name, struct wn_err *err)
{
    char *folder, *path;

    if (s->container == WN_CONTAINER_SAFETENSORS)
        return wn_path_join(s->out, name, err);
    folder = wn_path_parent(s->files[0].path, err);
    path = folder ? wn_path_join(folder, name, err) : NULL;
    free(folder);
    return path;
}

struct wn_outfile *wn_sink_beside(struct wn_sink *s, const char *name, struct wn_err *err)
{
    struct wn_sink_beside *more, *b;

    assert(s->state == WN_SINK_WRITING && !s->o.dry_run);
    more = wn_grow(s->beside, &s->beside_room, s->beside_count + 1, sizeof *more, err);
    if (!more)
        return NULL;
    s->beside = more;
    b = &more[s->beside_count];
    *b = (struct wn_sink_beside){.path = path_beside(s, name, err)};
    if (b->path && wn_outfile_open(&b->out, b->path, s->o.overwrite, err)) {
        s->beside_count++;
        return &b->out;
    }
    free(b->path);
    return NULL;
}

/*
 * Names in the order in which they are given: what goes only, weights, their index, what lies beside them. A loader
 * begins at the end of it, so that what is half placed opens nowhere.
 */
static size_t list_placings(struct wn_sink *s, char **stale, size_t stale_count, struct wn_placing *p)
{
    size_t n = 0;

    for (size_t i = 0; i < stale_count; i++)
        p[n++].path = stale[i];
    for (uint32_t f = 0; f < s->file_count; f++) {
        assert(s->files[f].out.at == s->files[f].bytes);
        p[n++] = (struct wn_placing){.path = s->files[f].path, .file = &s->files[f].out};
    }
    if (s->index_path)
        p[n++] = (struct wn_placing){.path = s->index_path, .file = &s->index};
    for (size_t i = 0; i < s->beside_count; i++)
        p[n++] = (struct wn_placing){.path = s->beside[i].path, .file = &s->beside[i].out};
    return n;
}

/* Turns names into paths. */
static bool in_folder(const struct wn_sink *s, char **names, size_t n, struct wn_err *err)
{
    for (size_t i = 0; i < n; i++) {
        char *path = path_beside(s, names[i], err);

        if (!path)
            return false;
        free(names[i]);
        names[i] = path;
    }
    return true;
}

/* An old record is not replaced when none is written: it tells of files that are gone then. */
static bool record_is_stale(const struct wn_sink *s)
{
    for (size_t i = 0; s->o.record_name && i < s->beside_count; i++)
        if (strcmp(wn_path_name(s->beside[i].path), s->o.record_name) == 0)
            return false;
    return s->o.record_name != NULL;
}

/* Paths of what goes when the new files have their names. Free with wn_names_free, also when it fails. */
static bool list_stale(const struct wn_sink *s, char ***stale, size_t *n, struct wn_err *err)
{
    size_t room;

    if (s->container == WN_CONTAINER_SAFETENSORS && !wn_safetensors_stale(s, stale, n, err))
        return false;
    room = *n;
    if (record_is_stale(s)) {
        char **more = wn_grow(*stale, &room, *n + 1, sizeof *more, err);

        if (!more)
            return false;
        *stale = more;
        if (!(more[*n] = wn_strdup(s->o.record_name, err)))
            return false;
        ++*n;
    }
    return in_folder(s, *stale, *n, err);
}

static bool commit_files(struct wn_sink *s, struct wn_err *err)
{
    struct wn_placing *p = NULL;
    char **stale = NULL;
    size_t n = 0;
    bool ok = true;

    if (s->o.overwrite)
        ok = list_stale(s, &stale, &n, err);
    ok = ok && (p = wn_alloc(n + s->file_count + 1 + s->beside_count, sizeof *p, err)) &&
         wn_place(s->journal, p, list_placings(s, stale, n, p), s->o.overwrite, err);
    free(p);
    wn_names_free(stale, n);
    return ok;
}

bool wn_sink_is_half_placed(const struct wn_sink *s)
{
    return wn_path_exists(s->journal);
}

bool wn_sink_put_back(const struct wn_sink *s, struct wn_err *err)
{
    return wn_place_back(s->journal, err);
}

#define OLD_END ".old.part"

/* NAME.old.part, whose NAME is taken by a new file, or was an old shard's, index' or record's that went. */
static bool was_set_aside(const struct wn_sink *s, char *name, const char *record_name, bool *so, struct wn_err *err)
{
    char *path;

    *so = false;
    if (!wn_ends_with(name, OLD_END))
        return true;
    name[strlen(name) - strlen(OLD_END)] = 0;
    path = path_beside(s, name, err);
    *so = path && (wn_path_is_file(path) || wn_safetensors_usual(name) || strcmp(name, WN_SAFETENSORS_INDEX) == 0 ||
                   (record_name && strcmp(name, record_name) == 0));
    name[strlen(name)] = OLD_END[0];
    free(path);
    return path != NULL;
}

static bool tidy_folder(const struct wn_sink *s, const char *record_name, struct wn_err *err)
{
    char **names;
    size_t n;
    bool ok = true, so;

    if (!wn_path_list(s->out, &names, &n, err))
        return false;
    for (size_t i = 0; ok && i < n; i++) {
        ok = was_set_aside(s, names[i], record_name, &so, err);
        if (ok && so) {
            char *path = path_beside(s, names[i], err);

            ok = path && (wn_path_remove(path) || wn_fail(err, WN_ERR_IO, "'%s' cannot be removed", path));
            free(path);
        }
    }
    wn_names_free(names, n);
    return ok;
}

/* What lies beside path, with that end, when it is to go. */
static bool tidy_name(const char *path, const char *end, bool only_same, struct wn_err *err)
{
    char *other = wn_asprintf(err, "%s%s", path, end);
    bool ok = other && ((only_same && !wn_path_same(path, other)) || wn_path_remove(other) ||
                        wn_fail(err, WN_ERR_IO, "'%s' cannot be removed", other));

    free(other);
    return ok;
}

static bool tidy_record(const struct wn_sink *s, const char *record_name, struct wn_err *err)
{
    char *path = record_name ? path_beside(s, record_name, err) : NULL;
    bool ok = !record_name || (path && tidy_name(path, OLD_END, false, err));

    free(path);
    return ok;
}

bool wn_sink_tidy(const struct wn_sink *s, const char *record_name, struct wn_err *err)
{
    bool is_folder = s->container == WN_CONTAINER_SAFETENSORS;

    for (uint32_t f = 0; f < s->file_count; f++)
        if (!tidy_name(s->files[f].path, ".part", true, err) ||
            (!is_folder && !tidy_name(s->files[f].path, OLD_END, false, err)))
            return false;
    return is_folder ? tidy_folder(s, record_name, err) : tidy_record(s, record_name, err);
}

bool wn_sink_commit(struct wn_sink *s, struct wn_err *err)
{
    bool ok;

    if (s->state != WN_SINK_WRITING || s->o.dry_run)
        return wn_fail(err, WN_ERR_ARG, "'%s': %s", s->out,
                       s->o.dry_run ? "a dry run leaves nothing to commit" : "it was not begun, or has failed");
    if (s->current < s->tensors.n)
        return wn_fail(err, WN_ERR_ARG, "'%s': tensor '%s' has %" PRIu64 " of its %" PRIu64 " bytes", s->out,
                       s->tensors.at[s->current].name, s->given, s->tensors.at[s->current].bytes);
    ok = commit_files(s, err);
    s->state = ok ? WN_SINK_COMMITTED : WN_SINK_FAILED;
    return ok;
}
