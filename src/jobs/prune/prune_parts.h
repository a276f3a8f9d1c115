/*
 * The parts of a prune: what is worked out and refused before anything is written (prune.c), whether there is room for
 * it (prune_space.c) or nothing left to do (prune_finished.c), and the writing (prune_write.c).
 */
#ifndef WN_JOBS_PRUNE_PRUNE_PARTS_H
#define WN_JOBS_PRUNE_PRUNE_PARTS_H

#include "formats/sink.h"
#include "jobs/prune/consume.h"
#include "jobs/prune/means.h"
#include "jobs/prune/prune_folder.h"
#include "jobs/prune/prune_meta.h"
#include "jobs/convert/recast.h"
#include "jobs/prune/seal.h"
#include "jobs/prune/resume.h"

struct wn_pruning {
    const struct wn_prune_options *o;
    const struct wn_job *job;
    struct wn_source *source, *low; /* low: a second parent, or NULL; owned */
    struct wn_means *means;         /* of ghosts; owned */
    struct wn_keep keep;
    struct wn_prune_kv kv;
    struct wn_prune_later later; /* records, when the files are the source's */
    const char **names;          /* owned array; of the source's shards, when the output has the same */
    struct wn_folder folder;
    uint32_t files;
    bool recast;               /* the output is another container: */
    struct wn_recast_out made; /* what it will hold */
    struct wn_recast_side side;
    struct wn_pool *pool; /* owned when the options bring none */
    struct wn_sink *sink;
    uint64_t done, told, total; /* bytes copied, when progress was last told, all */
    uint64_t done_before;       /* of them by an earlier run */
    size_t tensor;              /* recast: the next one of the walk */
    char *seal_name;            /* of what tells the digests; owned */
    struct wn_seal seal;
    struct wn_resume resume;
    struct wn_consume consume;
    bool finished; /* the output is complete already, see wn_pruning_find_finished */
};

/* The source's container, and the output's. */
bool wn_pruning_is_gguf(const struct wn_pruning *p);
bool wn_pruning_makes_gguf(const struct wn_pruning *p);
enum wn_container wn_pruning_container(const struct wn_pruning *p);
/* Bytes of the index beside a folder's shards; 0: there is none. */
uint64_t wn_pruning_index_bytes(const struct wn_pruning *p);

/* A sink with everything declared and begun, so that its sizes are known. What is not a dry run is p->sink too. */
WN_CHECKED struct wn_sink *wn_pruning_begin_sink(struct wn_pruning *p, bool dry_run, struct wn_err *err);
/* Digest of all that decides which bytes are made. */
WN_CHECKED bool wn_pruning_identity(const struct wn_pruning *p, const struct wn_sink *dry,
                                    uint8_t digest[WN_DIGEST_BYTES], struct wn_err *err);
/*
 * Sets p->finished: the output of `dry` has its names and is what this command makes, by the journal of an earlier run
 * that was killed before it could remove it. p->resume is that journal then, which goes with all else that was left in
 * the second; a dry run only tells so. Or, without a journal, by its record and the mark of a source that was consumed
 * for it.
 */
WN_CHECKED bool wn_pruning_find_finished(struct wn_pruning *p, const struct wn_sink *dry, struct wn_err *err);
WN_CHECKED bool wn_pruning_tidy(struct wn_pruning *p, const struct wn_sink *dry, struct wn_err *err);
WN_CHECKED bool wn_pruning_check_space(const struct wn_pruning *p, const struct wn_sink *dry, struct wn_err *err);
WN_CHECKED bool wn_pruning_write(struct wn_pruning *p, struct wn_err *err);

#endif
