/* See tensor_list.h. Open addressing with linear probing. */
#include "formats/tensor_list.h"
#include "base/alloc.h"
#include "base/checked.h"

#include <assert.h>
#include <stdlib.h>

#define LOOKS_MAX 8 /* for each slot there is */

struct wn_name_slot {
    uint32_t hash;
    uint32_t number; /* index + 1; 0: free */
};

bool wn_tensor_list_add(struct wn_tensor_list *l, const struct wn_tensor *t, struct wn_err *err)
{
    struct wn_tensor *at = wn_grow(l->at, &l->room, l->n + 1, sizeof *at, err);

    if (!at)
        return false;
    l->at = at;
    l->at[l->n++] = *t;
    return true;
}

void wn_tensor_list_release(struct wn_tensor_list *l)
{
    free(l->at);
    *l = (struct wn_tensor_list){0};
}

bool wn_shape_elements(uint32_t dims, const uint64_t *shape, uint64_t *elements)
{
    uint64_t n = 1;
    bool empty = false;

    for (uint32_t d = 0; d < dims; d++) {
        if (shape[d] == 0)
            empty = true;
        else if (!wn_mul_u64(n, shape[d], &n) || n > INT64_MAX)
            return false;
    }
    *elements = empty ? 0 : n;
    return true;
}

bool wn_name_table_init(struct wn_name_table *t, size_t n, struct wn_err *err)
{
    size_t slots = 16;

    *t = (struct wn_name_table){0};
    if (n >= UINT32_MAX / 2)
        return wn_fail(err, WN_ERR_FORMAT, "%zu tensors are more than winnow can number", n);
    while (slots < n * 2)
        slots *= 2;
    t->slots = wn_alloc(slots, sizeof *t->slots, err);
    t->mask = slots - 1;
    return t->slots != NULL;
}

void wn_name_table_release(struct wn_name_table *t)
{
    free(t->slots);
    *t = (struct wn_name_table){0};
}

/* The slot that holds the name, or the free one where it would go. */
static struct wn_name_slot *slot_of(const struct wn_name_table *t, const struct wn_tensor *list, struct wn_bytes name,
                                    uint32_t hash)
{
    for (size_t at = hash & t->mask;; at = (at + 1) & t->mask) {
        struct wn_name_slot *s = &t->slots[at];

        if (s->number == 0 || (s->hash == hash && wn_bytes_is(name, list[s->number - 1].name)))
            return s;
    }
}

bool wn_name_table_add(struct wn_name_table *t, const struct wn_tensor *list, size_t i, size_t *before,
                       struct wn_err *err)
{
    struct wn_bytes name = wn_bytes_of(list[i].name);
    uint32_t hash = (uint32_t)wn_bytes_hash(name);
    struct wn_name_slot *s = slot_of(t, list, name, hash);

    t->looks += (((size_t)(s - t->slots) - hash) & t->mask) + 1;
    *before = WN_NAME_NONE;
    if (s->number != 0)
        *before = s->number - 1;
    else
        *s = (struct wn_name_slot){hash, (uint32_t)i + 1};
    return t->looks / LOOKS_MAX <= t->mask ||
           wn_fail(err, WN_ERR_FORMAT, "the tensors' names are made to collide in a hash table");
}

size_t wn_name_table_find(const struct wn_name_table *t, const struct wn_tensor *list, struct wn_bytes name)
{
    const struct wn_name_slot *s;

    if (!t->slots)
        return WN_NAME_NONE;
    s = slot_of(t, list, name, (uint32_t)wn_bytes_hash(name));
    return s->number ? s->number - 1 : WN_NAME_NONE;
}
