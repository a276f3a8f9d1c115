/*
 * A vocabulary from tokens that are in memory: what the model floor makes of a GGUF's metadata (text knows no formats).
 */
#ifndef WN_TEXT_VOCAB_NEW_H
#define WN_TEXT_VOCAB_NEW_H

#include "base/bytes.h"
#include "text/merge.h"
#include <winnow/vocab.h>

enum wn_token_kind { WN_TOKEN_NORMAL, WN_TOKEN_SPECIAL, WN_TOKEN_UNUSED };

/*
 * tokens [n]: raw bytes (GPT-2 spelled: see wn_gpt2_unspell), kinds [n]. Normal tokens' ids are their merge ranks.
 * Bytes are copied. A normal token that occurs twice, an empty one, or a missing single byte is an error naming the id.
 *
 * Special and unused ids are special tokens alike. A special token's bytes are its name, in UTF-8; two of the same name
 * are an error. An unused id is named <|reserved_token_ID|> as in Kimi's tokenizer, whatever its bytes (a GGUF has
 * "[PAD163592]"), so that the same model has the same vocabulary in every format.
 */
WN_CHECKED struct wn_vocab *wn_vocab_new(const struct wn_bytes *tokens, const enum wn_token_kind *kinds, uint32_t n,
                                         struct wn_err *err);

/*
 * From the bytes of the two files, for tests and fuzzing. config may be NULL: no special tokens; otherwise 256 ids for
 * them follow the ranks.
 */
WN_CHECKED struct wn_vocab *wn_vocab_parse(const char *tiktoken, size_t tiktoken_n, const char *config, size_t config_n,
                                           struct wn_err *err);

/*
 * GPT-2's spelling of bytes as printable characters, undone: out has room for s.n bytes; false when s has a character
 * that spells no byte.
 */
WN_CHECKED bool wn_gpt2_unspell(struct wn_bytes s, char *out, size_t *out_n);
/* And done: out has room for 2 * s.n bytes; returns how many were written. */
size_t wn_gpt2_spell(struct wn_bytes s, char *out);

/*
 * The merge that makes token id, as a GGUF lists them in the order of ids: its first part has *left bytes; 0: there is
 * none (special tokens, single bytes). m: scratch, all zero at first.
 */
WN_CHECKED bool wn_vocab_merge_of(const struct wn_vocab *v, struct wn_merge *m, uint32_t id, size_t *left,
                                  struct wn_err *err);

#endif
