/* See recast.h: config.json of an MLX folder, from the source's. Everything that is not named here stays as it is. */
#include "jobs/convert/recast.h"
#include "jobs/prune/prune_meta.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A new reference is given away on every path; false when it is NULL too. */
static bool set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static json_t *quantised(const char *mode, unsigned group, unsigned bits)
{
    return json_pack("{s:s, s:i, s:i}", "mode", mode, "group_size", (int)group, "bits", (int)bits);
}

/*
 * Every module that differs from the defaults has an entry: affine ones, and, so that nobody has to guess, both banks
 * of a graded layer.
 */
static bool add_module(json_t *q, const struct wn_recast_tensor *t)
{
    unsigned bits = wn_affine_bits(t->type);
    bool bank = strstr(t->name, ".bank_hi.") != NULL;
    char module[WN_NAME_BYTES];

    if (t->face != WN_FACE_DATA || (!bits && !(bank && t->type == WN_MXFP4_SPLIT)))
        return true;
    return wn_name_beside(t->name, NULL, module) &&
           set(q, module, bits ? quantised("affine", t->group, bits) : quantised("mxfp4", 32, 4));
}

static bool is_quantised(const struct wn_recast_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->tensors[i].face != WN_FACE_DATA)
            return true;
    return false;
}

static bool set_quantization(json_t *root, const struct wn_recast_list *list)
{
    json_t *q = quantised("mxfp4", 32, 4);
    bool ok = q != NULL;

    for (size_t i = 0; ok && i < list->n; i++)
        ok = add_module(q, &list->tensors[i]);
    if (!ok || !is_quantised(list)) {
        json_decref(q);
        return ok;
    }
    return set(root, "quantization", q);
}

static uint32_t expert_count(const struct wn_keep *k, const struct wn_keep_layer *l)
{
    (void)k;
    return l->count;
}

static uint32_t split_of(const struct wn_keep *k, const struct wn_keep_layer *l)
{
    (void)k;
    return l->lo_bits ? l->hi : 0;
}

/* One number for each layer of the model, 0 where it has no experts. */
static bool set_per_layer(json_t *text, const struct wn_recast *r, const struct wn_layer_list *of)
{
    json_t *list = json_array();
    bool ok = list != NULL;

    for (uint32_t i = 0; ok && i < wn_model_config(r->model)->layer_count; i++) {
        const struct wn_keep_layer *l = wn_keep_find(r->keep, i);

        ok = json_array_append_new(list, json_integer(l ? of->count(r->keep, l) : 0)) == 0;
    }
    if (!ok) {
        json_decref(list);
        return false;
    }
    return set(text, of->key, list);
}

static bool set_counts(json_t *text, const struct wn_recast *r)
{
    const struct wn_layer_list counts = {"expert_counts", expert_count}, split = {"expert_bank_split", split_of},
                               rows = {"router_rows", wn_keep_router_rows};

    (void)json_object_del(text, rows.key);
    return set(text, "num_experts", json_integer(wn_keep_widest(r->keep, true))) && set_per_layer(text, r, &counts) &&
           (r->keep->ghosts == WN_GHOSTS_OFF || set_per_layer(text, r, &rows)) &&
           (!wn_keep_is_graded(r->keep) || set_per_layer(text, r, &split));
}

static json_t *keep_list(const struct wn_keep_layer *l)
{
    json_t *ids = json_array();

    for (uint32_t i = 0; ids && i < l->count; i++)
        if (json_array_append_new(ids, json_integer(l->keep[i])) != 0) {
            json_decref(ids);
            return NULL;
        }
    return ids;
}

/* Where each expert came from. */
static bool set_reap(json_t *root, const struct wn_keep *k, const char *plan_name)
{
    json_t *keep = json_object();
    double mean = 0;
    bool ok = keep != NULL;

    for (uint32_t i = 0; ok && i < k->layer_count; i++) {
        char key[16];

        (void)snprintf(key, sizeof key, "%" PRIu32, k->layers[i].layer);
        ok = set(keep, key, keep_list(&k->layers[i]));
        mean += (double)k->layers[i].count / k->layer_count;
    }
    if (!ok) {
        json_decref(keep);
        return false;
    }
    return set(root, "reap",
               json_pack("{s:s, s:I, s:f, s:o}", "plan", plan_name, "source_num_experts",
                         (json_int_t)wn_keep_widest(k, false), "kept_mean", mean, "keep", keep));
}

/* How it was made, for verify; loaders pass over it. */
static bool set_own(json_t *root, const struct wn_recast *r)
{
    return set(root, "winnow",
               json_pack("{s:s, s:i}", "encoder", r->fit ? "fit" : "minmax", "rest_bits", (int)r->rest_bits));
}

static bool edit(json_t *root, const struct wn_recast *r, const struct wn_recast_list *list, const char *plan_name)
{
    json_t *text = json_object_get(root, "text_config");

    if (!json_is_object(text))
        text = root;
    (void)json_object_del(root, "quantization_config");
    (void)json_object_del(text, "quantization_config");
    return set_quantization(root, list) && set_counts(text, r) &&
           (r->keep->identity || set_reap(root, r->keep, plan_name)) && set_own(root, r);
}

bool wn_recast_read_options(const char *text, size_t n, struct wn_recast *r, char *plan_name, size_t size)
{
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    const json_t *own = json_object_get(root, "winnow"), *bits = json_object_get(own, "rest_bits");
    const char *encoder = json_string_value(json_object_get(own, "encoder"));
    const char *name = json_string_value(json_object_get(json_object_get(root, "reap"), "plan"));
    bool ok = encoder && json_is_integer(bits);

    if (ok) {
        r->fit = strcmp(encoder, "fit") == 0;
        r->rest_bits = (unsigned)json_integer_value(bits);
        if (r->rest_bits && wn_affine_type(r->rest_bits) == WN_TYPE_COUNT)
            ok = false;
    }
    (void)snprintf(plan_name, size, "%s", name ? name : "");
    json_decref(root);
    return ok;
}

bool wn_recast_config(const struct wn_recast *r, const struct wn_recast_list *list, const char *text, size_t n,
                      const char *plan_name, struct wn_buf *out, struct wn_err *err)
{
    json_error_t e;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);
    char *made = NULL;
    bool ok;

    if (!json_is_object(root)) {
        json_decref(root);
        return wn_fail(err, WN_ERR_FORMAT, "config.json is no JSON object (line %d: %s)", e.line, e.text);
    }
    if (edit(root, r, list, plan_name ? plan_name : ""))
        made = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    if (!made)
        return wn_fail(err, WN_ERR_NOMEM, "config.json could not be made: out of memory");
    ok = wn_buf_add(out, made, strlen(made), err) && wn_buf_add(out, "\n", 1, err);
    free(made);
    return ok;
}
