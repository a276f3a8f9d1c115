/*
 * Outputs that get their names together. One rename is a single step, several are not: a run that is killed between
 * them leaves half of a thing under its names. So a journal lies beside them from before the first rename to after the
 * last. By it the next run knows which of the files there are its own, and puts everything back to where it was before.
 */
#ifndef WN_SYS_PLACE_H
#define WN_SYS_PLACE_H

#include "sys/file.h"

/* One name. The struct is the caller's, what it points to borrowed. */
struct wn_placing {
    const char *path;        /* the name; all are in one folder */
    struct wn_outfile *file; /* what gets it, complete; NULL: what stands there goes */
    bool aside, placed;      /* how far it is */
};

/*
 * Gives all of the files their names, in this order. What stood there (only with overwrite) is kept as NAME.old.part
 * until all of them have theirs, and has gone aside, in the opposite order, before the first does: never do old and new
 * stand side by side. Failing, it leaves what had stood there, and of the new files none.
 *
 *   journal   its path, in the same folder; one file alone needs none and gets none
 */
WN_CHECKED bool wn_place(const char *journal, struct wn_placing *p, size_t n, bool overwrite, struct wn_err *err);

/*
 * Where a killed run left its journal: new files are called .part again, old ones have their names again, the journal
 * goes. WN_ERR_IO when another process is at it right now. Does nothing where there is no journal.
 */
WN_CHECKED bool wn_place_back(const char *journal, struct wn_err *err);

#endif
