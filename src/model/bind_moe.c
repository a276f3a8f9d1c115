/* Routers and experts. An expert is a type and three matrices, whichever way the file keeps it. */
#include "model/bind.h"
#include "quant/quant.h"

#define GROUP 32 /* MXFP4 columns per scale */

/* HF: codes in one tensor, scales in another; or, unquantised, one tensor of weights. */
static bool bind_expert_apart(struct wn_binder *b, enum wn_role role, uint32_t expert, uint64_t rows, uint64_t cols,
                              struct wn_matrix *m)
{
    char codes_name[WN_NAME_BYTES], scales_name[WN_NAME_BYTES], plain_name[WN_NAME_BYTES];
    const struct wn_tensor *codes, *scales;
    const uint64_t whole[] = {rows, cols};
    bool named = wn_name_write(b->model->naming, b->model->prefix, role, 0, b->layer, expert, codes_name) &&
                 wn_name_write(b->model->naming, b->model->prefix, role, 1, b->layer, expert, scales_name) &&
                 wn_name_write(b->model->naming, b->model->prefix, role, 0, b->layer, expert, plain_name);

    if (!named)
        return wn_fail(b->err, WN_ERR_ARG, "experts have no names of their own in this container");
    codes = wn_bind_try(b, codes_name);
    if (!codes) {
        wn_name_unpacked(plain_name);
        codes = wn_bind_try(b, plain_name);
        if (!codes)
            return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s' is missing", codes_name);
        return wn_bind_shape(b, codes, whole, 2) && wn_bind_view(b, codes, rows, cols, m);
    }
    scales = wn_bind_try(b, scales_name);
    if (!scales)
        return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s' is missing", scales_name);
    if (cols % GROUP != 0)
        return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s': %llu columns are no whole groups of %d", codes_name,
                       (unsigned long long)cols, GROUP);
    if (codes->type != WN_U8 || scales->type != WN_U8)
        return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s' is of type %s, wanted U8",
                       codes->type != WN_U8 ? codes_name : scales_name,
                       wn_type_info(codes->type != WN_U8 ? codes->type : scales->type)->name);
    if (!wn_bind_shape(b, codes, (const uint64_t[]){rows, cols / 2}, 2) ||
        !wn_bind_shape(b, scales, (const uint64_t[]){rows, cols / GROUP}, 2))
        return false;
    *m = (struct wn_matrix){.type = WN_MXFP4_SPLIT,
                            .rows = rows,
                            .cols = cols,
                            .data = wn_source_view(b->source, codes, b->err),
                            .row_bytes = (size_t)(cols / 2),
                            .scales = wn_source_view(b->source, scales, b->err),
                            .scale_row_bytes = (size_t)(cols / GROUP)};
    return m->data && m->scales;
}

static bool bind_experts_apart(struct wn_binder *b, uint64_t in, struct wn_moe_weights *w)
{
    uint64_t inner = b->config->moe_intermediate_size;
    char extra[WN_NAME_BYTES];

    for (uint32_t e = 0; e < w->expert_count; e++) {
        if (!bind_expert_apart(b, WN_ROLE_EXPERT_GATE, e, inner, in, &w->experts[e].gate) ||
            !bind_expert_apart(b, WN_ROLE_EXPERT_UP, e, inner, in, &w->experts[e].up) ||
            !bind_expert_apart(b, WN_ROLE_EXPERT_DOWN, e, in, inner, &w->experts[e].down))
            return false;
    }
    if (wn_name_write(b->model->naming, b->model->prefix, WN_ROLE_EXPERT_GATE, 0, b->layer, w->expert_count, extra) &&
        wn_source_find(b->source, extra))
        return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s': layer %u should have %u experts only", extra, b->layer,
                       w->expert_count);
    return true;
}

/* A run of experts that lie in one bank. */
struct bank {
    enum wn_bank bank;
    uint32_t first, count;
};

/* [experts][rows][cols], one slab after another. matrix_at: offset of the matrix in struct wn_expert. */
static bool bind_slabs(struct wn_binder *b, enum wn_role role, const struct bank *bank, uint64_t rows, uint64_t cols,
                       size_t matrix_at, struct wn_expert *experts)
{
    struct wn_matrix all;

    if (!wn_bind_stack(b, role, 0, bank->bank, bank->count, rows, cols, &all))
        return false;
    for (uint32_t e = 0; e < bank->count; e++)
        *(struct wn_matrix *)(void *)((char *)&experts[bank->first + e] + matrix_at) =
            wn_matrix_rows(&all, e * rows, rows);
    return true;
}

static bool bind_bank(struct wn_binder *b, const struct bank *bank, uint64_t in, struct wn_expert *experts)
{
    uint64_t inner = b->config->moe_intermediate_size;

    return bind_slabs(b, WN_ROLE_EXPERT_GATE, bank, inner, in, offsetof(struct wn_expert, gate), experts) &&
           bind_slabs(b, WN_ROLE_EXPERT_UP, bank, inner, in, offsetof(struct wn_expert, up), experts) &&
           bind_slabs(b, WN_ROLE_EXPERT_DOWN, bank, in, inner, offsetof(struct wn_expert, down), experts);
}

/* The router's rows name the experts of the first bank, then those of the second. */
static bool bind_experts(struct wn_binder *b, struct wn_moe_weights *w)
{
    const struct wn_config *c = b->config;
    uint64_t in = c->latent_size ? c->latent_size : c->hidden_size;
    uint32_t low = c->layers[b->layer].low_count, high = w->expert_count - low;

    w->experts = wn_bind_alloc(b, w->expert_count, sizeof(w->experts[0]));
    if (!w->experts)
        return false;
    if (b->model->naming == WN_NAMING_HF)
        return bind_experts_apart(b, in, w);
    if (low == 0)
        return bind_bank(b, &(struct bank){WN_BANK_ONLY, 0, high}, in, w->experts);
    return bind_bank(b, &(struct bank){WN_BANK_HI, 0, high}, in, w->experts) &&
           bind_bank(b, &(struct bank){WN_BANK_LO, high, low}, in, w->experts);
}

static bool bind_latent(struct wn_binder *b, struct wn_moe_weights *w)
{
    uint64_t hidden = b->config->hidden_size, latent = b->config->latent_size;

    if (latent == 0)
        return true;
    return wn_bind_matrix(b, WN_ROLE_LATENT_DOWN, latent, hidden, &w->latent_down) &&
           wn_bind_matrix(b, WN_ROLE_LATENT_UP, hidden, latent, &w->latent_up) &&
           (!b->config->latent_norm || wn_bind_vector(b, WN_ROLE_LATENT_NORM, latent, &w->latent_norm));
}

static bool bind_shared(struct wn_binder *b, struct wn_ffn *f)
{
    const struct wn_config *c = b->config;
    uint64_t hidden = c->hidden_size, inner = (uint64_t)c->shared_experts * c->moe_intermediate_size;

    if (inner == 0)
        return true;
    return wn_bind_matrix(b, WN_ROLE_SHARED_GATE, inner, hidden, &f->gate) &&
           wn_bind_matrix(b, WN_ROLE_SHARED_UP, inner, hidden, &f->up) &&
           wn_bind_matrix(b, WN_ROLE_SHARED_DOWN, hidden, inner, &f->down);
}

bool wn_bind_moe(struct wn_binder *b, struct wn_moe_weights *w)
{
    uint32_t rows = b->config->layers[b->layer].router_rows;

    w->expert_count = b->config->layers[b->layer].expert_count;
    return wn_bind_matrix(b, WN_ROLE_ROUTER, rows, b->config->hidden_size, &w->router) &&
           wn_bind_vector(b, WN_ROLE_ROUTER_BIAS, rows, &w->router_bias) && wn_bind_ghosts(b, w) && bind_latent(b, w) &&
           bind_experts(b, w) && bind_shared(b, &w->shared);
}
