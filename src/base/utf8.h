/*
 * UTF-8 by RFC 3629: no surrogates, no overlong forms, at most U+10FFFF.
 */
#ifndef WN_BASE_UTF8_H
#define WN_BASE_UTF8_H

#include <winnow/common.h>

/*
 * Looks at the character that starts at s[0], with n > 0 bytes to hand. Returns its length 1..4 and sets *code; or 0
 * when s does not start a valid character, *code then being 0xfffd.
 */
size_t wn_utf8_decode(const char *s, size_t n, uint32_t *code);

/* True when s[n] is whole valid characters from end to end. */
bool wn_utf8_is_valid(const char *s, size_t n);

/*
 * How many bytes at the end of s are the start of a character that more bytes could complete: 0..3. What a streaming
 * writer holds back.
 */
size_t wn_utf8_tail(const char *s, size_t n);

/* Writes code's UTF-8 form to out[4]; returns its length. code must be a valid scalar value. */
size_t wn_utf8_encode(uint32_t code, char out[4]);

#endif
