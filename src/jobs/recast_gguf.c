/* See recast.h: the tensors of a GGUF. */
#include "base/alloc.h"
#include "base/checked.h"
#include "jobs/recast.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENSORS_MAX 48 /* of one layer */

/* The tensors of one layer while it is bound, and the parts of those that have many. */
struct layer {
    const struct wn_recast *r;
    int32_t number;
    struct wn_recast_tensor tensors[TENSORS_MAX];
    struct wn_matrix single[TENSORS_MAX]; /* where a tensor is one matrix */
    size_t n;
    struct wn_matrix *many; /* owned; router rows, and three times the experts */
    float *bias;            /* owned; the router's, of those that stay */
};

/* A matrix of floats that are in memory. */
static struct wn_matrix floats(const float *v, uint64_t rows, uint64_t cols)
{
    return (struct wn_matrix){
        .type = WN_F32, .rows = rows, .cols = cols, .data = (const uint8_t *)v, .row_bytes = (size_t)cols * sizeof *v};
}

/* The next tensor: named, one row of `cols` after the other. The caller gives it its parts and its shape. */
static struct wn_recast_tensor *add(struct layer *l, enum wn_role role, unsigned which, enum wn_type type)
{
    struct wn_recast_tensor *t = &l->tensors[l->n];
    bool named = wn_name_write(WN_NAMING_GGUF, "", role, which, (uint32_t)l->number, 0, t->name);

    assert(named && l->n < TENSORS_MAX);
    (void)named;
    t->layer = l->number;
    t->type = type;
    t->parts = &l->single[l->n++];
    t->part_count = 1;
    return t;
}

/* One matrix in the type given. */
static void add_matrix_as(struct layer *l, enum wn_role role, const struct wn_matrix *m, enum wn_type type)
{
    struct wn_recast_tensor *t = add(l, role, 0, type);

    l->single[l->n - 1] = *m;
    t->dims = 2;
    t->shape[0] = t->rows = m->rows;
    t->shape[1] = t->cols = m->cols;
}

/* One matrix in its own type; one that the model does not have (rows 0) is none. */
static void add_matrix(struct layer *l, enum wn_role role, const struct wn_matrix *m)
{
    if (m->rows)
        add_matrix_as(l, role, m, m->type);
}

/* A vector of f32; NULL is none. */
static void add_vector(struct layer *l, enum wn_role role, const float *v, uint64_t n)
{
    struct wn_recast_tensor *t;

    if (!v)
        return;
    t = add(l, role, 0, WN_F32);
    l->single[l->n - 1] = floats(v, 1, n);
    t->dims = 1;
    t->rows = 1;
    t->shape[0] = t->cols = n;
}

static void add_ffn(struct layer *l, enum wn_role gate, enum wn_role up, enum wn_role down, const struct wn_ffn *f)
{
    add_matrix(l, gate, &f->gate);
    add_matrix(l, up, &f->up);
    add_matrix(l, down, &f->down);
}

/* [channels][1][taps], which the reader of the converter's 4-D form takes too. */
static void add_conv(struct layer *l, enum wn_role role, const float *v, uint64_t channels, uint64_t taps)
{
    struct wn_recast_tensor *t = add(l, role, 0, WN_F32);

    l->single[l->n - 1] = floats(v, channels, taps);
    t->dims = 4;
    t->shape[0] = 1;
    t->shape[1] = t->rows = channels;
    t->shape[2] = 1;
    t->shape[3] = t->cols = taps;
}

/* -exp(A_log); the layer holds exp(A_log), whose memory is the layer's own. */
static void add_decay(struct layer *l, float *a, uint64_t heads)
{
    for (uint64_t h = 0; h < heads; h++)
        a[h] = -a[h];
    add_vector(l, WN_ROLE_A, a, heads);
}

static void add_kda(struct layer *l, struct wn_kda_weights *w)
{
    const struct wn_config *c = wn_model_config(l->r->model);
    uint64_t inner = (uint64_t)c->kda_heads * c->kda_head_dim;

    add_matrix(l, WN_ROLE_Q, &w->q);
    add_matrix(l, WN_ROLE_K, &w->k);
    add_matrix(l, WN_ROLE_V, &w->v);
    add_conv(l, WN_ROLE_CONV_Q, w->conv_q, inner, c->conv_taps);
    add_conv(l, WN_ROLE_CONV_K, w->conv_k, inner, c->conv_taps);
    add_conv(l, WN_ROLE_CONV_V, w->conv_v, inner, c->conv_taps);
    add_decay(l, w->a, c->kda_heads);
    add_vector(l, WN_ROLE_DT_BIAS, w->dt_bias, inner);
    add_matrix(l, WN_ROLE_F_A, &w->f_a);
    add_matrix(l, WN_ROLE_F_B, &w->f_b);
    add_matrix(l, WN_ROLE_BETA, &w->beta);
    add_matrix(l, WN_ROLE_KDA_G, &w->g);
    add_matrix(l, WN_ROLE_G_A, &w->g_a);
    add_matrix(l, WN_ROLE_G_B, &w->g_b);
    add_vector(l, WN_ROLE_O_NORM, w->o_norm, c->kda_head_dim);
    add_matrix(l, WN_ROLE_ATTN_OUT, &w->out);
}

/* [heads] matrices as one tensor of three dimensions. */
static void add_per_head(struct layer *l, unsigned which, const struct wn_matrix *heads, uint64_t count)
{
    struct wn_recast_tensor *t = add(l, WN_ROLE_KV_B, which, heads->type);

    t->parts = heads;
    t->part_count = (size_t)count;
    t->dims = 3;
    t->shape[0] = count;
    t->shape[1] = heads->rows;
    t->rows = count * heads->rows;
    t->shape[2] = t->cols = heads->cols;
}

static void add_mla(struct layer *l, const struct wn_mla_weights *w)
{
    const struct wn_config *c = wn_model_config(l->r->model);

    add_matrix(l, WN_ROLE_Q, &w->q);
    add_matrix(l, WN_ROLE_Q_A, &w->q_a);
    add_vector(l, WN_ROLE_Q_A_NORM, w->q_a_norm, c->q_lora_rank);
    add_matrix(l, WN_ROLE_Q_B, &w->q_b);
    add_matrix(l, WN_ROLE_KV_A, &w->kv_a);
    add_vector(l, WN_ROLE_KV_A_NORM, w->kv_a_norm, c->kv_lora_rank);
    add_per_head(l, 0, w->k_b, c->heads);
    add_per_head(l, 1, w->v_b, c->heads);
    add_matrix(l, WN_ROLE_MLA_G, &w->g);
    add_matrix(l, WN_ROLE_ATTN_OUT, &w->out);
}

/* ---- experts ---- */

/* GGUF's own packing where there is one. */
static enum wn_type packed(enum wn_type t)
{
    return t == WN_MXFP4_SPLIT ? WN_MXFP4 : t;
}

/* which: 0 gate, 1 up, 2 down */
static const struct wn_matrix *matrix_of(const struct wn_expert *e, int which)
{
    return which == 0 ? &e->gate : which == 1 ? &e->up : &e->down;
}

/* One slab after another, in the plan's order. */
static bool add_experts(struct layer *l, const struct wn_keep_layer *keep, const struct wn_moe_weights *w, int which,
                        struct wn_matrix *parts, struct wn_err *err)
{
    static const enum wn_role roles[] = {WN_ROLE_EXPERT_GATE, WN_ROLE_EXPERT_UP, WN_ROLE_EXPERT_DOWN};
    const struct wn_matrix *first = matrix_of(&w->experts[keep->keep[0]], which);
    struct wn_recast_tensor *t = add(l, roles[which], 0, packed(first->type));

    for (uint32_t i = 0; i < keep->count; i++) {
        parts[i] = *matrix_of(&w->experts[keep->keep[i]], which);
        if (parts[i].type != first->type)
            return wn_fail(err, WN_ERR_ARG,
                           "layer %" PRId32 ": expert %" PRIu32 " is of type %s, expert %" PRIu32
                           " of %s; a tensor of GGUF has one type",
                           l->number, keep->keep[i], wn_type_info(parts[i].type)->name, keep->keep[0],
                           wn_type_info(first->type)->name);
    }
    t->parts = parts;
    t->part_count = keep->count;
    t->dims = 3;
    t->shape[0] = keep->count;
    t->shape[1] = first->rows;
    t->rows = keep->count * first->rows;
    t->shape[2] = t->cols = first->cols;
    return true;
}

/* Router rows and biases follow the experts; a router is f32 in a GGUF. */
static void add_router(struct layer *l, const struct wn_keep_layer *keep, const struct wn_moe_weights *w)
{
    struct wn_recast_tensor *t = add(l, WN_ROLE_ROUTER, 0, WN_F32);

    for (uint32_t i = 0; i < keep->count; i++) {
        l->many[i] = wn_matrix_rows(&w->router, keep->keep[i], 1);
        l->bias[i] = w->router_bias[keep->keep[i]];
    }
    t->parts = l->many;
    t->part_count = keep->count;
    t->dims = 2;
    t->shape[0] = t->rows = keep->count;
    t->shape[1] = t->cols = w->router.cols;
    add_vector(l, WN_ROLE_ROUTER_BIAS, l->bias, keep->count);
}

static bool add_moe(struct layer *l, const struct wn_moe_weights *w, struct wn_err *err)
{
    const struct wn_config *c = wn_model_config(l->r->model);
    const struct wn_keep_layer *keep = wn_keep_find(l->r->keep, (uint32_t)l->number);

    assert(keep && keep->experts == w->expert_count && keep->count > 0);
    l->many = wn_alloc(4 * (size_t)keep->count, sizeof *l->many, err);
    l->bias = l->many ? wn_alloc(keep->count, sizeof *l->bias, err) : NULL;
    if (!l->bias)
        return false;
    add_router(l, keep, w);
    for (int which = 0; which < 3; which++)
        if (!add_experts(l, keep, w, which, l->many + (size_t)(which + 1) * keep->count, err))
            return false;
    add_matrix(l, WN_ROLE_LATENT_DOWN, &w->latent_down);
    add_vector(l, WN_ROLE_LATENT_NORM, w->latent_norm, c->latent_size);
    add_matrix(l, WN_ROLE_LATENT_UP, &w->latent_up);
    add_ffn(l, WN_ROLE_SHARED_GATE, WN_ROLE_SHARED_UP, WN_ROLE_SHARED_DOWN, &w->shared);
    return true;
}

/* ---- the walk ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct wn_recast_tensor *)a)->name, ((const struct wn_recast_tensor *)b)->name);
}

static bool give(struct layer *l, wn_recast_fn *fn, void *arg, struct wn_err *err)
{
    qsort(l->tensors, l->n, sizeof l->tensors[0], by_name);
    for (size_t i = 0; i < l->n; i++)
        if (!fn(arg, &l->tensors[i], err))
            return false;
    return true;
}

static bool walk_ends(const struct wn_recast *r, wn_recast_fn *fn, void *arg, struct wn_err *err)
{
    const struct wn_config *c = wn_model_config(r->model);
    struct layer *l = wn_alloc(1, sizeof *l, err);
    struct wn_ends ends;
    bool ok;

    if (!l)
        return false;
    ok = wn_ends_bind(r->model, &ends, err);
    if (ok) {
        l->r = r;
        l->number = -1;
        if (!c->tied_embeddings)
            add_matrix(l, WN_ROLE_HEAD, &ends.head);
        add_matrix(l, WN_ROLE_EMBEDDING, &ends.embedding);
        add_vector(l, WN_ROLE_OUT_NORM, ends.norm, c->hidden_size);
        add_vector(l, WN_ROLE_OUT_RES, ends.out_res_score, c->hidden_size);
        ok = give(l, fn, arg, err);
        wn_ends_release(&ends);
    }
    free(l);
    return ok;
}

static bool add_layer(struct layer *l, struct wn_layer *w, struct wn_err *err)
{
    const struct wn_config *c = wn_model_config(l->r->model);

    add_vector(l, WN_ROLE_ATTN_NORM, w->attn_norm, c->hidden_size);
    add_vector(l, WN_ROLE_FFN_NORM, w->ffn_norm, c->hidden_size);
    add_vector(l, WN_ROLE_ATTN_RES, w->attn_res_score, c->hidden_size);
    add_vector(l, WN_ROLE_FFN_RES, w->ffn_res_score, c->hidden_size);
    if (w->attention == WN_ATTENTION_KDA)
        add_kda(l, &w->kda);
    else
        add_mla(l, &w->mla);
    if (w->moe)
        return add_moe(l, &w->mixture, err);
    add_ffn(l, WN_ROLE_DENSE_GATE, WN_ROLE_DENSE_UP, WN_ROLE_DENSE_DOWN, &w->dense);
    return true;
}

static bool walk_layer(const struct wn_recast *r, uint32_t number, wn_recast_fn *fn, void *arg, struct wn_err *err)
{
    struct layer *l = wn_alloc(1, sizeof *l, err);
    struct wn_layer w;
    bool ok;

    if (!l)
        return false;
    ok = wn_layer_bind(r->model, number, &w, err);
    if (ok) {
        l->r = r;
        l->number = (int32_t)number;
        ok = add_layer(l, &w, err) && give(l, fn, arg, err);
        wn_layer_dont_need(r->model, &w);
        wn_layer_release(&w);
    }
    free(l->many);
    free(l->bias);
    free(l);
    return ok;
}

bool wn_recast_gguf(const struct wn_recast *r, wn_recast_fn *fn, void *arg, struct wn_err *err)
{
    if (!wn_keep_is_uniform(r->keep))
        return wn_fail(err, WN_ERR_ARG,
                       "the plan keeps different numbers of experts in different layers, and GGUF has one expert count "
                       "for all of them; such a plan needs a folder of safetensors");
    if (!walk_ends(r, fn, arg, err))
        return false;
    for (uint32_t i = 0; i < wn_model_config(r->model)->layer_count; i++)
        if (!walk_layer(r, i, fn, arg, err))
            return false;
    return true;
}

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
    *list = (struct wn_recast_list){0};
    if (wn_recast_gguf(r, collect, list, err))
        return true;
    wn_recast_list_release(list);
    return false;
}

void wn_recast_list_release(struct wn_recast_list *list)
{
    free(list->tensors);
    *list = (struct wn_recast_list){0};
}
