/*
 * The one table of names: every part of a model, and what GGUF and HF call it. Loading, pruning, verifying and
 * inspecting all ask here, so they cannot disagree. Parts that are not one tensor in both forms carry a rule.
 */
#ifndef WN_MODEL_NAMES_H
#define WN_MODEL_NAMES_H

#include "model/parts.h"

enum wn_name {
    WN_NAME_EMBEDDING,
    WN_NAME_HEAD,
    WN_NAME_OUT_NORM,
    WN_NAME_OUT_RES,
    WN_NAME_ATTN_NORM,
    WN_NAME_FFN_NORM,
    WN_NAME_ATTN_RES,
    WN_NAME_FFN_RES,
    WN_NAME_Q, /* KDA's, and MLA's without q-LoRA */
    WN_NAME_K,
    WN_NAME_V,
    WN_NAME_CONV_Q,
    WN_NAME_CONV_K,
    WN_NAME_CONV_V,
    WN_NAME_A,
    WN_NAME_DT_BIAS,
    WN_NAME_F_A,
    WN_NAME_F_B,
    WN_NAME_BETA,
    WN_NAME_KDA_G, /* HF calls this and WN_NAME_MLA_G the same; the layer's kind tells them apart */
    WN_NAME_G_A,
    WN_NAME_G_B,
    WN_NAME_O_NORM,
    WN_NAME_ATTN_OUT,
    WN_NAME_Q_A,
    WN_NAME_Q_A_NORM,
    WN_NAME_Q_B,
    WN_NAME_KV_A,
    WN_NAME_KV_A_NORM,
    WN_NAME_KV_B,
    WN_NAME_MLA_G,
    WN_NAME_DENSE_GATE,
    WN_NAME_DENSE_UP,
    WN_NAME_DENSE_DOWN,
    WN_NAME_ROUTER,
    WN_NAME_ROUTER_BIAS,
    WN_NAME_LATENT_DOWN,
    WN_NAME_LATENT_NORM,
    WN_NAME_LATENT_UP,
    WN_NAME_SHARED_GATE,
    WN_NAME_SHARED_UP,
    WN_NAME_SHARED_DOWN,
    WN_NAME_EXPERT_GATE,
    WN_NAME_EXPERT_UP,
    WN_NAME_EXPERT_DOWN,
    WN_NAME_COUNT
};

/* How the two forms of a part relate. */
enum wn_name_rule {
    WN_RULE_SAME,    /* one tensor in both, the same numbers */
    WN_RULE_PRODUCT, /* GGUF holds the f32 product of HF's two vectors */
    WN_RULE_DECAY,   /* HF: A_log, zero-padded beyond the heads; GGUF: -exp(A_log), one per head */
    WN_RULE_SPLIT,   /* HF: kv_b, per head the rows of k then of v; GGUF: k_b turned, and v_b */
    WN_RULE_EXPERTS  /* HF: codes and scales of each expert ('*' is its number); GGUF: one slab after another */
};

struct wn_name_row {
    enum wn_class class;
    enum wn_name_rule rule;
    bool in_layer;       /* the names stand behind "blk.N." and "model.layers.N." */
    const char *gguf[2]; /* the second where the part has two tensors, otherwise NULL */
    const char *hf[2];
};

const struct wn_name_row *wn_name_row(enum wn_name name);

/* Room for any name that the table makes. */
#define WN_NAME_BYTES 160

/*
 * Writes the full name of a part's tensor `which` (0 or 1); false when the container has none there.
 * prefix: what HF names start with ("language_model." or ""); layer and expert are used where the row has them.
 */
WN_CHECKED bool wn_name_write(enum wn_container container, const char *prefix, enum wn_name name, unsigned which,
                              uint32_t layer, uint32_t expert, char out[WN_NAME_BYTES]);

/* HF's name of an expert matrix that is not quantised: the codes' name without "_packed", in place. */
void wn_name_unpacked(char name[WN_NAME_BYTES]);

#endif
