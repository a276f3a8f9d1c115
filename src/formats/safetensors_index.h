/*
 * model.safetensors.index.json: which file each tensor lies in. Read and checked as a text of its own; what it says is
 * held against the shards by safetensors_source.c.
 */
#ifndef WN_FORMATS_SAFETENSORS_INDEX_H
#define WN_FORMATS_SAFETENSORS_INDEX_H

#include <winnow/error.h>

#define WN_SAFETENSORS_INDEX "model.safetensors.index.json"

struct wn_safetensors_line {
    const char *tensor;
    uint32_t file; /* into files */
};

struct wn_safetensors_index {
    char *text;         /* owned; all names are borrowed from it */
    const char **files; /* owned; sorted bytewise, each once */
    size_t file_n;
    struct wn_safetensors_line *lines; /* owned; as they came */
    size_t line_n;
    uint64_t total_size; /* UINT64_MAX: not told, or not as a whole number */
};

/* Every file is a plain name, so that it lies beside the index. Release it either way. */
WN_CHECKED bool wn_safetensors_index_read(struct wn_safetensors_index *x, const char *path, struct wn_err *err);
void wn_safetensors_index_release(struct wn_safetensors_index *x);

#endif
