/*
 * Reading a plan (docs/formats/plan.md). Keys that are not known are left alone; what is known must be right, since a
 * plan that is taken wrongly makes a model that looks sound.
 */
#include <winnow/plan.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "sys/file.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAN_BYTES_MAX ((uint64_t)256 << 20)
#define LAYERS_MAX     65536
#define EXPERTS_MAX    65536

static bool take_u32(const json_t *object, const char *key, bool required, uint32_t limit, uint32_t *value,
                     struct wn_err *err)
{
    const json_t *v = json_object_get(object, key);

    if (!v && !required)
        return true;
    if (!v)
        return wn_fail(err, WN_ERR_FORMAT, "there is no '%s'", key);
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > (json_int_t)limit)
        return wn_fail(err, WN_ERR_FORMAT, "'%s' is not a whole number of 0 .. %" PRIu32, key, limit);
    *value = (uint32_t)json_integer_value(v);
    return true;
}

/* A string that may be missing; one that does not fit or holds a NUL is refused. */
static bool take_text(const json_t *object, const char *key, char *out, size_t size, struct wn_err *err)
{
    const json_t *v = json_object_get(object, key);

    if (!v)
        return true;
    if (!json_is_string(v) || json_string_length(v) >= size || strlen(json_string_value(v)) != json_string_length(v))
        return wn_fail(err, WN_ERR_FORMAT, "'%s' is not a text of at most %zu bytes", key, size - 1);
    memcpy(out, json_string_value(v), json_string_length(v) + 1);
    return true;
}

/* "12" -> 12. Other spellings of a number are refused, or one layer could stand there twice. */
static bool parse_layer_number(const char *key, uint32_t *layer)
{
    uint32_t n = 0;

    if (!*key || (key[0] == '0' && key[1]))
        return false;
    for (const char *c = key; *c; c++) {
        if (*c < '0' || *c > '9' || n >= LAYERS_MAX)
            return false;
        n = n * 10 + (uint32_t)(*c - '0');
    }
    *layer = n;
    return n < LAYERS_MAX;
}

/* Every kept expert must keep the bytes it has; tails at fewer bits are another kind of build. */
static bool check_bits(const struct wn_plan_layer *l, const json_t *entry, struct wn_err *err)
{
    json_t *bits = json_object_get(entry, "bits"), *v;
    const char *key;

    if (!bits)
        return true;
    if (!json_is_object(bits))
        return wn_fail(err, WN_ERR_FORMAT, "layer %" PRIu32 ": 'bits' is not an object", l->layer);
    json_object_foreach(bits, key, v) {
        const char *wanted = json_is_string(v) ? json_string_value(v) : "(no text)";

        if (strcmp(wanted, "mxfp4") != 0)
            return wn_fail(err, WN_ERR_FORMAT,
                           "layer %" PRIu32
                           ": 'bits' wants '%s' for '%s'; only the source's own bytes ('mxfp4') can be "
                           "kept, graded tails are not built",
                           l->layer, wanted, key);
    }
    return true;
}

/* seen: one byte an expert, all zero. */
static bool parse_keep(struct wn_plan_layer *l, const struct wn_plan *p, const json_t *keep, uint8_t *seen,
                       struct wn_err *err)
{
    size_t n = json_array_size(keep);

    if (!json_is_array(keep))
        return wn_fail(err, WN_ERR_FORMAT, "layer %" PRIu32 ": 'keep' is not a list of expert ids", l->layer);
    if (n < p->top_k || n > p->num_experts)
        return wn_fail(err, WN_ERR_FORMAT,
                       "layer %" PRIu32 ": %zu experts kept, wanted at least top-k %" PRIu32 " and at most %" PRIu32,
                       l->layer, n, p->top_k, p->num_experts);
    if (n < p->min_experts)
        return wn_fail(err, WN_ERR_FORMAT, "layer %" PRIu32 ": %zu experts kept, but 'min_experts' is %" PRIu32,
                       l->layer, n, p->min_experts);
    l->keep = wn_alloc(n, sizeof(*l->keep), err);
    if (!l->keep)
        return false;
    l->keep_count = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(keep, i);
        json_int_t id = json_integer_value(v);

        if (!json_is_integer(v) || id < 0 || id >= (json_int_t)p->num_experts)
            return wn_fail(err, WN_ERR_FORMAT,
                           "layer %" PRIu32 ": entry %zu of 'keep' is not an expert of 0 .. %" PRIu32, l->layer, i,
                           p->num_experts - 1);
        if (seen[id])
            return wn_fail(err, WN_ERR_FORMAT, "layer %" PRIu32 ": expert %d is kept twice", l->layer, (int)id);
        seen[id] = 1;
        l->keep[i] = (uint32_t)id;
    }
    return true;
}

static int by_layer(const void *a, const void *b)
{
    uint32_t x = ((const struct wn_plan_layer *)a)->layer, y = ((const struct wn_plan_layer *)b)->layer;

    return (x > y) - (x < y);
}

static bool parse_layers(struct wn_plan *p, json_t *layers, uint8_t *seen, struct wn_err *err)
{
    const char *key;
    json_t *entry;

    json_object_foreach(layers, key, entry) {
        struct wn_plan_layer *l = &p->layers[p->layer_count];

        if (!parse_layer_number(key, &l->layer))
            return wn_fail(err, WN_ERR_FORMAT, "'%s' in 'layers' is not a layer number", key);
        if (!json_is_object(entry))
            return wn_fail(err, WN_ERR_FORMAT, "layer %s is not an object with 'keep'", key);
        p->layer_count++;
        memset(seen, 0, p->num_experts);
        if (!parse_keep(l, p, json_object_get(entry, "keep"), seen, err) || !check_bits(l, entry, err))
            return false;
    }
    qsort(p->layers, p->layer_count, sizeof(*p->layers), by_layer);
    return true;
}

static bool parse_own(struct wn_plan *p, const json_t *own, struct wn_err *err)
{
    const json_t *kept = json_object_get(own, "kept");

    if (!own)
        return true;
    if (!json_is_object(own))
        return wn_fail(err, WN_ERR_FORMAT, "'winnow' is not an object");
    if (kept && (!json_is_number(kept) || !(json_number_value(kept) >= 0 && json_number_value(kept) <= 1)))
        return wn_fail(err, WN_ERR_FORMAT, "'kept' is not a number of 0 .. 1");
    p->kept = json_number_value(kept);
    return take_text(own, "criterion", p->criterion, sizeof(p->criterion), err) &&
           take_text(own, "weights", p->weights, sizeof(p->weights), err) &&
           take_text(own, "saliency", p->saliency_fingerprint, sizeof(p->saliency_fingerprint), err) &&
           take_text(own, "model", p->model_fingerprint, sizeof(p->model_fingerprint), err);
}

static bool parse_root(struct wn_plan *p, const json_t *root, struct wn_err *err)
{
    json_t *layers = json_object_get(root, "layers");
    uint8_t *seen = NULL;
    bool ok;

    if (!json_is_object(root))
        return wn_fail(err, WN_ERR_FORMAT, "a plan is a JSON object");
    if (!take_u32(root, "num_experts", true, EXPERTS_MAX, &p->num_experts, err) ||
        !take_u32(root, "top_k", true, EXPERTS_MAX, &p->top_k, err) ||
        !take_u32(root, "min_experts", false, EXPERTS_MAX, &p->min_experts, err) ||
        !take_text(root, "mode", p->mode, sizeof(p->mode), err))
        return false;
    if (p->top_k == 0 || p->top_k > p->num_experts || p->min_experts > p->num_experts)
        return wn_fail(err, WN_ERR_FORMAT,
                       "'top_k' %" PRIu32 " and 'min_experts' %" PRIu32 " do not go with %" PRIu32 " experts", p->top_k,
                       p->min_experts, p->num_experts);
    if (!json_is_object(layers) || json_object_size(layers) == 0)
        return wn_fail(err, WN_ERR_FORMAT, "there is no object 'layers' with a layer in it");
    ok = (p->layers = wn_alloc(json_object_size(layers), sizeof(*p->layers), err)) &&
         (seen = wn_alloc(p->num_experts, 1, err)) && parse_layers(p, layers, seen, err);
    free(seen);
    if (!ok || !parse_own(p, json_object_get(root, "winnow"), err))
        return false;
    if (!*p->mode)
        (void)snprintf(p->mode, sizeof(p->mode), "%s", wn_plan_is_uniform(p) ? "uniform" : "global");
    if (strcmp(p->mode, "uniform") == 0 && !wn_plan_is_uniform(p))
        return wn_fail(err, WN_ERR_FORMAT, "'mode' is 'uniform', but layers keep different numbers of experts");
    return true;
}

bool wn_plan_parse(struct wn_plan *p, const char *json, size_t n, struct wn_err *err)
{
    json_error_t at;
    json_t *root = json_loadb(json, n, JSON_REJECT_DUPLICATES, &at);
    bool ok;

    *p = (struct wn_plan){0};
    if (!root)
        return wn_fail(err, WN_ERR_FORMAT, "not JSON: line %d column %d: %s", at.line, at.column, at.text);
    ok = parse_root(p, root, err);
    json_decref(root);
    if (!ok)
        wn_plan_release(p);
    return ok;
}

bool wn_plan_read(struct wn_plan *p, const char *path, struct wn_err *err)
{
    size_t n;
    char *text;
    bool ok;

    *p = (struct wn_plan){0};
    text = wn_file_slurp(path, PLAN_BYTES_MAX, &n, err);
    if (!text)
        return false;
    ok = wn_plan_parse(p, text, n, err);
    free(text);
    return ok || wn_fail_in(err, "plan '%s'", path);
}
