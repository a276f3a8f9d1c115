/*
 * A growing array of tensors, and a table that finds them by name. K3 has 497 220 of them in its released form, so the
 * table is one allocation of 8 bytes a slot and compares hashes before names.
 */
#ifndef WN_FORMATS_TENSOR_LIST_H
#define WN_FORMATS_TENSOR_LIST_H

#include "base/bytes.h"
#include "tensor/tensor.h"

/* All zero is an empty list. */
struct wn_tensor_list {
    struct wn_tensor *at; /* owned; the names are not */
    size_t n, room;
};

WN_CHECKED bool wn_tensor_list_add(struct wn_tensor_list *l, const struct wn_tensor *t, struct wn_err *err);
void wn_tensor_list_release(struct wn_tensor_list *l);

/*
 * *elements of a shape. False when the dimensions other than 0 multiply to 2^63 or more: then not even an empty
 * tensor's elements could be counted in any order.
 */
WN_CHECKED bool wn_shape_elements(uint32_t dims, const uint64_t *shape, uint64_t *elements);

/*
 * All zero is a table of nothing. It holds indices into a list, which is passed to each call.
 *
 * Names made so that their hashes collide would make filling it quadratic, so the slots looked at are counted and too
 * many refused. Looking a name up costs what entering it did, so that bounds the later use as well.
 */
struct wn_name_table {
    struct wn_name_slot *slots; /* owned */
    size_t mask;                /* slots - 1; at most half of the slots are taken */
    size_t looks;               /* at slots, by all the adds; about 1.5 for each is what chance gives */
};

#define WN_NAME_NONE SIZE_MAX

/* Room for n names. */
WN_CHECKED bool wn_name_table_init(struct wn_name_table *t, size_t n, struct wn_err *err);
void wn_name_table_release(struct wn_name_table *t);
/* Enters list entry i. *before: WN_NAME_NONE when its name is new, otherwise the entry that has it already. */
WN_CHECKED bool wn_name_table_add(struct wn_name_table *t, const struct wn_tensor *list, size_t i, size_t *before,
                                  struct wn_err *err);
/* The index of that name or WN_NAME_NONE. */
size_t wn_name_table_find(const struct wn_name_table *t, const struct wn_tensor *list, struct wn_bytes name);

#endif
