/*
 * The one table of names: every role that a tensor can play in a model, and what GGUF and HF call it. Loading, pruning,
 * verifying and inspecting all ask here, so they cannot disagree. Roles that are not one tensor in both forms carry a
 * rule. The way back, from a name to its class, layer and expert, is struct wn_part (parts.h).
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
    WN_ROLE_KDA_G, /* HF calls this and WN_ROLE_MLA_G the same; the layer's kind tells them apart */
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

/* How the two forms of a role relate. */
enum wn_rule {
    WN_RULE_SAME,    /* one tensor in both, the same numbers */
    WN_RULE_PRODUCT, /* GGUF holds the f32 product of HF's two vectors */
    WN_RULE_DECAY,   /* HF: A_log, zero-padded beyond the heads; GGUF: -exp(A_log), one per head */
    WN_RULE_SPLIT,   /* HF: kv_b, per head the rows of k then of v; GGUF: k_b turned, and v_b */
    WN_RULE_EXPERTS  /* HF: codes and scales of each expert ('*' is its number); GGUF: one slab after another */
};

struct wn_role_names {
    enum wn_class class;
    enum wn_rule rule;
    bool in_layer;       /* the names stand behind "blk.N." and "model.layers.N." */
    const char *gguf[2]; /* the second where the role takes two tensors, otherwise NULL */
    const char *hf[2];
};

const struct wn_role_names *wn_role_names(enum wn_role role);

/* Room for any name that the table makes. */
#define WN_NAME_BYTES 160

/*
 * Writes the full name of a role's tensor `which` (0 or 1); false when the container has none there.
 * prefix: what HF names start with ("language_model." or ""); layer and expert are used where the row has them.
 */
WN_CHECKED bool wn_name_write(enum wn_container container, const char *prefix, enum wn_role role, unsigned which,
                              uint32_t layer, uint32_t expert, char out[WN_NAME_BYTES]);

/* HF's name of an expert matrix that is not quantised: the codes' name without "_packed", in place. */
void wn_name_unpacked(char name[WN_NAME_BYTES]);

#endif
