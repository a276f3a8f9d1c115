/* What stands behind struct wn_model; only the model floor looks inside. */
#ifndef WN_MODEL_OWN_H
#define WN_MODEL_OWN_H

#include "formats/source.h"
#include "model/mlx.h"
#include <pthread.h>
#include <winnow/model.h>

/*
 * The vocabulary is made when it is first asked for: most jobs never do, and a bad one should not keep weights from
 * them.
 */
struct wn_vocab_slot {
    pthread_mutex_t lock; /* guards the rest */
    bool tried;
    struct wn_vocab *vocab; /* owned; NULL: err says why */
    struct wn_err err;
    char warning[160]; /* empty: none */
};

struct wn_model {
    char *path; /* owned */
    struct wn_source *source;
    struct wn_config config;
    enum wn_container container;
    enum wn_naming naming;
    struct wn_mlx *mlx; /* owned; NULL unless MLX named the tensors */
    const char *prefix; /* what HF names start with; static */
    enum wn_ghosts ghosts;
    /* Tensors of layer i: in_layer[layer_at[i] .. layer_at[i + 1] - 1], numbers in the source; both owned. */
    size_t *layer_at, *in_layer;
    struct wn_vocab_slot *slot; /* owned */
};

/* The text of the config.json beside a safetensors source, *n bytes; free it. */
WN_CHECKED char *wn_config_text(const struct wn_source *s, size_t *n, struct wn_err *err);

/* vocab.c: tokens of GGUF metadata, or tiktoken.model of the folder. */
WN_CHECKED struct wn_vocab *wn_vocab_of_source(const struct wn_source *s, struct wn_err *err);

#endif
