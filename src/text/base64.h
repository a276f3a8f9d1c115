/*
 * Base64 by RFC 4648, strictly: the standard alphabet, padding always there, unused bits zero, nothing else in between.
 * Each byte string then has exactly one spelling.
 *
 * Not libcrypto: its decoder takes white space around it and unused bits that are set, and counts padding as bytes.
 */
#ifndef WN_TEXT_BASE64_H
#define WN_TEXT_BASE64_H

#include "base/bytes.h"

/* Decodes s to out (room: s.n / 4 * 3 bytes) and sets *n; false when s is not strict base64, out then being unset. */
WN_CHECKED bool wn_base64_decode(struct wn_bytes s, char *out, size_t *n);

#endif
