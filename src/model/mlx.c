/* See mlx.h. */
#include "model/mlx.h"
#include "base/alloc.h"
#include "model/config_json.h"
#include "model/names.h"
#include "model/own.h"
#include "quant/affine.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MXFP4_BITS  4
#define MXFP4_GROUP 32

struct wn_mlx {
    json_t *root;       /* owned */
    const json_t *said; /* its "quantization"; NULL: nothing is quantised */
};

static bool wrong(const char *module, const char *key, const json_t *v, const char *wanted, struct wn_err *err)
{
    char name[160];

    (void)snprintf(name, sizeof(name), "quantization%s%.100s.%s", *module ? "." : "", module, key);
    return wn_json_wrong(name, v, wanted, err);
}

static bool read_count(const char *module, const json_t *o, const char *key, uint32_t *n, struct wn_err *err)
{
    const json_t *v = wn_json_get(o, key);

    if (!v)
        return wn_fail(err, WN_ERR_FORMAT, "config: 'quantization%s%.100s' lacks '%s'", *module ? "." : "", module,
                       key);
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > UINT32_MAX)
        return wrong(module, key, v, "a whole number of 0 .. 4294967295", err);
    *n = (uint32_t)json_integer_value(v);
    return true;
}

/* One object with mode, bits and group_size. module: "" for the defaults. */
static bool read_form(const char *module, const json_t *o, struct wn_mlx_form *f, struct wn_err *err)
{
    const json_t *mode = wn_json_get(o, "mode");
    const char *name = mode ? json_string_value(mode) : "affine"; /* what MLX takes when nothing is said */
    struct wn_affine_form affine = {.stored = WN_BF16};

    *f = (struct wn_mlx_form){0};
    if (!read_count(module, o, "bits", &f->bits, err) || !read_count(module, o, "group_size", &f->group, err))
        return false;
    if (name && strcmp(name, "mxfp4") == 0) {
        f->mode = WN_MLX_MXFP4;
        if (f->bits != MXFP4_BITS)
            return wrong(module, "bits", wn_json_get(o, "bits"), "4 for mxfp4", err);
        return f->group == MXFP4_GROUP ||
               wrong(module, "group_size", wn_json_get(o, "group_size"), "32 for mxfp4", err);
    }
    if (!name || strcmp(name, "affine") != 0)
        return wrong(module, "mode", mode, "\"affine\" or \"mxfp4\"", err);
    f->mode = WN_MLX_AFFINE;
    affine.bits = f->bits;
    affine.group = f->group;
    if (wn_affine_type(f->bits) == WN_TYPE_COUNT)
        return wrong(module, "bits", wn_json_get(o, "bits"), "2, 3, 4, 5, 6 or 8", err);
    return wn_affine_fits(&affine, f->group) ||
           wrong(module, "group_size", wn_json_get(o, "group_size"), "32, 64 or 128", err);
}

static bool is_default(const char *key)
{
    return strcmp(key, "mode") == 0 || strcmp(key, "bits") == 0 || strcmp(key, "group_size") == 0;
}

/* An entry for a module that is not there would be passed over: the module that it means has another name. */
static bool check_entry(const struct wn_source *s, const char *module, const json_t *v, struct wn_err *err)
{
    char weight[WN_NAME_BYTES];
    struct wn_mlx_form f;
    int n = snprintf(weight, sizeof(weight), "%s.weight", module);

    if (n < 0 || (size_t)n >= sizeof(weight) || !wn_source_find(s, weight))
        return wn_fail(err, WN_ERR_FORMAT, "config: 'quantization' names '%.100s', but there is no such '.weight'",
                       module);
    if (json_is_boolean(v))
        return true;
    if (!json_is_object(v)) {
        (void)snprintf(weight, sizeof(weight), "quantization.%.100s", module);
        return wn_json_wrong(weight, v, "an object, true or false", err);
    }
    return read_form(module, v, &f, err);
}

static bool check_said(const struct wn_source *s, const json_t *said, struct wn_err *err)
{
    struct wn_mlx_form defaults;
    const char *key;
    json_t *v;

    if (!json_is_object(said))
        return wn_json_wrong("quantization", said, "an object", err);
    if (!read_form("", said, &defaults, err))
        return false;
    json_object_foreach((json_t *)said, key, v) {
        if (!is_default(key) && !check_entry(s, key, v, err))
            return false;
    }
    return true;
}

struct wn_mlx *wn_mlx_read(const struct wn_source *s, struct wn_err *err)
{
    struct wn_mlx *m = wn_alloc(1, sizeof(*m), err);
    json_error_t where;
    char *text;
    size_t n;

    if (!m)
        return NULL;
    text = wn_config_text(s, &n, err);
    if (text) {
        m->root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &where);
        if (!m->root)
            (void)wn_fail(err, WN_ERR_FORMAT, "config: line %d, column %d: %s", where.line, where.column, where.text);
    }
    free(text);
    m->said = wn_json_get(m->root, "quantization");
    if (m->root && (!m->said || check_said(s, m->said, err)))
        return m;
    wn_mlx_free(m);
    return NULL;
}

void wn_mlx_free(struct wn_mlx *m)
{
    if (m)
        json_decref(m->root);
    free(m);
}

bool wn_mlx_form_of(const struct wn_mlx *m, const char *weight, bool scaled, struct wn_mlx_form *f, struct wn_err *err)
{
    char module[WN_NAME_BYTES];
    const json_t *entry = wn_name_beside(weight, NULL, module) ? json_object_get(m->said, module) : NULL;

    *f = (struct wn_mlx_form){0};
    if (json_is_false(entry) && scaled)
        return wn_fail(err, WN_ERR_FORMAT, "'%s' is not quantised by config.json, but has scales", module);
    if (entry && !json_is_false(entry) && !scaled)
        return wn_fail(err, WN_ERR_FORMAT, "'%s' is quantised by config.json, but '%s.scales' is missing", module,
                       module);
    if (!scaled)
        return true;
    if (!m->said)
        return wn_fail(err, WN_ERR_FORMAT, "'%s' has scales, but config.json has no 'quantization' that explains them",
                       module);
    return json_is_object(entry) ? read_form(module, entry, f, err) : read_form("", m->said, f, err);
}

enum wn_type wn_mlx_type(const struct wn_mlx_form *f)
{
    switch (f->mode) {
    case WN_MLX_AFFINE:
        return wn_affine_type(f->bits);
    case WN_MLX_MXFP4:
        return WN_MXFP4_SPLIT;
    case WN_MLX_PLAIN:
        break;
    }
    return WN_TYPE_COUNT;
}

bool wn_mlx_agrees(const char *json, size_t n, enum wn_naming naming, struct wn_err *err)
{
    json_t *root = json_loadb(json, n, 0, NULL);
    const json_t *text = wn_json_get(root, "text_config");
    bool mlx = wn_json_get(root, "quantization") != NULL, ok = true;
    bool hf = wn_json_get(root, "quantization_config") || wn_json_get(text, "quantization_config");

    if (naming == WN_NAMING_HF && mlx)
        ok = wn_fail(err, WN_ERR_FORMAT,
                     "config: 'quantization' says that this is an MLX folder, but its tensors have HF's names");
    else if (naming == WN_NAMING_MLX && hf && !mlx)
        ok = wn_fail(err, WN_ERR_FORMAT,
                     "config: 'quantization_config' says that this is an HF folder, but its tensors have MLX's names");
    else if (naming == WN_NAMING_HF &&
             (wn_json_get(root, "expert_bank_split") || wn_json_get(text, "expert_bank_split")))
        ok = wn_fail(err, WN_ERR_FORMAT,
                     "config: 'expert_bank_split' is for MLX folders, but the tensors have HF's names");
    json_decref(root);
    return ok;
}
