/*
 * The header of one safetensors file, from memory: what safetensors_source.c opens files with and the fuzzer feeds.
 */
#ifndef WN_FORMATS_SAFETENSORS_H
#define WN_FORMATS_SAFETENSORS_H

#include "formats/tensor_list.h"

#define WN_SAFETENSORS_SUFFIX ".safetensors"

/* The reference reader refuses longer headers; K3's longest is 0.9 MB. */
#define WN_SAFETENSORS_HEADER_LIMIT 100000000u

/* Checks the length in a file's first 8 bytes; *n is the length of the JSON behind them. */
WN_CHECKED bool wn_safetensors_length(const unsigned char first[8], uint64_t file_bytes, size_t *n, struct wn_err *err);

/*
 * Parses the JSON of a header: json[n], in which strings are unescaped in place and from which names are then borrowed.
 *
 *   file_bytes  size of the whole file (at least 8 + n); every span must lie inside it
 *   file        goes into the tensors
 *   list        the file's tensors are appended, by rising offset
 *   metadata    a new array of the "__metadata__" strings: key, value ..., NULL (free it; the strings are borrowed), or
 *               NULL when there are none
 *
 * The messages name the tensor, not the file. After a failure the list may have grown.
 */
WN_CHECKED bool wn_safetensors_parse(char *json, size_t n, uint64_t file_bytes, uint32_t file,
                                     struct wn_tensor_list *list, char ***metadata, struct wn_err *err);

#endif
