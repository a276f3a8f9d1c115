/* See text_arg.h. */
#include "text_arg.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_PIECE ((size_t)1 << 16)
#define TEXT_MAX   ((size_t)1 << 30)

/* All of it, with a NUL behind: each time round there is room for a whole piece and that NUL. */
static char *read_stdin(size_t *n, struct wn_err *err)
{
    char *text = NULL;
    size_t room = 0;

    *n = 0;
    for (;;) {
        char *more;
        size_t got;

        if (room - *n <= READ_PIECE) {
            room = room ? room * 2 : 2 * READ_PIECE;
            more = room > TEXT_MAX ? NULL : realloc(text, room);
            if (!more) {
                wn_fail(err, WN_ERR_NOMEM, "standard input: more than %zu bytes", *n);
                free(text);
                return NULL;
            }
            text = more;
        }
        got = fread(text + *n, 1, READ_PIECE, stdin);
        *n += got;
        if (got == 0)
            break;
    }
    if (ferror(stdin)) {
        wn_fail(err, errno == EINTR ? WN_ERR_CANCELED : WN_ERR_IO, "standard input: %s", strerror(errno));
        free(text);
        return NULL;
    }
    text[*n] = '\0';
    return text;
}

char *text_argument(const char *arg, size_t *n, struct wn_err *err)
{
    char *copy;

    if (strcmp(arg, "-") == 0)
        return read_stdin(n, err);
    *n = strlen(arg);
    copy = strdup(arg);
    if (!copy)
        wn_fail(err, WN_ERR_NOMEM, "out of memory: %zu bytes refused", *n + 1);
    return copy;
}

bool ids_argument(const char *arg, size_t n, uint32_t **ids, size_t *count, struct wn_err *err)
{
    const char *p = arg;
    size_t room = 1;

    *ids = NULL;
    *count = 0;
    if (strlen(arg) != n)
        return wn_fail(err, WN_ERR_ARG, "byte %zu of %zu is a NUL: a list of token ids like 1,2,3 is wanted",
                       strlen(arg) + 1, n);
    for (const char *c = arg; *c; c++)
        room += *c == ',' || isspace((unsigned char)*c);
    *ids = calloc(room, sizeof **ids);
    if (!*ids)
        return wn_fail(err, WN_ERR_NOMEM, "out of memory: %zu ids", room);
    for (;;) {
        char *end;
        unsigned long long v;
        unsigned commas = 0;

        for (; *p == ',' || *p == '[' || *p == ']' || isspace((unsigned char)*p); p++)
            commas += *p == ',';
        if (commas > (*count > 0 && *p)) {
            free(*ids);
            *ids = NULL;
            return wn_fail(err, WN_ERR_ARG, "a comma has no token id on each side (%s %zu id%s): like 1,2,3 is wanted",
                           *p ? "behind" : "at the end, behind", *count, *count == 1 ? "" : "s");
        }
        if (!*p)
            break;
        errno = 0;
        v = strtoull(p, &end, 10);
        if (end == p || *p == '-' || errno != 0 || v > UINT32_MAX ||
            (*end && *end != ',' && *end != ']' && !isspace((unsigned char)*end))) {
            free(*ids);
            *ids = NULL;
            return wn_fail(err, WN_ERR_ARG, "'%.20s' is not a list of token ids like 1,2,3", p);
        }
        (*ids)[(*count)++] = (uint32_t)v;
        p = end;
    }
    return true;
}
