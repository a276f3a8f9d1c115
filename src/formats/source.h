/*
 * An open model file or folder, whatever its container: a list of tensors with types, shapes and places, and their
 * bytes. A GGUF (the first file of a split set names the set), an HF folder of safetensors shards (with or without an
 * index), or one safetensors file. Nothing here knows a model.
 *
 * Nothing read is trusted: counts, lengths, offsets and names are checked against the files' sizes before use. An
 * opened source is only read, so any number of threads may share it.
 */
#ifndef WN_FORMATS_SOURCE_H
#define WN_FORMATS_SOURCE_H

#include "formats/gguf.h"
#include "sys/file.h"
#include "tensor/tensor.h"

enum wn_container { WN_CONTAINER_GGUF, WN_CONTAINER_SAFETENSORS };

struct wn_source_file {
    struct wn_file file;
    uint64_t header_bytes; /* where the data section begins */
    uint64_t tensor_count;
};

struct wn_source;

/*
 * Beside an output that is being made, or whose making was stopped: what is done, and which names are about to change.
 */
#define WN_PROGRESS_NAME "progress.part"
#define WN_PLACING_NAME  "placing.part"

/*
 * To a failure that has to do with what lies at path is added that it is an unfinished output, if one of these tells
 * so: in the folder, or as FILE.progress.part and FILE.placing.part.
 */
void wn_source_tell_unfinished(const char *path, struct wn_err *err);

/* Opens and checks everything that is not tensor data. NULL on failure. */
WN_CHECKED struct wn_source *wn_source_open(const char *path, struct wn_err *err);
/*
 * Also a source of which a prune that consumes it has given bytes away (the mark lies beside its first file): such
 * bytes read as zeros, so open refuses it. Only for that prune to go on.
 */
WN_CHECKED struct wn_source *wn_source_open_consumed(const char *path, struct wn_err *err);
/* Path of that mark, whether it is there or not; free it. */
WN_CHECKED char *wn_source_consumed_mark(const struct wn_source *s, struct wn_err *err);
void wn_source_close(struct wn_source *s);

const char *wn_source_path(const struct wn_source *s); /* as given to open */
enum wn_container wn_source_container(const struct wn_source *s);
/* The folder of a safetensors source (config.json lives there), the folder of the first file of a GGUF. */
const char *wn_source_folder(const struct wn_source *s);

size_t wn_source_file_count(const struct wn_source *s);
const struct wn_source_file *wn_source_file_at(const struct wn_source *s, size_t i);
/* The number of the file of that name, without its folder; the count of files: none is. */
size_t wn_source_file_find(const struct wn_source *s, const char *name);
bool wn_source_has_file(const struct wn_source *s, const char *name);

/* Tensors in file order: by file, then by offset within it. */
size_t wn_source_tensor_count(const struct wn_source *s);
const struct wn_tensor *wn_source_tensor_at(const struct wn_source *s, size_t i);
/* NULL when there is none of that name. */
const struct wn_tensor *wn_source_find(const struct wn_source *s, const char *name);

/* GGUF metadata of the set (file 1's); NULL for safetensors. */
const struct wn_gguf_meta *wn_source_gguf(const struct wn_source *s);
/*
 * The records of one file: in a set, files behind the first have at least some that number them. NULL for safetensors.
 */
const struct wn_gguf_meta *wn_source_gguf_of(const struct wn_source *s, size_t file);
/*
 * True when file 1's records say all that the set's say: what later files have besides the keys that belong to a file
 * (split.*, general.alignment) is there with the same bytes. If not, the key and file are named. True for safetensors.
 */
WN_CHECKED bool wn_source_gguf_is_whole(const struct wn_source *s, struct wn_err *err);
/*
 * Safetensors: the "__metadata__" strings of the first file that has some, as key, value, key, value ..., NULL (the
 * form that wn_sink_options takes). NULL when there are none.
 */
const char *const *wn_source_metadata(const struct wn_source *s);
/* The same of one file. */
const char *const *wn_source_metadata_of(const struct wn_source *s, size_t file);
/*
 * Safetensors: whether an index named the files; *total_size is what it tells, UINT64_MAX when that is no whole number
 * or not told. Nobody held it against the files: writers do not agree on what it counts.
 */
bool wn_source_is_indexed(const struct wn_source *s, uint64_t *total_size);

/* The tensor's bytes in the read-only map; borrowed from the source. NULL when the map fails. Thread-safe. */
WN_CHECKED const uint8_t *wn_source_view(const struct wn_source *s, const struct wn_tensor *t, struct wn_err *err);
/* Bytes at .. at + n - 1 of the tensor's data, by a positioned read. */
WN_CHECKED bool wn_source_read(const struct wn_source *s, const struct wn_tensor *t, uint64_t at, void *dst, size_t n,
                               struct wn_err *err);
/*
 * How many bytes from a_at of tensor a and from b_at of tensor b on are holes in the files of both, and so equal, as
 * far as the system tells and the shorter of the two goes.
 */
uint64_t wn_source_common_hole(const struct wn_source *s, const struct wn_tensor *a, uint64_t a_at,
                               const struct wn_source *other, const struct wn_tensor *b, uint64_t b_at);
/*
 * Gives all mapped pages back to the system, those around what was touched too, which it maps along; they are read
 * again when touched. Thread-safe.
 */
void wn_source_drop_pages(const struct wn_source *s);
/* Hints for the pages of a tensor's range. */
void wn_source_will_need(const struct wn_source *s, const struct wn_tensor *t);
void wn_source_dont_need(const struct wn_source *s, const struct wn_tensor *t);

/*
 * SHA-256-free fingerprint of what the headers say (names, types, shapes in order; not the data), as 16 hex digits
 * and NUL: it ties a saliency archive or a plan to the model it was made from.
 */
void wn_source_fingerprint(const struct wn_source *s, char out[17]);

#endif
