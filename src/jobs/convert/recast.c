/* See recast.h: the walk over the model, the same for all containers. */
#include "base/alloc.h"
#include "jobs/convert/recast_parts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wn_matrix wn_recast_floats(const float *v, uint64_t rows, uint64_t cols)
{
    return (struct wn_matrix){
        .type = WN_F32, .rows = rows, .cols = cols, .data = (const uint8_t *)v, .row_bytes = (size_t)cols * sizeof *v};
}

struct wn_recast_tensor *wn_recast_add(struct wn_recast_layer *l, const char *name, enum wn_type type,
                                       const struct wn_matrix *m)
{
    struct wn_recast_tensor *t = &l->tensors[l->n];

    assert(l->n < WN_RECAST_TENSORS && strlen(name) < sizeof t->name);
    *t = (struct wn_recast_tensor){.layer = l->number, .type = type};
    memcpy(t->name, name, strlen(name) + 1);
    if (m) {
        l->single[l->n] = *m;
        t->parts = &l->single[l->n];
        t->part_count = 1;
        t->rows = m->rows;
        t->cols = m->cols;
    }
    l->n++;
    return t;
}

bool wn_recast_alike(struct wn_recast_layer *l, const struct wn_matrix *m, uint32_t n)
{
    for (uint32_t i = 1; !l->failed && i < n; i++)
        if (m[i].type != m[0].type) {
            l->failed = true;
            wn_fail(l->err, WN_ERR_ARG,
                    "layer %" PRId32 ": expert %" PRIu32 " is of type %s, expert %" PRIu32
                    " of %s; a tensor has one type",
                    l->number, l->keep->keep[i], wn_type_info(m[i].type)->name, l->keep->keep[0],
                    wn_type_info(m[0].type)->name);
        }
    return !l->failed;
}

bool wn_recast_is_needed(enum wn_format format, const struct wn_source *s)
{
    return format == WN_FORMAT_MLX || (format == WN_FORMAT_GGUF && wn_source_container(s) != WN_CONTAINER_GGUF);
}

struct wn_recast wn_recast_of(const struct wn_model *m, const struct wn_keep *keep, enum wn_format format,
                              unsigned rest_bits, enum wn_encoder encoder)
{
    return (struct wn_recast){.model = m,
                              .keep = keep,
                              .form = format == WN_FORMAT_GGUF ? &wn_recast_form_gguf : &wn_recast_form_mlx,
                              .rest_bits = rest_bits == 0    ? 8
                                           : rest_bits == 16 ? 0
                                                             : rest_bits,
                              .fit = encoder == WN_ENCODER_FIT};
}

/* ---- parts that a model may not have ---- */

static void matrix(struct wn_recast_layer *l, enum wn_role role, const struct wn_matrix *m)
{
    if (m->rows && !l->failed)
        l->r->form->matrix(l, role, m);
}

static void vector(struct wn_recast_layer *l, enum wn_role role, const float *v, uint64_t n)
{
    if (v && !l->failed)
        l->r->form->vector(l, role, v, n);
}

static void score(struct wn_recast_layer *l, enum wn_role role, const float *v)
{
    if (v && !l->failed)
        l->r->form->score(l, role, v, l->config->hidden_size);
}

static void ffn(struct wn_recast_layer *l, enum wn_role gate, enum wn_role up, enum wn_role down,
                const struct wn_ffn *f)
{
    matrix(l, gate, &f->gate);
    matrix(l, up, &f->up);
    matrix(l, down, &f->down);
}

static void kda(struct wn_recast_layer *l, struct wn_kda_weights *w)
{
    const struct wn_recast_form *form = l->r->form;
    const struct wn_config *c = l->config;
    uint64_t inner = (uint64_t)c->kda_heads * c->kda_head_dim;

    matrix(l, WN_ROLE_Q, &w->q);
    matrix(l, WN_ROLE_K, &w->k);
    matrix(l, WN_ROLE_V, &w->v);
    form->conv(l, WN_ROLE_CONV_Q, w->conv_q, inner, c->conv_taps);
    form->conv(l, WN_ROLE_CONV_K, w->conv_k, inner, c->conv_taps);
    form->conv(l, WN_ROLE_CONV_V, w->conv_v, inner, c->conv_taps);
    form->decay(l, w->a, c->kda_heads);
    vector(l, WN_ROLE_DT_BIAS, w->dt_bias, inner);
    matrix(l, WN_ROLE_F_A, &w->f_a);
    matrix(l, WN_ROLE_F_B, &w->f_b);
    matrix(l, WN_ROLE_BETA, &w->beta);
    matrix(l, WN_ROLE_KDA_G, &w->g);
    matrix(l, WN_ROLE_G_A, &w->g_a);
    matrix(l, WN_ROLE_G_B, &w->g_b);
    vector(l, WN_ROLE_O_NORM, w->o_norm, c->kda_head_dim);
    matrix(l, WN_ROLE_ATTN_OUT, &w->out);
}

static void mla(struct wn_recast_layer *l, const struct wn_mla_weights *w)
{
    const struct wn_config *c = l->config;

    matrix(l, WN_ROLE_Q, &w->q);
    matrix(l, WN_ROLE_Q_A, &w->q_a);
    vector(l, WN_ROLE_Q_A_NORM, w->q_a_norm, c->q_lora_rank);
    matrix(l, WN_ROLE_Q_B, &w->q_b);
    matrix(l, WN_ROLE_KV_A, &w->kv_a);
    vector(l, WN_ROLE_KV_A_NORM, w->kv_a_norm, c->kv_lora_rank);
    l->r->form->per_head(l, 0, w->k_b, c->heads);
    l->r->form->per_head(l, 1, w->v_b, c->heads);
    matrix(l, WN_ROLE_MLA_G, &w->g);
    matrix(l, WN_ROLE_ATTN_OUT, &w->out);
}

/* ---- experts and their router, in the plan's order ---- */

static bool has_ghosts(const struct wn_recast_layer *l)
{
    return l->r->keep->ghosts != WN_GHOSTS_OFF;
}

static bool gather_router(struct wn_recast_layer *l, const struct wn_moe_weights *w)
{
    l->router_rows = wn_keep_router_rows(l->r->keep, l->keep);
    assert(l->keep->rows == w->router.rows);
    l->router = wn_alloc(l->router_rows, sizeof *l->router, l->err);
    l->bias = l->router ? wn_alloc(l->router_rows, sizeof *l->bias, l->err) : NULL;
    for (uint32_t i = 0; l->bias && i < l->router_rows; i++) {
        uint32_t row = has_ghosts(l) ? i : l->keep->row_of[i];

        l->router[i] = wn_matrix_rows(&w->router, row, 1);
        l->bias[i] = w->router_bias[row];
    }
    return l->bias != NULL;
}

static bool gather(struct wn_recast_layer *l, const struct wn_moe_weights *w)
{
    uint32_t n;

    l->keep = wn_keep_find(l->r->keep, (uint32_t)l->number);
    assert(l->keep && l->keep->experts == w->expert_count && l->keep->count > 0);
    n = l->keep->count;
    if (!gather_router(l, w))
        return false;
    for (int i = 0; i < 3; i++)
        l->experts[i] = wn_alloc(n, sizeof *l->experts[i], l->err);
    if (!l->experts[0] || !l->experts[1] || !l->experts[2])
        return false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t e = l->keep->keep[i];

        l->experts[0][i] = w->experts[e].gate;
        l->experts[1][i] = w->experts[e].up;
        l->experts[2][i] = w->experts[e].down;
    }
    return true;
}

static void moe(struct wn_recast_layer *l, const struct wn_moe_weights *w)
{
    static const enum wn_role roles[] = {WN_ROLE_EXPERT_GATE, WN_ROLE_EXPERT_UP, WN_ROLE_EXPERT_DOWN};

    if (l->failed || !gather(l, w)) {
        l->failed = true;
        return;
    }
    l->r->form->router(l);
    if (has_ghosts(l))
        wn_recast_ghosts(l, w);
    for (int i = 0; !l->failed && i < 3; i++)
        l->r->form->experts(l, roles[i], l->experts[i]);
    matrix(l, WN_ROLE_LATENT_DOWN, &w->latent_down);
    vector(l, WN_ROLE_LATENT_NORM, w->latent_norm, l->config->latent_size);
    matrix(l, WN_ROLE_LATENT_UP, &w->latent_up);
    ffn(l, WN_ROLE_SHARED_GATE, WN_ROLE_SHARED_UP, WN_ROLE_SHARED_DOWN, &w->shared);
}

static void add_ends(struct wn_recast_layer *l, const struct wn_ends *ends)
{
    matrix(l, WN_ROLE_EMBEDDING, &ends->embedding);
    if (!l->config->tied_embeddings)
        matrix(l, WN_ROLE_HEAD, &ends->head);
    vector(l, WN_ROLE_OUT_NORM, ends->norm, l->config->hidden_size);
    score(l, WN_ROLE_OUT_RES, ends->out_res_score);
}

static void add_layer(struct wn_recast_layer *l, struct wn_layer *w)
{
    vector(l, WN_ROLE_ATTN_NORM, w->attn_norm, l->config->hidden_size);
    vector(l, WN_ROLE_FFN_NORM, w->ffn_norm, l->config->hidden_size);
    score(l, WN_ROLE_ATTN_RES, w->attn_res_score);
    score(l, WN_ROLE_FFN_RES, w->ffn_res_score);
    if (w->attention == WN_ATTENTION_KDA)
        kda(l, &w->kda);
    else
        mla(l, &w->mla);
    if (w->moe)
        moe(l, &w->mixture);
    else
        ffn(l, WN_ROLE_DENSE_GATE, WN_ROLE_DENSE_UP, WN_ROLE_DENSE_DOWN, &w->dense);
}

/* ---- the walk ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct wn_recast_tensor *)a)->name, ((const struct wn_recast_tensor *)b)->name);
}

static bool give(struct wn_recast_layer *l, wn_recast_fn *fn, void *arg)
{
    if (l->failed)
        return false;
    if (l->r->form->sorted)
        qsort(l->tensors, l->n, sizeof l->tensors[0], by_name);
    for (size_t i = 0; i < l->n; i++)
        if (!fn(arg, &l->tensors[i], l->err))
            return false;
    return true;
}

static bool walk_ends(struct wn_recast_layer *l, wn_recast_fn *fn, void *arg)
{
    struct wn_ends ends;
    bool ok;

    if (!wn_ends_bind(l->r->model, &ends, l->err))
        return false;
    add_ends(l, &ends);
    ok = give(l, fn, arg);
    wn_ends_release(&ends);
    return ok;
}

static bool walk_layer(struct wn_recast_layer *l, wn_recast_fn *fn, void *arg)
{
    struct wn_layer w;
    bool ok;

    if (!wn_layer_bind(l->r->model, (uint32_t)l->number, &w, l->err))
        return false;
    add_layer(l, &w);
    ok = give(l, fn, arg);
    wn_layer_dont_need(l->r->model, &w);
    wn_layer_release(&w);
    return ok;
}

static bool walk_part(const struct wn_recast *r, int32_t number, wn_recast_fn *fn, void *arg, struct wn_err *err)
{
    struct wn_recast_layer *l = wn_alloc(1, sizeof *l, err);
    bool ok;

    if (!l)
        return false;
    l->r = r;
    l->config = wn_model_config(r->model);
    l->number = number;
    l->err = err;
    ok = number < 0 ? walk_ends(l, fn, arg) : walk_layer(l, fn, arg);
    for (int i = 0; i < 3; i++)
        free(l->experts[i]);
    free(l->router);
    free(l->bias);
    free(l->rows);
    free(l->ghosts);
    free(l->padded);
    free(l);
    return ok;
}

/* A tensor that is no part of the text model goes along as it is. */
static bool walk_copied(const struct wn_recast *r, const struct wn_tensor *from, wn_recast_fn *fn, void *arg,
                        struct wn_err *err)
{
    uint64_t rows = from->dims > 1 ? from->shape[0] : 1;
    struct wn_matrix m = {.type = from->type, .rows = rows};
    struct wn_recast_tensor t = {.layer = -1, .type = from->type, .dims = from->dims, .parts = &m, .part_count = 1};

    if (strlen(from->name) >= sizeof t.name)
        return wn_fail(err, WN_ERR_FORMAT, "tensor '%s' has a name of more than %zu bytes", from->name,
                       sizeof t.name - 1);
    memcpy(t.name, from->name, strlen(from->name) + 1);
    memcpy(t.shape, from->shape, sizeof t.shape);
    t.rows = rows;
    t.cols = m.cols = rows ? wn_tensor_elements(from) / rows : 0;
    m.row_bytes = rows ? (size_t)(from->bytes / rows) : 0;
    m.data = wn_source_view(wn_model_source(r->model), from, err);
    if (!m.data || !fn(arg, &t, err))
        return false;
    wn_source_dont_need(wn_model_source(r->model), from);
    return true;
}

static bool is_vision(const struct wn_recast *r, const struct wn_tensor *t)
{
    struct wn_part part;

    wn_part_of(wn_source_container(wn_model_source(r->model)), t->name, &part);
    return part.class == WN_CLASS_VISION;
}

uint64_t wn_recast_left_out(const struct wn_recast *r)
{
    const struct wn_source *s = wn_model_source(r->model);
    uint64_t n = 0;

    for (size_t i = 0; !r->form->vision && i < wn_source_tensor_count(s); i++)
        n += is_vision(r, wn_source_tensor_at(s, i));
    return n;
}

bool wn_recast_walk(const struct wn_recast *r, wn_recast_fn *fn, void *arg, struct wn_err *err)
{
    const struct wn_source *s = wn_model_source(r->model);

    for (int32_t i = -1; i < (int32_t)wn_model_config(r->model)->layer_count; i++)
        if (!walk_part(r, i, fn, arg, err))
            return false;
    for (size_t i = 0; r->form->vision && i < wn_source_tensor_count(s); i++)
        if (is_vision(r, wn_source_tensor_at(s, i)) && !walk_copied(r, wn_source_tensor_at(s, i), fn, arg, err))
            return false;
    return true;
}

/* ---- the list ---- */

static bool collect(void *arg, const struct wn_recast_tensor *t, struct wn_err *err)
{
    struct wn_recast_list *list = arg;
    struct wn_recast_tensor *all = wn_grow(list->tensors, &list->room, list->n + 1, sizeof *all, err);

    if (!all)
        return false;
    list->tensors = all;
    all[list->n] = *t;
    all[list->n].parts = NULL;
    all[list->n++].part_count = 0;
    return true;
}

bool wn_recast_list(const struct wn_recast *r, struct wn_recast_list *list, struct wn_err *err)
{
    struct wn_recast sizes = *r;

    sizes.sizes_only = true;
    *list = (struct wn_recast_list){0};
    if (wn_recast_walk(&sizes, collect, list, err))
        return true;
    wn_recast_list_release(list);
    return false;
}

void wn_recast_list_release(struct wn_recast_list *list)
{
    free(list->tensors);
    *list = (struct wn_recast_list){0};
}
