/*
 * What lies in an output's folder though nobody put it there: by name, what loaders would read of it.
 */
#ifndef WN_JOBS_PRUNE_FOLDER_MORE_H
#define WN_JOBS_PRUNE_FOLDER_MORE_H

#include "formats/source.h"

/* Weights in any spelling: gigabytes that are another model, or the same one once more. */
bool wn_name_is_weights(const char *name);

/* Whether a file of that name is known to belong there. */
typedef bool wn_folder_known_fn(const void *arg, const char *name);

/*
 * Of names that are neither weights of `out` nor known: the first that loaders read is WN_ERR_DIFFERENT, "'NAME' " and
 * the complaint. Hidden files, unfinished ones, folders and all others (a card, notes, pictures) may be added; *more is
 * set when there are any. Of GGUFs and single files nothing is said: what lies beside them is the user's.
 */
WN_CHECKED bool wn_folder_check_more(const struct wn_source *out, wn_folder_known_fn *known, const void *arg,
                                     const char *complaint, bool *more, struct wn_err *err);

#endif
