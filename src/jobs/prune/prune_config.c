/*
 * See prune_meta.h: the side of config.json. The text is edited where the numbers stand instead of being printed anew,
 * so that "1e-05" stays "1e-05", and every key, order and space outside stays as the vendor wrote it.
 */
#include "base/alloc.h"
#include "formats/json_scan.h"
#include "jobs/prune/prune_router.h"
#include "model/config_read.h"

#include <inttypes.h>
#include <stdlib.h>

/* What the released models of the families call the count. */
static const char *const count_keys[] = {"num_experts", "n_routed_experts", "num_local_experts"};
#define COUNT_KEYS (sizeof(count_keys) / sizeof(count_keys[0]))

/* Lists of one number for each layer, 0 for dense ones: how many experts it keeps, and rows its router has. */
enum { EXPERT_COUNTS, ROUTER_ROWS, LISTS };
static const char *const list_keys[] = {[EXPERT_COUNTS] = "expert_counts", [ROUTER_ROWS] = "router_rows"};

struct span {
    size_t at, n; /* n 0: not there */
};

/* What one object of the config says about experts, and where. */
struct found {
    struct span count[COUNT_KEYS]; /* the values */
    struct span gap[COUNT_KEYS];   /* white space between the comma or brace and the key */
    struct span list[LISTS];       /* the values */
    struct span whole[LISTS];      /* from behind the comma or brace before the key to the end of the value */
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
    for (size_t i = 0; i < LISTS; i++) {
        if (!wn_bytes_is(key, list_keys[i]))
            continue;
        if (f->list[i].n)
            return wn_fail(j->err, WN_ERR_FORMAT, "'%s' stands twice", list_keys[i]);
        f->list[i] = (struct span){at, (size_t)(j->at - j->text) - at};
        f->whole[i] = (struct span){gap.at, (size_t)(j->at - j->text) - gap.at};
    }
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

/* The whole config: the wrapper, which may repeat what its text config says, and the object that is meant. */
struct config {
    struct found outer, inner;
    bool has_inner;
};

static const struct found *text_of(const struct config *c)
{
    return c->has_inner ? &c->inner : &c->outer;
}

/* The scanner changes its text, so it gets a copy. */
static bool scan(const char *text, size_t n, struct config *c, struct wn_err *err)
{
    char *copy = wn_strndup(text, n, err);
    bool ok = false;

    *c = (struct config){0};
    if (copy) {
        struct wn_json j = wn_json_of(copy, n, err);

        ok = scan_object(&j, &c->outer, &c->inner, &c->has_inner) && wn_json_end(&j);
    }
    free(copy);
    return ok;
}

static bool add_list(struct wn_buf *b, const struct wn_keep *k, int list, uint64_t layers, struct wn_err *err)
{
    for (uint64_t l = 0; l < layers; l++) {
        const struct wn_keep_layer *layer = wn_keep_find(k, (uint32_t)l);
        uint32_t n = !layer ? 0 : list == EXPERT_COUNTS ? layer->count : wn_keep_router_rows(k, layer);

        if (!wn_buf_printf(b, err, "%s%" PRIu32, l ? ", " : "[", n))
            return false;
    }
    return wn_buf_add(b, "]", 1, err);
}

static bool check_layers(const struct wn_keep *k, int list, uint64_t layers, struct wn_err *err)
{
    uint32_t last = k->layers[k->layer_count - 1].layer;

    if (layers > WN_LAYERS_MAX)
        return wn_fail(err, WN_ERR_FORMAT, "'num_hidden_layers' is %" PRIu64 ", at most %d are possible", layers,
                       WN_LAYERS_MAX);
    if (last >= layers)
        return wn_fail(err, WN_ERR_FORMAT,
                       "layer %" PRIu32 " has experts, but 'num_hidden_layers' is %" PRIu64
                       ", so '%s' cannot hold its number",
                       last, layers, list_keys[list]);
    return true;
}

/* One place of the text that gets other words. */
struct edit {
    struct span old; /* n 0: something new is put there */
    enum { COUNT, LIST, NEW_LIST, NOTHING } what;
    int list;        /* LIST, NEW_LIST */
    struct span gap; /* NEW_LIST: the white space to put before the key */
};

struct edits {
    struct edit at[2 * (COUNT_KEYS + 2 * LISTS)];
    size_t n;
};

/* Whether the output must tell a list; one that is there already may stay. */
static bool is_wanted(const struct wn_keep *k, int list)
{
    return list == EXPERT_COUNTS ? !wn_keep_is_uniform(k) : k->ghosts != WN_GHOSTS_OFF;
}

/* Takes a key away with its value and one comma: the one before it, but of the first key the one behind. */
static struct span without(const char *text, size_t n, struct span whole)
{
    size_t end = whole.at + whole.n;

    if (whole.at > 0 && text[whole.at - 1] == ',')
        return (struct span){whole.at - 1, whole.n + 1};
    while (end < n && text[end] != ',' && text[end] != '}')
        end++;
    return (struct span){whole.at, end - whole.at + (end < n && text[end] == ',')};
}

static bool counts_change(const struct wn_keep *k)
{
    for (uint32_t i = 0; i < k->layer_count; i++)
        if (k->layers[i].count != k->layers[i].experts)
            return true;
    return false;
}

/* Lists that are there. */
static void edit_lists(const struct wn_keep *k, const struct found *f, const char *text, size_t n, struct edits *e)
{
    for (int i = 0; i < LISTS; i++) {
        if (f->list[i].n == 0 || (i == EXPERT_COUNTS && !counts_change(k)))
            continue;
        if (i == ROUTER_ROWS && !is_wanted(k, i))
            e->at[e->n++] = (struct edit){.old = without(text, n, f->whole[i]), .what = NOTHING};
        else
            e->at[e->n++] = (struct edit){.old = f->list[i], .what = LIST, .list = i};
    }
}

/* Every key that tells the count, since all of them must go on agreeing; lists stand behind the first. */
static bool find_edits(const struct wn_keep *k, const struct found *f, bool put_new, struct edits *e,
                       struct wn_err *err)
{
    for (size_t i = 0; i < COUNT_KEYS; i++) {
        if (f->count[i].n == 0)
            continue;
        if (f->value[i] != wn_keep_widest(k, false))
            return wn_fail(err, WN_ERR_FORMAT, "'%s' is %" PRIu64 ", the tensors have %" PRIu32, count_keys[i],
                           f->value[i], wn_keep_widest(k, false));
        e->at[e->n++] = (struct edit){.old = f->count[i], .what = COUNT};
        for (int list = 0; put_new && list < LISTS; list++)
            if (is_wanted(k, list) && f->list[list].n == 0)
                e->at[e->n++] = (struct edit){
                    .old = {f->count[i].at + f->count[i].n, 0}, .what = NEW_LIST, .list = list, .gap = f->gap[i]};
        put_new = false;
    }
    return true;
}

static int by_place(const void *a, const void *b)
{
    const struct edit *x = a, *y = b;

    if (x->old.at != y->old.at)
        return x->old.at < y->old.at ? -1 : 1;
    if ((x->old.n > 0) != (y->old.n > 0))
        return x->old.n > 0 ? 1 : -1;
    return x->list - y->list;
}

static bool add_edit(const struct wn_keep *k, const struct edit *e, uint64_t layers, const char *text,
                     struct wn_buf *out, struct wn_err *err)
{
    if (e->what == NOTHING)
        return true;
    if (e->what == COUNT)
        return wn_buf_printf(out, err, "%" PRIu32, wn_keep_widest(k, true));
    if (e->what == NEW_LIST &&
        !wn_buf_printf(out, err, ",%.*s\"%s\": ", (int)e->gap.n, text + e->gap.at, list_keys[e->list]))
        return false;
    return check_layers(k, e->list, layers, err) && add_list(out, k, e->list, layers, err);
}

static bool splice(const struct wn_keep *k, struct edits *e, uint64_t layers, const char *text, size_t n,
                   struct wn_buf *out, struct wn_err *err)
{
    size_t from = 0;

    qsort(e->at, e->n, sizeof(e->at[0]), by_place);
    for (size_t i = 0; i < e->n; i++) {
        const struct edit *at = &e->at[i];

        if (!wn_buf_add(out, text + from, at->old.at - from, err) || !add_edit(k, at, layers, text, out, err))
            return false;
        from = at->old.at + at->old.n;
    }
    return wn_buf_add(out, text + from, n - from, err);
}

/* A config that winnow reads must still be read, with each layer's new count: better found here than by the user. */
static bool check_new(const struct wn_keep *k, const char *text, size_t n, const char *made, size_t made_n,
                      struct wn_err *err)
{
    struct wn_config c;
    struct wn_err ignored;
    bool ok = true;

    if (!wn_config_parse_json(text, n, &c, &ignored))
        return true; /* another family's */
    wn_config_release(&c);
    if (!wn_config_parse_json(made, made_n, &c, err))
        return wn_fail_in(err, "after the cut");
    for (uint32_t i = 0; ok && i < k->layer_count; i++) {
        const struct wn_keep_layer *l = &k->layers[i];

        ok = l->layer < c.layer_count && c.layers[l->layer].expert_count == l->count &&
             c.layers[l->layer].router_rows == wn_keep_router_rows(k, l);
        if (!ok)
            wn_fail(err, WN_ERR_FORMAT,
                    "after the cut, the config does not say that layer %" PRIu32 " has %" PRIu32
                    " experts and a router of %" PRIu32 " rows",
                    l->layer, l->count, wn_keep_router_rows(k, l));
    }
    wn_config_release(&c);
    return ok;
}

bool wn_prune_config(const struct wn_keep *k, const struct wn_plan *plan, const char *text, size_t n,
                     struct wn_buf *out, struct wn_err *err)
{
    struct edits edits = {.n = 0};
    struct wn_router_facts facts;
    struct config c;
    size_t at = out->n;
    uint64_t layers;

    if (k->identity)
        return wn_buf_add(out, text, n, err);
    if (!scan(text, n, &c, err))
        return false;
    facts.top_k = text_of(&c)->facts.top_k ? text_of(&c)->facts.top_k : c.outer.facts.top_k;
    facts.groups = text_of(&c)->facts.groups ? text_of(&c)->facts.groups : c.outer.facts.groups;
    layers = text_of(&c)->layers ? text_of(&c)->layers : c.outer.layers;
    if (!wn_router_check(k, plan, &facts, err) || !find_edits(k, text_of(&c), true, &edits, err))
        return false;
    if (edits.n == 0)
        return wn_fail(err, WN_ERR_FORMAT, "no key tells the number of experts ('num_experts')");
    if (c.has_inner && !find_edits(k, &c.outer, false, &edits, err))
        return wn_fail_in(err, "beside 'text_config'");
    edit_lists(k, text_of(&c), text, n, &edits);
    if (c.has_inner)
        edit_lists(k, &c.outer, text, n, &edits);
    return splice(k, &edits, layers, text, n, out, err) && check_new(k, text, n, out->at + at, out->n - at, err);
}
