/*
 * See prune_meta.h: the side of config.json. The text is edited where the numbers stand instead of being printed anew,
 * so that "1e-05" stays "1e-05", and every key, order and space outside stays as the vendor wrote it.
 */
#include "base/alloc.h"
#include "formats/json_scan.h"
#include "jobs/prune_router.h"

#include <inttypes.h>
#include <stdlib.h>

/* What the released models of the families call the count; the first that is there is meant. */
static const char *const count_keys[] = {"num_experts", "n_routed_experts", "num_local_experts"};
#define COUNT_KEYS (sizeof(count_keys) / sizeof(count_keys[0]))

struct span {
    size_t at, n; /* n 0: not there */
};

/* What one object of the config says about experts, and where. */
struct found {
    struct span count[COUNT_KEYS]; /* the values */
    struct span gap[COUNT_KEYS];   /* white space between the comma or brace and the key */
    struct span per_layer;         /* the value of "expert_counts" */
    uint64_t value[COUNT_KEYS], layers;
    struct wn_router_facts facts;
};

bool wn_router_check(const struct wn_keep *k, const struct wn_plan *plan, const struct wn_router_facts *facts,
                     struct wn_err *err)
{
    if (k->identity)
        return true;
    if (facts->groups > 1)
        return wn_fail(err, WN_ERR_ARG,
                       "the router chooses among %" PRIu64 " groups of experts, and removing experts would move others "
                       "into another group",
                       facts->groups);
    if (plan && facts->top_k && plan->top_k != facts->top_k)
        return wn_fail(err, WN_ERR_ARG, "the plan is for %" PRIu32 " experts per token, the model chooses %" PRIu64,
                       plan->top_k, facts->top_k);
    for (uint32_t i = 0; i < k->layer_count; i++)
        if (k->layers[i].count < facts->top_k)
            return wn_fail(err, WN_ERR_ARG,
                           "layer %" PRIu32 " keeps %" PRIu32 " experts, but the model chooses %" PRIu64 " per token",
                           k->layers[i].layer, k->layers[i].count, facts->top_k);
    return true;
}

static void take_space(struct wn_json *j)
{
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r'))
        j->at++;
}

/* One value of an object; the scanner stands behind the colon. */
static bool scan_value(struct wn_json *j, struct wn_bytes key, struct span gap, struct found *f)
{
    size_t at;

    take_space(j);
    at = (size_t)(j->at - j->text);
    for (size_t i = 0; i < COUNT_KEYS; i++) {
        if (!wn_bytes_is(key, count_keys[i]))
            continue;
        if (f->count[i].n)
            return wn_fail(j->err, WN_ERR_FORMAT, "'%s' stands twice", count_keys[i]);
        if (!wn_json_u64(j, &f->value[i]))
            return wn_fail_in(j->err, "'%s'", count_keys[i]);
        f->count[i] = (struct span){at, (size_t)(j->at - j->text) - at};
        f->gap[i] = gap;
        return true;
    }
    if (wn_bytes_is(key, "num_hidden_layers"))
        return wn_json_u64(j, &f->layers);
    if (wn_bytes_is(key, "num_experts_per_token") || wn_bytes_is(key, "num_experts_per_tok"))
        return wn_json_u64(j, &f->facts.top_k);
    if ((wn_bytes_is(key, "num_expert_group") || wn_bytes_is(key, "n_group")) && j->at < j->end && *j->at != 'n')
        return wn_json_u64(j, &f->facts.groups);
    if (!wn_json_skip(j))
        return false;
    if (!wn_bytes_is(key, "expert_counts"))
        return true;
    if (f->per_layer.n)
        return wn_fail(j->err, WN_ERR_FORMAT, "'expert_counts' stands twice");
    f->per_layer = (struct span){at, (size_t)(j->at - j->text) - at};
    return true;
}

/*
 * Walks the object that the scanner stands before; inner, when not NULL, is filled from the object "text_config" in it.
 */
static bool scan_object(struct wn_json *j, struct found *f, struct found *inner, bool *has_inner)
{
    bool first = true, more, ok;
    struct wn_bytes key;

    if (!wn_json_take(j, '{'))
        return false;
    while ((ok = wn_json_more(j, '}', &first, &more)) && more) {
        struct span gap = {.at = (size_t)(j->at - j->text)};

        take_space(j);
        gap.n = (size_t)(j->at - j->text) - gap.at;
        if (!wn_json_string(j, &key) || !wn_json_take(j, ':'))
            return false;
        if (inner && wn_bytes_is(key, "text_config")) {
            *has_inner = true;
            if (!scan_object(j, inner, NULL, NULL))
                return false;
        } else if (!scan_value(j, key, gap, f)) {
            return false;
        }
    }
    return ok;
}

/* Fills f from the object that describes the text model. The scanner changes its text, so it gets a copy. */
static bool scan(const char *text, size_t n, struct found *f, struct wn_err *err)
{
    struct found outer = {0}, inner = {0};
    bool has_inner = false, ok = false;
    char *copy = wn_strndup(text, n, err);

    if (copy) {
        struct wn_json j = wn_json_of(copy, n, err);

        ok = scan_object(&j, &outer, &inner, &has_inner) && wn_json_end(&j);
    }
    free(copy);
    *f = has_inner ? inner : outer;
    return ok;
}

static bool add_counts(struct wn_buf *b, const struct wn_keep *k, uint64_t layers, struct wn_err *err)
{
    for (uint64_t l = 0; l < layers; l++) {
        const struct wn_keep_layer *layer = wn_keep_find(k, (uint32_t)l);

        if (!wn_buf_printf(b, err, "%s%" PRIu32, l ? ", " : "[", layer ? layer->count : 0))
            return false;
    }
    return wn_buf_add(b, "]", 1, err);
}

static bool check_layers(const struct wn_keep *k, uint64_t layers, struct wn_err *err)
{
    uint32_t last = k->layers[k->layer_count - 1].layer;

    if (layers == 0 || layers > UINT32_MAX || last >= layers)
        return wn_fail(err, WN_ERR_FORMAT,
                       "layer %" PRIu32 " has experts, but 'num_hidden_layers' is %" PRIu64
                       ", so 'expert_counts' cannot hold its number",
                       last, layers);
    return true;
}

/* Writes text[*from .. to) and moves *from there. */
static bool add_until(struct wn_buf *b, const char *text, size_t *from, size_t to, struct wn_err *err)
{
    size_t at = *from;

    *from = to;
    return wn_buf_add(b, text + at, to - at, err);
}

static bool splice(const struct wn_keep *k, const struct found *f, size_t which, const char *text, size_t n,
                   struct wn_buf *out, struct wn_err *err)
{
    const struct span *count = &f->count[which], *old = &f->per_layer;
    bool put_new = !wn_keep_is_uniform(k) && old->n == 0;
    size_t from = 0;

    if ((put_new || old->n) && !check_layers(k, f->layers, err))
        return false;
    /* an array that is there may stand on either side of the count */
    if (old->n && old->at < count->at) {
        if (!add_until(out, text, &from, old->at, err) || !add_counts(out, k, f->layers, err))
            return false;
        from += old->n;
    }
    if (!add_until(out, text, &from, count->at, err) || !wn_buf_printf(out, err, "%" PRIu32, wn_keep_widest(k, true)))
        return false;
    from += count->n;
    if (put_new &&
        (!wn_buf_printf(out, err, ",%.*s\"expert_counts\": ", (int)f->gap[which].n, text + f->gap[which].at) ||
         !add_counts(out, k, f->layers, err)))
        return false;
    if (old->n && old->at > count->at) {
        if (!add_until(out, text, &from, old->at, err) || !add_counts(out, k, f->layers, err))
            return false;
        from += old->n;
    }
    return add_until(out, text, &from, n, err);
}

bool wn_prune_config(const struct wn_keep *k, const struct wn_plan *plan, const char *text, size_t n,
                     struct wn_buf *out, struct wn_err *err)
{
    struct found f;
    size_t which = 0;

    if (k->identity)
        return wn_buf_add(out, text, n, err);
    if (!scan(text, n, &f, err) || !wn_router_check(k, plan, &f.facts, err))
        return false;
    while (which < COUNT_KEYS && f.count[which].n == 0)
        which++;
    if (which == COUNT_KEYS)
        return wn_fail(err, WN_ERR_FORMAT, "no key tells the number of experts ('num_experts')");
    if (f.value[which] != wn_keep_widest(k, false))
        return wn_fail(err, WN_ERR_FORMAT, "'%s' is %" PRIu64 ", the tensors have %" PRIu32, count_keys[which],
                       f.value[which], wn_keep_widest(k, false));
    return splice(k, &f, which, text, n, out, err);
}
