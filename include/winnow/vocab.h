/*
 * The vocabulary: text to ids and back. Byte-level BPE as Kimi's tokenizer has it: a splitting pattern, then merging by
 * lowest rank. Ids of ordinary tokens are their ranks; special tokens have ids of their own.
 *
 * A vocabulary is read-only once made; any number of threads may share it.
 */
#ifndef WINNOW_VOCAB_H
#define WINNOW_VOCAB_H

#include <winnow/error.h>

struct wn_vocab;

/*
 * tiktoken.model and tokenizer_config.json of a model folder. How many ids there are, its config.json says
 * (vocab_size); without one, 256 special tokens follow the ranks. NULL on failure: WN_ERR_IO (a file is not there),
 * WN_ERR_FORMAT (with the line or the id).
 */
WN_API WN_CHECKED struct wn_vocab *wn_vocab_open(const char *folder, struct wn_err *err);
WN_API void wn_vocab_free(struct wn_vocab *v);

/* Ids run 0 .. count - 1. */
WN_API uint32_t wn_vocab_count(const struct wn_vocab *v);

/*
 * Encodes n bytes (any bytes; UTF-8 is not required). *ids is a new array of *count ids; free() it.
 * special: spelled special tokens become their ids; otherwise they are plain text and no special id ever comes out.
 * Fails only for want of memory.
 */
WN_API WN_CHECKED bool wn_vocab_encode(const struct wn_vocab *v, const char *text, size_t n, bool special,
                                       uint32_t **ids, size_t *count, struct wn_err *err);

/* The bytes of one id, borrowed; special tokens give their names. An id outside the vocabulary: NULL and *n = 0. */
WN_API const char *wn_vocab_token(const struct wn_vocab *v, uint32_t id, size_t *n);
WN_API bool wn_vocab_is_special(const struct wn_vocab *v, uint32_t id);
/* The id of a special token by name; false when there is none. */
WN_API WN_CHECKED bool wn_vocab_special(const struct wn_vocab *v, const char *name, uint32_t *id);

/* Concatenated bytes of ids, NUL-terminated; free() it. An id outside the vocabulary is WN_ERR_ARG. */
WN_API WN_CHECKED char *wn_vocab_decode(const struct wn_vocab *v, const uint32_t *ids, size_t count, size_t *n,
                                        struct wn_err *err);

/*
 * Text that comes token by token and goes to people: holds back an incomplete UTF-8 tail until more bytes come, and
 * replaces what stays invalid with U+FFFD. The struct is the caller's; start with all zero.
 */
struct wn_utf8_stream {
    char held[4];
    size_t held_n;
};
/* Takes n bytes, writes valid UTF-8 to out (room: 3 * (n + 4)), returns its length. n = 0: flushes what is held. */
WN_API size_t wn_utf8_stream(struct wn_utf8_stream *s, const char *bytes, size_t n, char *out);

#endif
