/* A model written anew with some tensors changed: how the model tests make files that are wrong in one place. */
#ifndef REWRITE_H
#define REWRITE_H

#include "formats/source.h"

struct edit {
    const char *name;   /* a tensor of the source; one that it does not have is added */
    bool drop;          /* leave it out */
    const char *rename; /* NULL: the name stays */
    bool replace;       /* the type, shape and bytes below instead of the source's; always so for added ones */
    enum wn_type type;
    uint32_t dims;
    uint64_t shape[4];
    const void *bytes; /* NULL: zeros */
};

/*
 * An HF folder. source NULL: nothing but the added tensors. config: text of config.json. Good until the 16th path
 * after.
 */
const char *rewritten_hf(const char *source, const struct edit *edits, size_t n, const char *config);

/* A GGUF with the source's metadata, key `key` (NULL: none) getting the raw value bytes `value` of the same length. */
const char *rewritten_gguf(const char *source, const struct edit *edits, size_t n, const char *key, const void *value);

/* A GGUF of nothing but the added tensors and these records. */
const char *written_gguf(const struct edit *edits, size_t n, const struct wn_gguf_kv *kv, size_t kv_count);

#endif
