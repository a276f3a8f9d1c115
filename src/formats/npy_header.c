/* See npy_header.h. */
#include "formats/npy_header.h"
#include "base/checked.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* More than this in one array is taken for a lie even before the file's size is asked. */
#define BYTES_MAX ((uint64_t)1 << 40)
#define WIDTH_MAX (1u << 24)

static const struct dtype {
    const char *name; /* without byte order */
    enum wn_npy_kind kind;
    enum wn_npy_stored stored;
    uint32_t bytes;
} dtypes[] = {
    {"f8", WN_NPY_F64, WN_NPY_AS_IS, 8},    {"f4", WN_NPY_F32, WN_NPY_AS_IS, 4},
    {"f2", WN_NPY_F32, WN_NPY_FROM_F16, 2}, {"i8", WN_NPY_I64, WN_NPY_AS_IS, 8},
    {"i4", WN_NPY_I32, WN_NPY_AS_IS, 4},    {"i2", WN_NPY_I32, WN_NPY_FROM_I16, 2},
    {"i1", WN_NPY_I32, WN_NPY_FROM_I8, 1},  {"u8", WN_NPY_I64, WN_NPY_FROM_U64, 8},
    {"u4", WN_NPY_I64, WN_NPY_FROM_U32, 4}, {"u2", WN_NPY_I32, WN_NPY_FROM_U16, 2},
    {"u1", WN_NPY_U8, WN_NPY_AS_IS, 1},     {"b1", WN_NPY_BOOL, WN_NPY_AS_IS, 1},
};

uint64_t wn_npy_item_bytes(enum wn_npy_kind kind, uint32_t width)
{
    switch (kind) {
    case WN_NPY_F64:
    case WN_NPY_I64:
        return 8;
    case WN_NPY_F32:
    case WN_NPY_I32:
        return 4;
    case WN_NPY_F16:
        return 2;
    case WN_NPY_U8:
    case WN_NPY_BOOL:
        return 1;
    case WN_NPY_UNICODE:
        return 4 * (uint64_t)width;
    }
    return 0;
}

bool wn_npy_count(uint32_t dims, const uint64_t *shape, uint64_t *elements)
{
    *elements = 1;
    for (uint32_t i = 0; i < dims; i++)
        if (!wn_mul_u64(*elements, shape[i], elements))
            return false;
    return true;
}

/* The text that is still to be read. */
struct cursor {
    const char *at, *end;
};

static void skip_space(struct cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n'))
        c->at++;
}

/* Takes `mark` after any space; false, and nothing but space taken, when something else stands there. */
static bool take(struct cursor *c, char mark)
{
    skip_space(c);
    if (c->at == c->end || *c->at != mark)
        return false;
    c->at++;
    return true;
}

static bool take_word(struct cursor *c, const char *word)
{
    size_t n = strlen(word);

    skip_space(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0)
        return false;
    c->at += n;
    return true;
}

/* A string in single or double quotes, without escapes: numpy needs none. */
static bool take_string(struct cursor *c, struct wn_bytes *s)
{
    char quote = take(c, '\'') ? '\'' : '"';
    const char *close;

    if (quote == '"' && !take(c, '"'))
        return false;
    close = memchr(c->at, quote, (size_t)(c->end - c->at));
    if (!close)
        return false;
    *s = (struct wn_bytes){c->at, (size_t)(close - c->at)};
    c->at = close + 1;
    return memchr(s->at, '\\', s->n) == NULL;
}

/* Decimal digits; false when there are none or the number is too large. */
static bool take_number(struct cursor *c, uint64_t *v)
{
    const char *start;

    skip_space(c);
    start = c->at;
    for (*v = 0; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (!wn_mul_u64(*v, 10, v) || !wn_add_u64(*v, (uint64_t)(*c->at - '0'), v))
            return false;
    return c->at > start;
}

/* (), (3,) or (3, 4); in old files with an L behind each number. */
static bool take_shape(struct cursor *c, struct wn_npy_header *h, struct wn_err *err)
{
    bool comma = true;

    h->dims = 0;
    if (!take(c, '('))
        return wn_fail(err, WN_ERR_FORMAT, "npy header: 'shape' is not a tuple");
    while (!take(c, ')')) {
        uint64_t v;

        if (h->dims == WN_NPY_DIMS)
            return wn_fail(err, WN_ERR_FORMAT, "npy header: more than %d dimensions", WN_NPY_DIMS);
        if (!comma || !take_number(c, &v))
            return wn_fail(err, WN_ERR_FORMAT, "npy header: bad number in 'shape'");
        (void)take_word(c, "L");
        h->shape[h->dims++] = v;
        comma = take(c, ',');
    }
    if (h->dims == 1 && !comma)
        return wn_fail(err, WN_ERR_FORMAT, "npy header: 'shape' is a number in brackets, not a tuple");
    return true;
}

static bool set_unicode(struct wn_npy_header *h, struct wn_bytes digits, struct wn_err *err)
{
    struct cursor c = {digits.at, digits.at + digits.n};
    uint64_t width;

    if (!take_number(&c, &width) || c.at != c.end || width == 0 || width > WIDTH_MAX)
        return wn_fail(err, WN_ERR_FORMAT, "npy header: bad string width in dtype '%s'", h->descr);
    h->known = true;
    h->kind = WN_NPY_UNICODE;
    h->stored = WN_NPY_AS_IS;
    h->width = (uint32_t)width;
    h->item_bytes = 4 * width;
    return true;
}

static bool is_byte_order(uint8_t c)
{
    return c == '<' || c == '>' || c == '|' || c == '=';
}

static bool set_dtype(struct wn_npy_header *h, struct wn_bytes descr, struct wn_err *err)
{
    struct wn_bytes name;

    for (size_t i = 0; i < descr.n && i + 1 < sizeof h->descr; i++)
        h->descr[i] = descr.at[i] >= ' ' && descr.at[i] <= '~' ? descr.at[i] : '?';
    if (descr.n < 2 || !is_byte_order((uint8_t)descr.at[0]))
        return wn_fail(err, WN_ERR_FORMAT, "npy header: '%s' is no dtype", h->descr);
    if (descr.at[0] == '>')
        return wn_fail(err, WN_ERR_FORMAT, "numbers are big-endian ('%s'); save them with astype('<%s')", h->descr,
                       h->descr + 1);
    name = (struct wn_bytes){descr.at + 1, descr.n - 1};
    if (name.at[0] == 'U')
        return set_unicode(h, (struct wn_bytes){name.at + 1, name.n - 1}, err);
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (wn_bytes_is(name, dtypes[i].name)) {
            h->known = true;
            h->kind = dtypes[i].kind;
            h->stored = dtypes[i].stored;
            h->item_bytes = dtypes[i].bytes;
        }
    return true;
}

/* One of the three values. An unknown dtype leaves the rest unread: it may be a structure, a list of lists. */
static bool take_value(struct cursor *c, struct wn_npy_header *h, struct wn_bytes key, unsigned *seen,
                       struct wn_err *err)
{
    static const char *const keys[3] = {"descr", "fortran_order", "shape"};
    unsigned which = 0;
    struct wn_bytes s;

    while (which < 3 && !wn_bytes_is(key, keys[which]))
        which++;
    if (which == 3 || *seen & 1u << which)
        return wn_fail(err, WN_ERR_FORMAT, "npy header: unknown or repeated key '%.*s'", (int)wn_min_size(key.n, 40),
                       key.at);
    *seen |= 1u << which;
    switch (which) {
    case 0:
        if (take(c, '[')) {
            memcpy(h->descr, "[...]", sizeof "[...]");
            return true;
        }
        if (!take_string(c, &s))
            return wn_fail(err, WN_ERR_FORMAT, "npy header: 'descr' is not a string");
        return set_dtype(h, s, err);
    case 1:
        h->fortran = take_word(c, "True");
        if (!h->fortran && !take_word(c, "False"))
            return wn_fail(err, WN_ERR_FORMAT, "npy header: 'fortran_order' is neither True nor False");
        return true;
    default:
        return take_shape(c, h, err);
    }
}

static bool check_sizes(struct wn_npy_header *h, struct wn_err *err)
{
    if (!wn_npy_count(h->dims, h->shape, &h->elements) || !wn_mul_u64(h->elements, h->item_bytes, &h->bytes) ||
        h->bytes > BYTES_MAX)
        return wn_fail(err, WN_ERR_FORMAT, "npy header: the shape asks for more than %" PRIu64 " bytes of '%s'",
                       BYTES_MAX, h->descr);
    return true;
}

bool wn_npy_header_parse(struct wn_npy_header *h, struct wn_bytes text, struct wn_err *err)
{
    struct cursor c = {text.at, text.at + text.n};
    struct wn_bytes key;
    unsigned seen = 0;
    bool comma = true;

    *h = (struct wn_npy_header){0};
    if (!take(&c, '{'))
        return wn_fail(err, WN_ERR_FORMAT, "npy header: no dict");
    while (!take(&c, '}')) {
        if (!comma || !take_string(&c, &key) || !take(&c, ':'))
            return wn_fail(err, WN_ERR_FORMAT, "npy header: bad dict at byte %zu", (size_t)(c.at - text.at));
        if (!take_value(&c, h, key, &seen, err))
            return false;
        if (h->descr[0] && !h->known)
            return true;
        comma = take(&c, ',');
    }
    skip_space(&c);
    if (c.at != c.end)
        return wn_fail(err, WN_ERR_FORMAT, "npy header: something stands behind the dict at byte %zu",
                       (size_t)(c.at - text.at));
    if (seen != 7)
        return wn_fail(err, WN_ERR_FORMAT, "npy header: wanted 'descr', 'fortran_order' and 'shape', one is missing");
    return check_sizes(h, err);
}

struct wn_npy wn_npy_of_header(const struct wn_npy_header *h)
{
    struct wn_npy a = {.kind = h->stored == WN_NPY_FROM_F16 ? WN_NPY_F16 : h->kind,
                       .width = h->width,
                       .dims = h->dims,
                       .elements = h->elements};

    memcpy(a.shape, h->shape, sizeof a.shape);
    return a;
}

/* numpy leaves room for the first dimension to grow to this many digits in place. */
#define GROWTH 21

static bool add_dict(const struct wn_npy *a, struct wn_buf *out, struct wn_err *err)
{
    static const char *const names[] = {
        [WN_NPY_F64] = "<f8", [WN_NPY_F32] = "<f4", [WN_NPY_F16] = "<f2", [WN_NPY_I64] = "<i8",
        [WN_NPY_I32] = "<i4", [WN_NPY_U8] = "|u1",  [WN_NPY_BOOL] = "|b1"};
    bool ok = a->kind == WN_NPY_UNICODE ? wn_buf_printf(out, err, "{'descr': '<U%" PRIu32 "'", a->width)
                                        : wn_buf_printf(out, err, "{'descr': '%s'", names[a->kind]);
    char digits[GROWTH + 1];
    int n;

    ok = ok && wn_buf_printf(out, err, ", 'fortran_order': False, 'shape': (");
    for (uint32_t i = 0; ok && i < a->dims; i++)
        ok = wn_buf_printf(out, err, "%s%" PRIu64, i ? ", " : "", a->shape[i]);
    ok = ok && wn_buf_printf(out, err, "%s), }", a->dims == 1 ? "," : "");
    if (!ok || a->dims == 0)
        return ok;
    n = snprintf(digits, sizeof digits, "%" PRIu64, a->shape[0]);
    return wn_buf_printf(out, err, "%*s", GROWTH - n, "");
}

bool wn_npy_header_make(const struct wn_npy *a, struct wn_buf *out, struct wn_err *err)
{
    size_t start = out->n, length;

    /* the length is filled in when it is known; eight dimensions of 20 digits are far from 64 KiB */
    if (!wn_buf_add(out, "\x93NUMPY\1\0\0\0", 10, err) || !add_dict(a, out, err))
        return false;
    do { /* at least one space, as numpy has it */
        if (!wn_buf_add(out, " ", 1, err))
            return false;
    } while ((out->n - start + 1) % 64 != 0);
    if (!wn_buf_add(out, "\n", 1, err))
        return false;
    length = out->n - start - 10;
    out->at[start + 8] = (char)(length & 255);
    out->at[start + 9] = (char)(length >> 8);
    return true;
}
