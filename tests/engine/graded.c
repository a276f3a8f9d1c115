/* See graded.h. */
#include "graded.h"

#include "quant/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One matrix of the reference's low bank. */
struct wn_matrix graded_low(const struct wn_source *low, uint32_t layer, uint32_t expert, enum wn_role role)
{
    static const char *const faces[] = {"q_packed", "scales", "biases"};
    const struct wn_tensor *t[3];
    const uint8_t *at[3];
    struct wn_err err;

    for (int i = 0; i < 3; i++) {
        char name[96];

        (void)snprintf(name, sizeof name, "layers.%u.experts.%u.w%c.%s", layer, expert,
                       role == WN_ROLE_EXPERT_GATE ? '1'
                       : role == WN_ROLE_EXPERT_UP ? '3'
                                                   : '2',
                       faces[i]);
        t[i] = wn_source_find(low, name);
        assert_non_null(t[i]);
        at[i] = wn_source_view(low, t[i], &err);
        CHECK_OK(at[i], &err);
    }
    return (struct wn_matrix){
        WN_AFFINE2, t[0]->shape[0], t[0]->shape[1] * 4, at[0], t[0]->shape[1], at[1], t[1]->shape[1] * 2, at[2],
        64,         WN_BF16};
}

/* Rows of a tensor with the expert axis outermost, in the new order; everything else as it is. */
void graded_rows(uint8_t *to, const uint8_t *from, uint64_t bytes, const struct graded_layer *g, uint64_t rows)
{
    uint64_t each = bytes / rows;

    for (uint32_t i = 0; i < g->high + g->low; i++)
        memcpy(to + i * each, from + g->old[i] * each, each);
}

static bool tail_role(const char *name, enum wn_role *role, uint32_t *layer)
{
    static const enum wn_role roles[] = {WN_ROLE_EXPERT_GATE, WN_ROLE_EXPERT_UP, WN_ROLE_EXPERT_DOWN};
    char full[WN_NAME_BYTES];
    struct wn_part part;

    wn_part_of(WN_CONTAINER_GGUF, name, &part);
    *layer = (uint32_t)part.layer;
    for (int i = 0; i < 3 && part.layer >= 0; i++) {
        *role = roles[i];
        if (wn_name_write(WN_NAMING_GGUF, "", roles[i], 0, *layer, WN_BANK_ONLY, full) && strcmp(full, name) == 0)
            return true;
    }
    return false;
}

static void add_tail(struct made *m, const struct wn_source *low, enum wn_role role, uint32_t layer,
                     const struct graded_layer *g)
{
    struct wn_matrix p = graded_low(low, layer, g->old[g->high], role);
    char name[WN_NAME_BYTES];
    float *at;

    assert_true(wn_name_write(WN_NAMING_GGUF, "", role, 0, layer, WN_BANK_LO, name));
    at = (float *)(void *)made_add(m, name, WN_F32, 3, (const uint64_t[]){g->low, p.rows, p.cols})->data;
    for (uint32_t i = 0; i < g->low; i++) {
        p = graded_low(low, layer, g->old[g->high + i], role);
        for (uint64_t r = 0; r < p.rows; r++, at += p.cols)
            wn_quant_decode_row(&p, r, at);
    }
}

struct made made_tail(const struct wn_source *gguf, const struct wn_config *c, const struct graded_layer *graded,
                      const struct wn_source *low)
{
    struct made m = {0};

    for (size_t i = 0; i < wn_source_tensor_count(gguf); i++) {
        const struct wn_tensor *t = wn_source_tensor_at(gguf, i);
        const struct graded_layer *g = NULL;
        struct graded_layer rows;
        struct made_tensor *made;
        struct wn_part part;
        struct wn_err err;
        enum wn_role role;
        uint64_t shape[4];
        uint32_t layer;
        const uint8_t *data = wn_source_view(gguf, t, &err);

        CHECK_OK(data, &err);
        wn_part_of(WN_CONTAINER_GGUF, t->name, &part);
        memcpy(shape, t->shape, sizeof shape);
        if (part.layer >= 0 && (uint32_t)part.layer < c->layer_count && part.axis == WN_AXIS_OUTER) {
            g = &graded[part.layer];
            rows = *g;
            if (g->low && tail_role(t->name, &role, &layer)) {
                add_tail(&m, low, role, layer, g);
                rows.low = 0;
            }
            shape[0] = rows.high + rows.low;
        }
        made = made_add(&m, t->name, t->type, t->dims, shape);
        if (g)
            graded_rows(made->data, data, t->bytes, &rows, t->shape[0]);
        else
            memcpy(made->data, data, t->bytes);
    }
    return m;
}

static int by_bank_then_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

void graded_plan(const char *name, struct graded_layer layers[64])
{
    json_t *plan = json_load_file(wn_test_need_data(name), 0, NULL), *layer;
    const char *key;

    assert_non_null(plan);
    memset(layers, 0, 64 * sizeof layers[0]);
    json_object_foreach(json_object_get(plan, "layers"), key, layer) {
        struct graded_layer *g = &layers[strtol(key, NULL, 10)];
        json_t *keep = json_object_get(layer, "keep");

        for (size_t i = 0; i < json_array_size(keep); i++) {
            uint32_t old = (uint32_t)json_integer_value(json_array_get(keep, i));
            char number[16];
            const char *bits;

            (void)snprintf(number, sizeof number, "%u", old);
            bits = json_string_value(json_object_get(json_object_get(layer, "bits"), number));
            assert_non_null(bits);
            /* sorted as one number: the bank above the expert */
            g->old[i] = old + (strcmp(bits, "mxfp4") == 0 ? 0 : 1u << 16);
            *(strcmp(bits, "mxfp4") == 0 ? &g->high : &g->low) += 1;
        }
        qsort(g->old, g->high + g->low, sizeof g->old[0], by_bank_then_number);
        for (uint32_t i = 0; i < g->high + g->low; i++)
            g->old[i] &= 0xffff;
    }
    json_decref(plan);
}
