/* See edited_json.h. */
#include "edited_json.h"
#include "sys/file.h"
#include "wn_test.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

char *file_text(const char *path, size_t *n)
{
    struct wn_err err;
    char *text = wn_file_slurp(path, 1 << 20, n, &err);

    if (!text)
        fail_msg("%s", err.msg);
    return text;
}

char *edited_json(const char *json, const char *path, const char *value)
{
    json_t *root = json_loads(json, 0, NULL), *o = root;
    char steps[128], *key = steps, *dot, *text;

    assert_non_null(root);
    assert_true(strlen(path) < sizeof(steps));
    strcpy(steps, path);
    while ((dot = strchr(key, '.')) != NULL) {
        *dot = '\0';
        o = json_object_get(o, key);
        assert_non_null(o);
        key = dot + 1;
    }
    if (value)
        assert_int_equal(json_object_set_new(o, key, json_loads(value, JSON_DECODE_ANY, NULL)), 0);
    else
        assert_int_equal(json_object_del(o, key), 0);
    text = json_dumps(root, JSON_COMPACT);
    assert_non_null(text);
    json_decref(root);
    return text;
}
