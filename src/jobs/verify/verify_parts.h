/*
 * The parts of verify: tensors (verify.c), metadata of GGUF (verify_meta.c), the files beside the weights
 * (verify_folder.c), what else is in and about the files of weights (verify_shards.c), scales that are no numbers
 * (verify_scales.c), ghosts (verify_ghosts.c), another container (verify_recast.c), and what can be said without a
 * source (verify_alone.c).
 */
#ifndef WN_JOBS_VERIFY_VERIFY_PARTS_H
#define WN_JOBS_VERIFY_VERIFY_PARTS_H

#include "jobs/prune/keep.h"
#include "jobs/prune/prune_folder.h"
#include <winnow/prune.h>

/*
 * What out must have been asked for, by what it has of ghosts; no second parent and no means yet. Refuses means without
 * an archive to prove them by.
 */
WN_CHECKED bool wn_verify_how(const struct wn_verify_options *o, const struct wn_source *source,
                              const struct wn_source *out, struct wn_keep_how *how, struct wn_err *err);
/* A byte of a tensor of rows or means, which differs. */
struct wn_ghost_byte {
    const char *name;
    bool rows;         /* otherwise means */
    uint64_t each, at; /* bytes of one row's number or one mean; where in the tensor */
    uint8_t have, want;
};
/* False, with layer and expert in the sentence. */
bool wn_verify_fail_ghost(const struct wn_keep_layer *l, const struct wn_ghost_byte *b, struct wn_err *err);
/* Adds what was held against the source: experts, and ghosts with all of their router. */
void wn_verify_count(const struct wn_keep *k, struct wn_verify_result *r);

/* k: what should have been made of the source. A difference is WN_ERR_DIFFERENT. *same: not one byte of it differs. */
WN_CHECKED bool wn_verify_kv(const struct wn_keep *k, const struct wn_plan *plan, const struct wn_source *out,
                             struct wn_err *err);
WN_CHECKED bool wn_verify_folder(const struct wn_keep *k, const struct wn_plan *plan, const struct wn_source *out,
                                 bool *same, struct wn_err *err);
/* Whether `have` are these records, those that number the files of a set aside. */
WN_CHECKED bool wn_verify_records(const struct wn_gguf_kv *want, size_t want_n, const struct wn_gguf_meta *have,
                                  struct wn_err *err);
/* config.json of out as want, key by key, and the files beside the weights as f has them; cards may differ. */
WN_CHECKED bool wn_verify_beside(const struct wn_folder *f, const struct wn_source *source, const struct wn_source *out,
                                 bool *same, struct wn_err *err);

/* out in another container than the source (verify_recast.c): every byte is made again and compared. */
WN_CHECKED bool wn_verify_recast(const struct wn_source *source, const struct wn_keep_how *how,
                                 const struct wn_source *out, const struct wn_job *job, struct wn_verify_result *r,
                                 struct wn_err *err);

/* Safetensors: the index (*same_index: it is the source's, byte for byte) and the strings in the headers. */
WN_CHECKED bool wn_verify_shards(const struct wn_source *source, const struct wn_source *out, bool same_index,
                                 struct wn_err *err);
/* That out has no tensor but those of names[n], which are sorted on the way; the first other one is named. */
WN_CHECKED bool wn_verify_no_others(const struct wn_source *out, const char **names, size_t n, struct wn_err *err);
/* That no byte of out lies outside headers, tensors and padding. */
WN_CHECKED bool wn_verify_nothing_else(const struct wn_source *out, struct wn_err *err);

/*
 * Folders, and GGUFs of an architecture of ours: the model opens, every part has its shape, and counts and special ids
 * agree. Other GGUFs: the expert count is what the tensors have.
 */
WN_CHECKED bool wn_verify_alone(const char *path, const struct wn_job *job, struct wn_verify_result *r,
                                struct wn_err *err);

/* What was seen of scales so far. All zero but for the job is a start. */
struct wn_scales {
    const struct wn_job *job;
    const struct wn_keep_tensor *tensor; /* the last one with such a scale, ... */
    uint32_t expert;                     /* ... its new expert (WN_DROPPED: none) ... */
    uint64_t here;                       /* ... and how many it has */
    uint64_t notes, all;                 /* matrices, scales */
};

/* Bytes at .. at + n - 1 of t in the output; whatever is no MXFP4 is passed over. */
void wn_scales_look(struct wn_scales *s, const struct wn_keep_tensor *t, uint64_t at, const uint8_t *bytes, size_t n);
/* Says what is left to say. */
void wn_scales_end(struct wn_scales *s);

/* To a failure with what opened at path is added that it is unfinished, if it is and that was not said yet. */
void wn_verify_tell_unfinished(const char *path, struct wn_err *err);

#endif
