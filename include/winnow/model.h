/*
 * An open model: its files, its config and its vocabulary. Weights stay in the files (mapped) until somebody computes
 * with them. Read-only; any number of threads may share it.
 *
 * What is mapped must stay as it is while the model is open. A file that another process cuts short, or that its disk
 * or server cannot deliver any more, is no error value: the system sends SIGBUS to the thread that reads the page, and
 * a program that does nothing about it dies. The library installs no handler; `winnow` has one that says so and exits.
 */
#ifndef WINNOW_MODEL_H
#define WINNOW_MODEL_H

#include <winnow/config.h>
#include <winnow/vocab.h>

struct wn_model;

/*
 * path: a GGUF (the first file names a split set), an HF or an MLX folder. The architecture must be one that winnow
 * computes.
 */
WN_API WN_CHECKED struct wn_model *wn_model_open(const char *path, struct wn_err *err);
WN_API void wn_model_close(struct wn_model *m);

WN_API const struct wn_config *wn_model_config(const struct wn_model *m);
/* NULL when the model brings none; *err then says why. */
WN_API const struct wn_vocab *wn_model_vocab(const struct wn_model *m, struct wn_err *err);
/*
 * Something a person should know about config and vocabulary together (the end token does not end a message); or NULL.
 */
WN_API const char *wn_model_warning(const struct wn_model *m);
WN_API const char *wn_model_path(const struct wn_model *m);

/*
 * What a token gets of the dropped experts whose rows the router still has (docs/formats/ghosts.md).
 */
enum wn_ghosts {
    WN_GHOSTS_BUILT, /* what the build has: their means, or nothing */
    WN_GHOSTS_OFF,   /* the router does not choose them: its next choices come in */
    WN_GHOSTS_SKIP,  /* the others keep their weights, they give nothing */
    WN_GHOSTS_MEAN   /* they give their mean output, weighted */
};
/* NULL is "built". False when there is no such word. */
WN_API bool wn_ghosts_find(const char *name, enum wn_ghosts *g);
/* As "mean"; for WN_GHOSTS_BUILT "built". */
WN_API const char *wn_ghosts_name(enum wn_ghosts g);
/*
 * For layers that are bound from now on; at first WN_GHOSTS_BUILT. Refused (WN_ERR_ARG): skip or mean for a model
 * without ghosts, means where the build has none. Not while another thread binds.
 */
WN_API WN_CHECKED bool wn_model_set_ghosts(struct wn_model *m, enum wn_ghosts g, struct wn_err *err);
/* What WN_GHOSTS_BUILT comes to, or the mode that was set; WN_GHOSTS_OFF for a model without ghosts. */
WN_API enum wn_ghosts wn_model_ghosts(const struct wn_model *m);
/* Ghosts of all layers together. */
WN_API uint64_t wn_model_ghost_count(const struct wn_model *m);

/*
 * What `inspect` tells. Works for any GGUF or safetensors folder; model parts are filled where the architecture is
 * known.
 */
enum wn_class {
    WN_CLASS_ROUTED,    /* routed experts */
    WN_CLASS_SHARED,    /* shared experts and dense layers */
    WN_CLASS_ATTENTION, /* KDA and MLA */
    WN_CLASS_LATENT,    /* projections into and out of the experts' width */
    WN_CLASS_EMBEDDING, /* embeddings and head */
    WN_CLASS_ROUTER,    /* routers, norms, AttnRes scores */
    WN_CLASS_VISION,
    WN_CLASS_OTHER,
    WN_CLASS_COUNT
};
WN_API const char *wn_class_name(enum wn_class c); /* "routed experts", ... */

struct wn_type_bytes {
    const char *type;
    uint64_t tensors, bytes;
};

struct wn_inspection {
    char container[16]; /* "gguf", "safetensors", "mlx" (safetensors named and quantised as MLX does) */
    char architecture[64];
    char fingerprint[17];
    bool known;                     /* config, per-token and memory fields below are filled */
    char why_unknown[256];          /* otherwise: one sentence */
    const struct wn_config *config; /* NULL when not known; owned by the inspection */
    uint64_t files, tensors, file_bytes, tensor_bytes, header_bytes;
    uint64_t class_bytes[WN_CLASS_COUNT], class_tensors[WN_CLASS_COUNT];
    uint64_t class_token_bytes[WN_CLASS_COUNT]; /* read to decode one token */
    uint64_t token_bytes;                       /* their sum; with ghosts the most: a choice of one reads no expert */
    uint64_t expert_bytes;                      /* one routed expert of the first MoE layer; graded: their mean */
    uint64_t state_bytes;                       /* recurrent state and conv tails of one sequence */
    uint64_t kv_bytes_per_token;                /* MLA latent cache */
    uint64_t ghosts;                            /* of all layers together */
    uint64_t ghost_bytes, ghost_mean_bytes;     /* what the plain build has not; of that means, 0: they have none */
    char ghost_trouble[256]; /* one sentence where routers, their rows and means do not go together; empty: they do */
    struct wn_type_bytes *types; /* owned; by falling bytes */
    size_t type_count;
};

WN_API WN_CHECKED bool wn_inspect(const char *path, struct wn_inspection *out, struct wn_err *err);
/* The same of a model that is open already. The inspection stands for itself. */
WN_API WN_CHECKED bool wn_model_inspect(const struct wn_model *m, struct wn_inspection *out, struct wn_err *err);
WN_API void wn_inspection_release(struct wn_inspection *in);

#endif
