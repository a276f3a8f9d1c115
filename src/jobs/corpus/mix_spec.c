/*
 * What is to be mixed, as people say it: "code=src,lib:40%" on the command line, or a SPEC.json
 * (docs/formats/corpus.md).
 */
#include "base/alloc.h"
#include "jobs/corpus/corpus.h"
#include "base/utf8.h"
#include "jobs/corpus/mix.h"
#include "sys/infile.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#define SPEC_BYTES_MOST ((uint64_t)16 << 20)

static void source_release(struct wn_mix_source *s)
{
    for (size_t i = 0; i < s->path_count; i++)
        free(s->paths[i]);
    free(s->paths);
    free(s->label);
    free(s->from);
    *s = (struct wn_mix_source){0};
}

void wn_mix_spec_release(struct wn_mix_spec *spec)
{
    for (size_t i = 0; i < spec->count; i++)
        source_release(&spec->sources[i]);
    free(spec->sources);
    free(spec->model);
    *spec = (struct wn_mix_spec){0};
}

static bool check_source(const struct wn_mix_spec *spec, const struct wn_mix_source *s, struct wn_err *err)
{
    size_t n = strlen(s->label);

    if (n == 0 || n > WN_CORPUS_LABEL_BYTES || strpbrk(s->label, "=,"))
        return wn_fail(err, WN_ERR_ARG, "label '%s': 1 to %d bytes without '=' and ',' are wanted", s->label,
                       WN_CORPUS_LABEL_BYTES);
    if (!wn_utf8_is_valid(s->label, n))
        return wn_fail(err, WN_ERR_ARG, "label '%s' is not UTF-8", s->label);
    for (size_t i = 0; i < spec->count; i++)
        if (strcmp(spec->sources[i].label, s->label) == 0)
            return wn_fail(err, WN_ERR_ARG, "source '%s' is there twice: name all its files in one place", s->label);
    if (!isfinite(s->share) || s->share <= 0)
        return wn_fail(err, WN_ERR_ARG, "source '%s': a share is a number above 0", s->label);
    if (s->path_count == 0)
        return wn_fail(err, WN_ERR_ARG, "source '%s' names no file", s->label);
    if (spec->count == WN_CORPUS_SOURCES)
        return wn_fail(err, WN_ERR_ARG, "more than %d sources", WN_CORPUS_SOURCES);
    return true;
}

/* Takes what s owns; releases it when it cannot be added. */
static bool add_source(struct wn_mix_spec *spec, struct wn_mix_source *s, struct wn_err *err)
{
    struct wn_mix_source *grown = NULL;

    if (check_source(spec, s, err))
        grown = wn_grow(spec->sources, &spec->room, spec->count + 1, sizeof *grown, err);
    if (!grown) {
        source_release(s);
        return false;
    }
    spec->sources = grown;
    spec->sources[spec->count++] = *s;
    return true;
}

/* path is taken; NULL: it could not be made. */
static bool add_path(struct wn_mix_source *s, char *path, struct wn_err *err)
{
    char **grown = path ? wn_realloc(s->paths, s->path_count + 1, sizeof *grown, err) : NULL;

    if (!grown) {
        free(path);
        return false;
    }
    s->paths = grown;
    s->paths[s->path_count++] = path;
    return true;
}

/* "40%" or "0.4", all of text; false, and nothing set, when it is none. */
static bool share_of(const char *text, double *share, bool *percent)
{
    char *end;
    double v = strtod(text, &end);
    bool sign = *end == '%';

    if (end == text || end[sign])
        return false;
    *share = v;
    *percent = sign;
    return true;
}

bool wn_mix_spec_add(struct wn_mix_spec *spec, const char *text, struct wn_err *err)
{
    const char *equals = strchr(text, '='), *colon = strrchr(text, ':'), *end;
    struct wn_mix_source s = {.share = 1};
    bool percent = false, ok;

    if (!equals)
        return wn_fail(err, WN_ERR_ARG, "'%s' is not LABEL=PATH[,PATH...][:SHARE], nor a SPEC.json", text);
    end = text + strlen(text);
    if (colon && colon > equals && share_of(colon + 1, &s.share, &percent))
        end = colon;
    s.label = wn_strndup(text, (size_t)(equals - text), err);
    ok = s.label != NULL;
    for (const char *p = equals + 1; ok && p < end;) {
        const char *comma = memchr(p, ',', (size_t)(end - p)), *stop = comma ? comma : end;

        ok = stop == p || add_path(&s, wn_strndup(p, (size_t)(stop - p), err), err);
        p = stop + 1;
    }
    if (!ok) {
        source_release(&s);
        return false;
    }
    if (!add_source(spec, &s, err))
        return false;
    spec->percents += percent;
    return true;
}

static bool known_keys(const json_t *object, const char *const *keys, struct wn_err *err)
{
    void *at = json_object_iter((json_t *)(uintptr_t)object);

    for (; at; at = json_object_iter_next((json_t *)(uintptr_t)object, at)) {
        const char *const *k = keys;

        while (*k && strcmp(*k, json_object_iter_key(at)) != 0)
            k++;
        if (!*k)
            return wn_fail(err, WN_ERR_FORMAT, "there is no key '%s'", json_object_iter_key(at));
    }
    return true;
}

/* *copy stays NULL when the key is absent. */
static bool take_text(const json_t *object, const char *key, char **copy, struct wn_err *err)
{
    const json_t *v = json_object_get(object, key);

    if (!v)
        return true;
    if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
        return wn_fail(err, WN_ERR_FORMAT, "'%s' is not a text", key);
    *copy = wn_strdup(json_string_value(v), err);
    return *copy != NULL;
}

static bool take_whole(const json_t *object, const char *key, uint64_t most, uint64_t *n, struct wn_err *err)
{
    const json_t *v = json_object_get(object, key);

    if (!v)
        return true;
    if (!json_is_integer(v) || json_integer_value(v) < 0 || (uint64_t)json_integer_value(v) > most)
        return wn_fail(err, WN_ERR_FORMAT, "'%s' is not a whole number of 0 .. %" PRIu64, key, most);
    *n = (uint64_t)json_integer_value(v);
    return true;
}

static bool take_share(struct wn_mix_source *s, const json_t *object, bool *percent, struct wn_err *err)
{
    const json_t *v = json_object_get(object, "share");

    *percent = false;
    s->share = 1;
    if (json_is_number(v))
        s->share = json_number_value(v);
    else if (v && !(json_is_string(v) && share_of(json_string_value(v), &s->share, percent)))
        return wn_fail(err, WN_ERR_FORMAT, "'share' is neither a number nor a text like \"40%%\"");
    return true;
}

/* "files" is one path or a list of them. */
static bool take_files(struct wn_mix_source *s, const json_t *object, const char *folder, struct wn_err *err)
{
    const json_t *files = json_object_get(object, "files");
    size_t n = json_is_array(files) ? json_array_size(files) : 1;

    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_is_array(files) ? json_array_get(files, i) : files;
        const char *path = json_string_value(v);

        if (!path || !*path)
            return wn_fail(err, WN_ERR_FORMAT, "'files' is not a path, nor a list of paths");
        if (!add_path(s, *path == '/' ? wn_strdup(path, err) : wn_path_join(folder, path, err), err))
            return false;
    }
    return true;
}

static bool take_source(struct wn_mix_spec *spec, const json_t *object, const char *folder, struct wn_err *err)
{
    static const char *const keys[] = {"label", "files", "share", "from", NULL};
    struct wn_mix_source s = {0};
    bool percent;

    if (!json_is_object(object))
        return wn_fail(err, WN_ERR_FORMAT, "it is not an object");
    if (known_keys(object, keys, err) && take_text(object, "label", &s.label, err) &&
        take_text(object, "from", &s.from, err) && take_share(&s, object, &percent, err) &&
        take_files(&s, object, folder, err) && (s.label || wn_fail(err, WN_ERR_FORMAT, "there is no 'label'"))) {
        spec->percents += percent;
        return add_source(spec, &s, err);
    }
    source_release(&s);
    return false;
}

static bool take_spec(struct wn_mix_spec *spec, const json_t *root, const char *folder, struct wn_err *err)
{
    static const char *const keys[] = {"sources", "tokens", "document_tokens", "seed", "model", NULL};
    const json_t *sources = json_object_get(root, "sources");
    uint64_t most = spec->document_tokens;

    if (!json_is_array(sources))
        return wn_fail(err, WN_ERR_FORMAT, "there is no list 'sources'");
    if (!known_keys(root, keys, err) || !take_whole(root, "tokens", INT64_MAX, &spec->tokens, err) ||
        !take_whole(root, "document_tokens", WN_MIX_DOCUMENT_MOST, &most, err) ||
        !take_whole(root, "seed", INT64_MAX, &spec->seed, err))
        return false;
    spec->document_tokens = (uint32_t)most;
    if (json_object_get(root, "model")) {
        free(spec->model);
        spec->model = NULL;
        if (!take_text(root, "model", &spec->model, err))
            return false;
    }
    for (size_t i = 0; i < json_array_size(sources); i++)
        if (!take_source(spec, json_array_get(sources, i), folder, err))
            return wn_fail_in(err, "entry %zu of 'sources'", i);
    return true;
}

bool wn_mix_spec_read(struct wn_mix_spec *spec, const char *path, struct wn_err *err)
{
    json_error_t at;
    json_t *root = NULL;
    size_t n;
    char *text = wn_infile_slurp(path, SPEC_BYTES_MOST, &n, err), *folder = NULL;
    bool ok = false;

    if (!text)
        return false;
    folder = wn_path_parent(path, err);
    if (folder) {
        root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &at);
        ok = root ? take_spec(spec, root, folder, err) : wn_fail(err, WN_ERR_FORMAT, "line %d: %s", at.line, at.text);
        ok = ok || wn_fail_in(err, "'%s'", path);
    }
    json_decref(root);
    free(folder);
    free(text);
    return ok;
}
