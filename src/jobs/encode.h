/*
 * Text to ids, a window of it at a time: the ids are those of the whole text (text/split.h), and what encoding needs
 * does not grow with it.
 */
#ifndef WN_JOBS_ENCODE_H
#define WN_JOBS_ENCODE_H

#include "jobs/lines.h"
#include <winnow/vocab.h>

/* The next n ids, made from so many bytes of the text; false ends the encoding, err then telling why. */
typedef bool wn_take_ids_fn(void *arg, const uint32_t *ids, size_t n, size_t bytes, struct wn_err *err);

/* All of text. No special token comes out of it. */
WN_CHECKED bool wn_encode_text(const struct wn_vocab *v, struct wn_bytes text, wn_take_ids_fn *take, void *arg,
                               struct wn_err *err);
/* All that l has left. */
WN_CHECKED bool wn_encode_rest(const struct wn_vocab *v, struct wn_lines *l, wn_take_ids_fn *take, void *arg,
                               struct wn_err *err);

/* Memory that making ids of so many bytes takes at most. A token covers a byte or more; arrays grow by doubling. */
#define WN_ENCODE_BYTES_PER_BYTE 9

#endif
