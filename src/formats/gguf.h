/*
 * GGUF version 3: metadata records. (Files: source.h reads them, sink.h writes them.)
 *
 * A record keeps its raw bytes, value type included, so that a copy repeats it exactly: a u16 stays a u16.
 */
#ifndef WN_FORMATS_GGUF_H
#define WN_FORMATS_GGUF_H

#include "base/bytes.h"

enum wn_gguf_value {
    WN_GGUF_U8,
    WN_GGUF_I8,
    WN_GGUF_U16,
    WN_GGUF_I16,
    WN_GGUF_U32,
    WN_GGUF_I32,
    WN_GGUF_F32,
    WN_GGUF_BOOL,
    WN_GGUF_STRING,
    WN_GGUF_ARRAY,
    WN_GGUF_U64,
    WN_GGUF_I64,
    WN_GGUF_F64
};

struct wn_gguf_kv {
    struct wn_bytes key;
    enum wn_gguf_value type;
    enum wn_gguf_value element; /* of an array */
    uint64_t count;             /* of an array; 1 otherwise */
    struct wn_bytes value;      /* the raw bytes behind the type (for an array: behind its count) */
};

/* Records in file order. Bytes are borrowed from whatever the records were read from. */
struct wn_gguf_meta {
    struct wn_gguf_kv *kv; /* owned by the source */
    size_t n;
    uint32_t version;
    uint32_t alignment; /* of tensor data, a power of two */
};

/* The last record of that key (docs/formats/gguf.md names those that may occur twice); NULL when there is none. */
const struct wn_gguf_kv *wn_gguf_find(const struct wn_gguf_meta *m, const char *key);

/* The same key, type and bytes. */
bool wn_gguf_same(const struct wn_gguf_kv *a, const struct wn_gguf_kv *b);

/* Values widened to the asked kind; false when the record's type is another or the value does not fit. */
WN_CHECKED bool wn_gguf_as_u64(const struct wn_gguf_kv *kv, uint64_t *v);
WN_CHECKED bool wn_gguf_as_i64(const struct wn_gguf_kv *kv, int64_t *v);
WN_CHECKED bool wn_gguf_as_f64(const struct wn_gguf_kv *kv, double *v);
WN_CHECKED bool wn_gguf_as_bool(const struct wn_gguf_kv *kv, bool *v);
WN_CHECKED bool wn_gguf_as_string(const struct wn_gguf_kv *kv, struct wn_bytes *v);
/* Element i of an array of numbers. */
WN_CHECKED bool wn_gguf_array_i64(const struct wn_gguf_kv *kv, uint64_t i, int64_t *v);
/* Walks an array of strings: start with *at = 0, call kv->count times. */
WN_CHECKED bool wn_gguf_array_string(const struct wn_gguf_kv *kv, uint64_t *at, struct wn_bytes *v);

/* Name of a value type, "u32", "string" ... */
const char *wn_gguf_value_name(enum wn_gguf_value t);

#endif
