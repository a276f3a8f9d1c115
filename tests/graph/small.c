/* See small.h. */
#include "small.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct wn_config SMALL = {
    .architecture = "kimi-k3",
    .layer_count = 2,
    .hidden_size = 40,
    .vocab_size = 50,
    .context_length = 200,
    .rms_norm_eps = 1e-5f,
    .mla_norm_eps = 1e-6f,
    .kda_heads = 3,
    .kda_head_dim = 16,
    .conv_taps = 4,
    .kda_lower_bound = true,
    .gate_lower_bound = -5.0f,
    .kda_full_rank_gate = true,
    .heads = 3,
    .q_lora_rank = 20,
    .kv_lora_rank = 24,
    .qk_nope_dim = 12,
    .qk_rope_dim = 6,
    .v_head_dim = 10,
    .mla_output_gate = true,
    .intermediate_size = 70,
    .moe_intermediate_size = 30,
    .latent_size = 26,
    .shared_experts = 2,
    .latent_norm = true,
    .experts_per_token = 3,
    .expert_count = 8,
    .router_rows = 8,
    .renormalize = true,
    .routed_scaling_factor = 1.0f,
    .activation = WN_ACTIVATION_SITU,
    .situ_beta = 4.0f,
    .situ_linear_beta = 25.0f,
    .attn_res_block = 2,
    .bos_id = -1,
    .eos_id = -1,
    .pad_id = -1,
};

void small_init(struct small *s, unsigned threads)
{
    struct wn_err err;

    memset(s, 0, sizeof *s);
    s->config = SMALL;
    s->layers[0] = (struct wn_layer_config){WN_ATTENTION_KDA, true, SMALL.expert_count, 0, SMALL.router_rows};
    s->layers[1] = (struct wn_layer_config){WN_ATTENTION_MLA, true, SMALL.expert_count, 0, SMALL.router_rows};
    s->config.layers = s->layers;
    s->rng.state = 7;
    wn_kernels_init(&s->kernels, 0);
    s->ctx.config = &s->config;
    s->ctx.kernels = &s->kernels;
    s->ctx.pool = wn_pool_new(threads, &err);
    assert_non_null(s->ctx.pool);
}

static void *keep(struct small *s, void *p)
{
    assert_non_null(p);
    assert_true(s->made_n < sizeof s->made / sizeof s->made[0]);
    s->made[s->made_n++] = p;
    return p;
}

void small_scratch(struct small *s, size_t tokens, size_t context)
{
    struct wn_err err;
    unsigned threads = wn_pool_threads(s->ctx.pool);

    CHECK_OK(wn_arena_init(&s->arena, wn_graph_scratch(&s->config, tokens, context, false), &err), &err);
    s->ctx.arena = &s->arena;
    s->ctx.worker_floats = wn_graph_worker_floats(&s->config);
    s->ctx.worker_scratch = keep(s, calloc(threads * s->ctx.worker_floats, sizeof(float)));
}

void small_release(struct small *s)
{
    for (size_t i = 0; i < s->made_n; i++)
        free(s->made[i]);
    wn_arena_release(&s->arena);
    wn_pool_free(s->ctx.pool);
}

float *small_zeros(struct small *s, size_t n)
{
    return keep(s, calloc(n ? n : 1, sizeof(float)));
}

float *small_floats(struct small *s, size_t n, float scale)
{
    float *x = small_zeros(s, n);

    for (size_t i = 0; i < n; i++)
        x[i] = scale * (float)(2 * wn_rng_unit(&s->rng) - 1);
    return x;
}

struct wn_matrix small_matrix(struct small *s, size_t rows, size_t cols)
{
    float *w = small_floats(s, rows * cols, 2.0f / sqrtf((float)cols));

    return (struct wn_matrix){
        .type = WN_F32, .rows = rows, .cols = cols, .data = (const uint8_t *)w, .row_bytes = cols * sizeof(float)};
}

struct wn_kda_weights small_kda(struct small *s)
{
    const struct wn_config *c = &s->config;
    size_t wide = c->kda_heads * c->kda_head_dim, dim = c->kda_head_dim, hidden = c->hidden_size;
    struct wn_kda_weights w = {.q = small_matrix(s, wide, hidden),
                               .k = small_matrix(s, wide, hidden),
                               .v = small_matrix(s, wide, hidden),
                               .f_a = small_matrix(s, dim, hidden),
                               .f_b = small_matrix(s, wide, dim),
                               .beta = small_matrix(s, c->kda_heads, hidden),
                               .out = small_matrix(s, hidden, wide)};

    if (c->kda_full_rank_gate) {
        w.g = small_matrix(s, wide, hidden);
    } else {
        w.g_a = small_matrix(s, dim, hidden);
        w.g_b = small_matrix(s, wide, dim);
    }
    w.conv_q = small_floats(s, wide * c->conv_taps, 1);
    w.conv_k = small_floats(s, wide * c->conv_taps, 1);
    w.conv_v = small_floats(s, wide * c->conv_taps, 1);
    w.a = small_floats(s, c->kda_heads, 1);
    for (size_t h = 0; h < c->kda_heads; h++)
        w.a[h] = expf(2 * w.a[h]);
    w.dt_bias = small_floats(s, wide, 1);
    w.o_norm = small_floats(s, dim, 1);
    return w;
}

struct wn_mla_weights small_mla(struct small *s)
{
    const struct wn_config *c = &s->config;
    size_t q = c->heads * (c->qk_nope_dim + c->qk_rope_dim), hidden = c->hidden_size;
    struct wn_mla_weights w = {.kv_a = small_matrix(s, c->kv_lora_rank + c->qk_rope_dim, hidden),
                               .out = small_matrix(s, hidden, c->heads * c->v_head_dim)};

    if (c->q_lora_rank) {
        w.q_a = small_matrix(s, c->q_lora_rank, hidden);
        w.q_b = small_matrix(s, q, c->q_lora_rank);
        w.q_a_norm = small_floats(s, c->q_lora_rank, 2);
    } else {
        w.q = small_matrix(s, q, hidden);
    }
    if (c->mla_output_gate)
        w.g = small_matrix(s, c->heads * c->v_head_dim, hidden);
    w.kv_a_norm = small_floats(s, c->kv_lora_rank, 2);
    w.k_b = keep(s, calloc(c->heads, sizeof *w.k_b));
    w.v_b = keep(s, calloc(c->heads, sizeof *w.v_b));
    for (size_t h = 0; h < c->heads; h++) {
        w.k_b[h] = small_matrix(s, c->kv_lora_rank, c->qk_nope_dim);
        w.v_b[h] = small_matrix(s, c->v_head_dim, c->kv_lora_rank);
    }
    return w;
}

struct wn_moe_weights small_moe(struct small *s)
{
    const struct wn_config *c = &s->config;
    size_t width = c->latent_size ? c->latent_size : c->hidden_size, inner = c->moe_intermediate_size;
    struct wn_moe_weights w = {.router = small_matrix(s, c->expert_count, c->hidden_size),
                               .expert_count = c->expert_count};

    w.router_bias = small_floats(s, c->expert_count, 0.5f);
    if (c->latent_size) {
        w.latent_down = small_matrix(s, width, c->hidden_size);
        w.latent_up = small_matrix(s, c->hidden_size, width);
    }
    if (c->latent_norm)
        w.latent_norm = small_floats(s, width, 2);
    w.experts = keep(s, calloc(c->expert_count, sizeof *w.experts));
    for (size_t e = 0; e < c->expert_count; e++) {
        w.experts[e].gate = small_matrix(s, inner, width);
        w.experts[e].up = small_matrix(s, inner, width);
        w.experts[e].down = small_matrix(s, width, inner);
    }
    if (c->shared_experts) {
        w.shared.gate = small_matrix(s, inner * c->shared_experts, c->hidden_size);
        w.shared.up = small_matrix(s, inner * c->shared_experts, c->hidden_size);
        w.shared.down = small_matrix(s, c->hidden_size, inner * c->shared_experts);
    }
    return w;
}

void small_mul(const struct wn_matrix *m, const double *x, double *y)
{
    const float *w = (const float *)(const void *)m->data;

    for (size_t r = 0; r < m->rows; r++) {
        y[r] = 0;
        for (size_t i = 0; i < m->cols; i++)
            y[r] += (double)w[r * m->cols + i] * x[i];
    }
}

double small_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

void small_norm(const double *x, const float *w, double eps, double *y, size_t n)
{
    double ss = 0;

    for (size_t i = 0; i < n; i++)
        ss += x[i] * x[i];
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] / sqrt(ss / (double)n + eps) * (double)w[i];
}

void small_widen(const float *x, double *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = (double)x[i];
}

void small_close(const float *got, const double *wanted, size_t n, double most)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - wanted[i]) <= most))
            fail_msg("value %zu of %zu is %.9g, wanted %.9g", i, n, (double)got[i], wanted[i]);
}
