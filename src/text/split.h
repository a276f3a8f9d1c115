/*
 * What happens to text before merging: it is cut where Kimi's tokenizer cuts, and split into pieces by its pattern
 * (docs/formats/tokenizer.md).
 *
 * Everything here counts characters of valid UTF-8. Bytes that are none are first masked: wn_split_mask gives a text of
 * the same length, in which each of them is the control character 01, which the pattern treats as it should treat them
 * (no space, no letter, no number). So offsets hold for both texts, and pieces are taken from the original.
 */
#ifndef WN_TEXT_SPLIT_H
#define WN_TEXT_SPLIT_H

#include "base/bytes.h"

/*
 * A copy of text (free it) with its invalid bytes masked; or *masked = NULL when text is valid and serves as it is.
 */
WN_CHECKED bool wn_split_mask(struct wn_bytes text, char **masked, struct wn_err *err);

/* Python's str.isspace, which the cuts go by: White_Space and the four separators 1C..1F. */
bool wn_is_space(uint32_t code);

/* Walks over the parts that are encoded each for itself. text must be valid UTF-8; it is borrowed. */
struct wn_cuts {
    struct wn_bytes text;
    size_t at;          /* start of the next part, in bytes */
    size_t window_left; /* characters until the next cut at a multiple of 400,000 */
};

static inline struct wn_cuts wn_cuts_of(struct wn_bytes text)
{
    return (struct wn_cuts){.text = text};
}

/*
 * Bytes of text (any bytes) up to the cut that depends on nothing behind it: 400,000 characters, or all. Windows that
 * are encoded each for itself give the ids of the whole.
 */
size_t wn_cuts_window(struct wn_bytes text);
#define WN_WINDOW_BYTES ((size_t)1600000) /* the most that it answers */

/* The next part; false behind the last one. Parts are never empty. */
bool wn_cuts_next(struct wn_cuts *c, struct wn_bytes *part);

/* The compiled pattern. Read-only; any number of threads may share it. */
struct wn_pattern;

/* jit: compile to machine code where pcre2 can; the pieces are the same without. */
WN_CHECKED struct wn_pattern *wn_pattern_new(bool jit, struct wn_err *err);
void wn_pattern_free(struct wn_pattern *p);

/* One thread's matching over a pattern, which must outlive it. */
struct wn_split {
    const struct wn_pattern *pattern;
    void *match; /* owned; pcre2's match data */
};

WN_CHECKED bool wn_split_init(struct wn_split *s, const struct wn_pattern *p, struct wn_err *err);
void wn_split_release(struct wn_split *s);

/* Bytes of the piece at the start of text, which is valid UTF-8 and not empty; 0 on failure. */
WN_CHECKED size_t wn_split_piece(struct wn_split *s, struct wn_bytes text, struct wn_err *err);

#endif
