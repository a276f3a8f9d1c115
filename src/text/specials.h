/*
 * The special tokens' names, for finding them in text. Read-only once made; any number of threads may look.
 */
#ifndef WN_TEXT_SPECIALS_H
#define WN_TEXT_SPECIALS_H

#include "base/bytes.h"

struct wn_special {
    struct wn_bytes name; /* borrowed; valid UTF-8, not empty */
    uint32_t id;
};

struct wn_specials {
    struct wn_special *at; /* owned; sorted by name once wn_specials_sort has run */
    size_t n;
    bool starts[256]; /* bytes that some name starts with */
};

/* An empty list with room for n. */
WN_CHECKED bool wn_specials_init(struct wn_specials *s, size_t n, struct wn_err *err);
void wn_specials_release(struct wn_specials *s);

/* Appends within the room. */
void wn_specials_add(struct wn_specials *s, struct wn_bytes name, uint32_t id);

/* Call once, after the last add. A name that occurs twice is an error, naming both ids. */
WN_CHECKED bool wn_specials_sort(struct wn_specials *s, struct wn_err *err);

/* The one with this name, or NULL. */
const struct wn_special *wn_specials_find(const struct wn_specials *s, struct wn_bytes name);

/* The leftmost name in text (the longest of those that start there) and its offset; or NULL, *at then being text.n. */
const struct wn_special *wn_specials_search(const struct wn_specials *s, struct wn_bytes text, size_t *at);

#endif
