/*
 * A source that gives its bytes away as the output becomes durable, for disks that cannot hold both. What goes is only
 * what complete, hashed and journalled files were made of (jobs/prune/resume.h); headers stay, so that a killed run can
 * be taken up. A mark beside the source keeps everybody else from reading zeros for weights.
 */
#ifndef WN_JOBS_PRUNE_CONSUME_H
#define WN_JOBS_PRUNE_CONSUME_H

#include "jobs/prune/keep.h"
#include <winnow/job.h>

struct wn_consume {
    bool on;
    bool begun;                 /* an earlier run has given bytes away, or this one has */
    char *mark;                 /* owned; its path */
    char *out;                  /* real path of the output; owned */
    const struct wn_keep *keep; /* borrowed */
    uint32_t *last;             /* [source files] the last output file that takes from it; owned */
};

/*
 * Refuses what is not the source's alone (links, other names of a file), file systems that cannot give back a part of a
 * file, and a mark for another output. Nothing is given away yet. recast: the output is made and not copied, which is
 * refused.
 */
WN_CHECKED bool wn_consume_init(struct wn_consume *c, const struct wn_keep *keep, const char *out, bool recast,
                                struct wn_err *err);
/* That file of the output is durable and told so in the journal. Can be called again. */
WN_CHECKED bool wn_consume_file(struct wn_consume *c, uint32_t file, struct wn_err *err);
/* The output has its name. */
WN_CHECKED bool wn_consume_end(const struct wn_consume *c, const struct wn_job *job, struct wn_err *err);
void wn_consume_release(struct wn_consume *c);

#endif
