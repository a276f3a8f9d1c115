/*
 * See recast_parts.h: the tensors of an MLX folder (docs/formats/mlx.md). A matrix is codes, scales and, when affine,
 * biases; experts keep their MXFP4 bytes, those of a graded plan's second bank become affine; other matrices are affine
 * in rest_bits, or stay as they are. Vectors are bf16, but for decays and biases.
 */
#include "base/alloc.h"
#include "jobs/convert/recast_parts.h"
#include "quant/quant.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

uint32_t wn_recast_group(uint64_t cols)
{
    return cols % 64 == 0 ? 64 : cols % 32 == 0 ? 32 : 0;
}

/* A stack of n matrices (n 1: a matrix) that is about to become one module. */
struct module {
    char weight[WN_NAME_BYTES]; /* its name */
    const struct wn_matrix *m;
    uint32_t n;
    bool stacked;  /* the first dimension counts the matrices, even if there is one only */
    unsigned bits; /* affine; 0: m's own type */
    enum wn_affine_rule rule;
};

static void name_weight(struct wn_recast_layer *l, enum wn_role role, unsigned which, enum wn_bank bank,
                        char out[WN_NAME_BYTES])
{
    bool named = wn_name_write(WN_NAMING_MLX, "", role, which, (uint32_t)l->number, bank, out);

    assert(named);
    (void)named;
}

/* One of a module's tensors; `words` elements of the file's type make a row. */
static struct wn_recast_tensor *add_face(struct wn_recast_layer *l, const struct module *m, const char *name,
                                         enum wn_type type, enum wn_recast_face face, uint64_t words)
{
    struct wn_recast_tensor *t = wn_recast_add(l, name, type, NULL);

    t->face = face;
    t->rule = m->rule;
    if (m->n == 1) { /* copied: the caller's may be gone when the tensor is made */
        l->single[l->n - 1] = *m->m;
        t->parts = &l->single[l->n - 1];
    } else {
        t->parts = m->m;
    }
    t->part_count = m->n;
    t->rows = m->n * m->m->rows;
    t->cols = m->m->cols;
    if (m->stacked)
        t->shape[t->dims++] = m->n;
    t->shape[t->dims++] = m->m->rows;
    t->shape[t->dims++] = words;
    return t;
}

static void add_beside(struct wn_recast_layer *l, const struct module *m, const char *what, enum wn_type type,
                       enum wn_recast_face face, uint32_t group)
{
    char name[WN_NAME_BYTES];
    bool named = wn_name_beside(m->weight, what, name);

    assert(named);
    (void)named;
    add_face(l, m, name, type, face, m->m->cols / group)->group = group;
}

static void add_module(struct wn_recast_layer *l, const struct module *m)
{
    uint64_t cols = m->m->cols;
    uint32_t group = wn_recast_group(cols);

    if (m->bits && group) {
        enum wn_type type = wn_affine_type(m->bits);

        add_face(l, m, m->weight, type, WN_FACE_DATA, cols * m->bits / 32)->group = group;
        add_beside(l, m, "scales", type, WN_FACE_SCALES, group);
        add_beside(l, m, "biases", type, WN_FACE_BIASES, group);
    } else if (m->m->type == WN_MXFP4_SPLIT) {
        add_face(l, m, m->weight, WN_MXFP4_SPLIT, WN_FACE_DATA, cols / 8);
        add_beside(l, m, "scales", WN_MXFP4_SPLIT, WN_FACE_SCALES, 32);
    } else {
        add_face(l, m, m->weight, WN_BF16, WN_FACE_DATA, cols);
    }
}

static void add_matrix(struct wn_recast_layer *l, enum wn_role role, const struct wn_matrix *m)
{
    struct module one = {.m = m, .n = 1, .bits = l->r->rest_bits};

    name_weight(l, role, 0, WN_BANK_ONLY, one.weight);
    add_module(l, &one);
}

static void add_floats(struct wn_recast_layer *l, enum wn_role role, const float *v, uint64_t n, enum wn_type type)
{
    char name[WN_NAME_BYTES];
    struct wn_matrix m = wn_recast_floats(v, 1, n);
    struct wn_recast_tensor *t;

    name_weight(l, role, 0, WN_BANK_ONLY, name);
    t = wn_recast_add(l, name, type, &m);
    t->dims = 1;
    t->shape[0] = n;
}

/*
 * HF has convolutions and the inner norm in f32. MLX's loader wants all in bf16; where nothing is to change, they stay.
 */
static enum wn_type narrowed(const struct wn_recast_layer *l)
{
    return l->r->rest_bits ? WN_BF16 : WN_F32;
}

static void add_vector(struct wn_recast_layer *l, enum wn_role role, const float *v, uint64_t n)
{
    add_floats(l, role, v, n, role == WN_ROLE_DT_BIAS ? WN_F32 : role == WN_ROLE_O_NORM ? narrowed(l) : WN_BF16);
}

/* A tensor of the source, its bytes and shape as they are, under MLX's name. */
static void add_source(struct wn_recast_layer *l, enum wn_role role, unsigned which)
{
    char name[WN_NAME_BYTES];
    const struct wn_source *s = wn_model_source(l->r->model);
    const struct wn_tensor *from;
    struct wn_recast_tensor *t;
    struct wn_matrix m;

    if (l->failed)
        return;
    if (!wn_name_write(WN_NAMING_HF, wn_model_prefix(l->r->model), role, which, (uint32_t)l->number, 0, name) ||
        !(from = wn_source_find(s, name))) {
        l->failed = true;
        wn_fail(l->err, WN_ERR_ARG, "MLX needs the tensor '%s' apart, which only HF folders have", name);
        return;
    }
    m = (struct wn_matrix){
        .type = from->type, .rows = 1, .cols = wn_tensor_elements(from), .row_bytes = (size_t)from->bytes};
    m.data = wn_source_view(s, from, l->err);
    l->failed = !m.data;
    name_weight(l, role, which, WN_BANK_ONLY, name);
    t = wn_recast_add(l, name, from->type, &m);
    t->dims = from->dims;
    memcpy(t->shape, from->shape, sizeof t->shape);
}

/* The two vectors apart, not their product. */
static void add_score(struct wn_recast_layer *l, enum wn_role role, const float *v, uint64_t n)
{
    (void)v;
    (void)n;
    add_source(l, role, 0);
    add_source(l, role, 1);
}

static void add_conv(struct wn_recast_layer *l, enum wn_role role, const float *v, uint64_t channels, uint64_t taps)
{
    char name[WN_NAME_BYTES];
    struct wn_matrix m = wn_recast_floats(v, channels, taps);
    struct wn_recast_tensor *t;

    name_weight(l, role, 0, WN_BANK_ONLY, name);
    t = wn_recast_add(l, name, narrowed(l), &m);
    t->dims = 3;
    t->shape[0] = channels;
    t->shape[1] = taps;
    t->shape[2] = 1;
}

/*
 * A_log, not what it decays to. MLX's module has as many as a head has channels; those behind the heads mean nothing.
 */
static void add_decay(struct wn_recast_layer *l, float *a, uint64_t heads)
{
    size_t first = l->n;
    uint64_t wanted = l->config->kda_head_dim;
    struct wn_recast_tensor *t;

    (void)a;
    (void)heads;
    add_source(l, WN_ROLE_A, 0);
    if (l->failed || l->tensors[first].cols >= wanted)
        return;
    t = &l->tensors[first];
    l->padded = wn_alloc((size_t)wanted, sizeof *l->padded, l->err);
    if (!l->padded) {
        l->failed = true;
        return;
    }
    wn_quant_decode_row(t->parts, 0, l->padded);
    l->single[first] = wn_recast_floats(l->padded, 1, wanted);
    t->type = WN_F32;
    t->dims = 1;
    t->shape[0] = t->cols = wanted;
}

static void add_per_head(struct wn_recast_layer *l, unsigned which, const struct wn_matrix *heads, uint64_t count)
{
    struct module all = {.m = heads, .n = (uint32_t)count, .stacked = true, .bits = l->r->rest_bits};

    name_weight(l, WN_ROLE_KV_B, which, WN_BANK_ONLY, all.weight);
    add_module(l, &all);
}

/* Rows of one each: the quantiser works by rows, so it does not matter where they come from. */
static void add_router(struct wn_recast_layer *l)
{
    struct module m = {.m = l->router, .n = l->router_rows, .bits = l->r->rest_bits};
    size_t first = l->n;

    name_weight(l, WN_ROLE_ROUTER, 0, WN_BANK_ONLY, m.weight);
    add_module(l, &m);
    for (; first < l->n; first++)
        l->tensors[first].shape[0] = m.n;
    add_floats(l, WN_ROLE_ROUTER_BIAS, l->bias, l->router_rows, WN_F32);
}

static void add_bank(struct wn_recast_layer *l, enum wn_role role, enum wn_bank bank, const struct wn_matrix *m,
                     uint32_t n, unsigned bits)
{
    struct module all = {
        .m = m, .n = n, .stacked = true, .bits = bits, .rule = l->r->fit ? WN_AFFINE_LEAST_SQUARES : WN_AFFINE_MINMAX};

    name_weight(l, role, 0, bank, all.weight);
    if (bits && !wn_recast_group(m->cols)) {
        l->failed = true;
        wn_fail(l->err, WN_ERR_ARG, "'%s': rows of %" PRIu64 " weights are no whole groups of 32", all.weight, m->cols);
        return;
    }
    if (wn_recast_alike(l, m, n))
        add_module(l, &all);
}

static void add_experts(struct wn_recast_layer *l, enum wn_role role, const struct wn_matrix *m)
{
    const struct wn_keep_layer *k = l->keep;

    if (k->lo_bits == 0) {
        add_bank(l, role, WN_BANK_ONLY, m, k->count, 0);
        return;
    }
    assert(k->hi > 0 && k->hi < k->count);
    add_bank(l, role, WN_BANK_HI, m, k->hi, 0);
    if (!l->failed)
        add_bank(l, role, WN_BANK_LO, m + k->hi, k->count - k->hi, k->lo_bits);
}

const struct wn_recast_form wn_recast_form_mlx = {
    .naming = WN_NAMING_MLX,
    .vision = true,
    .matrix = add_matrix,
    .vector = add_vector,
    .score = add_score,
    .conv = add_conv,
    .decay = add_decay,
    .per_head = add_per_head,
    .router = add_router,
    .experts = add_experts,
};
