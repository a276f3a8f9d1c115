/*
 * What an output says of itself: SHA-256 of its files, XXH3-128 of its experts, and where it comes from.
 * docs/formats/provenance.md is the form. Digests are taken on the way (jobs/hashing.h); a file's stand when it is
 * complete.
 */
#ifndef WN_JOBS_PRUNE_SEAL_H
#define WN_JOBS_PRUNE_SEAL_H

#include "formats/sink.h"
#include "jobs/hashing.h"
#include "jobs/prune/keep.h"
#include <winnow/prune.h>

#define WN_SEAL_NAME "winnow.json" /* in a folder; beside a GGUF: NAME.winnow.json */
#define WN_CARD_NAME "README.md"   /* may be written anew beside a model: it is no part of it */

/* Bytes of one expert in one tensor. */
struct wn_expert_part {
    struct wn_hash_part where;
    uint32_t file, layer, expert;
};

/* All parts of all experts, by file and offset. */
struct wn_expert_parts {
    struct wn_expert_part *part; /* owned */
    size_t n, room;
};
/* at(arg, i): tensor i of n, in file order, its `at` from the start of the file. */
typedef struct wn_tensor wn_tensor_fn(const void *arg, size_t i);
WN_CHECKED bool wn_expert_parts_find(struct wn_expert_parts *p, enum wn_container container, size_t n, wn_tensor_fn *at,
                                     const void *arg, struct wn_err *err);
/* The parts of one file: [*first, *end). */
void wn_expert_parts_of(const struct wn_expert_parts *p, uint32_t file, size_t *first, size_t *end);
void wn_expert_parts_release(struct wn_expert_parts *p);

/* An expert's digest is that of the digests of its parts, in file order. */
struct wn_expert_digest {
    uint32_t layer, expert;
    uint8_t digest[WN_CHECKSUM_BYTES];
};
/* Of all experts, by layer and number; free it. digest: [p->n][WN_CHECKSUM_BYTES]. */
WN_CHECKED struct wn_expert_digest *wn_expert_digests(const struct wn_expert_parts *p, const uint8_t *digest, size_t *n,
                                                      struct wn_err *err);

/* The digests of an output that is being written. All zero: none are taken. */
struct wn_seal {
    bool on;
    struct wn_expert_parts parts;
    uint8_t *part_digest; /* [parts.n][WN_CHECKSUM_BYTES]; owned */
    uint8_t *file_digest; /* [files][WN_DIGEST_BYTES]; owned */
    uint32_t files;
    /* The file that is being written: */
    struct wn_hashing *hashing;
    struct wn_hash_part *some; /* of its experts; owned */
    uint32_t file;
};
/* sink: begun, a dry run will do; all its files and tensors are known then. */
WN_CHECKED bool wn_seal_init(struct wn_seal *r, const struct wn_sink *sink, enum wn_container container,
                             struct wn_err *err);
/* The most memory that it takes besides what init took. */
uint64_t wn_seal_memory(const struct wn_seal *r);
/* That much of a file is written. */
WN_CHECKED bool wn_seal_follow(struct wn_seal *r, const struct wn_sink *sink, struct wn_err *err);
/* A file is complete, as `part`: its digests stand when this returns. */
WN_CHECKED bool wn_seal_complete(struct wn_seal *r, const struct wn_sink *sink, uint32_t file, const char *part,
                                 struct wn_err *err);
void wn_seal_release(struct wn_seal *r);

/* What the record tells besides digests. */
struct wn_origin {
    const struct wn_prune_options *o;
    const struct wn_source *source, *low; /* low: the second parent, or NULL */
    const struct wn_means *means;         /* of ghosts, or NULL */
    const char *made;                     /* "copy", "gguf", "mlx" */
};
struct wn_folder;
/*
 * The text of it, appended to out. beside, n: paths of other files, complete, under names that end in .part; config:
 * NULL, or what config.json will hold.
 */
WN_CHECKED bool wn_seal_text(const struct wn_seal *r, const struct wn_sink *sink, const struct wn_origin *from,
                             const char *const *beside, size_t n, const struct wn_buf *config, struct wn_buf *out,
                             struct wn_err *err);

/* The record's name: that of the folder, or of the GGUF whose first file that is. Free it. */
WN_CHECKED char *wn_seal_name(enum wn_container container, const char *first_file, struct wn_err *err);

/*
 * Holds what the record of an open model says against its files. *has_record: there is one. The first difference is
 * WN_ERR_DIFFERENT, with file, layer and expert.
 */
WN_CHECKED bool wn_seal_check(const struct wn_source *out, const struct wn_job *job, bool *has_record,
                              struct wn_verify_result *r, struct wn_err *err);

#endif
