/*
 * The result as one JSON document. Paths, labels and messages may hold any bytes, JSON holds UTF-8: what is none
 * becomes U+FFFD, so that no name can cost the result. Whatever still cannot be told (memory, a number that is none) is
 * a failure with a sentence, never an empty line.
 *
 * A document under construction is NULL once a piece of it could not be made, and stays so: only print_json asks.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <winnow/vocab.h>

json_t *json_bytes(const char *bytes, size_t n)
{
    struct wn_utf8_stream s = {0};
    char *clean = malloc(3 * (n + 8));
    json_t *j;
    size_t m;

    if (!clean)
        return NULL;
    m = wn_utf8_stream(&s, bytes, n, clean);
    m += wn_utf8_stream(&s, "", 0, clean + m);
    j = json_stringn(clean, m);
    free(clean);
    return j;
}

json_t *json_text(const char *text)
{
    return json_bytes(text, strlen(text));
}

json_t *json_add(json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) == 0)
        return array;
    json_decref(array);
    return NULL;
}

json_t *json_put(json_t *object, const char *key, json_t *value)
{
    json_t *clean = json_text(key);
    int bad = !clean || json_object_set_new(object, json_string_value(clean), value) != 0;

    if (!clean)
        json_decref(value);
    json_decref(clean);
    if (!bad)
        return object;
    json_decref(object);
    return NULL;
}

json_t *json_put_record(json_t *j, const char *sha256)
{
    return json_put(j, "record_sha256", *sha256 ? json_text(sha256) : json_null());
}

/* DEL and C1 stand in JSON as they are, and a terminal obeys them; escaped they are the same document. */
static void put_text(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == 0x7f)
            say("\\u%04x", 0x7fu);
        else if (p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
            say("\\u%04x", (unsigned)*++p);
        else
            putchar(*p);
    }
    putchar('\n');
}

int print_json(json_t *j)
{
    char *text = j ? json_dumps(j, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;

    json_decref(j);
    if (!text) {
        talk_end_line();
        complain("winnow: the result cannot be told as JSON: a number in it is none, or memory ran out");
        return EXIT_FAILED;
    }
    put_text(text); /* finish_output sees what failed */
    free(text);
    return finish_output();
}
