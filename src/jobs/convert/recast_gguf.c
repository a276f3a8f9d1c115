/*
 * See recast_parts.h: the tensors of a GGUF, as K3's converter writes them. Matrices keep their type, MXFP4 in GGUF's
 * own packing; vectors, convolutions and routers are f32; AttnRes scores are fused. Graded layers, which only winnow
 * reads, have their second bank in Q2_K.
 */
#include "base/checked.h"
#include "jobs/convert/recast_parts.h"

#include <assert.h>
#include <inttypes.h>

static struct wn_recast_tensor *add_of_bank(struct wn_recast_layer *l, enum wn_role role, unsigned which,
                                            enum wn_bank bank, enum wn_type type, const struct wn_matrix *m)
{
    char name[WN_NAME_BYTES];
    bool named = wn_name_write(WN_NAMING_GGUF, "", role, which, (uint32_t)l->number, bank, name);

    assert(named);
    (void)named;
    return wn_recast_add(l, name, type, m);
}

static struct wn_recast_tensor *add(struct wn_recast_layer *l, enum wn_role role, unsigned which, enum wn_type type,
                                    const struct wn_matrix *m)
{
    return add_of_bank(l, role, which, WN_BANK_ONLY, type, m);
}

static void add_matrix(struct wn_recast_layer *l, enum wn_role role, const struct wn_matrix *m)
{
    struct wn_recast_tensor *t = add(l, role, 0, m->type, m);

    t->dims = 2;
    t->shape[0] = m->rows;
    t->shape[1] = m->cols;
}

static void add_vector(struct wn_recast_layer *l, enum wn_role role, const float *v, uint64_t n)
{
    struct wn_matrix m = wn_recast_floats(v, 1, n);
    struct wn_recast_tensor *t = add(l, role, 0, WN_F32, &m);

    t->dims = 1;
    t->shape[0] = n;
}

/* The converter leaves a dimension of 1 on either side of the channels. */
static void add_conv(struct wn_recast_layer *l, enum wn_role role, const float *v, uint64_t channels, uint64_t taps)
{
    struct wn_matrix m = wn_recast_floats(v, channels, taps);
    struct wn_recast_tensor *t = add(l, role, 0, WN_F32, &m);

    t->dims = 4;
    t->shape[0] = t->shape[2] = 1;
    t->shape[1] = channels;
    t->shape[3] = taps;
}

/* -exp(A_log) */
static void add_decay(struct wn_recast_layer *l, float *a, uint64_t heads)
{
    for (uint64_t h = 0; h < heads; h++)
        a[h] = -a[h];
    add_vector(l, WN_ROLE_A, a, heads);
}

/* n matrices of the same shape, one after the other, as a tensor of three dimensions. */
static void stack(struct wn_recast_tensor *t, const struct wn_matrix *m, uint64_t n)
{
    t->parts = m;
    t->part_count = (size_t)n;
    t->rows = n * m->rows;
    t->cols = m->cols;
    t->dims = 3;
    t->shape[0] = n;
    t->shape[1] = m->rows;
    t->shape[2] = m->cols;
}

static void add_per_head(struct wn_recast_layer *l, unsigned which, const struct wn_matrix *heads, uint64_t count)
{
    stack(add(l, WN_ROLE_KV_B, which, heads->type, NULL), heads, count);
}

static void add_router(struct wn_recast_layer *l)
{
    struct wn_recast_tensor *t = add(l, WN_ROLE_ROUTER, 0, WN_F32, NULL);

    stack(t, l->router, l->router_rows);
    t->dims = 2;
    t->shape[1] = l->router->cols;
    add_vector(l, WN_ROLE_ROUTER_BIAS, l->bias, l->router_rows);
}

/* n experts as one slab after the other, in a bank of their own; type WN_TYPE_COUNT: their own, in GGUF's packing. */
static void add_bank(struct wn_recast_layer *l, enum wn_role role, enum wn_bank bank, const struct wn_matrix *m,
                     uint32_t n, enum wn_type type)
{
    if (!wn_recast_alike(l, m, n))
        return;
    if (type == WN_TYPE_COUNT)
        type = m->type == WN_MXFP4_SPLIT ? WN_MXFP4 : m->type;
    stack(add_of_bank(l, role, 0, bank, type, NULL), m, n);
}

/* The second bank of a graded layer: Q2_K, which has the smallest error of the 2-bit types (docs/formats/quants.md). */
static void add_low_bank(struct wn_recast_layer *l, enum wn_role role, const struct wn_matrix *m, uint32_t n)
{
    if (l->keep->lo_bits != 2 || m->cols % wn_type_info(WN_Q2_K)->block_elements != 0) {
        l->failed = true;
        wn_fail(l->err, WN_ERR_ARG,
                "layer %" PRId32 ": rows of %" PRIu64 " weights cannot have %" PRIu32
                " bits in a GGUF: it takes 2 bits, and whole blocks of %" PRIu32 " (Q2_K)",
                l->number, m->cols, l->keep->lo_bits, wn_type_info(WN_Q2_K)->block_elements);
        return;
    }
    add_bank(l, role, WN_BANK_LO, m, n, WN_Q2_K);
}

static void add_experts(struct wn_recast_layer *l, enum wn_role role, const struct wn_matrix *m)
{
    const struct wn_keep_layer *k = l->keep;

    add_bank(l, role, WN_BANK_HI, m, k->hi, WN_TYPE_COUNT);
    if (k->hi < k->count && !l->failed)
        add_low_bank(l, role, m + k->hi, k->count - k->hi);
}

const struct wn_recast_form wn_recast_form_gguf = {
    .naming = WN_NAMING_GGUF,
    .sorted = true,
    .matrix = add_matrix,
    .vector = add_vector,
    .score = add_vector,
    .conv = add_conv,
    .decay = add_decay,
    .per_head = add_per_head,
    .router = add_router,
    .experts = add_experts,
};
