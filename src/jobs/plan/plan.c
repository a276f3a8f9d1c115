/*
 * A plan in memory, and how it is written. plan_parse.c reads, plan_make.c chooses experts, plan_measure.c says what a
 * plan keeps.
 */
#include <winnow/plan.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/number.h"
#include "jobs/by_layer.h"
#include "sys/file.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

void wn_plan_release(struct wn_plan *p)
{
    for (uint32_t i = 0; p->layers && i < p->layer_count; i++)
        free(p->layers[i].keep);
    free(p->layers);
    free(p->losses);
    *p = (struct wn_plan){0};
}

const struct wn_plan_layer *wn_plan_find(const struct wn_plan *p, uint32_t layer)
{
    size_t i = wn_by_layer(p->layers, p->layer_count, sizeof *p->layers, layer);

    _Static_assert(offsetof(struct wn_plan_layer, layer) == 0, "wn_by_layer looks there");
    return i < p->layer_count ? &p->layers[i] : NULL;
}

bool wn_plan_is_graded(const struct wn_plan *p)
{
    for (uint32_t i = 0; i < p->layer_count; i++)
        if (p->layers[i].lo_bits)
            return true;
    return false;
}

bool wn_plan_is_uniform(const struct wn_plan *p)
{
    for (uint32_t i = 1; i < p->layer_count; i++)
        if (p->layers[i].keep_count != p->layers[0].keep_count)
            return false;
    return true;
}

/* text as a JSON string, quotes and all. */
static bool add_string(struct wn_buf *b, const char *text, struct wn_err *err)
{
    json_t *s = json_string(text);
    char *quoted = s ? json_dumps(s, JSON_ENCODE_ANY) : NULL;
    bool ok = quoted ? wn_buf_add(b, quoted, strlen(quoted), err)
                     : wn_fail(err, WN_ERR_ARG, "the plan's text '%s' is not UTF-8", text);

    free(quoted);
    json_decref(s);
    return ok;
}

static bool add_pair(struct wn_buf *b, const char *before, const char *key, const char *text, struct wn_err *err)
{
    return wn_buf_printf(b, err, "%s\"%s\": ", before, key) && add_string(b, text, err);
}

/* One line a layer: a plan can be read, and compared with diff. */
static bool add_layer(struct wn_buf *b, const struct wn_plan_layer *l, bool last, struct wn_err *err)
{
    if (!wn_buf_printf(b, err, "  \"%" PRIu32 "\": {\"keep\": [", l->layer))
        return false;
    for (uint32_t i = 0; i < l->keep_count; i++)
        if (!wn_buf_printf(b, err, "%s%" PRIu32, i ? ", " : "", l->keep[i]))
            return false;
    if (!l->lo_bits)
        return wn_buf_printf(b, err, "], \"bits\": {\"all\": \"mxfp4\"}}%s\n", last ? "" : ",");
    if (!wn_buf_printf(b, err, "], \"bits\": {"))
        return false;
    for (uint32_t i = 0; i < l->keep_count; i++) {
        bool ok = i < l->hi_count ? wn_buf_printf(b, err, "%s\"%" PRIu32 "\": \"mxfp4\"", i ? ", " : "", l->keep[i])
                                  : wn_buf_printf(b, err, "%s\"%" PRIu32 "\": \"%" PRIu32 "bit\"", i ? ", " : "",
                                                  l->keep[i], l->lo_bits);

        if (!ok)
            return false;
    }
    return wn_buf_printf(b, err, "}}%s\n", last ? "" : ",");
}

const char *wn_plan_basis_name(enum wn_plan_basis basis)
{
    static const char *const names[] = {
        [WN_BASIS_NONE] = "none", [WN_BASIS_PROBE] = "probe", [WN_BASIS_PROXY] = "proxy"};

    return names[basis];
}

bool wn_plan_probed_otherwise(const struct wn_plan *p, enum wn_ghosts build)
{
    return p->basis == WN_BASIS_PROBE && p->probed != WN_GHOSTS_BUILT &&
           p->probed != (build == WN_GHOSTS_BUILT ? WN_GHOSTS_OFF : build);
}

/* "loss" and "sources" of the plan, or of the same number in each layer. */
static bool add_losses(struct wn_buf *b, const struct wn_plan *p, bool same, struct wn_err *err)
{
    char number[WN_NUMBER_BYTES];

    if (!wn_buf_printf(b, err, "\"loss\": %s, \"sources\": {", wn_number_text(same ? p->loss_same : p->loss, number)))
        return false;
    for (uint32_t i = 0; i < p->loss_count; i++) {
        const struct wn_plan_loss *l = &p->losses[i];

        if (!wn_buf_printf(b, err, "%s", i ? ", " : "") || !add_string(b, l->source, err) ||
            !wn_buf_printf(b, err, ": %s", wn_number_text(same ? l->same : l->loss, number)))
            return false;
    }
    return wn_buf_add(b, "}", 1, err);
}

/* What the plan is predicted to lose, and by what. */
static bool add_predicted(struct wn_buf *b, const struct wn_plan *p, struct wn_err *err)
{
    char number[WN_NUMBER_BYTES];

    if (p->basis == WN_BASIS_NONE)
        return true;
    if (!add_pair(b, ", ", "budget", p->budget, err) ||
        !wn_buf_printf(b, err, ", \"power\": %s, \"predicted\": {\"by\": \"%s\", ", wn_number_text(p->power, number),
                       wn_plan_basis_name(p->basis)) ||
        (p->probed != WN_GHOSTS_BUILT && !wn_buf_printf(b, err, "\"ghosts\": \"%s\", ", wn_ghosts_name(p->probed))) ||
        !add_losses(b, p, false, err))
        return false;
    if (p->loss_same > 0 &&
        (!wn_buf_printf(b, err, ", \"same\": {") || !add_losses(b, p, true, err) || !wn_buf_add(b, "}", 1, err)))
        return false;
    return wn_buf_add(b, "}", 1, err);
}

/* The part that only winnow writes, in which only what is known appears. */
static bool add_own(struct wn_buf *b, const struct wn_plan *p, struct wn_err *err)
{
    const struct {
        const char *key, *text;
    } own[] = {{"criterion", p->criterion},
               {"weights", p->weights},
               {"saliency", p->saliency_fingerprint},
               {"model", p->model_fingerprint}};
    char kept[WN_NUMBER_BYTES];
    bool any = false;

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        if (!*own[i].text)
            continue;
        if (!add_pair(b, any ? ", " : ",\n \"winnow\": {", own[i].key, own[i].text, err))
            return false;
        any = true;
    }
    if (!any)
        return true;
    if (p->kept > 0 && !wn_buf_printf(b, err, ", \"kept\": %s", wn_number_text(p->kept, kept)))
        return false;
    if (p->bytes && !wn_buf_printf(b, err, ", \"bytes\": %" PRIu64, p->bytes))
        return false;
    if ((p->asked_memory || p->asked_size) &&
        !wn_buf_printf(b, err, ", \"asked\": {\"%s\": %" PRIu64 "}", p->asked_memory ? "fit" : "size",
                       p->asked_memory ? p->asked_memory : p->asked_size))
        return false;
    if (p->protect && !wn_buf_printf(b, err, ", \"protect\": %" PRIu32, p->protect))
        return false;
    if (p->raw && !wn_buf_printf(b, err, ", \"raw\": true"))
        return false;
    return add_predicted(b, p, err) && wn_buf_add(b, "}", 1, err);
}

static bool add_plan(struct wn_buf *b, const struct wn_plan *p, struct wn_err *err)
{
    if (!add_pair(b, "{\n ", "mode", p->mode, err) ||
        !wn_buf_printf(b, err,
                       ",\n \"top_k\": %" PRIu32 ",\n \"num_experts\": %" PRIu32 ",\n \"min_experts\": %" PRIu32,
                       p->top_k, p->num_experts, p->min_experts) ||
        !wn_buf_printf(b, err, ",\n \"layers\": {\n"))
        return false;
    for (uint32_t i = 0; i < p->layer_count; i++)
        if (!add_layer(b, &p->layers[i], i + 1 == p->layer_count, err))
            return false;
    return wn_buf_add(b, " }", 2, err) && add_own(b, p, err) && wn_buf_add(b, "\n}\n", 3, err);
}

bool wn_plan_write(const struct wn_plan *p, const char *path, bool overwrite, struct wn_err *err)
{
    struct wn_buf b = {0};
    bool ok = add_plan(&b, p, err) && wn_file_put(path, b.at, b.n, overwrite, err);

    wn_buf_release(&b);
    return ok;
}
