/*
 * Text and token ids given on the command line or on standard input.
 */
#ifndef WN_CLI_TEXT_ARG_H
#define WN_CLI_TEXT_ARG_H

#include <winnow/error.h>

/*
 * A copy of arg, or all of standard input when it is "-". free() it; NULL on failure. *n bytes, which may hold NULs,
 * and a NUL behind them.
 */
char *text_argument(const char *arg, size_t *n, struct wn_err *err);

/*
 * "1,2,3" (spaces and brackets are fine), n bytes and a NUL behind them: *ids is a new array, free() it (NULL on
 * failure).
 */
bool ids_argument(const char *arg, size_t n, uint32_t **ids, size_t *count, struct wn_err *err);

#endif
