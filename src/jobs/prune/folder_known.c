/* See folder_known.h. The names are those that transformers, and the engines that follow it, look for. */
#include "jobs/prune/folder_known.h"
#include "base/alloc.h"
#include "jobs/prune/code_imports.h"
#include "jobs/prune/prune_meta.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define CODE_BYTES_MAX ((uint64_t)16 << 20)

static const char *const configs[] = {"config.json", "tokenizer_config.json", "preprocessor_config.json",
                                      "processor_config.json"};

static const char *const others[] = {"generation_config.json",
                                     "video_preprocessor_config.json",
                                     "tokenizer.json",
                                     "tokenizer.model",
                                     "tiktoken.model",
                                     "special_tokens_map.json",
                                     "added_tokens.json",
                                     "vocab.json",
                                     "merges.txt",
                                     "chat_template.jinja",
                                     "chat_template.json"};

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* wn_import_fn: x.py, unless it is known already. */
static bool add_module(void *arg, struct wn_bytes module, struct wn_err *err)
{
    struct wn_known *k = arg;
    char *name = wn_asprintf(err, "%.*s.py", (int)(module.n < 200 ? module.n : 200), module.at);
    char **more = name ? wn_grow(k->code, &k->room, k->n + 1, sizeof(*k->code), err) : NULL;

    if (more)
        k->code = more;
    if (!more || is_one_of(name, (const char *const *)k->code, k->n)) {
        free(name);
        return more != NULL;
    }
    k->code[k->n++] = name;
    return true;
}

/* "modeling_x.XForCausalLM" names modeling_x.py; "other/repository--modeling_x.X" a file that lies elsewhere. */
static bool add_class(struct wn_known *k, const char *class, struct wn_err *err)
{
    const char *dot = strrchr(class, '.');

    if (!dot || dot == class || strchr(class, '/') || strstr(class, "--"))
        return true;
    return add_module(k, (struct wn_bytes){class, (size_t)(dot - class)}, err);
}

/* A value of auto_map: a class, or a list of them with nulls. */
static bool add_classes(struct wn_known *k, json_t *value, struct wn_err *err)
{
    json_t *one;
    size_t i;

    if (json_is_string(value))
        return add_class(k, json_string_value(value), err);
    json_array_foreach(value, i, one) {
        if (json_is_string(one) && !add_class(k, json_string_value(one), err))
            return false;
    }
    return true;
}

/* A wrapper's config has others inside it, with maps of their own. jansson bounds the depth. */
static bool walk(struct wn_known *k, json_t *config, struct wn_err *err)
{
    const char *key, *name;
    json_t *value, *class;

    json_object_foreach(config, key, value) {
        if (strcmp(key, "auto_map") != 0) {
            if (!walk(k, value, err))
                return false;
            continue;
        }
        json_object_foreach(value, name, class) {
            if (!add_classes(k, class, err))
                return false;
        }
    }
    return true;
}

/* What the code at `path` imports from beside it; nothing where it is no file, or a larger one than code is. */
static bool add_imports(struct wn_known *k, const char *path, struct wn_err *err)
{
    struct wn_file f;
    char *text;
    size_t n;
    bool ok, small;

    if (!wn_path_is_file(path))
        return true;
    if (!wn_file_open(&f, path, err))
        return false;
    small = f.bytes <= CODE_BYTES_MAX;
    wn_file_close(&f);
    if (!small)
        return true;
    text = wn_file_slurp(path, CODE_BYTES_MAX, &n, err);
    ok = text && wn_code_imports((struct wn_bytes){text, n}, add_module, k, err);
    free(text);
    return ok;
}

/* Of all code that is known, and of what that brings in. */
static bool follow_imports(struct wn_known *k, const char *folder, struct wn_err *err)
{
    bool ok = true;

    for (size_t i = 0; ok && i < k->n; i++) {
        char *path = wn_path_join(folder, k->code[i], err);

        ok = path && add_imports(k, path, err);
        free(path);
    }
    return ok;
}

bool wn_known_init(struct wn_known *k, const char *folder, struct wn_err *err)
{
    bool ok = true;

    *k = (struct wn_known){0};
    for (size_t i = 0; ok && i < sizeof(configs) / sizeof(configs[0]); i++) {
        char *path = wn_path_join(folder, configs[i], err), *text = NULL;
        size_t n;

        ok = path != NULL;
        if (ok && wn_path_is_file(path) && (ok = (text = wn_file_slurp(path, WN_CONFIG_BYTES_MAX, &n, err)) != NULL)) {
            json_t *config = json_loadb(text, n, 0, NULL);

            ok = walk(k, config, err);
            json_decref(config);
        }
        free(text);
        free(path);
    }
    return ok && follow_imports(k, folder, err);
}

bool wn_known_has(const struct wn_known *k, const char *name)
{
    return is_one_of(name, configs, sizeof(configs) / sizeof(configs[0])) ||
           is_one_of(name, others, sizeof(others) / sizeof(others[0])) ||
           is_one_of(name, (const char *const *)k->code, k->n);
}

void wn_known_release(struct wn_known *k)
{
    for (size_t i = 0; i < k->n; i++)
        free(k->code[i]);
    free(k->code);
    *k = (struct wn_known){0};
}
