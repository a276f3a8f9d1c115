/*
 * Which files of a folder belong to a model that was named by its single safetensors file: whatever else lies there is
 * the user's.
 */
#ifndef WN_JOBS_PRUNE_FOLDER_KNOWN_H
#define WN_JOBS_PRUNE_FOLDER_KNOWN_H

#include <winnow/error.h>

struct wn_known {
    char **code; /* "modeling_x.py": what an auto_map of the configs names, and what that imports; owned */
    size_t n, room;
};

/*
 * Reads the configs in the folder and the code that they name; what is absent, or a config that is no JSON, names
 * nothing. Release it either way.
 */
WN_CHECKED bool wn_known_init(struct wn_known *k, const char *folder, struct wn_err *err);
bool wn_known_has(const struct wn_known *k, const char *name);
void wn_known_release(struct wn_known *k);

#endif
