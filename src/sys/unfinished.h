/*
 * The .part files that this process is writing, so that a program which must die at once can still remove them:
 * wn_remove_unfinished of <winnow/job.h>.
 */
#ifndef WN_SYS_UNFINISHED_H
#define WN_SYS_UNFINISHED_H

#include <winnow/error.h>

struct wn_unfinished;

/* From now on the file is removed with the others. NULL on failure. Any thread. */
WN_CHECKED struct wn_unfinished *wn_unfinished_note(const char *path, struct wn_err *err);
/* It is not ours any more; NULL does nothing. */
void wn_unfinished_forget(struct wn_unfinished *u);

#endif
