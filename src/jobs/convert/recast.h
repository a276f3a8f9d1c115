/*
 * A model in another container: HF safetensors as GGUF or as an MLX folder. The output is described tensor by tensor
 * from the bound layers (model/weights.h), so that it is made of the very numbers that winnow computes with; the same
 * walk declares the tensors, writes them and proves them, so the three cannot disagree.
 *
 * Matrices keep their bits wherever the container can hold them: MXFP4 codes and scales change places only. What the
 * container stores otherwise (norms widened to f32, kv_b turned per head, -exp(A_log)) follows docs/formats/gguf.md.
 */
#ifndef WN_JOBS_CONVERT_RECAST_H
#define WN_JOBS_CONVERT_RECAST_H

#include "jobs/prune/keep.h"
#include "model/names.h"
#include "model/weights.h"
#include "quant/affine.h"
#include <winnow/prune.h>

enum wn_recast_face { WN_FACE_DATA, WN_FACE_SCALES, WN_FACE_BIASES };

/* One tensor of the output: the rows of its parts, one after the other, in another type or the same. */
struct wn_recast_tensor {
    char name[WN_NAME_BYTES];
    int32_t layer;            /* -1: outside the layers */
    enum wn_type type;        /* of the matrix as a whole; what the file calls it follows from the face */
    enum wn_recast_face face; /* DATA: also codes whose scales are another tensor */
    uint32_t dims;
    uint64_t shape[WN_DIMS]; /* as the file has it, outermost first */
    uint64_t rows, cols;     /* cols: weights in a row */
    uint32_t group;          /* of affine types */
    enum wn_affine_rule rule;
    const struct wn_matrix *parts;
    size_t part_count;
};

/* The type that the file states, and all bytes. */
enum wn_type wn_recast_file_type(const struct wn_recast_tensor *t);
uint64_t wn_recast_bytes(const struct wn_recast_tensor *t);

typedef bool wn_recast_fn(void *arg, const struct wn_recast_tensor *t, struct wn_err *err);

struct wn_recast_form; /* a container: recast_parts.h */
extern const struct wn_recast_form wn_recast_form_gguf, wn_recast_form_mlx;

struct wn_recast {
    const struct wn_model *model; /* borrowed */
    const struct wn_keep *keep;   /* borrowed: which experts, in which order, and what of ghosts */
    const struct wn_recast_form *form;
    unsigned rest_bits; /* MLX: of matrices that are no experts, affine; 0: as they are */
    bool fit;           /* MLX: experts of fewer bits are fitted (WN_AFFINE_LEAST_SQUARES) */
    bool sizes_only;    /* no tensor of the walk will be made */
};

/* Tensors of the source that the container has no place for: the vision tower's, in a GGUF. */
uint64_t wn_recast_left_out(const struct wn_recast *r);

/*
 * Columns of one scale of an affine matrix that is that wide: 64, or 32 where 64 does not divide; 0: it cannot be
 * affine.
 */
uint32_t wn_recast_group(uint64_t cols);

/* Whether a source becomes that format by being made anew; otherwise it is copied within its container. */
bool wn_recast_is_needed(enum wn_format format, const struct wn_source *s);
/* What to make, by the options that prune and plan share (winnow/prune.h has what their values mean). */
struct wn_recast wn_recast_of(const struct wn_model *m, const struct wn_keep *keep, enum wn_format format,
                              unsigned rest_bits, enum wn_encoder encoder);

/*
 * Calls fn for each tensor of the output: those outside the layers, then layer by layer, which is the order of
 * published GGUFs. A tensor and its parts are good during the call. Refuses experts of different types in one stack.
 */
WN_CHECKED bool wn_recast_walk(const struct wn_recast *r, wn_recast_fn *fn, void *arg, struct wn_err *err);

/*
 * Bytes of rows first .. first + n - 1 of t into out, each wn_recast_row_bytes long; room: wn_recast_room bytes for
 * floats. Rows are made by
 * themselves: any number of threads may make some.
 */
uint64_t wn_recast_row_bytes(const struct wn_recast_tensor *t);
size_t wn_recast_room(const struct wn_recast_tensor *t);
void wn_recast_make(const struct wn_recast_tensor *t, uint64_t first, uint64_t n, void *room, uint8_t *out);

/*
 * Scales and biases of the affine matrix whose codes were made last: encoding makes all three, and they are tensors
 * that follow one another. All zero is an empty one.
 */
struct wn_recast_side {
    uint8_t *scales, *biases; /* owned; [rows][row_bytes] */
    size_t row_bytes;
    uint64_t rows; /* what they belong to: */
    const uint8_t *data;
    enum wn_type type;
};
void wn_recast_side_release(struct wn_recast_side *side);

/* Gives all bytes of t to `write`, in order, made by the pool's threads a few MiB at a time. */
typedef bool wn_recast_write_fn(void *arg, const void *bytes, size_t n, struct wn_err *err);
WN_CHECKED bool wn_recast_stream(const struct wn_recast_tensor *t, struct wn_pool *pool, struct wn_recast_side *side,
                                 wn_recast_write_fn *write, void *arg, struct wn_err *err);

/* All tensors of a walk, without their parts. */
struct wn_recast_list {
    struct wn_recast_tensor *tensors; /* owned */
    size_t n, room;
};
WN_CHECKED bool wn_recast_list(const struct wn_recast *r, struct wn_recast_list *list, struct wn_err *err);
void wn_recast_list_release(struct wn_recast_list *list);

/* Metadata records of the GGUF, in the converter's order. Owned; nothing is borrowed. */
struct wn_recast_kv {
    struct wn_gguf_kv *kv;
    struct wn_buf *own; /* [n] each record's key and value */
    size_t n;
};
WN_CHECKED bool wn_recast_kv(const struct wn_recast *r, const struct wn_recast_list *list, struct wn_recast_kv *out,
                             struct wn_err *err);
void wn_recast_kv_release(struct wn_recast_kv *kv);

/*
 * config.json of an MLX folder, appended to out, from the source's n bytes of text. plan_name: what "reap" calls the
 * plan, may be NULL.
 */
WN_CHECKED bool wn_recast_config(const struct wn_recast *r, const struct wn_recast_list *list, const char *text,
                                 size_t n, const char *plan_name, struct wn_buf *out, struct wn_err *err);

/*
 * What the n bytes of an MLX folder's config.json say of how it was made: into r->fit and r->rest_bits, and the plan's
 * name. False when it was not made by winnow.
 */
WN_CHECKED bool wn_recast_read_options(const char *text, size_t n, struct wn_recast *r, char *plan_name, size_t size);

/* Memory of wn_recast_stream for t, the side with it. */
uint64_t wn_recast_stream_memory(const struct wn_recast_tensor *t, unsigned threads);

/*
 * A recast that is about to be written: everything that is known before a byte is. begin: all of it but `keep` and
 * `model`, which are borrowed. shard_bytes: files are closed before they would exceed it; 0: one GGUF, or what MLX
 * folders are usual in (5 GiB at most, and no layer shares one). joined: one file.
 */
struct wn_recast_out {
    struct wn_recast recast;
    struct wn_recast_list list;
    uint32_t *file; /* [list.n] of each tensor; owned */
    uint32_t files;
    char **names;           /* [files] of a folder's shards; owned; NULL: the sink's own */
    uint64_t bytes;         /* of all tensors */
    struct wn_recast_kv kv; /* GGUF */
};
WN_CHECKED bool wn_recast_out_init(struct wn_recast_out *o, const struct wn_recast *r, bool joined,
                                   uint64_t shard_bytes, struct wn_err *err);
/* The most memory that making any tensor of it takes, beside what init left, in so many threads. */
uint64_t wn_recast_memory(const struct wn_recast_out *o, unsigned threads);
void wn_recast_out_release(struct wn_recast_out *o);
#endif
