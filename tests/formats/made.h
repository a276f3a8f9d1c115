/*
 * Model files made by the byte, good ones and bad ones, for the tests of this folder; and a copy from a source to a
 * sink.
 */
#ifndef WN_TEST_FORMATS_MADE_H
#define WN_TEST_FORMATS_MADE_H

#include "base/bytes.h"
#include "formats/sink.h"
#include "wn_test.h"

/* Pieces of a GGUF; running out of memory ends the test. */
void made_number(struct wn_buf *b, unsigned bytes, uint64_t v);
void made_string(struct wn_buf *b, const char *s);
void made_zeros(struct wn_buf *b, size_t n);
/* Zeros up to a multiple of align. */
void made_pad(struct wn_buf *b, size_t align);
/* "GGUF", version 3 and the two counts. */
void made_gguf(struct wn_buf *b, uint64_t tensors, uint64_t kvs);
void made_kv_number(struct wn_buf *b, const char *key, enum wn_gguf_value type, uint64_t v);
void made_kv_string(struct wn_buf *b, const char *key, const char *value);
/* ne: innermost first, as in the file. */
void made_info(struct wn_buf *b, const char *name, uint32_t dims, const uint64_t *ne, uint32_t type, uint64_t offset);

/* folder/name with these bytes; the buffer is released. Returns its path. */
const char *made_file(const char *folder, const char *name, struct wn_buf *b);
/* A safetensors file: the header's length, the header, and so many zero bytes of data (a hole). */
const char *made_safetensors(const char *folder, const char *name, const char *json, uint64_t data_bytes);
/* A file of that size, all hole but for what is there. */
void made_longer(const char *path, uint64_t bytes);
void made_write_at(const char *path, uint64_t at, const void *bytes, size_t n);
/* How many names are in a folder. */
size_t made_count_names(const char *folder);

/* Declares all tensors of a source in their files and copies them; does not commit. */
bool made_declare_all(struct wn_sink *s, const struct wn_source *from, struct wn_err *err);
bool made_copy_all(struct wn_sink *s, const struct wn_source *from, struct wn_err *err);
/* Opens, copies with the source's own metadata, commits. */
bool made_identity(const char *from, const char *to, struct wn_err *err);

#endif
