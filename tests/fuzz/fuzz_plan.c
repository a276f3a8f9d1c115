/*
 * A plan from hostile bytes, which when it is accepted must be sound; and the same bytes as a config.json that is to be
 * edited, which must come out as JSON with the new number in it.
 */
#include "jobs/prune/prune_meta.h"

#include <jansson.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_layer(const struct wn_plan *p, const struct wn_plan_layer *l)
{
    uint8_t *seen = calloc(p->num_experts, 1);

    if (!seen || l->keep_count < p->top_k || l->keep_count < p->min_experts || wn_plan_find(p, l->layer) != l)
        abort();
    for (uint32_t i = 0; i < l->keep_count; i++)
        if (l->keep[i] >= p->num_experts || seen[l->keep[i]]++)
            abort();
    free(seen);
}

static void read_plan(const char *text, size_t n)
{
    struct wn_plan p;
    struct wn_err err;

    if (!wn_plan_parse(&p, text, n, &err)) {
        if (p.layers || err.code == WN_OK)
            abort();
        return;
    }
    for (uint32_t i = 0; i < p.layer_count; i++)
        check_layer(&p, &p.layers[i]);
    wn_plan_release(&p);
}

/* Layers 1 and 2 of four experts; two and `second` of them stay. */
static void edit_config(const char *text, size_t n, uint32_t second)
{
    uint32_t keep[2] = {3, 0}, more[3] = {0, 1, 2}, new_of[4] = {0};
    struct wn_keep_layer layers[2] = {
        {.layer = 1, .experts = 4, .count = 2, .hi = 2, .keep = keep, .new_of = new_of},
        {.layer = 2, .experts = 4, .count = second, .hi = second, .keep = more, .new_of = new_of}};
    struct wn_keep k = {.layers = layers, .layer_count = 2};
    struct wn_buf out = {0};
    struct wn_err err;

    if (wn_prune_config(&k, NULL, text, n, &out, &err)) {
        json_t *before = json_loadb(text, n, 0, NULL), *after = json_loadb(out.at, out.n, 0, NULL);

        /* what the scanner takes for JSON and jansson does not (numbers out of range) says nothing about the edit */
        if (before && (!after || json_equal(before, after)))
            abort();
        json_decref(after);
        json_decref(before);
    }
    wn_buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_plan((const char *)data, size);
    edit_config((const char *)data, size, 2);
    edit_config((const char *)data, size, 3);
    return 0;
}
