/*
 * Which tensor plays which part. A layer is bound from a source by the table in names.c; matrices are views into the
 * mapped files, vectors are widened to f32 and owned. GGUF, HF and MLX forms of the same weights bind to the same
 * numbers:
 *   - AttnRes norm * proj are fused (an f32 product), as GGUF stores them;
 *   - A is exp(A_log) per head, the first kda_heads entries, with the bits of GGUF's -ssm_a (bind_attention.c);
 *   - kv_b is split per head into k_b, turned (HF: into owned memory), and v_b;
 *   - experts are one list in the order of the router's rows, in whatever tensors and banks the files keep them.
 */
#ifndef WN_MODEL_WEIGHTS_H
#define WN_MODEL_WEIGHTS_H

#include "formats/source.h"
#include "tensor/tensor.h"
#include <winnow/model.h>

/* An expert is a type and three matrices; types may differ between experts and between the three. */
struct wn_expert {
    struct wn_matrix gate, up,
        down; /* [moe_intermediate][in], the same, [in][moe_intermediate]; in = latent or hidden */
};

struct wn_ffn {
    struct wn_matrix gate, up, down;
};

struct wn_kda_weights {
    struct wn_matrix q, k, v;        /* [heads*dim][hidden] */
    float *conv_q, *conv_k, *conv_v; /* [heads*dim][taps] */
    float *a;                        /* [heads]: exp(A_log) > 0 */
    float *dt_bias;                  /* [heads*dim] */
    struct wn_matrix f_a, f_b;       /* [rank][hidden], [heads*dim][rank] */
    struct wn_matrix beta;           /* [heads][hidden] */
    struct wn_matrix g;              /* full rank: [heads*dim][hidden]; low rank: rows 0 */
    struct wn_matrix g_a, g_b;       /* low rank: [rank][hidden], [heads*dim][rank]; otherwise rows 0 */
    float *o_norm;                   /* [dim] */
    struct wn_matrix out;            /* [hidden][heads*dim] */
};

struct wn_mla_weights {
    struct wn_matrix q;        /* no q-LoRA: [heads*(nope+rope)][hidden]; otherwise rows 0 */
    struct wn_matrix q_a, q_b; /* [q_lora][hidden], [heads*(nope+rope)][q_lora] */
    float *q_a_norm;           /* [q_lora] or NULL */
    struct wn_matrix kv_a;     /* [kv_lora+rope][hidden] */
    float *kv_a_norm;          /* [kv_lora] */
    struct wn_matrix *k_b; /* [heads] matrices [kv_lora][nope]: k_b[h] . q_nope gives the query against the latent */
    struct wn_matrix *v_b; /* [heads] matrices [v_dim][kv_lora] */
    struct wn_matrix g;    /* [heads*v_dim][hidden]; rows 0 without output gate */
    struct wn_matrix out;  /* [hidden][heads*v_dim] */
};

/*
 * A ghost is a dropped expert whose row the router still has. It may be chosen, costs no expert's bytes, and gives its
 * mean output, or nothing.
 */
#define WN_GHOST 0x80000000u /* in `serves`: with the ghost's number */

/*
 * The tensor of expert rows t of a layer: serves [rows] gets the expert behind each row of the router, and WN_GHOST
 * where there is none. Refused (WN_ERR_FORMAT), by expert: a row that the router has not, or one that is another's.
 */
WN_CHECKED bool wn_serves_read(const struct wn_source *s, const struct wn_tensor *t, uint32_t experts, uint32_t rows,
                               uint32_t *serves, struct wn_err *err);

struct wn_moe_weights {
    struct wn_matrix router; /* [choices][hidden]: a row for each expert and each ghost */
    float *router_bias;      /* [choices]: chooses only, never weighs */
    uint32_t *serves;        /* [choices]: the expert behind a row, or WN_GHOST + a ghost; NULL: row e is expert e */
    struct wn_matrix ghosts; /* [ghosts][in]: their mean outputs, before weighting; rows 0: nothing */
    struct wn_matrix latent_down, latent_up; /* [latent][hidden], [hidden][latent]; rows 0 without latent */
    float *latent_norm;                      /* [latent] or NULL */
    struct wn_expert *experts;               /* [expert_count] */
    uint32_t expert_count;
    struct wn_ffn shared; /* rows 0 without shared experts */
};

struct wn_layer {
    uint32_t index;
    enum wn_attention attention;
    bool moe;
    float *attn_norm, *ffn_norm;           /* [hidden] */
    float *attn_res_score, *ffn_res_score; /* [hidden] or NULL; layer 0's attn_res_score is never used */
    struct wn_kda_weights kda;
    struct wn_mla_weights mla;
    struct wn_ffn dense;           /* when not moe */
    struct wn_moe_weights mixture; /* when moe */
    void *owned;                   /* the memory behind every owned pointer above; wn_layer_release */
};

/* Embeddings, final norm and head. */
struct wn_ends {
    struct wn_matrix embedding, head; /* [vocab][hidden] */
    float *norm, *out_res_score;      /* [hidden]; the latter NULL without AttnRes */
    void *owned;
};

struct wn_source *wn_model_source(const struct wn_model *m); /* borrowed */
const char *wn_model_prefix(const struct wn_model *m);       /* what HF names start with: names.h */

/* Finds and checks every part of layer i: a missing tensor, a wrong shape or type is named. */
WN_CHECKED bool wn_layer_bind(const struct wn_model *m, uint32_t i, struct wn_layer *layer, struct wn_err *err);
void wn_layer_release(struct wn_layer *layer);
WN_CHECKED bool wn_ends_bind(const struct wn_model *m, struct wn_ends *ends, struct wn_err *err);
void wn_ends_release(struct wn_ends *ends);
/* Hints that a layer's pages are wanted / done with. */
void wn_layer_will_need(const struct wn_model *m, const struct wn_layer *layer);
void wn_layer_dont_need(const struct wn_model *m, const struct wn_layer *layer);
/* What an `owned` of the structs above holds. */
uint64_t wn_owned_bytes(const void *owned);
/* Owned bytes + mapped bytes of a bound layer. */
uint64_t wn_layer_bytes(const struct wn_model *m, const struct wn_layer *layer);

struct wn_weights {
    const struct wn_config *config;
    struct wn_ends ends;
    struct wn_layer *layers; /* [layer_count] */
};

#endif
