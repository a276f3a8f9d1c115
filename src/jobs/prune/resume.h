/*
 * The journal of a prune: which files of the output are complete. A run that was killed, or failed, is taken up behind
 * them. The form is in docs/formats/provenance.md.
 */
#ifndef WN_JOBS_PRUNE_RESUME_H
#define WN_JOBS_PRUNE_RESUME_H

#include "jobs/prune/seal.h"

struct wn_resume {
    bool on;
    char *path;                        /* owned */
    uint8_t identity[WN_DIGEST_BYTES]; /* of what is made, see wn_resume_read */
    uint8_t chain[WN_DIGEST_BYTES];    /* digest of the last line and those before it */
    uint64_t bytes;                    /* of good lines */
    uint32_t taken;                    /* files that they tell of, and that are there as told */
    struct wn_appended log;            /* from the first file that is added on */
};

/*
 * Reads what an earlier run left beside the output of `dry`, if its identity (digest of all that decides which bytes
 * are made) is this one. Fills the record's digests of the files taken, when it takes any.
 *
 *   strict   the source has given its bytes away: a journal that is missing, of another identity, or that tells of a
 *            file that is not as told, fails instead of being passed over
 */
WN_CHECKED bool wn_resume_read(struct wn_resume *r, const struct wn_sink *dry, enum wn_container container,
                               const uint8_t identity[WN_DIGEST_BYTES], struct wn_seal *seal, bool strict,
                               struct wn_err *err);
/* A journal lies beside the output of `dry`, whoever's it is. */
bool wn_resume_is_left(const struct wn_sink *dry, enum wn_container container);
/*
 * Reads a journal that is there. *placed: it is of this identity, and tells of all files of the output, each of which
 * has its name and is as told: the run that wrote it was killed when nothing was left to do but to remove it.
 */
WN_CHECKED bool wn_resume_read_placed(struct wn_resume *r, const struct wn_sink *dry, enum wn_container container,
                                      const uint8_t identity[WN_DIGEST_BYTES], bool *placed, struct wn_err *err);
/* A file is complete; its digests are in the record. On the disk when this returns. */
WN_CHECKED bool wn_resume_add(struct wn_resume *r, uint32_t file, const char *part, const struct wn_seal *seal,
                              struct wn_err *err);
/* The output has its name. */
void wn_resume_remove(struct wn_resume *r);
void wn_resume_release(struct wn_resume *r);

#endif
