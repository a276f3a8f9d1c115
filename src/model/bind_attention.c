/* KDA and MLA: the two rules that are not one tensor for one part are the decay (A) and the split kv_b. */
#include "base/checked.h"
#include "model/bind.h"
#include "quant/quant.h"

#include <math.h>
#include <string.h>

/*
 * exp for A_log of -100 .. 88, with the bits that GGUF files hold. The converter leaves exp to torch, whose CPU vectors
 * evaluate SLEEF's degree-6 polynomial (below one unit in the last place, not always the nearest float); a correctly
 * rounded exp differs in 2 of tiny-a's 27 entries, and the two forms of a model would part there.
 */
static float converter_exp(float x)
{
    static const float coefficients[] = {0x1.6d2d92p-10f, 0x1.11114cp-7f, 0x1.5554f4p-5f, 0x1.555556p-3f, 0.5f};
    float n = rintf(x * 0x1.715476p+0f); /* powers of two; ln 2 comes off in two steps */
    float r = fmaf(n, -0x1.7f7d1cp-20f, fmaf(n, -0x1.62e4p-1f, x));
    float p = 0x1.a057b4p-13f;

    for (size_t i = 0; i < sizeof(coefficients) / sizeof(coefficients[0]); i++)
        p = fmaf(p, r, coefficients[i]);
    return ldexpf(1.0f + fmaf(r * r, p, r), (int)n);
}

/* HF, MLX: A_log per head, then zeros up to any length. */
static bool decay_from_log(struct wn_binder *b, const struct wn_tensor *t, float *a)
{
    uint32_t heads = b->config->kda_heads;
    uint64_t n = wn_tensor_elements(t);
    float *log;

    if (n < heads)
        return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s' has %llu entries, wanted one for each of %u heads", t->name,
                       (unsigned long long)n, heads);
    log = wn_bind_alloc(b, n, sizeof(*log));
    if (!log || !wn_bind_widen(b, t, n, log))
        return false;
    for (uint64_t i = heads; i < n; i++)
        if (log[i] != 0)
            return wn_fail(b->err, WN_ERR_FORMAT,
                           "tensor '%s' has %llu entries for %u heads, and entry %llu is %g where padding must be 0",
                           t->name, (unsigned long long)n, heads, (unsigned long long)i, (double)log[i]);
    for (uint32_t h = 0; h < heads; h++) {
        if (!(log[h] >= -100 && log[h] <= 88))
            return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s': entry %u is %g, wanted -100 to 88", t->name, h,
                           (double)log[h]);
        a[h] = converter_exp(log[h]);
    }
    return true;
}

/* GGUF: -exp(A_log). A positive entry means that somebody stored A_log itself. */
static bool decay_from_negative(struct wn_binder *b, const struct wn_tensor *t, float *a)
{
    uint64_t heads = b->config->kda_heads;

    if (!wn_bind_shape(b, t, &heads, 1) || !wn_bind_widen(b, t, heads, a))
        return false;
    for (uint64_t h = 0; h < heads; h++) {
        if (!(a[h] <= 0))
            return wn_fail(b->err, WN_ERR_FORMAT,
                           "tensor '%s': entry %llu is %g, wanted -exp(A_log), which is negative", t->name,
                           (unsigned long long)h, (double)a[h]);
        a[h] = -a[h];
    }
    return true;
}

static bool bind_decay(struct wn_binder *b, float **a)
{
    const struct wn_tensor *t = wn_bind_find(b, WN_ROLE_A, 0, WN_BANK_ONLY);

    if (!t)
        return false;
    *a = wn_bind_alloc(b, b->config->kda_heads, sizeof(**a));
    if (!*a)
        return false;
    return b->model->naming == WN_NAMING_GGUF ? decay_from_negative(b, t, *a) : decay_from_log(b, t, *a);
}

/* x goes to `out` channels by way of a narrow middle, which is as wide as a head. */
static bool bind_low_rank(struct wn_binder *b, enum wn_role first, enum wn_role second, uint64_t out,
                          struct wn_matrix *m_a, struct wn_matrix *m_b)
{
    const struct wn_config *c = b->config;

    return wn_bind_matrix(b, first, c->kda_head_dim, c->hidden_size, m_a) &&
           wn_bind_matrix(b, second, out, c->kda_head_dim, m_b);
}

static bool bind_kda_gate(struct wn_binder *b, uint64_t inner, struct wn_kda_weights *w)
{
    if (b->config->kda_full_rank_gate)
        return wn_bind_matrix(b, WN_ROLE_KDA_G, inner, b->config->hidden_size, &w->g);
    return bind_low_rank(b, WN_ROLE_G_A, WN_ROLE_G_B, inner, &w->g_a, &w->g_b);
}

bool wn_bind_kda(struct wn_binder *b, struct wn_kda_weights *w)
{
    const struct wn_config *c = b->config;
    uint64_t inner = (uint64_t)c->kda_heads * c->kda_head_dim, hidden = c->hidden_size;

    return wn_bind_matrix(b, WN_ROLE_Q, inner, hidden, &w->q) && wn_bind_matrix(b, WN_ROLE_K, inner, hidden, &w->k) &&
           wn_bind_matrix(b, WN_ROLE_V, inner, hidden, &w->v) &&
           wn_bind_table(b, WN_ROLE_CONV_Q, inner, c->conv_taps, &w->conv_q) &&
           wn_bind_table(b, WN_ROLE_CONV_K, inner, c->conv_taps, &w->conv_k) &&
           wn_bind_table(b, WN_ROLE_CONV_V, inner, c->conv_taps, &w->conv_v) && bind_decay(b, &w->a) &&
           wn_bind_vector(b, WN_ROLE_DT_BIAS, inner, &w->dt_bias) &&
           bind_low_rank(b, WN_ROLE_F_A, WN_ROLE_F_B, inner, &w->f_a, &w->f_b) &&
           wn_bind_matrix(b, WN_ROLE_BETA, c->kda_heads, hidden, &w->beta) && bind_kda_gate(b, inner, w) &&
           wn_bind_vector(b, WN_ROLE_O_NORM, c->kda_head_dim, &w->o_norm) &&
           wn_bind_matrix(b, WN_ROLE_ATTN_OUT, hidden, inner, &w->out);
}

#define TILE 32 /* a cache line of bf16 either way */

/*
 * A tile at a time, because a column's elements lie far apart; inlined for the sizes that weights have, so that a move
 * is not a call. K3 has 151 million elements to turn.
 */
static inline void turn_sized(const struct wn_matrix *m, uint64_t first, uint64_t nope, size_t size, uint8_t *dst)
{
    for (uint64_t k0 = 0; k0 < m->cols; k0 += TILE)
        for (uint64_t r0 = 0; r0 < nope; r0 += TILE) {
            uint64_t k1 = wn_min_u64(k0 + TILE, m->cols), r1 = wn_min_u64(r0 + TILE, nope);

            for (uint64_t k = k0; k < k1; k++)
                for (uint64_t r = r0; r < r1; r++)
                    memcpy(dst + (k * nope + r) * size, m->data + (first + r) * m->row_bytes + k * size, size);
        }
}

/* Rows [nope][kv_lora] of one head become [kv_lora][nope]; elements of `size` bytes are moved, not changed. */
static void turn(const struct wn_matrix *m, uint64_t first, uint64_t nope, size_t size, uint8_t *dst)
{
    if (size == 2)
        turn_sized(m, first, nope, 2, dst);
    else if (size == 4)
        turn_sized(m, first, nope, 4, dst);
    else
        turn_sized(m, first, nope, size, dst);
}

/* HF: kv_b [heads x (nope + v)][kv_lora]. */
static bool split_kv(struct wn_binder *b, struct wn_mla_weights *w)
{
    const struct wn_config *c = b->config;
    uint64_t nope = c->qk_nope_dim, v = c->v_head_dim, each = nope + v;
    const struct wn_tensor *t = wn_bind_find(b, WN_ROLE_KV_B, 0, WN_BANK_ONLY);
    const uint64_t shape[] = {c->heads * each, c->kv_lora_rank};
    const struct wn_type_info *type;
    struct wn_matrix kv;
    uint8_t *turned;
    size_t head_bytes;

    if (!t || !wn_bind_shape(b, t, shape, 2) || !wn_bind_view(b, t, shape[0], shape[1], &kv))
        return false;
    type = wn_type_info(t->type);
    if (type->block_elements != 1)
        return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s' is of type %s, whose blocks cannot be turned per head",
                       t->name, type->name);
    head_bytes = (size_t)(nope * c->kv_lora_rank * type->block_bytes);
    turned = wn_bind_unset(b, c->heads, head_bytes);
    if (!turned)
        return false;
    for (uint32_t h = 0; h < c->heads; h++) {
        turn(&kv, h * each, nope, type->block_bytes, turned + h * head_bytes);
        w->k_b[h] = (struct wn_matrix){.type = t->type,
                                       .rows = c->kv_lora_rank,
                                       .cols = nope,
                                       .data = turned + h * head_bytes,
                                       .row_bytes = (size_t)(nope * type->block_bytes)};
        w->v_b[h] = wn_matrix_rows(&kv, h * each + nope, v);
    }
    return true;
}

/* GGUF, MLX: one tensor [heads][rows][cols] of either kind. */
static bool bind_per_head(struct wn_binder *b, unsigned which, uint64_t rows, uint64_t cols, struct wn_matrix *out)
{
    uint32_t heads = b->config->heads;
    struct wn_matrix all;

    if (!wn_bind_stack(b, WN_ROLE_KV_B, which, WN_BANK_ONLY, heads, rows, cols, &all))
        return false;
    for (uint32_t h = 0; h < heads; h++)
        out[h] = wn_matrix_rows(&all, h * rows, rows);
    return true;
}

static bool bind_kv(struct wn_binder *b, struct wn_mla_weights *w)
{
    const struct wn_config *c = b->config;

    w->k_b = wn_bind_alloc(b, c->heads, sizeof(w->k_b[0]));
    if (!w->k_b)
        return false;
    w->v_b = wn_bind_alloc(b, c->heads, sizeof(w->v_b[0]));
    if (!w->v_b)
        return false;
    if (b->model->naming == WN_NAMING_HF)
        return split_kv(b, w);
    return bind_per_head(b, 0, c->kv_lora_rank, c->qk_nope_dim, w->k_b) &&
           bind_per_head(b, 1, c->v_head_dim, c->kv_lora_rank, w->v_b);
}

static bool bind_q(struct wn_binder *b, struct wn_mla_weights *w)
{
    const struct wn_config *c = b->config;
    uint64_t inner = (uint64_t)c->heads * (c->qk_nope_dim + c->qk_rope_dim);

    if (c->q_lora_rank == 0)
        return wn_bind_matrix(b, WN_ROLE_Q, inner, c->hidden_size, &w->q);
    return wn_bind_matrix(b, WN_ROLE_Q_A, c->q_lora_rank, c->hidden_size, &w->q_a) &&
           wn_bind_vector(b, WN_ROLE_Q_A_NORM, c->q_lora_rank, &w->q_a_norm) &&
           wn_bind_matrix(b, WN_ROLE_Q_B, inner, c->q_lora_rank, &w->q_b);
}

bool wn_bind_mla(struct wn_binder *b, struct wn_mla_weights *w)
{
    const struct wn_config *c = b->config;
    uint64_t inner = (uint64_t)c->heads * c->v_head_dim, latent = (uint64_t)c->kv_lora_rank + c->qk_rope_dim;

    return bind_q(b, w) && wn_bind_matrix(b, WN_ROLE_KV_A, latent, c->hidden_size, &w->kv_a) &&
           wn_bind_vector(b, WN_ROLE_KV_A_NORM, c->kv_lora_rank, &w->kv_a_norm) && bind_kv(b, w) &&
           (!c->mla_output_gate || wn_bind_matrix(b, WN_ROLE_MLA_G, inner, c->hidden_size, &w->g)) &&
           wn_bind_matrix(b, WN_ROLE_ATTN_OUT, c->hidden_size, inner, &w->out);
}
