/* See config_json.h. */
#include "model/config_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const json_t *wn_json_get(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);

    return v && !json_is_null(v) ? v : NULL;
}

void wn_json_show(const json_t *v, char out[64])
{
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);

    (void)snprintf(out, 64, "%.60s", text ? text : "?");
    free(text);
}

bool wn_json_wrong(const char *key, const json_t *v, const char *wanted, struct wn_err *err)
{
    char text[64];

    wn_json_show(v, text);
    return wn_fail(err, WN_ERR_FORMAT, "config: '%s' is %s, wanted %s", key, text, wanted);
}

bool wn_json_count(const char *key, const json_t *v, uint32_t *out, struct wn_err *err)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > UINT32_MAX)
        return wn_json_wrong(key, v, "a whole number of 0 .. 4294967295", err);
    *out = (uint32_t)json_integer_value(v);
    return true;
}

bool wn_json_number(const char *key, const json_t *v, float *out, struct wn_err *err)
{
    if (!json_is_number(v) || !isfinite((float)json_number_value(v)))
        return wn_json_wrong(key, v, "a number", err);
    *out = (float)json_number_value(v);
    return true;
}

bool wn_json_flag(const char *key, const json_t *v, bool *out, struct wn_err *err)
{
    if (!json_is_boolean(v))
        return wn_json_wrong(key, v, "true or false", err);
    *out = json_is_true(v);
    return true;
}

bool wn_json_is(const json_t *v, const char *json)
{
    json_t *only = json_loads(json, JSON_DECODE_ANY, NULL);
    bool same = only && json_equal(only, v);

    json_decref(only);
    return same;
}
