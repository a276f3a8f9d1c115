/*
 * The header of a safetensors file: see safetensors.h. One pass over the text, strict about its schema:
 *
 *     {"name":{"dtype":"BF16","shape":[..],"data_offsets":[begin,end]}, ..., "__metadata__":{"string":"string"}}
 *
 * Keys of an entry may come in any order, each once, and no others. Offsets count from the end of the header. Gaps in
 * the data are legal, overlaps are not.
 */
#include "formats/safetensors.h"
#include "formats/json_scan.h"
#include "base/bits.h"
#include "base/alloc.h"
#include "base/checked.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

struct parse {
    struct wn_json json;
    struct wn_tensor_list *list;
    uint64_t data_at, data_bytes; /* where the data section begins and how long it is */
    uint32_t file;
    struct wn_bytes last_dtype; /* the types of neighbours are mostly the same */
    enum wn_type last_type;
    char **metadata; /* owned until handed over */
    size_t metadata_n, metadata_room;
    bool metadata_seen;
    struct wn_err *err;
};

enum seen { SEEN_DTYPE = 1, SEEN_SHAPE = 2, SEEN_OFFSETS = 4, SEEN_ALL = 7 };

bool wn_safetensors_length(const unsigned char first[8], uint64_t file_bytes, size_t *n, struct wn_err *err)
{
    uint64_t length = wn_load64(first);

    if (length >= WN_SAFETENSORS_HEADER_LIMIT)
        return wn_fail(err, WN_ERR_FORMAT, "a header of %" PRIu64 " bytes: the format's limit is 100000000", length);
    if (!wn_span_fits(8, length, file_bytes))
        return wn_fail(err, WN_ERR_FORMAT, "a header of %" PRIu64 " bytes in a file of %" PRIu64, length, file_bytes);
    *n = (size_t)length;
    return true;
}

static bool parse_dtype(struct parse *p, struct wn_tensor *t)
{
    struct wn_bytes dtype;

    if (!wn_json_string(&p->json, &dtype))
        return false;
    if (!p->last_dtype.at || !wn_bytes_equal(dtype, p->last_dtype)) {
        if (!wn_type_from_safetensors(dtype.at, dtype.n, &p->last_type))
            return wn_fail(p->err, WN_ERR_FORMAT, "unknown dtype '%.32s'", dtype.at);
        p->last_dtype = dtype;
    }
    t->type = p->last_type;
    return true;
}

static bool parse_shape(struct parse *p, struct wn_tensor *t)
{
    bool first = true, more;

    if (!wn_json_take(&p->json, '['))
        return false;
    for (;;) {
        if (!wn_json_more(&p->json, ']', &first, &more))
            return false;
        if (!more)
            return true;
        if (t->dims == WN_DIMS)
            return wn_fail(p->err, WN_ERR_FORMAT, "more than %d dimensions", WN_DIMS);
        if (!wn_json_u64(&p->json, &t->shape[t->dims++]))
            return false;
    }
}

/* Leaves begin in t->at and the length in t->bytes. */
static bool parse_offsets(struct parse *p, struct wn_tensor *t)
{
    struct wn_json *j = &p->json;
    uint64_t begin, end;

    if (!wn_json_take(j, '[') || !wn_json_u64(j, &begin) || !wn_json_take(j, ',') || !wn_json_u64(j, &end) ||
        !wn_json_take(j, ']'))
        return false;
    if (begin > end || end > p->data_bytes)
        return wn_fail(p->err, WN_ERR_FORMAT, "bytes %" PRIu64 " to %" PRIu64 " of a data section of %" PRIu64, begin,
                       end, p->data_bytes);
    t->at = begin;
    t->bytes = end - begin;
    return true;
}

struct entry {
    struct parse *p;
    struct wn_tensor *t;
    unsigned seen;
};

/* wn_json_member */
static bool parse_field(void *arg, struct wn_bytes key)
{
    struct entry *e = arg;
    struct parse *p = e->p;
    unsigned which;

    which = wn_bytes_is(key, "dtype")          ? SEEN_DTYPE
            : wn_bytes_is(key, "shape")        ? SEEN_SHAPE
            : wn_bytes_is(key, "data_offsets") ? SEEN_OFFSETS
                                               : 0;
    if (which == 0)
        return wn_fail(p->err, WN_ERR_FORMAT, "unknown key '%.64s'", key.at);
    if (e->seen & which)
        return wn_fail(p->err, WN_ERR_FORMAT, "key '%s' occurs twice", key.at);
    e->seen |= which;
    if (which == SEEN_DTYPE)
        return parse_dtype(p, e->t);
    return which == SEEN_SHAPE ? parse_shape(p, e->t) : parse_offsets(p, e->t);
}

/* The declared span must be what dtype and shape need, to the byte. */
static bool check_size(const struct wn_tensor *t, struct wn_err *err)
{
    uint64_t elements, bytes;

    if (!wn_shape_elements(t->dims, t->shape, &elements))
        return wn_fail(err, WN_ERR_FORMAT, "its shape overflows 63 bits");
    if (!wn_type_bytes(t->type, elements, &bytes))
        return wn_fail(err, WN_ERR_FORMAT, "%" PRIu64 " elements of %s overflow 64 bits", elements,
                       wn_type_info(t->type)->name);
    if (bytes != t->bytes)
        return wn_fail(err, WN_ERR_FORMAT, "%" PRIu64 " elements of %s are %" PRIu64 " bytes, its span is %" PRIu64,
                       elements, wn_type_info(t->type)->name, bytes, t->bytes);
    return true;
}

static bool parse_entry(struct parse *p, struct wn_tensor *t)
{
    struct entry e = {.p = p, .t = t};

    if (!wn_json_object(&p->json, parse_field, &e))
        return false;
    if (e.seen != SEEN_ALL)
        return wn_fail(p->err, WN_ERR_FORMAT, "'%s' is missing",
                       !(e.seen & SEEN_DTYPE)   ? "dtype"
                       : !(e.seen & SEEN_SHAPE) ? "shape"
                                                : "data_offsets");
    return check_size(t, p->err);
}

static bool parse_tensor(struct parse *p, struct wn_bytes name)
{
    struct wn_tensor t = {.name = name.at, .file = p->file};

    for (int d = 0; d < WN_DIMS; d++)
        t.shape[d] = 1;
    if (name.n == 0)
        return wn_fail(p->err, WN_ERR_FORMAT, "a tensor has an empty name");
    if (!parse_entry(p, &t))
        return wn_fail_in(p->err, "tensor '%.200s'", name.at);
    t.at += p->data_at;
    return wn_tensor_list_add(p->list, &t, p->err);
}

/* One more place than strings, for the final NULL. */
static bool keep_metadata(struct parse *p, const char *s)
{
    char **more = wn_grow(p->metadata, &p->metadata_room, p->metadata_n + 2, sizeof *more, p->err);

    if (!more)
        return false;
    p->metadata = more;
    p->metadata[p->metadata_n++] = (char *)(uintptr_t)s;
    p->metadata[p->metadata_n] = NULL;
    return true;
}

/* wn_json_member */
static bool parse_pair(void *arg, struct wn_bytes key)
{
    struct parse *p = arg;
    struct wn_bytes value;

    return wn_json_string(&p->json, &value) && keep_metadata(p, key.at) && keep_metadata(p, value.at);
}

static bool parse_metadata(struct parse *p)
{
    if (p->metadata_seen)
        return wn_fail(p->err, WN_ERR_FORMAT, "it occurs twice");
    p->metadata_seen = true;
    return wn_json_object(&p->json, parse_pair, p);
}

/* wn_json_member */
static bool parse_name(void *arg, struct wn_bytes name)
{
    struct parse *p = arg;

    if (!wn_bytes_is(name, "__metadata__"))
        return parse_tensor(p, name);
    return parse_metadata(p) || wn_fail_in(p->err, "'__metadata__'");
}

/* By offset; an empty tensor before the one that begins at the same byte. Names make the order total. */
static int by_place(const void *a, const void *b)
{
    const struct wn_tensor *x = a, *y = b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Headers are mostly in order already; then this is one look at each pair of neighbours. */
static void sort_by_place(struct wn_tensor *t, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (t[i - 1].at + t[i - 1].bytes > t[i].at || (t[i - 1].at == t[i].at && by_place(&t[i - 1], &t[i]) > 0)) {
            qsort(t, n, sizeof *t, by_place);
            return;
        }
    }
}

/* t[n] by rising offset. Empty tensors take no room and may lie anywhere. */
static bool check_overlaps(const struct wn_tensor *t, size_t n, struct wn_err *err)
{
    const struct wn_tensor *before = NULL;

    assert(t || n == 0);
    for (size_t i = 0; i < n; i++) {
        if (t[i].bytes == 0)
            continue;
        if (before && before->at + before->bytes > t[i].at)
            return wn_fail(err, WN_ERR_FORMAT, "tensor '%.180s' overlaps tensor '%.180s'", t[i].name, before->name);
        before = &t[i];
    }
    return true;
}

bool wn_safetensors_parse(char *json, size_t n, uint64_t file_bytes, uint32_t file, struct wn_tensor_list *list,
                          char ***metadata, struct wn_err *err)
{
    struct parse p = {.json = wn_json_of(json, n, err),
                      .list = list,
                      .data_at = 8 + (uint64_t)n,
                      .data_bytes = file_bytes - 8 - n,
                      .file = file,
                      .err = err};
    size_t first = list->n;

    *metadata = NULL;
    if (!wn_json_object(&p.json, parse_name, &p) || !wn_json_end(&p.json)) {
        free(p.metadata);
        return false;
    }
    if (list->n > first)
        sort_by_place(list->at + first, list->n - first);
    if (!check_overlaps(list->at ? list->at + first : NULL, list->n - first, err)) {
        free(p.metadata);
        return false;
    }
    *metadata = p.metadata;
    return true;
}
