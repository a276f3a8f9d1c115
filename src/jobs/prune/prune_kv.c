/*
 * See prune_meta.h: the GGUF side. Records stay raw; one of them gets another number in the same type. Graded builds
 * and those with ghosts have some more.
 */
#include "base/alloc.h"
#include "base/bits.h"
#include "jobs/prune/prune_router.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_BYTES 192

/* Bytes of an integer type; 0 for all others. */
static size_t integer_bytes(enum wn_gguf_value type)
{
    switch (type) {
    case WN_GGUF_U8:
    case WN_GGUF_I8:
        return 1;
    case WN_GGUF_U16:
    case WN_GGUF_I16:
        return 2;
    case WN_GGUF_U32:
    case WN_GGUF_I32:
        return 4;
    case WN_GGUF_U64:
    case WN_GGUF_I64:
        return 8;
    default:
        return 0;
    }
}

/* The largest number that fits; the top bit of signed ones stays clear. */
static bool fits(enum wn_gguf_value type, uint64_t v)
{
    size_t bits = 8 * integer_bytes(type);
    bool is_signed = type == WN_GGUF_I8 || type == WN_GGUF_I16 || type == WN_GGUF_I32 || type == WN_GGUF_I64;

    return bits >= 63 || v >> (is_signed ? bits - 1 : bits) == 0;
}

static bool arch_key(const struct wn_gguf_meta *m, const char *name, char key[KEY_BYTES], struct wn_err *err)
{
    const struct wn_gguf_kv *kv = wn_gguf_find(m, "general.architecture");
    struct wn_bytes arch;

    if (!kv || !wn_gguf_as_string(kv, &arch) || arch.n == 0 || arch.n > KEY_BYTES / 2)
        return wn_fail(err, WN_ERR_FORMAT, "there is no 'general.architecture'");
    (void)snprintf(key, KEY_BYTES, "%.*s.%s", (int)arch.n, arch.at, name);
    return true;
}

/* *v keeps its value when the key is absent. */
static bool find_u64(const struct wn_gguf_meta *m, const char *name, uint64_t *v, struct wn_err *err)
{
    char key[KEY_BYTES];
    const struct wn_gguf_kv *kv;

    if (!arch_key(m, name, key, err))
        return false;
    kv = wn_gguf_find(m, key);
    if (kv && !wn_gguf_as_u64(kv, v))
        return wn_fail(err, WN_ERR_FORMAT, "'%s' is not one whole number >= 0", key);
    return true;
}

bool wn_prune_kv_agrees(const struct wn_keep *k, struct wn_err *err)
{
    uint64_t count = 0;

    if (!find_u64(wn_source_gguf(k->source), "expert_count", &count, err))
        return false;
    return count == wn_keep_widest(k, false) ||
           wn_fail(err, WN_ERR_FORMAT, "the metadata has an expert count of %" PRIu64 ", the tensors have %" PRIu32,
                   count, wn_keep_widest(k, false));
}

bool wn_prune_is_even(const struct wn_keep *k, struct wn_err *err)
{
    return wn_keep_is_uniform(k) || k->ghosts != WN_GHOSTS_OFF ||
           wn_fail(err, WN_ERR_ARG,
                   "different layers keep different numbers of experts, and a GGUF has one expert count for all of "
                   "them; that needs a folder of safetensors, or ghosts (--ghosts), which only winnow reads");
}

static bool check(const struct wn_keep *k, const struct wn_plan *plan, const struct wn_gguf_meta *m, struct wn_err *err)
{
    struct wn_router_facts facts = {.top_k = UINT64_MAX};

    if (!wn_prune_kv_agrees(k, err) || !find_u64(m, "expert_used_count", &facts.top_k, err) ||
        !find_u64(m, "expert_group_count", &facts.groups, err))
        return false;
    if (facts.top_k == UINT64_MAX)
        facts.top_k = 0; /* not told */
    else if (plan && facts.top_k == 0)
        return wn_fail(err, WN_ERR_FORMAT, "the metadata has an expert used count of 0: a token is given to no expert");
    if (!wn_prune_is_even(k, err))
        return false;
    return wn_router_check(k, plan, &facts, err);
}

static uint32_t low_count(const struct wn_keep *k, const struct wn_keep_layer *l)
{
    (void)k;
    return l->count - l->hi;
}

static uint32_t expert_count(const struct wn_keep *k, const struct wn_keep_layer *l)
{
    (void)k;
    return l->count;
}

size_t wn_prune_lists(const struct wn_keep *k, struct wn_layer_list out[WN_PRUNE_KV_MORE])
{
    size_t n = 0;

    if (wn_keep_is_graded(k))
        out[n++] = (struct wn_layer_list){"expert_lo_count", low_count};
    if (k->ghosts == WN_GHOSTS_OFF)
        return n;
    out[n++] = (struct wn_layer_list){"router_rows", wn_keep_router_rows};
    if (!wn_keep_is_uniform(k))
        out[n++] = (struct wn_layer_list){"expert_counts", expert_count};
    return n;
}

/* One record more. It stands behind all others, so that these keep their places. */
static bool add_list(const struct wn_keep *k, const struct wn_layer_list *list, uint64_t layers,
                     struct wn_prune_kv *out, struct wn_err *err)
{
    const struct wn_gguf_meta *m = wn_source_gguf(k->source);
    struct wn_buf *own = &out->own[out->own_count++];
    char key[KEY_BYTES], count[4];

    if (!arch_key(m, list->key, key, err) || !wn_buf_add(own, key, strlen(key), err))
        return false;
    if (wn_gguf_find(m, key))
        return wn_fail(err, WN_ERR_FORMAT, "there is '%s' already, though the source is none of such builds", key);
    for (uint32_t i = 0; i < layers; i++) {
        const struct wn_keep_layer *l = wn_keep_find(k, i);

        wn_store_le(count, sizeof count, l ? list->count(k, l) : 0);
        if (!wn_buf_add(own, count, sizeof count, err))
            return false;
    }
    out->kv[out->n++] = (struct wn_gguf_kv){.key = {own->at, strlen(key)},
                                            .type = WN_GGUF_ARRAY,
                                            .element = WN_GGUF_U32,
                                            .count = layers,
                                            .value = {own->at + strlen(key), own->n - strlen(key)}};
    return true;
}

static bool add_lists(const struct wn_keep *k, struct wn_prune_kv *out, struct wn_err *err)
{
    const uint32_t last = k->layers[k->layer_count - 1].layer;
    struct wn_layer_list lists[WN_PRUNE_KV_MORE];
    size_t n = wn_prune_lists(k, lists);
    uint64_t layers = 0;

    if (n == 0)
        return true;
    if (!find_u64(wn_source_gguf(k->source), "block_count", &layers, err))
        return false;
    if (layers <= last || layers > UINT32_MAX)
        return wn_fail(err, WN_ERR_FORMAT,
                       "layer %" PRIu32 " has experts, but 'block_count' is %" PRIu64 ", so '%s' cannot be written",
                       last, layers, lists[0].key);
    for (size_t i = 0; i < n; i++)
        if (!add_list(k, &lists[i], layers, out, err))
            return false;
    return true;
}

/* The list of ghosts that go. */
static bool drop_rows(const struct wn_keep *k, struct wn_prune_kv *out, struct wn_err *err)
{
    char key[KEY_BYTES];
    size_t kept = 0;

    if (!arch_key(wn_source_gguf(k->source), "router_rows", key, err))
        return false;
    for (size_t i = 0; i < out->n; i++)
        if (k->ghosts != WN_GHOSTS_OFF || !wn_bytes_is(out->kv[i].key, key))
            out->kv[kept++] = out->kv[i];
    out->n = kept;
    return true;
}

/* The record of the number of experts, in the type it had. */
static bool set_count(const struct wn_keep *k, const struct wn_gguf_meta *m, struct wn_prune_kv *out,
                      struct wn_err *err)
{
    uint64_t count = wn_keep_widest(k, true);
    char key[KEY_BYTES];

    if (!arch_key(m, "expert_count", key, err))
        return false;
    wn_store_le(out->value, sizeof out->value, count);
    for (size_t i = 0; i < m->n; i++) {
        if (!wn_bytes_is(m->kv[i].key, key))
            continue;
        if (integer_bytes(m->kv[i].type) == 0 || !fits(m->kv[i].type, count))
            return wn_fail(err, WN_ERR_FORMAT, "'%s' is of type %s, which cannot hold %" PRIu64, key,
                           wn_gguf_value_name(m->kv[i].type), count);
        out->kv[i].value = (struct wn_bytes){out->value, integer_bytes(m->kv[i].type)};
    }
    return true;
}

bool wn_prune_kv(const struct wn_keep *k, const struct wn_plan *plan, struct wn_prune_kv *out, struct wn_err *err)
{
    const struct wn_gguf_meta *m = wn_source_gguf(k->source);

    *out = (struct wn_prune_kv){.n = m->n};
    out->kv = wn_alloc(m->n + WN_PRUNE_KV_MORE, sizeof(*out->kv), err);
    if (!out->kv)
        return false;
    if (m->n)
        memcpy(out->kv, m->kv, m->n * sizeof(*out->kv));
    if (k->identity ||
        (check(k, plan, m, err) && set_count(k, m, out, err) && drop_rows(k, out, err) && add_lists(k, out, err)))
        return true;
    wn_prune_kv_release(out);
    return false;
}

void wn_prune_kv_release(struct wn_prune_kv *kv)
{
    free(kv->kv);
    for (size_t i = 0; i < kv->own_count; i++)
        wn_buf_release(&kv->own[i]);
    *kv = (struct wn_prune_kv){0};
}
