/* See mlx_folder.h. */
#include "mlx_folder.h"

#include "model/own.h"
#include "quant/affine.h"
#include "quant/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct maker {
    struct made *m;
    const struct wn_model *model;
    const struct wn_config *config;
    struct rest rest;
    const struct wn_source *low;
};

static void note_affine(struct made *m, const char *weight, unsigned bits, unsigned group)
{
    char module[WN_NAME_BYTES], form[96];

    assert_true(wn_name_beside(weight, NULL, module));
    (void)snprintf(form, sizeof form, "{\"mode\":\"affine\",\"bits\":%u,\"group_size\":%u}", bits, group);
    made_quantise(m, module, form);
}

/* ---- matrices ---- */

/* A matrix or a stack of them: the name, the shape of all, and the parts one after the other. */
struct stack {
    const char *name;
    uint32_t dims;
    uint64_t shape[4];
    const struct wn_matrix *parts;
    size_t n;
};

static struct made_tensor *add_beside(struct made *m, const struct stack *s, const char *what, enum wn_type type,
                                      uint64_t inner)
{
    char name[WN_NAME_BYTES];
    uint64_t shape[4];

    memcpy(shape, s->shape, sizeof shape);
    shape[s->dims - 1] = inner;
    assert_true(wn_name_beside(s->name, what, name));
    return made_add(m, name, type, s->dims, shape);
}

/* Bytes as they are: a plain type, or MXFP4 with its codes and scales. */
static void add_as_is(struct made *m, const struct stack *s)
{
    const struct wn_matrix *first = &s->parts[0];
    bool split = first->type == WN_MXFP4_SPLIT;
    struct made_tensor *w =
        add_beside(m, s, "weight", split ? WN_U32 : first->type, split ? first->cols / 8 : first->cols);
    uint8_t *at = w->data, *scale_at = NULL;

    if (split) {
        scale_at = add_beside(m, s, "scales", WN_U8, first->cols / 32)->data;
        (void)made_quantization(m);
    }
    for (size_t i = 0; i < s->n; i++) {
        const struct wn_matrix *p = &s->parts[i];

        assert_int_equal(p->type, first->type);
        memcpy(at, p->data, p->rows * p->row_bytes);
        at += p->rows * p->row_bytes;
        if (!split)
            continue;
        memcpy(scale_at, p->scales, p->rows * p->scale_row_bytes);
        scale_at += p->rows * p->scale_row_bytes;
    }
}

/* Rows of affine values; `floats` gets them decoded where it is not NULL. */
static void add_affine(struct made *m, const struct stack *s, struct rest rest)
{
    uint64_t cols = s->parts[0].cols, groups = cols / rest.group;
    struct wn_affine_form form = {rest.bits, rest.group, WN_BF16};
    struct made codes = {0};
    struct made *to = rest.as_floats ? &codes : m;
    uint8_t *w = add_beside(to, s, "weight", WN_U32, cols * rest.bits / 32)->data;
    uint8_t *scales = add_beside(to, s, "scales", WN_BF16, groups)->data;
    uint8_t *biases = add_beside(to, s, "biases", WN_BF16, groups)->data;
    float *floats = rest.as_floats ? (float *)(void *)add_beside(m, s, "weight", WN_F32, cols)->data : NULL;
    float *row = malloc(cols * sizeof *row);

    for (size_t i = 0; i < s->n; i++) {
        for (uint64_t r = 0; r < s->parts[i].rows; r++) {
            struct wn_matrix one = {wn_affine_type(rest.bits),
                                    1,
                                    cols,
                                    w,
                                    cols * rest.bits / 8,
                                    scales,
                                    groups * 2,
                                    biases,
                                    rest.group,
                                    WN_BF16};

            wn_quant_decode_row(&s->parts[i], r, row);
            wn_affine_encode_row(&form, WN_AFFINE_MINMAX, row, NULL, cols, w, scales, biases);
            if (floats) {
                wn_quant_decode_row(&one, 0, floats);
                floats += cols;
            }
            w += one.row_bytes;
            scales += one.scale_row_bytes;
            biases += one.scale_row_bytes;
        }
    }
    free(row);
    if (!rest.as_floats)
        note_affine(m, s->name, rest.bits, rest.group);
    for (size_t i = 0; i < codes.n; i++)
        free(codes.t[i].data);
    free(codes.t);
}

/* MLX's rule: what is no whole number of groups stays as it is. */
static void add_rest(const struct maker *k, const struct stack *s)
{
    if (k->rest.bits && s->parts[0].cols % k->rest.group == 0)
        add_affine(k->m, s, k->rest);
    else
        add_as_is(k->m, s);
}

/* ---- one role ---- */

static const struct wn_tensor *hf_tensor(const struct maker *k, enum wn_role role, unsigned which, uint32_t layer)
{
    char name[WN_NAME_BYTES];

    return wn_name_write(WN_NAMING_HF, k->model->prefix, role, which, layer, 0, name)
               ? wn_source_find(k->model->source, name)
               : NULL;
}

static const uint8_t *view(const struct maker *k, const struct wn_tensor *t)
{
    struct wn_err err;
    const uint8_t *data = wn_source_view(k->model->source, t, &err);

    CHECK_OK(data, &err);
    return data;
}

static void add_plain(const struct maker *k, enum wn_role role, unsigned which, const struct wn_tensor *t,
                      uint32_t layer, const struct graded_layer *g)
{
    bool conv = role == WN_ROLE_CONV_Q || role == WN_ROLE_CONV_K || role == WN_ROLE_CONV_V;
    bool cut = g && role == WN_ROLE_ROUTER_BIAS;
    char name[WN_NAME_BYTES];
    uint64_t shape[4];
    struct made_tensor *made;

    memcpy(shape, t->shape, sizeof shape);
    if (conv) {
        shape[1] = t->shape[2];
        shape[2] = 1;
    }
    if (cut)
        shape[0] = g->high + g->low;
    assert_true(wn_name_write(WN_NAMING_MLX, "", role, which, layer, 0, name));
    made = made_add(k->m, name, t->type, t->dims, shape);
    if (cut)
        graded_rows(made->data, view(k, t), t->bytes, g, t->shape[0]);
    else
        memcpy(made->data, view(k, t), t->bytes);
}

static void add_matrix(const struct maker *k, enum wn_role role, const struct wn_tensor *t, uint32_t layer,
                       const struct graded_layer *g)
{
    uint64_t rows = t->shape[0], cols = t->shape[1];
    struct wn_matrix whole = {.type = t->type, .rows = rows, .cols = cols, .data = view(k, t)}, parts[64];
    char name[WN_NAME_BYTES];
    struct stack s = {name, 2, {rows, cols}, &whole, 1};

    whole.row_bytes = t->bytes / rows;
    assert_true(wn_name_write(WN_NAMING_MLX, "", role, 0, layer, 0, name));
    if (g && role == WN_ROLE_ROUTER) {
        s.shape[0] = s.n = g->high + g->low;
        s.parts = parts;
        for (size_t i = 0; i < s.n; i++)
            parts[i] = wn_matrix_rows(&whole, g->old[i], 1);
    }
    add_rest(k, &s);
}

static void add_kv(const struct maker *k, const struct wn_layer *layer)
{
    const struct wn_matrix *halves[] = {layer->mla.k_b, layer->mla.v_b};

    for (unsigned i = 0; i < 2; i++) {
        char name[WN_NAME_BYTES];
        struct stack s = {name, 3, {k->config->heads, halves[i]->rows, halves[i]->cols}, halves[i], k->config->heads};

        assert_true(wn_name_write(WN_NAMING_MLX, "", WN_ROLE_KV_B, i, layer->index, 0, name));
        add_rest(k, &s);
    }
}

/* ---- experts ---- */

static const struct wn_matrix *matrix_of(const struct wn_expert *e, enum wn_role role)
{
    return role == WN_ROLE_EXPERT_GATE ? &e->gate : role == WN_ROLE_EXPERT_UP ? &e->up : &e->down;
}

static void add_low(const struct maker *k, const char *name, uint32_t layer, enum wn_role role,
                    const struct graded_layer *g)
{
    struct wn_matrix first = graded_low(k->low, layer, g->old[g->high], role);
    struct stack s = {name, 3, {g->low, first.rows, first.cols}, NULL, 0};
    uint8_t *w = add_beside(k->m, &s, "weight", WN_U32, first.cols / 16)->data;
    uint8_t *scales = add_beside(k->m, &s, "scales", WN_BF16, first.cols / 64)->data;
    uint8_t *biases = add_beside(k->m, &s, "biases", WN_BF16, first.cols / 64)->data;

    for (uint32_t i = 0; i < g->low; i++) {
        struct wn_matrix p = graded_low(k->low, layer, g->old[g->high + i], role);
        size_t bytes = p.rows * p.row_bytes, scale_bytes = p.rows * p.scale_row_bytes;

        memcpy(w + i * bytes, p.data, bytes);
        memcpy(scales + i * scale_bytes, p.scales, scale_bytes);
        memcpy(biases + i * scale_bytes, p.biases, scale_bytes);
    }
    note_affine(k->m, name, 2, 64);
}

static void add_experts(const struct maker *k, const struct wn_layer *layer, const struct graded_layer *g)
{
    static const enum wn_role roles[] = {WN_ROLE_EXPERT_GATE, WN_ROLE_EXPERT_UP, WN_ROLE_EXPERT_DOWN};

    for (int r = 0; r < 3; r++) {
        uint32_t n = g ? g->high : layer->mixture.expert_count;
        const struct wn_matrix *first = matrix_of(&layer->mixture.experts[g ? g->old[0] : 0], roles[r]);
        struct wn_matrix parts[64];
        char name[WN_NAME_BYTES];
        struct stack s = {.name = name, .dims = 3, .parts = parts, .n = n};

        assert_true(n > 0 && n <= 64);
        for (uint32_t e = 0; e < n; e++)
            parts[e] = *matrix_of(&layer->mixture.experts[g ? g->old[e] : e], roles[r]);
        s.shape[0] = n;
        s.shape[1] = first->rows;
        s.shape[2] = first->cols;
        assert_true(
            wn_name_write(WN_NAMING_MLX, "", roles[r], 0, layer->index, g && g->low ? WN_BANK_HI : WN_BANK_ONLY, name));
        add_as_is(k->m, &s);
        if (!g || !g->low)
            continue;
        assert_true(wn_name_write(WN_NAMING_MLX, "", roles[r], 0, layer->index, WN_BANK_LO, name));
        add_low(k, name, layer->index, roles[r], g);
    }
}

static void add_role(const struct maker *k, enum wn_role role, const struct wn_layer *layer,
                     const struct graded_layer *g)
{
    uint32_t i = layer ? layer->index : 0;

    if (role == WN_ROLE_KV_B && layer->attention == WN_ATTENTION_MLA)
        add_kv(k, layer);
    else if (role == WN_ROLE_EXPERT_GATE && layer->moe)
        add_experts(k, layer, g);
    if (wn_role_names(role)->rule == WN_RULE_SPLIT || wn_role_names(role)->rule == WN_RULE_EXPERTS)
        return;
    if (role == WN_ROLE_KDA_G && layer->attention != WN_ATTENTION_KDA)
        return; /* the same name as WN_ROLE_MLA_G */
    if (role == WN_ROLE_MLA_G && layer->attention != WN_ATTENTION_MLA)
        return;
    for (unsigned which = 0; which < 2; which++) {
        const struct wn_tensor *t = hf_tensor(k, role, which, i);

        if (t && wn_role_is_matrix(role))
            add_matrix(k, role, t, i, g);
        else if (t)
            add_plain(k, role, which, t, i, g);
    }
}

static void cut_config(json_t *config, const struct wn_config *c, const struct graded_layer *graded)
{
    json_t *text = json_object_get(config, "text_config"), *counts = json_array(), *split = json_array();
    uint32_t widest = 0;

    json_object_del(config, "quantization_config");
    json_object_del(text, "quantization_config");
    for (uint32_t i = 0; graded && i < c->layer_count; i++) {
        uint32_t n = graded[i].high + graded[i].low;

        widest = n > widest ? n : widest;
        json_array_append_new(counts, json_integer(n));
        json_array_append_new(split, json_integer(graded[i].low ? graded[i].high : 0));
    }
    if (graded) {
        json_object_set_new(text, "num_experts", json_integer(widest));
        json_object_set(text, "expert_counts", counts);
        json_object_set(text, "expert_bank_split", split);
    }
    json_decref(counts);
    json_decref(split);
}

struct made made_mlx(const struct loaded *hf, struct rest rest, const struct graded_layer *graded,
                     const struct wn_source *low)
{
    struct made m = {.config = json_load_file(wn_test_path(wn_model_path(hf->model), "config.json"), 0, NULL)};
    struct maker k = {&m, hf->model, hf->config, rest, low};

    assert_non_null(m.config);
    cut_config(m.config, hf->config, graded);
    for (int role = 0; role < WN_ROLE_COUNT; role++) {
        bool inside = wn_role_names((enum wn_role)role)->in_layer;

        if (!inside)
            add_role(&k, (enum wn_role)role, NULL, NULL);
        for (uint32_t i = 0; inside && i < hf->config->layer_count; i++)
            add_role(&k, (enum wn_role)role, &hf->weights->layers[i],
                     graded && hf->config->layers[i].moe ? &graded[i] : NULL);
    }
    return m;
}
