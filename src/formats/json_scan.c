/* See json_scan.h. RFC 8259, read from left to right without looking back. */
#include "formats/json_scan.h"
#include "base/utf8.h"

#include <stdio.h>

#define DEPTH_MAX 64

static bool wanted(struct wn_json *j, const char *what)
{
    char found[16] = "the end";

    if (j->at < j->end) {
        unsigned char c = (unsigned char)*j->at;

        (void)snprintf(found, sizeof found, c > ' ' && c < 0x7f ? "'%c'" : "byte 0x%02x", c);
    }
    return wn_fail(j->err, WN_ERR_FORMAT, "JSON at byte %zu: wanted %s, found %s", (size_t)(j->at - j->text), what,
                   found);
}

static void skip_space(struct wn_json *j)
{
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\n' || *j->at == '\r' || *j->at == '\t'))
        j->at++;
}

bool wn_json_take(struct wn_json *j, char c)
{
    char what[4] = {'\'', c, '\'', '\0'};

    skip_space(j);
    if (j->at == j->end || *j->at != c)
        return wanted(j, what);
    j->at++;
    return true;
}

bool wn_json_more(struct wn_json *j, char close, bool *first, bool *more)
{
    char what[] = "',' or '?'";

    skip_space(j);
    *more = !(j->at < j->end && *j->at == close);
    if (!*more) {
        j->at++;
        return true;
    }
    what[8] = close;
    if (!*first && (j->at == j->end || *j->at != ','))
        return wanted(j, what);
    if (!*first)
        j->at++;
    *first = false;
    return true;
}

static bool hex4(struct wn_json *j, uint32_t *v)
{
    *v = 0;
    for (int i = 0; i < 4; i++, j->at++) {
        char c = j->at < j->end ? *j->at : '\0';
        uint32_t digit;

        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            digit = (uint32_t)((c | 0x20) - 'a') + 10;
        else
            return wanted(j, "four hexadecimal digits");
        *v = *v << 4 | digit;
    }
    return true;
}

/* Behind "\u": one escape, or two for a character beyond U+FFFF. */
static bool unicode_escape(struct wn_json *j, char **out)
{
    uint32_t code, low;

    if (!hex4(j, &code))
        return false;
    if (code == 0)
        return wanted(j, "a string without NUL");
    if (code >= 0xdc00 && code <= 0xdfff)
        return wanted(j, "a high surrogate before a low one");
    if (code >= 0xd800 && code <= 0xdbff) {
        if (j->end - j->at < 2 || j->at[0] != '\\' || j->at[1] != 'u')
            return wanted(j, "a low surrogate");
        j->at += 2;
        if (!hex4(j, &low))
            return false;
        if (low < 0xdc00 || low > 0xdfff)
            return wanted(j, "a low surrogate");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    *out += wn_utf8_encode(code, *out);
    return true;
}

/* At a backslash. What it stands for is never longer than the escape, so writing cannot catch up with reading. */
static bool escape(struct wn_json *j, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *which;

    j->at++;
    if (j->at < j->end && *j->at == 'u') {
        j->at++;
        return unicode_escape(j, out);
    }
    which = j->at < j->end && *j->at ? strchr(from, *j->at) : NULL;
    if (!which)
        return wanted(j, "an escape");
    *(*out)++ = to[which - from];
    j->at++;
    return true;
}

static bool plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* One character that is not plain, to *out. */
static bool special(struct wn_json *j, char **out)
{
    uint32_t code;
    size_t n;

    if (*j->at == '\\')
        return escape(j, out);
    n = (unsigned char)*j->at < 0x20 ? 0 : wn_utf8_decode(j->at, (size_t)(j->end - j->at), &code);
    if (n == 0)
        return wanted(j, "UTF-8 without control characters");
    memmove(*out, j->at, n);
    *out += n;
    j->at += n;
    return true;
}

bool wn_json_string(struct wn_json *j, struct wn_bytes *s)
{
    char *from, *out;

    if (!wn_json_take(j, '"'))
        return false;
    from = j->at;
    while (j->at < j->end && plain((unsigned char)*j->at))
        j->at++;
    out = j->at;
    while (j->at < j->end && *j->at != '"') {
        if (plain((unsigned char)*j->at))
            *out++ = *j->at++;
        else if (!special(j, &out))
            return false;
    }
    if (j->at == j->end)
        return wanted(j, "the end of a string");
    j->at++;
    *out = '\0';
    *s = (struct wn_bytes){from, (size_t)(out - from)};
    return true;
}

bool wn_json_object(struct wn_json *j, wn_json_member *member, void *arg)
{
    struct wn_bytes key;
    bool first = true, more;

    if (!wn_json_take(j, '{'))
        return false;
    for (;;) {
        if (!wn_json_more(j, '}', &first, &more))
            return false;
        if (!more)
            return true;
        if (!wn_json_string(j, &key) || !wn_json_take(j, ':') || !member(arg, key))
            return false;
    }
}

static bool digit_at(const struct wn_json *j)
{
    return j->at < j->end && *j->at >= '0' && *j->at <= '9';
}

bool wn_json_u64(struct wn_json *j, uint64_t *v)
{
    const char *from;

    skip_space(j);
    from = j->at;
    for (*v = 0; digit_at(j); j->at++) {
        uint64_t digit = (uint64_t)(*j->at - '0');

        if (*v > (UINT64_MAX - digit) / 10)
            return wanted(j, "a number below 2^64");
        *v = *v * 10 + digit;
    }
    if (j->at == from || (*from == '0' && j->at - from > 1))
        return wanted(j, "a whole number");
    if (j->at < j->end && (*j->at == '.' || (*j->at | 0x20) == 'e'))
        return wanted(j, "a whole number");
    return true;
}

static bool digits(struct wn_json *j)
{
    if (!digit_at(j))
        return wanted(j, "a digit");
    while (digit_at(j))
        j->at++;
    return true;
}

static bool skip_number(struct wn_json *j)
{
    if (*j->at == '-')
        j->at++;
    if (j->at < j->end && *j->at == '0')
        j->at++;
    else if (!digits(j))
        return false;
    if (j->at < j->end && *j->at == '.') {
        j->at++;
        if (!digits(j))
            return false;
    }
    if (j->at < j->end && (*j->at | 0x20) == 'e') {
        j->at++;
        if (j->at < j->end && (*j->at == '+' || *j->at == '-'))
            j->at++;
        return digits(j);
    }
    return true;
}

static bool skip_word(struct wn_json *j)
{
    static const char *const words[] = {"true", "false", "null"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i]);

        if ((size_t)(j->end - j->at) >= n && memcmp(j->at, words[i], n) == 0) {
            j->at += n;
            return true;
        }
    }
    return wanted(j, "a value");
}

static bool skip_value(struct wn_json *j, int depth);

static bool skip_members(struct wn_json *j, char close, int depth)
{
    struct wn_bytes key;
    bool first = true, more;

    j->at++;
    for (;;) {
        if (!wn_json_more(j, close, &first, &more))
            return false;
        if (!more)
            return true;
        if (close == '}' && (!wn_json_string(j, &key) || !wn_json_take(j, ':')))
            return false;
        if (!skip_value(j, depth + 1))
            return false;
    }
}

static bool skip_value(struct wn_json *j, int depth)
{
    struct wn_bytes s;

    skip_space(j);
    if (depth > DEPTH_MAX)
        return wanted(j, "brackets at most 64 deep");
    if (j->at == j->end)
        return wanted(j, "a value");
    if (*j->at == '"')
        return wn_json_string(j, &s);
    if (*j->at == '{')
        return skip_members(j, '}', depth);
    if (*j->at == '[')
        return skip_members(j, ']', depth);
    if (*j->at == '-' || digit_at(j))
        return skip_number(j);
    return skip_word(j);
}

bool wn_json_skip(struct wn_json *j)
{
    return skip_value(j, 0);
}

bool wn_json_end(struct wn_json *j)
{
    skip_space(j);
    return j->at == j->end || wanted(j, "the end");
}
