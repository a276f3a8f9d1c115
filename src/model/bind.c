/* See weights.h and bind.h: the layer as a whole, its norms, its dense part, and the ends. */
#include "model/bind.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "quant/quant.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wn_owned {
    struct wn_owned *next;
    size_t bytes;
};

/* What a block's header takes, so that the memory behind it is aligned as kernels like it. */
#define HEADER 64

void *wn_bind_unset(struct wn_binder *b, size_t n, size_t size)
{
    uint64_t bytes, total;
    struct wn_owned *o;

    if (!wn_mul_u64(n, size, &bytes) || !wn_add_u64(bytes, HEADER, &total) || total > SIZE_MAX) {
        wn_fail(b->err, WN_ERR_NOMEM, "%zu objects of %zu bytes do not fit in memory", n, size);
        return NULL;
    }
    o = wn_alloc_unset((size_t)total, b->err);
    if (!o)
        return NULL;
    o->next = *b->owned;
    o->bytes = (size_t)total;
    *b->owned = o;
    return (char *)o + HEADER;
}

void *wn_bind_alloc(struct wn_binder *b, size_t n, size_t size)
{
    void *p = wn_bind_unset(b, n, size);

    return p ? memset(p, 0, n * size) : NULL;
}

static void owned_free(struct wn_owned *o)
{
    while (o) {
        struct wn_owned *next = o->next;

        wn_free_aligned(o);
        o = next;
    }
}

const struct wn_tensor *wn_bind_try(struct wn_binder *b, const char *name)
{
    const struct wn_tensor *t = wn_source_find(b->source, name);

    if (t && b->used_count < b->used_room)
        b->used[b->used_count++] = t;
    return t;
}

const struct wn_tensor *wn_bind_find(struct wn_binder *b, enum wn_role role, unsigned which, enum wn_bank bank)
{
    char full[WN_NAME_BYTES];
    const struct wn_tensor *t;
    bool named = wn_name_write(b->model->naming, b->model->prefix, role, which, b->layer, bank, full);

    assert(named);
    (void)named;
    t = wn_bind_try(b, full);
    if (!t)
        wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s' is missing", full);
    return t;
}

static void show_shape(const uint64_t *shape, uint32_t dims, char out[128])
{
    size_t n = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < dims && n < 100; i++)
        n += (size_t)snprintf(out + n, 128 - n, i ? ", %llu" : "%llu", (unsigned long long)shape[i]);
}

/* The shape without its ones; returns how many dimensions are left. */
static uint32_t squeeze(const uint64_t *shape, uint32_t dims, uint64_t out[WN_DIMS])
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < dims; i++)
        if (shape[i] != 1)
            out[n++] = shape[i];
    return n;
}

bool wn_bind_shape(struct wn_binder *b, const struct wn_tensor *t, const uint64_t *want, uint32_t dims)
{
    uint64_t has_bare[WN_DIMS], want_bare[WN_DIMS];
    uint32_t n = squeeze(t->shape, t->dims, has_bare), m = squeeze(want, dims, want_bare);
    char has_text[128], want_text[128];

    if (n == m && memcmp(has_bare, want_bare, n * sizeof(has_bare[0])) == 0)
        return true;
    show_shape(t->shape, t->dims, has_text);
    show_shape(want, dims, want_text);
    return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s' is [%s], wanted [%s]", t->name, has_text, want_text);
}

bool wn_bind_view(struct wn_binder *b, const struct wn_tensor *t, uint64_t rows, uint64_t cols, struct wn_matrix *m)
{
    const struct wn_type_info *type = wn_type_info(t->type);
    uint64_t row_bytes;
    const uint8_t *data;

    if (!wn_quant_can_decode(t->type))
        return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s' is of type %s, which holds no weights", t->name, type->name);
    if (!wn_type_bytes(t->type, cols, &row_bytes))
        return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s': %llu columns are no whole blocks of %s (%u)", t->name,
                       (unsigned long long)cols, type->name, type->block_elements);
    assert(rows * row_bytes == t->bytes);
    data = wn_source_view(b->source, t, b->err);
    if (!data)
        return wn_fail_in(b->err, "tensor '%s'", t->name);
    *m = (struct wn_matrix){.type = t->type, .rows = rows, .cols = cols, .data = data, .row_bytes = (size_t)row_bytes};
    return true;
}

static bool bind_weights(struct wn_binder *b, const struct wn_tensor *t, const uint64_t *shape, uint32_t dims,
                         struct wn_matrix *m)
{
    uint64_t rows = 1;

    if (b->model->naming == WN_NAMING_MLX)
        return wn_bind_mlx(b, t, shape, dims, m);
    for (uint32_t i = 0; i + 1 < dims; i++)
        rows *= shape[i];
    return wn_bind_shape(b, t, shape, dims) && wn_bind_view(b, t, rows, shape[dims - 1], m);
}

bool wn_bind_matrix(struct wn_binder *b, enum wn_role role, uint64_t rows, uint64_t cols, struct wn_matrix *m)
{
    const struct wn_tensor *t = wn_bind_find(b, role, 0, WN_BANK_ONLY);

    return t && bind_weights(b, t, (const uint64_t[]){rows, cols}, 2, m);
}

bool wn_bind_stack(struct wn_binder *b, enum wn_role role, unsigned which, enum wn_bank bank, uint64_t count,
                   uint64_t rows, uint64_t cols, struct wn_matrix *m)
{
    const struct wn_tensor *t = wn_bind_find(b, role, which, bank);

    return t && bind_weights(b, t, (const uint64_t[]){count, rows, cols}, 3, m);
}

bool wn_bind_widen(struct wn_binder *b, const struct wn_tensor *t, uint64_t n, float *dst)
{
    struct wn_matrix m;

    if (!wn_bind_view(b, t, 1, n, &m))
        return false;
    wn_quant_decode_row(&m, 0, dst);
    return true;
}

/* rows 1: a vector. The elements follow one another row by row either way. */
static bool bind_floats(struct wn_binder *b, enum wn_role role, unsigned which, uint64_t rows, uint64_t cols, float **v)
{
    const struct wn_tensor *t = wn_bind_find(b, role, which, WN_BANK_ONLY);
    const uint64_t shape[] = {rows, cols};

    if (!t || !wn_bind_shape(b, t, shape, 2))
        return false;
    *v = wn_bind_unset(b, rows * cols, sizeof(**v));
    return *v && wn_bind_widen(b, t, rows * cols, *v);
}

bool wn_bind_vector(struct wn_binder *b, enum wn_role role, uint64_t n, float **v)
{
    return bind_floats(b, role, 0, 1, n, v);
}

bool wn_bind_table(struct wn_binder *b, enum wn_role role, uint64_t rows, uint64_t cols, float **v)
{
    return bind_floats(b, role, 0, rows, cols, v);
}

/* WN_RULE_PRODUCT: only norm * proj is ever used, and GGUF stores just that. */
static bool bind_score(struct wn_binder *b, enum wn_role role, float **v)
{
    uint32_t n = b->config->hidden_size;
    float *proj;

    if (!bind_floats(b, role, 0, 1, n, v))
        return false;
    if (b->model->naming == WN_NAMING_GGUF)
        return true;
    if (!bind_floats(b, role, 1, 1, n, &proj))
        return false;
    for (uint32_t i = 0; i < n; i++)
        (*v)[i] *= proj[i];
    return true;
}

static bool bind_dense(struct wn_binder *b, struct wn_ffn *f)
{
    uint32_t hidden = b->config->hidden_size, inner = b->config->intermediate_size;

    return wn_bind_matrix(b, WN_ROLE_DENSE_GATE, inner, hidden, &f->gate) &&
           wn_bind_matrix(b, WN_ROLE_DENSE_UP, inner, hidden, &f->up) &&
           wn_bind_matrix(b, WN_ROLE_DENSE_DOWN, hidden, inner, &f->down);
}

static int by_address(const void *a, const void *b)
{
    const struct wn_tensor *const *x = a, *const *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* Every tensor of the layer must have found its place: one that is left over would change nothing, silently. */
static bool check_all_used(struct wn_binder *b)
{
    const struct wn_model *m = b->model;
    size_t first = m->layer_at[b->layer], end = m->layer_at[b->layer + 1];

    qsort(b->used, b->used_count, sizeof(b->used[0]), by_address);
    for (size_t i = first; i < end; i++) {
        const struct wn_tensor *t = wn_source_tensor_at(b->source, m->in_layer[i]);

        if (!bsearch(&t, b->used, b->used_count, sizeof(b->used[0]), by_address))
            return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s' has no place in layer %u (%s, %s)", t->name, b->layer,
                           b->config->layers[b->layer].attention == WN_ATTENTION_KDA ? "KDA" : "MLA",
                           b->config->layers[b->layer].moe ? "mixture of experts" : "dense");
    }
    return true;
}

static bool bind_layer(struct wn_binder *b, struct wn_layer *layer)
{
    const struct wn_config *c = b->config;

    if (!wn_bind_vector(b, WN_ROLE_ATTN_NORM, c->hidden_size, &layer->attn_norm) ||
        !wn_bind_vector(b, WN_ROLE_FFN_NORM, c->hidden_size, &layer->ffn_norm))
        return false;
    if (c->attn_res_block != 0 && (!bind_score(b, WN_ROLE_ATTN_RES, &layer->attn_res_score) ||
                                   !bind_score(b, WN_ROLE_FFN_RES, &layer->ffn_res_score)))
        return false;
    if (!(layer->attention == WN_ATTENTION_KDA ? wn_bind_kda(b, &layer->kda) : wn_bind_mla(b, &layer->mla)))
        return false;
    if (!(layer->moe ? wn_bind_moe(b, &layer->mixture) : bind_dense(b, &layer->dense)))
        return false;
    return check_all_used(b);
}

bool wn_layer_bind(const struct wn_model *m, uint32_t i, struct wn_layer *layer, struct wn_err *err)
{
    struct wn_owned *owned = NULL;
    struct wn_binder b = {
        .model = m, .source = m->source, .config = &m->config, .layer = i, .owned = &owned, .err = err};
    bool ok;

    assert(i < m->config.layer_count);
    *layer = (struct wn_layer){.index = i, .attention = m->config.layers[i].attention, .moe = m->config.layers[i].moe};
    b.used_room = m->layer_at[i + 1] - m->layer_at[i];
    b.used = wn_alloc(b.used_room, sizeof(b.used[0]), err);
    ok = b.used && bind_layer(&b, layer);
    free(b.used);
    layer->owned = owned;
    if (!ok)
        wn_layer_release(layer);
    return ok;
}

void wn_layer_release(struct wn_layer *layer)
{
    owned_free(layer->owned);
    *layer = (struct wn_layer){0};
}

static bool bind_ends(struct wn_binder *b, struct wn_ends *ends)
{
    const struct wn_config *c = b->config;

    if (!wn_bind_matrix(b, WN_ROLE_EMBEDDING, c->vocab_size, c->hidden_size, &ends->embedding) ||
        !wn_bind_vector(b, WN_ROLE_OUT_NORM, c->hidden_size, &ends->norm))
        return false;
    if (c->tied_embeddings)
        ends->head = ends->embedding;
    else if (!wn_bind_matrix(b, WN_ROLE_HEAD, c->vocab_size, c->hidden_size, &ends->head))
        return false;
    return c->attn_res_block == 0 || bind_score(b, WN_ROLE_OUT_RES, &ends->out_res_score);
}

/* The tensor of that name, or what MLX puts beside it. */
static const struct wn_tensor *find_with_sides(const struct wn_binder *b, const char *name)
{
    static const char *const sides[] = {"scales", "biases"};
    const struct wn_tensor *t = wn_source_find(b->source, name);
    char beside[WN_NAME_BYTES];

    for (size_t i = 0; i < 2 && !t && b->model->naming == WN_NAMING_MLX; i++)
        if (wn_name_beside(name, sides[i], beside))
            t = wn_source_find(b->source, beside);
    return t;
}

/* As in layers: a head beside tied embeddings, or a score without AttnRes, would be passed over silently. */
static bool check_no_other_ends(const struct wn_binder *b)
{
    for (int i = 0; i < WN_ROLE_COUNT; i++) {
        bool bound = i == WN_ROLE_HEAD      ? !b->config->tied_embeddings
                     : i == WN_ROLE_OUT_RES ? b->config->attn_res_block != 0
                                            : true;
        char name[WN_NAME_BYTES];
        const struct wn_tensor *t;

        for (unsigned k = 0; k < 2 && !wn_role_names((enum wn_role)i)->in_layer && !bound; k++)
            if (wn_name_write(b->model->naming, b->model->prefix, (enum wn_role)i, k, 0, 0, name) &&
                (t = find_with_sides(b, name)) != NULL)
                return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s' has no place: the config has %s", t->name,
                               i == WN_ROLE_HEAD ? "'tie_word_embeddings'" : "no 'attn_res_block_size'");
    }
    return true;
}

bool wn_ends_bind(const struct wn_model *m, struct wn_ends *ends, struct wn_err *err)
{
    struct wn_owned *owned = NULL;
    struct wn_binder b = {.model = m, .source = m->source, .config = &m->config, .owned = &owned, .err = err};
    bool ok;

    *ends = (struct wn_ends){0};
    ok = bind_ends(&b, ends) && check_no_other_ends(&b);
    ends->owned = owned;
    if (!ok)
        wn_ends_release(ends);
    return ok;
}

void wn_ends_release(struct wn_ends *ends)
{
    owned_free(ends->owned);
    *ends = (struct wn_ends){0};
}

void wn_layer_will_need(const struct wn_model *m, const struct wn_layer *layer)
{
    for (size_t i = m->layer_at[layer->index]; i < m->layer_at[layer->index + 1]; i++)
        wn_source_will_need(m->source, wn_source_tensor_at(m->source, m->in_layer[i]));
}

void wn_layer_dont_need(const struct wn_model *m, const struct wn_layer *layer)
{
    for (size_t i = m->layer_at[layer->index]; i < m->layer_at[layer->index + 1]; i++)
        wn_source_dont_need(m->source, wn_source_tensor_at(m->source, m->in_layer[i]));
}

uint64_t wn_owned_bytes(const void *owned)
{
    uint64_t bytes = 0;

    for (const struct wn_owned *o = owned; o; o = o->next)
        bytes += o->bytes;
    return bytes;
}

uint64_t wn_layer_bytes(const struct wn_model *m, const struct wn_layer *layer)
{
    uint64_t bytes = wn_owned_bytes(layer->owned);

    for (size_t i = m->layer_at[layer->index]; i < m->layer_at[layer->index + 1]; i++)
        bytes += wn_source_tensor_at(m->source, m->in_layer[i])->bytes;
    return bytes;
}
