/*
 * Reading a plan (docs/formats/plan.md). Keys that are not known are left alone; what is known must be right, since a
 * plan that is taken wrongly makes a model that looks sound.
 */
#include <winnow/config.h>
#include <winnow/plan.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "jobs/hashing.h"
#include "sys/infile.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAN_BYTES_MAX ((uint64_t)256 << 20)

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
        if (*c < '0' || *c > '9' || n >= WN_LAYERS_MAX)
            return false;
        n = n * 10 + (uint32_t)(*c - '0');
    }
    *layer = n;
    return n < WN_LAYERS_MAX;
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

/* "mxfp4": the bytes it has, *bits 0; "2bit" and so on. */
static bool parse_width(const struct wn_plan_layer *l, const char *key, const json_t *v, uint32_t *bits,
                        struct wn_err *err)
{
    static const char *const widths[] = {
        [2] = "2bit", [3] = "3bit", [4] = "4bit", [5] = "5bit", [6] = "6bit", [8] = "8bit"};
    const char *text = json_is_string(v) ? json_string_value(v) : NULL;

    *bits = 0;
    for (uint32_t w = 2; text && w < sizeof(widths) / sizeof(widths[0]); w++)
        if (widths[w] && strcmp(text, widths[w]) == 0)
            *bits = w;
    if (*bits || (text && strcmp(text, "mxfp4") == 0))
        return true;
    return wn_fail(err, WN_ERR_FORMAT,
                   "layer %" PRIu32
                   ": 'bits' wants '%s' for '%s'; known are 'mxfp4' (the source's own bytes) and '2bit', "
                   "'3bit', '4bit', '5bit', '6bit', '8bit'",
                   l->layer, text ? text : "(no text)", key);
}

/* bits: of each kept expert. Those that keep their bytes come first, both in the order they had. */
static bool sort_banks(struct wn_plan_layer *l, const uint32_t *bits, struct wn_err *err)
{
    uint32_t *sorted = wn_alloc(l->keep_count, sizeof(*sorted), err), n = 0;

    if (!sorted)
        return false;
    for (uint32_t i = 0; i < l->keep_count; i++) {
        if (bits[i] == 0)
            sorted[n++] = l->keep[i];
        else
            l->lo_bits = bits[i];
    }
    l->hi_count = n;
    for (uint32_t i = 0; i < l->keep_count; i++)
        if (bits[i])
            sorted[n++] = l->keep[i];
    memcpy(l->keep, sorted, n * sizeof(*sorted));
    free(sorted);
    if (l->hi_count == 0)
        return wn_fail(err, WN_ERR_FORMAT,
                       "layer %" PRIu32 ": no expert keeps its bytes; a graded layer has some of either kind",
                       l->layer);
    return true;
}

/* One entry for each kept expert, by its old number; one narrow width a layer. */
static bool take_each(struct wn_plan_layer *l, json_t *all, uint32_t *bits, struct wn_err *err)
{
    uint32_t low = 0;

    if (json_object_size(all) != l->keep_count)
        return wn_fail(err, WN_ERR_FORMAT,
                       "layer %" PRIu32 ": 'bits' has %zu entries for %" PRIu32 " experts that stay", l->layer,
                       json_object_size(all), l->keep_count);
    for (uint32_t i = 0; i < l->keep_count; i++) {
        char key[16];
        const json_t *v;

        (void)snprintf(key, sizeof(key), "%" PRIu32, l->keep[i]);
        v = json_object_get(all, key);
        if (!v)
            return wn_fail(err, WN_ERR_FORMAT, "layer %" PRIu32 ": 'bits' has nothing for expert %s", l->layer, key);
        if (!parse_width(l, key, v, &bits[i], err))
            return false;
        if (bits[i] && low && bits[i] != low)
            return wn_fail(err, WN_ERR_FORMAT,
                           "layer %" PRIu32 ": experts of %" PRIu32 " and of %" PRIu32
                           " bits; a layer has one such width",
                           l->layer, low, bits[i]);
        low = bits[i] ? bits[i] : low;
    }
    return low == 0 || sort_banks(l, bits, err);
}

/* {"all": "mxfp4"}, or a width for each expert. Absent: all keep their bytes. */
static bool parse_bits(struct wn_plan_layer *l, const json_t *entry, struct wn_err *err)
{
    json_t *all = json_object_get(entry, "bits");
    const json_t *one = json_object_get(all, "all");
    uint32_t *bits, low;
    bool ok;

    if (!all)
        return true;
    if (!json_is_object(all))
        return wn_fail(err, WN_ERR_FORMAT, "layer %" PRIu32 ": 'bits' is not an object", l->layer);
    if (one)
        return parse_width(l, "all", one, &low, err) &&
               (low == 0 ||
                wn_fail(err, WN_ERR_FORMAT,
                        "layer %" PRIu32 ": no expert keeps its bytes; a graded layer has some of either kind",
                        l->layer));
    bits = wn_alloc(l->keep_count, sizeof(*bits), err);
    ok = bits && take_each(l, all, bits, err);
    free(bits);
    return ok;
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
        if (!parse_keep(l, p, json_object_get(entry, "keep"), seen, err) || !parse_bits(l, entry, err))
            return false;
    }
    qsort(p->layers, p->layer_count, sizeof(*p->layers), by_layer);
    return true;
}

/* A finite number >= 0. */
static bool take_loss(const json_t *v, const char *what, double *loss, struct wn_err *err)
{
    *loss = json_number_value(v);
    return (json_is_number(v) && *loss >= 0 && isfinite(*loss)) ||
           wn_fail(err, WN_ERR_FORMAT, "the predicted loss of '%s' is not a number >= 0", what);
}

static bool take_losses(struct wn_plan *p, json_t *sources, struct wn_err *err)
{
    const char *key;
    json_t *v;

    if (!json_is_object(sources))
        return wn_fail(err, WN_ERR_FORMAT, "the predicted losses have no object 'sources'");
    p->losses = wn_alloc(json_object_size(sources), sizeof *p->losses, err);
    if (!p->losses)
        return false;
    json_object_foreach(sources, key, v) {
        struct wn_plan_loss *l = &p->losses[p->loss_count++];

        if (strlen(key) >= sizeof l->source)
            return wn_fail(err, WN_ERR_FORMAT, "a source of the predicted losses has a name of more than %zu bytes",
                           sizeof l->source - 1);
        (void)snprintf(l->source, sizeof l->source, "%s", key);
        if (!take_loss(v, key, &l->loss, err))
            return false;
    }
    return true;
}

/* What the same number in each layer would lose, for the sources that there are. Optional. */
static bool take_same(struct wn_plan *p, json_t *same, struct wn_err *err)
{
    json_t *sources = json_object_get(same, "sources");

    if (!same)
        return true;
    if (!json_is_object(sources))
        return wn_fail(err, WN_ERR_FORMAT, "the predicted losses of 'same' have no object 'sources'");
    if (!take_loss(json_object_get(same, "loss"), "same", &p->loss_same, err))
        return false;
    for (uint32_t i = 0; i < p->loss_count; i++) {
        json_t *v = json_object_get(sources, p->losses[i].source);

        if (v && !take_loss(v, p->losses[i].source, &p->losses[i].same, err))
            return false;
    }
    return true;
}

static bool parse_predicted(struct wn_plan *p, const json_t *own, struct wn_err *err)
{
    json_t *predicted = json_object_get(own, "predicted");
    const json_t *power = json_object_get(own, "power");
    const char *by = json_string_value(json_object_get(predicted, "by"));
    const json_t *ghosts = json_object_get(predicted, "ghosts");

    if (!predicted)
        return true;
    if (!by || (strcmp(by, "probe") != 0 && strcmp(by, "proxy") != 0))
        return wn_fail(err, WN_ERR_FORMAT, "'predicted' is not 'by' 'probe' or 'proxy'");
    if (ghosts && !(json_is_string(ghosts) && wn_ghosts_find(json_string_value(ghosts), &p->probed) &&
                    p->probed != WN_GHOSTS_BUILT))
        return wn_fail(err, WN_ERR_FORMAT, "the predicted losses have 'ghosts' that are not 'off', 'skip' or 'mean'");
    if (!json_is_number(power) || !(json_number_value(power) > 0 && isfinite(json_number_value(power))))
        return wn_fail(err, WN_ERR_FORMAT, "'power' is not a number above 0");
    p->basis = strcmp(by, "probe") == 0 ? WN_BASIS_PROBE : WN_BASIS_PROXY;
    p->power = json_number_value(power);
    return take_loss(json_object_get(predicted, "loss"), "all sources", &p->loss, err) &&
           take_losses(p, json_object_get(predicted, "sources"), err) &&
           take_same(p, json_object_get(predicted, "same"), err);
}

/* {"fit": BYTES} or {"size": BYTES}. Optional. */
static bool parse_asked(struct wn_plan *p, const json_t *own, struct wn_err *err)
{
    json_t *asked = json_object_get(own, "asked"), *memory = json_object_get(asked, "fit");
    json_t *bytes = memory ? memory : json_object_get(asked, "size");

    if (!asked)
        return true;
    if (json_object_size(asked) != 1 || json_integer_value(bytes) <= 0)
        return wn_fail(err, WN_ERR_FORMAT, "'asked' is not 'fit' or 'size' with a number of bytes");
    *(memory ? &p->asked_memory : &p->asked_size) = (uint64_t)json_integer_value(bytes);
    return true;
}

static bool parse_own(struct wn_plan *p, const json_t *own, struct wn_err *err)
{
    const json_t *kept = json_object_get(own, "kept"), *bytes = json_object_get(own, "bytes");

    if (!own)
        return true;
    if (!json_is_object(own))
        return wn_fail(err, WN_ERR_FORMAT, "'winnow' is not an object");
    if (kept && (!json_is_number(kept) || !(json_number_value(kept) >= 0 && json_number_value(kept) <= 1)))
        return wn_fail(err, WN_ERR_FORMAT, "'kept' is not a number of 0 .. 1");
    if (bytes && (!json_is_integer(bytes) || json_integer_value(bytes) < 0))
        return wn_fail(err, WN_ERR_FORMAT, "'bytes' is not a number of bytes");
    if (!take_u32(own, "protect", false, p->num_experts, &p->protect, err))
        return false;
    p->raw = json_is_true(json_object_get(own, "raw"));
    p->kept = json_number_value(kept);
    p->bytes = (uint64_t)json_integer_value(bytes);
    return take_text(own, "criterion", p->criterion, sizeof(p->criterion), err) &&
           take_text(own, "weights", p->weights, sizeof(p->weights), err) &&
           take_text(own, "saliency", p->saliency_fingerprint, sizeof(p->saliency_fingerprint), err) &&
           take_text(own, "model", p->model_fingerprint, sizeof(p->model_fingerprint), err) &&
           take_text(own, "budget", p->budget, sizeof(p->budget), err) && parse_asked(p, own, err) &&
           parse_predicted(p, own, err);
}

static bool parse_root(struct wn_plan *p, const json_t *root, struct wn_err *err)
{
    json_t *layers = json_object_get(root, "layers");
    uint8_t *seen = NULL;
    bool ok;

    if (!json_is_object(root))
        return wn_fail(err, WN_ERR_FORMAT, "a plan is a JSON object");
    if (!take_u32(root, "num_experts", true, WN_EXPERTS_MAX, &p->num_experts, err) ||
        !take_u32(root, "top_k", true, WN_EXPERTS_MAX, &p->top_k, err) ||
        !take_u32(root, "min_experts", false, WN_EXPERTS_MAX, &p->min_experts, err) ||
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
    if (*p->mode && strcmp(p->mode, "uniform") != 0 && strcmp(p->mode, "global") != 0 && strcmp(p->mode, "graded") != 0)
        return wn_fail(err, WN_ERR_FORMAT, "'mode' is '%s', known are 'uniform', 'global' and 'graded'", p->mode);
    if (!*p->mode)
        (void)snprintf(p->mode, sizeof(p->mode), "%s",
                       wn_plan_is_graded(p)    ? "graded"
                       : wn_plan_is_uniform(p) ? "uniform"
                                               : "global");
    if (strcmp(p->mode, "uniform") == 0 && !wn_plan_is_uniform(p))
        return wn_fail(err, WN_ERR_FORMAT, "'mode' is 'uniform', but layers keep different numbers of experts");
    return true;
}

bool wn_plan_parse(struct wn_plan *p, const char *json, size_t n, struct wn_err *err)
{
    static const char mark[3] = "\xEF\xBB\xBF"; /* that some editors put before a text */
    size_t skip = n >= sizeof mark && memcmp(json, mark, sizeof mark) == 0 ? sizeof mark : 0;
    json_error_t at;
    json_t *root = json_loadb(json + skip, n - skip, JSON_REJECT_DUPLICATES, &at);
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
    uint8_t digest[WN_DIGEST_BYTES];
    size_t n;
    char *text;
    bool ok;

    *p = (struct wn_plan){0};
    text = wn_infile_slurp(path, PLAN_BYTES_MAX, &n, err);
    if (!text)
        return false;
    ok = wn_plan_parse(p, text, n, err);
    if (ok && !wn_hash_bytes(text, n, digest, err)) {
        wn_plan_release(p);
        ok = false;
    }
    if (ok)
        wn_hash_text(digest, sizeof digest, p->sha256);
    free(text);
    return ok || wn_fail_in(err, "plan '%s'", path);
}
