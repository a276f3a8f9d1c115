/*
 * What sink.c and the writers of the containers share: the inside of a sink, and the four things a container decides.
 * sink.c keeps the account of what was declared and written and owns the files; sink_commit.c gives them their names.
 */
#ifndef WN_FORMATS_SINK_PARTS_H
#define WN_FORMATS_SINK_PARTS_H

#include "formats/sink.h"
#include "formats/tensor_list.h"

/* A file beside the weights. */
struct wn_sink_beside {
    char *path; /* owned; the final name */
    struct wn_outfile out;
};

struct wn_sink_file {
    char *path; /* owned; the final name */
    struct wn_outfile out;
    size_t first, count;          /* tensors of this file in the list */
    uint64_t alignment;           /* of each tensor's data, a power of two */
    uint64_t header_bytes, bytes; /* with its padding; all of the file */
};

/* How a container writes. Each is called by sink.c in this order. */
struct wn_sink_writer {
    /* Whether the container can hold this tensor. */
    bool (*check)(const struct wn_tensor *t, struct wn_err *err);
    /* After the last declare: settles the files' alignments and everything else that names and headers depend on. */
    bool (*settle)(struct wn_sink *s, struct wn_err *err);
    /* Final path of a file. */
    char *(*path)(const struct wn_sink *s, uint32_t file, struct wn_err *err);
    /*
     * The whole header of a file, with padding up to its data, appended to b. Depends on nothing but what was declared:
     * it is asked for once for its size and once to be written.
     */
    bool (*header)(const struct wn_sink *s, uint32_t file, struct wn_buf *b, struct wn_err *err);
};

extern const struct wn_sink_writer wn_gguf_writer, wn_safetensors_writer;

enum wn_sink_state { WN_SINK_DECLARING, WN_SINK_WRITING, WN_SINK_FAILED, WN_SINK_COMMITTED };

struct wn_sink {
    const struct wn_sink_writer *writer;
    enum wn_container container;
    struct wn_sink_options o;
    char *out; /* owned; as given */
    enum wn_sink_state state;

    /*
     * Declared. Until begin a tensor's `at` is the place of its name in names.at; afterwards it is its place in the
     * file's data section.
     */
    struct wn_tensor_list tensors;
    struct wn_buf names;
    struct wn_sink_file *files; /* [file_count], from begin on */
    uint32_t file_count, at_least;
    uint64_t total_bytes;

    /* GGUF */
    bool split;
    unsigned char split_order[3]; /* which split key comes first, second, third */

    /* Safetensors: the index is written at begin, when running out of anything is still cheap, and appears last. */
    char *index_path; /* owned; NULL: none is written */
    struct wn_outfile index;
    bool made_folder;
    struct wn_sink_beside *beside; /* owned; [beside_room] */
    size_t beside_count, beside_room;

    char *journal; /* owned; from begin on: of the renames, see sys/place.h */

    uint32_t kept;   /* files that stay when there is no commit */
    uint32_t opened; /* files that have been opened, of which all but the first and the last are closed again */
    size_t current;  /* tensor being written */
    uint64_t given;  /* bytes of it */
};

/* Safetensors only: the text of the index. */
WN_CHECKED bool wn_safetensors_index(const struct wn_sink *s, struct wn_buf *b, struct wn_err *err);
/* The names that loaders look for, index or not. */
bool wn_safetensors_usual(const char *name);
/*
 * Safetensors that overwrite: what stands in the folder and would be read with the new files, though none of them gets
 * its name: shards of another number, and an index when none is written. Free them with wn_names_free.
 */
WN_CHECKED bool wn_safetensors_stale(const struct wn_sink *s, char ***names, size_t *n, struct wn_err *err);

#endif
