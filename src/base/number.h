/*
 * Numbers as text that is the same wherever a program that uses the library lives: printf and strtod write and want a
 * comma in half of the world's locales.
 */
#ifndef WN_BASE_NUMBER_H
#define WN_BASE_NUMBER_H

#include <winnow/common.h>

#define WN_NUMBER_BYTES 32

/*
 * The shortest decimal text that reads back as v, which is finite: "2", "0.1", "1e-300". Also a JSON number. Returns
 * out.
 */
const char *wn_number_text(double v, char out[WN_NUMBER_BYTES]);

#define WN_SIZE_TEXT_BYTES 64

/*
 * A size both ways, to be compared with a file's and to be read: "231735296 bytes (232 MB)". The second is three digits
 * rounded up, so that who is told it as enough has enough; below 1000 bytes there is none. Returns out.
 */
const char *wn_size_text(uint64_t bytes, char out[WN_SIZE_TEXT_BYTES]);

#endif
