/*
 * What the files of the store share: the state of a folder (store_folder.c, for store_finished.c), and streams in
 * memory (store_held.c), for the rest of the store.
 */
#ifndef WN_JOBS_STREAM_STORE_PARTS_H
#define WN_JOBS_STREAM_STORE_PARTS_H

#include "jobs/stream/store.h"

#include <jansson.h>

#define WN_STORE_LOCK "winnow.lock"

/* The state that lies in a folder, a new reference; NULL: there is none that can be read. */
json_t *wn_store_state_load(const char *folder, struct wn_err *err);
/* All facts are the state's. */
bool wn_store_state_is_of(json_t *state, const struct wn_store_facts *f);
/* One more line in the state that lies there; value is taken. */
WN_CHECKED bool wn_store_state_set(const struct wn_store *s, const char *key, json_t *value, struct wn_err *err);

/* Streams in memory. All do nothing, and say NULL, when nothing is held. */

/* The stream that is being written is held, too. */
WN_CHECKED bool wn_held_begin(struct wn_store *s, uint32_t layer, struct wn_err *err);
/* Bytes at .. of it. */
void wn_held_write(struct wn_store *s, uint64_t at, const void *src, size_t n);
void wn_held_commit(struct wn_store *s);
/* Its memory is free for the next one. */
void wn_held_drop(struct wn_store *s, uint32_t layer);
/* A stream that is whole; NULL: it is not held. */
const float *wn_held_find(const struct wn_store *s, uint32_t layer);
/* One that an earlier run left in a file is held from now on. */
WN_CHECKED bool wn_held_load(struct wn_store *s, uint32_t layer, const struct wn_file *f, struct wn_err *err);

#endif
