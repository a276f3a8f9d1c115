/*
 * The cut, the identity road, and the proof. No arithmetic on a weight anywhere: surviving experts are byte copies.
 */
#ifndef WINNOW_PRUNE_H
#define WINNOW_PRUNE_H

#include <winnow/job.h>
#include <winnow/model.h>
#include <winnow/plan.h>
#include <winnow/pool.h>

enum wn_layout {
    WN_LAYOUT_AS_SOURCE, /* one file stays one; a set stays split the way it was (by layer, for HF folders) */
    WN_LAYOUT_JOINED,    /* one file */
    WN_LAYOUT_SPLIT      /* cut at shard_bytes */
};

/* What the output is. Another container than the source's is made from HF folders of models that winnow computes. */
enum wn_format {
    WN_FORMAT_AS_SOURCE,
    WN_FORMAT_GGUF, /* as K3's converter writes it: matrices keep their type, MXFP4 in GGUF's packing */
    WN_FORMAT_HF,   /* the source must be one */
    WN_FORMAT_MLX   /* docs/formats/mlx.md */
};

/* How affine codes are found (docs/formats/quants.md); readers need not know. */
enum wn_encoder {
    WN_ENCODER_FIT,   /* experts of fewer bits by least squares, the rest by MLX's own rule */
    WN_ENCODER_MINMAX /* all by MLX's own rule */
};

struct wn_prune_options {
    const char *source, *out;
    /*
     * A second parent, a GGUF of the same model at lower precision as `source` is one: the experts to which the plan
     * gives fewer bits are copied from it, in the type that they have there. Refused, with what differs, when the two
     * are not one model. NULL: there is none.
     */
    const char *lo_source;
    const struct wn_model *model; /* the source, when it is open already: its lists are not read again. May be NULL */
    const struct wn_plan *plan;   /* NULL: the identity plan (`convert`) */
    /*
     * SKIP, MEAN: what the plan drops becomes ghosts (docs/formats/ghosts.md). OFF, without a plan: the ghosts that the
     * source has go, and with their rows all that only winnow reads. BUILT: as the source has them; a plan makes none.
     */
    enum wn_ghosts ghosts;
    const char *saliency; /* MEAN: the archive whose means ghosts get; a dry run does without */
    enum wn_layout layout;
    uint64_t shard_bytes; /* WN_LAYOUT_SPLIT */
    bool overwrite, dry_run;
    bool force_plan; /* accept a plan whose model fingerprint is another's */
    enum wn_format format;
    const char *plan_name; /* what an MLX folder calls the plan; NULL: nothing */
    unsigned rest_bits;    /* MLX: of matrices that are no experts: 2, 3, 4, 5, 6, 8 affine; 0: 8; 16: as they are */
    enum wn_encoder encoder;
    struct wn_pool *pool; /* for containers that are made, not copied; NULL: one thread */
    /*
     * Finished files of the output stay, with a journal, when the run is killed or fails, and the next one with the
     * same options takes them up.
     */
    bool resume;
    bool hashes;           /* digests of files and experts go into the output: docs/formats/provenance.md */
    const char *plan_file; /* from which the plan was read: its name and SHA-256 are told there; NULL: nothing */
    /*
     * The source gives its bytes away: what a file of the output was made of is given back to the file system when that
     * file is on the disk and hashed. Needs resume and hashes; copies only. What is left of the source opens no more.
     */
    bool consume;
};

struct wn_prune_result {
    /* Files of weights with their headers, and the index of a folder; on both sides without config and tokenizer. */
    uint64_t source_bytes, out_bytes; /* source: without a second parent */
    uint64_t lo_bytes, lo_weights;    /* of second banks that a second parent gave */
    uint64_t out_tensor_bytes;
    uint32_t files, files_taken_up; /* of them, finished by an earlier run */
    uint64_t tensors;
    uint64_t copied_bytes; /* by this run */
    double seconds;
};

WN_API WN_CHECKED bool wn_prune(const struct wn_prune_options *o, const struct wn_job *job, struct wn_prune_result *r,
                                struct wn_err *err);

struct wn_verify_result {
    uint64_t tensors, experts, bytes; /* compared */
    uint64_t ghosts;     /* against a source: whose router rows, and means where there are any, were compared */
    uint64_t bad_scales; /* MXFP4 scales of out that are no number (255); each matrix is noted */
    /*
     * The identity plan, and every file of out is byte for byte a file of the source; config, card and index too, where
     * there are any.
     */
    bool identical_files;
    uint64_t hashed_files, hashed_bytes; /* without a source: held against the digests that out has; 0: it has none */
    bool parts_bound; /* without a source: every part is there with its shape; false: headers and counts only */
    char fingerprint[17], source_fingerprint[17]; /* of the headers of out and source; empty: not opened */
    char lo_fingerprint[17];                      /* of a second parent */
    /*
     * Of out's record, whose digests its files have where they were hashed; empty: there is none that tells of such
     * files.
     */
    char record_sha256[65];
};

struct wn_verify_options {
    const char *out, *source;   /* source NULL: see below */
    const char *lo_source;      /* of a build from two parents, as in wn_prune_options */
    const struct wn_plan *plan; /* NULL: the identity */
    const char *saliency;       /* the archive of the ghosts' means, where out has some */
};

/*
 * Proves out against source and plan: every surviving byte, router order, bias, config keys; of ghosts, whose the
 * router's rows are and what their means are. The first difference is WN_ERR_DIFFERENT with layer, old and new expert,
 * matrix and offset in the sentence.
 *
 * source NULL: only whether out is sound by itself, of no byte (r->bytes 0) whether it is the source's. What is not is
 * WN_ERR_FORMAT.
 */
WN_API WN_CHECKED bool wn_verify_all(const struct wn_verify_options *o, const struct wn_job *job,
                                     struct wn_verify_result *r, struct wn_err *err);
/* The same of one parent and without means. */
WN_API WN_CHECKED bool wn_verify(const char *out, const char *source, const struct wn_plan *plan,
                                 const struct wn_job *job, struct wn_verify_result *r, struct wn_err *err);

/*
 * SHA-256 of the record beside a build (docs/formats/provenance.md), by which it is told from another cut to as many
 * experts, whose headers are the same. Empty: there is none, it was changed, or it is of files of other lengths. Files
 * are not hashed: whether they have the record's digests is wn_verify's.
 */
WN_API void wn_record_sha256(const struct wn_model *m, char sha256[65]);

#endif
