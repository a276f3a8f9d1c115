/*
 * A model being made by a test, tensor by tensor in memory, so that one can be spoilt before all are written.
 * Independent of winnow's own writers.
 */
#ifndef MADE_H
#define MADE_H

#include "wn_test.h"

#include "model/names.h"

#include <jansson.h>

struct made_tensor {
    char name[WN_NAME_BYTES];
    enum wn_type type;
    uint32_t dims;
    uint64_t shape[4]; /* outermost first */
    uint64_t bytes;
    uint8_t *data; /* owned */
};

struct made {
    struct made_tensor *t;
    size_t n, room;
    json_t *config; /* MLX */
};

struct made_tensor *made_find(struct made *m, const char *name);
/* A new tensor of zeros. */
struct made_tensor *made_add(struct made *m, const char *name, enum wn_type type, uint32_t dims, const uint64_t *shape);
void made_drop(struct made *m, const char *name);

/* MLX: "quantization" of the config, made with K3's defaults when it is not there; one module's entry (NULL: none). */
json_t *made_quantization(struct made *m);
void made_quantise(struct made *m, const char *module, const char *form);

/* Written to a new folder; the paths are good until the 16th after. Either frees m. */
const char *made_folder(struct made *m);
const char *made_gguf(struct made *m, const struct wn_gguf_kv *kv, size_t kv_count);

#endif
