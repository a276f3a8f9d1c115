/*
 * What source.c and the readers of the containers share: the inside of an open source and how to fill it.
 *
 * A reader tells how many files there are, opens them one after the other, hands over their header bytes (names are
 * borrowed from those) and lists their tensors by rising offset. source.c does the rest.
 */
#ifndef WN_FORMATS_SOURCE_PARTS_H
#define WN_FORMATS_SOURCE_PARTS_H

#include "formats/source.h"
#include "formats/tensor_list.h"

#include <pthread.h>
#include <stdatomic.h>

/* What belongs to a file and is nobody else's business. */
struct wn_source_held {
    char *header;                 /* owned; the bytes that names and metadata are borrowed from */
    struct wn_gguf_meta gguf;     /* its records, kv owned; all zero for other containers */
    char **metadata;              /* safetensors; owned array of borrowed strings, NULL when there are none */
    _Atomic(const uint8_t *) map; /* files[i].file.map, once it is there */
};

struct wn_source {
    char *path, *folder; /* owned */
    enum wn_container container;
    struct wn_source_file *files; /* [room]; the first file_count are open */
    struct wn_source_held *held;  /* [room] */
    size_t file_count, room;
    struct wn_tensor_list tensors;
    struct wn_name_table names;
    bool indexed;         /* safetensors: an index named the files ... */
    uint64_t index_total; /* ... and told this total_size; UINT64_MAX: none */
    pthread_mutex_t map_lock;
};

/* Room for n files, those already open included. */
WN_CHECKED bool wn_source_reserve_files(struct wn_source *s, size_t n, struct wn_err *err);
/* Opens the next file; its entry is files[file_count - 1] then. */
WN_CHECKED bool wn_source_add_file(struct wn_source *s, const char *path, struct wn_err *err);
/* Indexes the names; one that occurs twice is refused with both files. */
WN_CHECKED bool wn_source_index_names(struct wn_source *s, struct wn_err *err);

/* The readers. path names the set's first file, one safetensors file, or a folder. */
WN_CHECKED bool wn_source_open_gguf(struct wn_source *s, const char *path, struct wn_err *err);
WN_CHECKED bool wn_source_open_safetensors(struct wn_source *s, const char *path, struct wn_err *err);
WN_CHECKED bool wn_source_open_folder(struct wn_source *s, const char *folder, struct wn_err *err);

#endif
