/*
 * The cut, the identity road, and the proof. No arithmetic on a weight anywhere: surviving experts are byte copies.
 */
#ifndef WINNOW_PRUNE_H
#define WINNOW_PRUNE_H

#include <winnow/job.h>
#include <winnow/model.h>
#include <winnow/plan.h>

enum wn_layout {
    WN_LAYOUT_AS_SOURCE, /* one file stays one; a set stays split the way it was (by layer, for HF folders) */
    WN_LAYOUT_JOINED,    /* one file */
    WN_LAYOUT_SPLIT      /* cut at shard_bytes */
};

struct wn_prune_options {
    const char *source, *out;
    const struct wn_model *model; /* the source, when it is open already: its lists are not read again. May be NULL */
    const struct wn_plan *plan;   /* NULL: the identity plan (`convert`) */
    enum wn_layout layout;
    uint64_t shard_bytes; /* WN_LAYOUT_SPLIT */
    bool overwrite, dry_run;
    bool force_plan; /* accept a plan whose model fingerprint is another's */
};

struct wn_prune_result {
    /* Files of weights with their headers, and the index of a folder; on both sides without config and tokenizer. */
    uint64_t source_bytes, out_bytes;
    uint64_t out_tensor_bytes;
    uint32_t files;
    uint64_t tensors;
    uint64_t copied_bytes;
    double seconds;
};

WN_API WN_CHECKED bool wn_prune(const struct wn_prune_options *o, const struct wn_job *job, struct wn_prune_result *r,
                                struct wn_err *err);

struct wn_verify_result {
    uint64_t tensors, experts, bytes; /* compared */
    uint64_t bad_scales;              /* MXFP4 scales of out that are no number (255); each matrix is noted */
    /*
     * The identity plan, and every file of out is byte for byte a file of the source; config, card and index too, where
     * there are any.
     */
    bool identical_files;
    bool parts_bound; /* without a source: every part is there with its shape; false: headers and counts only */
};

/*
 * Proves out against source and plan (NULL: identity): every surviving byte, router order, bias, config keys. The first
 * difference is WN_ERR_DIFFERENT with layer, old and new expert, matrix and offset in the sentence.
 *
 * source NULL: only whether out is sound by itself, of no byte (r->bytes 0) whether it is the source's. What is not is
 * WN_ERR_FORMAT.
 */
WN_API WN_CHECKED bool wn_verify(const char *out, const char *source, const struct wn_plan *plan,
                                 const struct wn_job *job, struct wn_verify_result *r, struct wn_err *err);

#endif
