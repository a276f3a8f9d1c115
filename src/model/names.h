/*
 * The one table of names: every role that a tensor can play in a model, and what GGUF, HF and MLX call it. Loading,
 * pruning, verifying and inspecting all ask here, so they cannot disagree. Roles that are not one tensor in all forms
 * carry a rule. The way back, from a name to its class, layer and expert, is struct wn_part (parts.h).
 */
#ifndef WN_MODEL_NAMES_H
#define WN_MODEL_NAMES_H

#include "model/parts.h"

enum wn_role {
    WN_ROLE_EMBEDDING,
    WN_ROLE_HEAD,
    WN_ROLE_OUT_NORM,
    WN_ROLE_OUT_RES,
    WN_ROLE_ATTN_NORM,
    WN_ROLE_FFN_NORM,
    WN_ROLE_ATTN_RES,
    WN_ROLE_FFN_RES,
    WN_ROLE_Q, /* KDA's, and MLA's without q-LoRA */
    WN_ROLE_K,
    WN_ROLE_V,
    WN_ROLE_CONV_Q,
    WN_ROLE_CONV_K,
    WN_ROLE_CONV_V,
    WN_ROLE_A,
    WN_ROLE_DT_BIAS,
    WN_ROLE_F_A,
    WN_ROLE_F_B,
    WN_ROLE_BETA,
    WN_ROLE_KDA_G, /* HF and MLX call this and WN_ROLE_MLA_G the same; the layer's kind tells them apart */
    WN_ROLE_G_A,
    WN_ROLE_G_B,
    WN_ROLE_O_NORM,
    WN_ROLE_ATTN_OUT,
    WN_ROLE_Q_A,
    WN_ROLE_Q_A_NORM,
    WN_ROLE_Q_B,
    WN_ROLE_KV_A,
    WN_ROLE_KV_A_NORM,
    WN_ROLE_KV_B,
    WN_ROLE_MLA_G,
    WN_ROLE_DENSE_GATE,
    WN_ROLE_DENSE_UP,
    WN_ROLE_DENSE_DOWN,
    WN_ROLE_ROUTER,
    WN_ROLE_ROUTER_BIAS,
    WN_ROLE_EXPERT_ROWS, /* builds with ghosts: which row of the router each expert has; the other rows are ghosts' */
    WN_ROLE_GHOST_MEAN,
    WN_ROLE_LATENT_DOWN,
    WN_ROLE_LATENT_NORM,
    WN_ROLE_LATENT_UP,
    WN_ROLE_SHARED_GATE,
    WN_ROLE_SHARED_UP,
    WN_ROLE_SHARED_DOWN,
    WN_ROLE_EXPERT_GATE,
    WN_ROLE_EXPERT_UP,
    WN_ROLE_EXPERT_DOWN,
    WN_ROLE_COUNT
};

/* How the forms of a role relate. */
enum wn_rule {
    WN_RULE_SAME,    /* one tensor in all, the same numbers */
    WN_RULE_PRODUCT, /* GGUF holds the f32 product of the two vectors of HF and MLX, norm and proj */
    WN_RULE_DECAY,   /* HF, MLX: A_log, zero-padded beyond the heads; GGUF: -exp(A_log), one per head */
    WN_RULE_SPLIT,   /* HF: kv_b, per head the rows of k then of v; GGUF, MLX: k_b turned, and v_b */
    WN_RULE_EXPERTS  /* HF: codes and scales of each expert; GGUF, MLX: one slab after another, in one bank or two */
};

/* Where the experts of a layer lie in GGUF and MLX: in one stack, or the first in one and the rest in another. */
enum wn_bank { WN_BANK_ONLY, WN_BANK_HI, WN_BANK_LO };

struct wn_role_names {
    enum wn_class class;
    enum wn_rule rule;
    bool in_layer; /* the names stand behind "blk.N." and "model.layers.N." */
    /* By enum wn_naming; the second NULL where the role takes one tensor. '*': the expert (HF) or its bank. */
    const char *name[WN_NAMING_COUNT][2];
};

const struct wn_role_names *wn_role_names(enum wn_role role);

/* True for matrices, which MLX may quantise; false for norms, scores, biases, decays and convolutions. */
bool wn_role_is_matrix(enum wn_role role);

/* Room for any name that the table makes. */
#define WN_NAME_BYTES 160

/*
 * Writes the full name of a role's tensor `which` (0 or 1); false when this naming has none there.
 * prefix: what HF names start with ("language_model." or ""), nothing for the others. layer is used where the row has
 * it; expert: HF: the expert's number, others: its enum wn_bank (in GGUF, WN_BANK_HI is WN_BANK_ONLY). MLX names are
 * those of the weights; what lies beside them is wn_name_beside's.
 */
WN_CHECKED bool wn_name_write(enum wn_naming naming, const char *prefix, enum wn_role role, unsigned which,
                              uint32_t layer, uint32_t expert, char out[WN_NAME_BYTES]);

/*
 * MLX, from "PATH.weight": "PATH.scales" and "PATH.biases" of a quantised matrix with `what` "scales" or "biases", and
 * "PATH", its key in config.json's "quantization", with NULL. False when the name does not end in ".weight".
 */
WN_CHECKED bool wn_name_beside(const char *weight, const char *what, char out[WN_NAME_BYTES]);

/*
 * GGUF, from a tensor of a stack of experts, "blk.7.ffn_up_exps.bias": what its like in the second bank is called,
 * "blk.7.ffn_up_exps_lo.bias", into out, which has room for three bytes and a NUL more than the name; *n is its length.
 * False when the name is no stack's.
 */
WN_CHECKED bool wn_name_write_low(const char *name, char *out, size_t *n);

/* True for the table that a token reads one row of, in whichever naming; in parts where MLX quantises it. */
bool wn_name_is_embedding(const char *name);

/* HF's name of an expert matrix that is not quantised: the codes' name without "_packed", in place. */
void wn_name_unpacked(char name[WN_NAME_BYTES]);

/* Told by the names of the tensors: safetensors are MLX where a name stands that HF does not have. */
enum wn_naming wn_naming_of_source(const struct wn_source *s);

#endif
