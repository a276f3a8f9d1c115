/*
 * The header of one GGUF file, from memory: what gguf_source.c opens files with and the fuzzer feeds.
 */
#ifndef WN_FORMATS_GGUF_PARSE_H
#define WN_FORMATS_GGUF_PARSE_H

#include "formats/gguf.h"
#include "formats/tensor_list.h"

#define WN_GGUF_ALIGNMENT    32 /* unless general.alignment says otherwise */
#define WN_GGUF_DIMS         4
#define WN_GGUF_NAME_LIMIT   64                  /* tensor names are shorter */
#define WN_GGUF_LENGTH_LIMIT ((uint64_t)1 << 30) /* of a string, an array, and of a whole header */

#define WN_GGUF_SPLIT_NO      "split.no"
#define WN_GGUF_SPLIT_COUNT   "split.count"
#define WN_GGUF_SPLIT_TENSORS "split.tensors.count"
#define WN_GGUF_ALIGNMENT_KEY "general.alignment"

/* Bytes of a value of that type; 0 for strings and arrays, whose length varies. */
unsigned wn_gguf_value_bytes(enum wn_gguf_value t);

struct wn_gguf_header {
    struct wn_gguf_meta meta; /* meta.kv is owned here until somebody takes it */
    uint64_t data_at;         /* where the data section begins */
    uint64_t tensor_count;
    bool ran_out; /* after a failure: the header is longer than the n bytes that were given, but not than the file */
};

/*
 * Parses the first n bytes of a file of file_bytes; its tensors are appended to the list with `file` in them. Names and
 * metadata are borrowed from bytes, into which a NUL is written behind each tensor's name: to try again with more
 * bytes, read them anew. Release the header either way. The messages do not name the file.
 */
WN_CHECKED bool wn_gguf_parse(struct wn_gguf_header *h, char *bytes, size_t n, uint64_t file_bytes, uint32_t file,
                              struct wn_tensor_list *list, struct wn_err *err);
void wn_gguf_header_release(struct wn_gguf_header *h);

#endif
