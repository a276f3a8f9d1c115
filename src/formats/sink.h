/*
 * A model being written: declare every tensor, then give the bytes in that order, then commit. The two containers stand
 * behind one interface. Files appear under their final names only when all of them are complete (a folder's index
 * last).
 *
 *     struct wn_sink *s = wn_sink_new(WN_CONTAINER_GGUF, out, &options, &err);
 *     for each tensor: wn_sink_declare(s, name, type, dims, shape, file, &err);
 *     wn_sink_begin(s, &err);                     sizes and offsets are fixed now; headers are written
 *     for each tensor, in the order declared: wn_sink_write / wn_sink_copy until its bytes are complete
 *     wn_sink_commit(s, &err);
 *     wn_sink_free(s);                            without a commit: what was written is removed
 *
 * One thread at a time.
 */
#ifndef WN_FORMATS_SINK_H
#define WN_FORMATS_SINK_H

#include "formats/source.h"

struct wn_sink_options {
    bool overwrite;
    bool dry_run; /* nothing touches the disk; begin computes sizes; write and copy are refused */
    /*
     * What the pointers below lead to is borrowed until the sink is freed: headers are made when their files' turn
     * comes.
     */
    /*
     * GGUF: metadata of file 1, in this order. split.* keys are the sink's own affair: those passed in are left where
     * they stand when the output is split (with new values) and dropped when it is not.
     */
    const struct wn_gguf_kv *kv;
    size_t kv_count;
    uint32_t gguf_version;   /* 0: 3 */
    uint32_t gguf_alignment; /* 0: 32 */
    /*
     * GGUF: files 2 .. of a set with these records, versions and alignments: later_count of them, which must be all;
     * split.* get new values where they stand. NULL: they have the three split keys and nothing else.
     */
    const struct wn_gguf_meta *later;
    uint32_t later_count;
    /* Safetensors: "__metadata__" pairs or none. */
    const char *const *metadata; /* key, value, key, value ...; NULL-terminated; may be NULL */
    bool write_index; /* safetensors folder: model.safetensors.index.json (always when there are 2 files or more) */
    /* Safetensors: file_name_count names, which must be one for each file; NULL: the usual ones, see below. */
    const char *const *file_names;
    uint32_t file_name_count;
    /*
     * Files 0 .. taken - 1 lie there complete, as an earlier run left their .part: data begins with the tensor behind
     * them.
     */
    uint32_t taken;
    /* Called when a file is complete and on the disk; false fails the sink. May be NULL. */
    bool (*complete)(void *arg, uint32_t file, const char *part, struct wn_err *err);
    void *arg;
    /* Files that were complete, and those taken up, stay as .part when the sink is freed without a commit. */
    bool keep;
    /*
     * A name beside the weights (wn_sink_beside) that tells of them: overwriting does away with an old one. May be
     * NULL.
     */
    const char *record_name;
};

struct wn_sink;

/*
 * out   GGUF: the file's path; when more than one file is declared, out must end in -00001-of-NNNNN.gguf, or is a
 *       prefix P (with or without ".gguf") and the files become P-00001-of-NNNNN.gguf.
 *       Safetensors: the folder, made if need be; files are model-%05d-of-%06d.safetensors (or model.safetensors for
 *       one file without index), unless they have names of their own. Other shards in it are refused where they would
 *       be read as part of the model.
 */
WN_CHECKED struct wn_sink *wn_sink_new(enum wn_container container, const char *out, const struct wn_sink_options *o,
                                       struct wn_err *err);
/* file: 0-based, not falling from one declare to the next. A file number may be skipped: that file has no tensors. */
WN_CHECKED bool wn_sink_declare(struct wn_sink *s, const char *name, enum wn_type type, uint32_t dims,
                                const uint64_t *shape, uint32_t file, struct wn_err *err);
/* Fixes the number of files to at least n (for trailing or only empty ones). */
void wn_sink_file_count_at_least(struct wn_sink *s, uint32_t n);
WN_CHECKED bool wn_sink_begin(struct wn_sink *s, struct wn_err *err);
/* After begin: exact bytes of all files (with headers and a folder's index), of one file, and their final paths. */
uint64_t wn_sink_total_bytes(const struct wn_sink *s);
uint32_t wn_sink_file_count(const struct wn_sink *s);
uint64_t wn_sink_file_bytes(const struct wn_sink *s, uint32_t file);
const char *wn_sink_file_path(const struct wn_sink *s, uint32_t file);
/* After begin: the tensors as they were declared; `at` counts from the start of the file. The name is the sink's. */
size_t wn_sink_tensor_count(const struct wn_sink *s);
struct wn_tensor wn_sink_tensor(const struct wn_sink *s, size_t i);
/* Tensors of the files that were taken up: the first ones, whose bytes must not come again. */
size_t wn_sink_tensors_taken(const struct wn_sink *s);
/* The file that is being written, and how much of it has been. */
uint32_t wn_sink_current(const struct wn_sink *s, const char **part, uint64_t *bytes);
/* The name that the index gets, also of a dry run; NULL: none is written. */
const char *wn_sink_index_path(const struct wn_sink *s);
/* The index as it is written, NULL when there is none. */
const struct wn_outfile *wn_sink_index(const struct wn_sink *s);
/* The next n bytes of the current tensor; more than it has left is WN_ERR_ARG. Padding is the sink's affair. */
WN_CHECKED bool wn_sink_write(struct wn_sink *s, const void *bytes, size_t n, struct wn_err *err);
/* The same from a range of a source's tensor, copied by the system where it can, holes kept. */
WN_CHECKED bool wn_sink_copy(struct wn_sink *s, const struct wn_source *from, const struct wn_tensor *t, uint64_t at,
                             uint64_t n, struct wn_err *err);
/*
 * Between begin and commit: a file of that name beside the weights, open to be written. It gets its name with
 * theirs, in the order of these calls, so the last one should be the one without which nothing opens the folder. It is
 * the sink's; good until the next such call.
 */
WN_CHECKED struct wn_outfile *wn_sink_beside(struct wn_sink *s, const char *name, struct wn_err *err);
/*
 * All tensors must be complete. Old files that are overwritten, an old index and old shards that are not overwritten by
 * name make way together when all of the new are on the disk, and go when these have their names. Failing, it leaves
 * what had stood there, and nothing new. A run that is killed in it leaves a journal, which wn_sink_put_back reads.
 */
WN_CHECKED bool wn_sink_commit(struct wn_sink *s, struct wn_err *err);
/*
 * Of a sink that was begun (a dry run, for another would find its names taken): whether a run was killed while it gave
 * these files their names, and the way back to what had been before: its new files are .part files again.
 */
bool wn_sink_is_half_placed(const struct wn_sink *s);
WN_CHECKED bool wn_sink_put_back(const struct wn_sink *s, struct wn_err *err);
/*
 * Of files that have their names: removes what was set aside for them, or is a second name of one, when a run was
 * killed before it could. record_name: as in the options of the sink that wrote.
 */
WN_CHECKED bool wn_sink_tidy(const struct wn_sink *s, const char *record_name, struct wn_err *err);
void wn_sink_free(struct wn_sink *s);

#endif
