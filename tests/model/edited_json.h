/* A JSON text with one value changed, for the many ways in which a config can be wrong. Shared by the model tests. */
#ifndef EDITED_JSON_H
#define EDITED_JSON_H

#include <stddef.h>

/* The whole file, NUL-terminated; free it. Fails the test when it cannot be read. */
char *file_text(const char *path, size_t *n);

/*
 * json with the value at `path` ("text_config.hidden_size"; objects on the way must exist) replaced by the JSON text
 * `value`, or removed when value is NULL. Free it.
 */
char *edited_json(const char *json, const char *path, const char *value);

#endif
