/*
 * What the tests of the text floor share: golden cases, one JSON object a line; vocabularies; and SHA-256, by which
 * long lists of ids are compared.
 */
#ifndef GOLDEN_H
#define GOLDEN_H

#include "wn_test.h"

#include <jansson.h>
#include <stdio.h>
#include <winnow/vocab.h>

struct golden {
    FILE *file;
    char *line;
    size_t room;
};

/* Opens a file of cases; fails the test when it cannot. */
void golden_open(struct golden *g, const char *path);
/* The next case (json_decref it), or NULL at the end, the file then being closed. */
json_t *golden_next(struct golden *g);

/* The bytes of a case's input, from 'text', 'bytes_b64' or 'repeat'; free it. */
char *golden_input(const json_t *c, size_t *n);
const char *golden_name(const json_t *c);

/* Fails unless ids are what the case wants: 'ids', or 'n_ids', 'first', 'last' and 'ids_sha256'. */
void golden_check_ids(const json_t *c, const uint32_t *ids, size_t n);

/* Goes through a file of cases with this vocabulary; returns how many there were. */
size_t golden_run(const struct wn_vocab *v, const char *path);

/* The small vocabulary of tests/data; the test skips when it is not here. */
struct wn_vocab *golden_vocab(void);

/* Lower-case hexadecimal digits. */
void golden_sha256(const void *bytes, size_t n, char hex[65]);

#endif
