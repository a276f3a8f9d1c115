/* See dropped.h. */
#include "jobs/plan/dropped.h"

#include "base/alloc.h"
#include "jobs/made_for.h"
#include "jobs/prune/means.h"
#include "jobs/prune/seal_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_BYTES_MAX (64u << 20)

static bool check_layer(const struct wn_plan *plan, uint32_t i, const struct wn_config *whole,
                        const struct wn_config *cut, struct wn_err *err)
{
    const struct wn_plan_layer *p = wn_plan_find(plan, i);
    const struct wn_layer_config *l = &whole->layers[i];
    uint32_t left = cut ? cut->layers[i].expert_count : 0;

    if (!l->moe)
        return !p || wn_fail(err, WN_ERR_ARG, "the plan has layer %" PRIu32 ", which has no experts in the model", i);
    if (!p)
        return wn_fail(err, WN_ERR_ARG, "the plan has no layer %" PRIu32, i);
    if (plan->num_experts != l->expert_count)
        return wn_fail(err, WN_ERR_ARG, "the plan is for %" PRIu32 " experts, layer %" PRIu32 " has %" PRIu32,
                       plan->num_experts, i, l->expert_count);
    if (l->router_rows != l->expert_count)
        return wn_fail(err, WN_ERR_ARG,
                       "layer %" PRIu32 ": the model has ghosts already (its router has %" PRIu32 " rows for %" PRIu32
                       " experts); a plan is for the model that it was made from",
                       i, l->router_rows, l->expert_count);
    if (p->keep_count < whole->experts_per_token)
        return wn_fail(err, WN_ERR_ARG, "layer %" PRIu32 ": %" PRIu32 " experts stay, each token takes %" PRIu32, i,
                       p->keep_count, whole->experts_per_token);
    return !cut || left == p->keep_count ||
           wn_fail(err, WN_ERR_ARG, "layer %" PRIu32 ": the plan keeps %" PRIu32 " experts, the model has %" PRIu32, i,
                   p->keep_count, left);
}

static bool check_plan(const struct wn_plan *plan, const struct wn_config *whole, const struct wn_config *cut,
                       struct wn_err *err)
{
    if (cut && cut->layer_count != whole->layer_count)
        return wn_fail(err, WN_ERR_ARG, "the model has %" PRIu32 " layers, its parent %" PRIu32, cut->layer_count,
                       whole->layer_count);
    for (uint32_t i = 0; i < plan->layer_count; i++)
        if (plan->layers[i].layer >= whole->layer_count)
            return wn_fail(err, WN_ERR_ARG, "the plan has layer %" PRIu32 ", the model has %" PRIu32 " layers",
                           plan->layers[i].layer, whole->layer_count);
    for (uint32_t i = 0; i < whole->layer_count; i++)
        if (!check_layer(plan, i, whole, cut, err))
            return false;
    return true;
}

bool wn_dropped_init(struct wn_dropped *d, const struct wn_plan *plan, const struct wn_config *whole,
                     const struct wn_config *cut, struct wn_err *err)
{
    *d = (struct wn_dropped){.experts = whole->expert_count};
    if (!check_plan(plan, whole, cut, err))
        return false;
    d->flags = wn_alloc(whole->layer_count, d->experts, err);
    if (!d->flags)
        return false;
    for (uint32_t i = 0; i < plan->layer_count; i++) {
        const struct wn_plan_layer *p = &plan->layers[i];
        uint8_t *flags = d->flags + (size_t)p->layer * d->experts;

        memset(flags, 1, plan->num_experts);
        for (uint32_t k = 0; k < p->keep_count; k++)
            flags[p->keep[k]] = 0;
    }
    return true;
}

/* Nothing is dropped where every layer has all its experts. */
static bool none_dropped(struct wn_dropped *d, const struct wn_config *whole, const struct wn_config *cut,
                         struct wn_err *err)
{
    bool same = cut->layer_count == whole->layer_count;

    for (uint32_t i = 0; same && i < whole->layer_count; i++)
        same = cut->layers[i].expert_count == whole->layers[i].expert_count;
    if (!same)
        return true;
    d->experts = whole->router_rows; /* which a router may choose among: a whole one's own ghosts are not dropped */
    d->flags = wn_alloc(whole->layer_count, d->experts, err);
    return d->flags != NULL;
}

/* The lists as a plan, so that they are checked as one. */
static bool plan_of_lists(struct wn_plan *plan, const json_t *keep, json_t *experts, uint32_t top_k, struct wn_err *err)
{
    const json_t *list;
    json_t *layers = json_object(), *root;
    const char *key;
    char *text;
    bool ok;

    json_object_foreach((json_t *)(uintptr_t)keep, key, list)
        (void)json_object_set_new(layers, key, json_pack("{sO}", "keep", list));
    root = json_pack("{sI sO so}", "top_k", (json_int_t)top_k, "num_experts", experts, "layers", layers);
    text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    ok = text ? wn_plan_parse(plan, text, strlen(text), err)
              : wn_fail(err, WN_ERR_FORMAT, "'keep' or the number of experts is missing");
    free(text);
    return ok;
}

static bool take_lists(struct wn_dropped *d, const json_t *keep, json_t *experts, const struct wn_model *cut,
                       const struct wn_model *whole, struct wn_err *err)
{
    struct wn_plan plan;
    bool ok;

    if (!plan_of_lists(&plan, keep, experts, wn_model_config(whole)->experts_per_token, err))
        return false;
    ok = wn_dropped_init(d, &plan, wn_model_config(whole), wn_model_config(cut), err);
    wn_plan_release(&plan);
    return ok;
}

static bool read_record(struct wn_dropped *d, const struct wn_model *cut, const struct wn_model *whole,
                        struct wn_err *err)
{
    json_t *plan = wn_seal_kept(wn_model_source(cut), wn_model_source(whole));
    bool ok =
        !plan || take_lists(d, json_object_get(plan, "keep"), json_object_get(plan, "num_experts"), cut, whole, err);

    if (!ok)
        wn_fail_in(err, "the record of '%s'", wn_source_path(wn_model_source(cut)));
    d->by_record = ok && plan;
    json_decref(plan);
    return ok;
}

static bool read_config(struct wn_dropped *d, const struct wn_model *cut, const struct wn_model *whole,
                        struct wn_err *err)
{
    char *path = wn_path_join(wn_source_folder(wn_model_source(cut)), "config.json", err), *text = NULL;
    json_t *root = NULL;
    const json_t *reap;
    bool ok = path != NULL;
    size_t n;

    if (path && wn_path_is_file(path)) {
        text = wn_file_slurp(path, CONFIG_BYTES_MAX, &n, err);
        ok = text != NULL;
        root = ok ? json_loadb(text, n, 0, NULL) : NULL;
    }
    reap = json_object_get(root, "reap");
    if (ok && json_is_object(json_object_get(reap, "keep")))
        ok = take_lists(d, json_object_get(reap, "keep"), json_object_get(reap, "source_num_experts"), cut, whole,
                        err) ||
             wn_fail_in(err, "'%s': reap", path);
    json_decref(root);
    free(text);
    free(path);
    return ok;
}

bool wn_dropped_check_plan(const struct wn_model *cut, const struct wn_plan *plan, struct wn_err *err)
{
    json_t *record = wn_seal_kept(wn_model_source(cut), NULL);
    const char *sha = json_string_value(json_object_get(record, "sha256"));
    const char *name = json_string_value(json_object_get(record, "name"));
    bool ok = !sha || !*sha || !*plan->sha256 || strcmp(sha, plan->sha256) == 0 ||
              wn_fail(err, WN_ERR_ARG,
                      "its SHA-256 is %.16s..., but by its record '%s' was cut by '%s' with %.16s...: the experts that "
                      "it names were not the ones dropped",
                      plan->sha256, wn_source_path(wn_model_source(cut)), name ? name : "another plan", sha);

    json_decref(record);
    return ok;
}

bool wn_dropped_read(struct wn_dropped *d, const struct wn_model *cut, const struct wn_model *whole, struct wn_err *err)
{
    *d = (struct wn_dropped){0};
    if (!none_dropped(d, wn_model_config(whole), wn_model_config(cut), err))
        return false;
    if (!d->flags && !read_record(d, cut, whole, err))
        return false;
    return d->flags || wn_source_container(wn_model_source(cut)) == WN_CONTAINER_GGUF ||
           read_config(d, cut, whole, err);
}

void wn_dropped_release(struct wn_dropped *d)
{
    free(d->flags);
    free(d->serves);
    free(d->ghosts);
    free(d->means);
    *d = (struct wn_dropped){0};
}

static bool number_ghosts(struct wn_dropped *d, const struct wn_config *whole, struct wn_err *err)
{
    d->serves = wn_alloc((size_t)whole->layer_count * d->experts, sizeof *d->serves, err);
    d->ghosts = d->serves ? wn_alloc(whole->layer_count, sizeof *d->ghosts, err) : NULL;
    if (!d->ghosts)
        return false;
    for (uint32_t i = 0; i < whole->layer_count; i++)
        for (uint32_t e = 0, ghosts = 0; e < whole->layers[i].expert_count; e++)
            d->serves[(size_t)i * d->experts + e] = wn_dropped_at(d, i, e) ? WN_GHOST + ghosts++ : e;
    return true;
}

static bool check_means(const struct wn_means *m, const struct wn_model *whole, bool force, struct wn_err *err)
{
    const struct wn_config *c = wn_model_config(whole);
    uint32_t width = c->latent_size ? c->latent_size : c->hidden_size;

    if (!force && !wn_made_for("its means are of", m->model_fingerprint, wn_model_source(whole), NULL, err))
        return false;
    return wn_means_fit(m, c->layer_count, c->expert_count, width, err);
}

static size_t dropped_in(const struct wn_dropped *d, uint32_t layer, uint32_t experts)
{
    size_t n = 0;

    for (uint32_t e = 0; e < experts; e++)
        n += wn_dropped_at(d, layer, e);
    return n;
}

/* The means of a layer's dropped experts, one after the other; *to moves behind them. */
static bool copy_means(const struct wn_dropped *d, struct wn_means *m, uint32_t layer, uint32_t experts, uint16_t **to,
                       struct wn_err *err)
{
    for (uint32_t e = 0; e < experts; e++) {
        const uint8_t *row = wn_dropped_at(d, layer, e) ? wn_means_row(m, layer, e, err) : NULL;

        if (!row && wn_dropped_at(d, layer, e))
            return false;
        if (!row)
            continue;
        memcpy(*to, row, m->width * sizeof **to);
        *to += m->width;
    }
    return true;
}

static bool gather_means(struct wn_dropped *d, struct wn_means *m, const struct wn_config *c, struct wn_err *err)
{
    size_t ghosts = 0;
    uint16_t *to;

    for (uint32_t i = 0; i < c->layer_count; i++)
        ghosts += dropped_in(d, i, c->layers[i].expert_count);
    to = d->means = wn_alloc(ghosts * m->width, sizeof *d->means, err);
    for (uint32_t i = 0; to && i < c->layer_count; i++) {
        uint32_t experts = c->layers[i].expert_count;

        d->ghosts[i] = (struct wn_matrix){.type = WN_F16,
                                          .rows = dropped_in(d, i, experts),
                                          .cols = m->width,
                                          .data = (const uint8_t *)to,
                                          .row_bytes = m->width * sizeof *to};
        if (!copy_means(d, m, i, experts, &to, err))
            return false;
    }
    return to != NULL;
}

static bool read_means(struct wn_dropped *d, const char *saliency, const struct wn_model *whole, bool force,
                       struct wn_err *err)
{
    struct wn_means *m = wn_means_open(saliency, err);
    bool ok = m && check_means(m, whole, force, err) && gather_means(d, m, wn_model_config(whole), err);

    wn_means_close(m);
    return ok;
}

bool wn_dropped_make_ghosts(struct wn_dropped *d, enum wn_ghosts mode, const char *saliency,
                            const struct wn_model *whole, bool force, struct wn_err *err)
{
    if (mode != WN_GHOSTS_SKIP && mode != WN_GHOSTS_MEAN)
        return true;
    if (mode == WN_GHOSTS_MEAN && !saliency)
        return wn_fail(err, WN_ERR_ARG, "the means of ghosts come from a saliency archive, and none is named");
    return number_ghosts(d, wn_model_config(whole), err) &&
           (mode == WN_GHOSTS_SKIP || read_means(d, saliency, whole, force, err) || wn_fail_in(err, "'%s'", saliency));
}

void wn_dropped_mask(const struct wn_dropped *d, struct wn_layer *layer)
{
    if (layer->moe && d->serves) {
        layer->mixture.serves = d->serves + (size_t)layer->index * d->experts;
        layer->mixture.ghosts = d->ghosts[layer->index];
        return;
    }
    for (uint32_t e = 0; layer->moe && e < layer->mixture.expert_count; e++)
        if (wn_dropped_at(d, layer->index, e))
            layer->mixture.router_bias[e] = -INFINITY;
}
