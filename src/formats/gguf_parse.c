/*
 * The header of a GGUF file: see gguf_parse.h and docs/formats/gguf.md.
 *
 * A cursor walks the bytes. Whatever a count or length claims is first held against what the file has left, so
 * nothing is allocated or looped over on the word of the file alone. A claim that the file could hold but the bytes
 * at hand do not is reported as ran_out.
 */
#include "formats/gguf_parse.h"
#include "base/bits.h"
#include "base/alloc.h"
#include "base/checked.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* Shortest encodings, to judge counts by: empty strings, one-byte values, no dimensions. */
#define KV_BYTES_MIN   (8 + 1 + 4 + 1)
#define INFO_BYTES_MIN (8 + 1 + 4 + 4 + 8)

struct cursor {
    char *bytes;
    size_t at, n;
    uint64_t file_bytes;
    bool *ran_out;
    struct wn_err *err;
};

static uint64_t left(const struct cursor *c)
{
    return c->file_bytes - c->at;
}

static bool take(struct cursor *c, uint64_t n, char **p)
{
    if (n > left(c))
        return wn_fail(c->err, WN_ERR_FORMAT, "%" PRIu64 " bytes wanted at %zu, the file ends at %" PRIu64, n, c->at,
                       c->file_bytes);
    if (n > c->n - c->at) {
        *c->ran_out = true;
        return wn_fail(c->err, WN_ERR_FORMAT, "the header is longer than %zu bytes", c->n);
    }
    *p = c->bytes + c->at;
    c->at += (size_t)n;
    return true;
}

static bool take_u32(struct cursor *c, uint32_t *v)
{
    char *p;

    if (!take(c, 4, &p))
        return false;
    *v = wn_load32(p);
    return true;
}

static bool take_u64(struct cursor *c, uint64_t *v)
{
    char *p;

    if (!take(c, 8, &p))
        return false;
    *v = wn_load64(p);
    return true;
}

static bool take_string(struct cursor *c, struct wn_bytes *s)
{
    uint64_t n;
    char *p;

    if (!take_u64(c, &n))
        return false;
    if (n > WN_GGUF_LENGTH_LIMIT)
        return wn_fail(c->err, WN_ERR_FORMAT, "a string of %" PRIu64 " bytes: the limit is 2^30", n);
    if (!take(c, n, &p))
        return false;
    *s = (struct wn_bytes){p, (size_t)n};
    return true;
}

static bool take_value_type(struct cursor *c, enum wn_gguf_value *t)
{
    uint32_t id;

    if (!take_u32(c, &id))
        return false;
    if (id > WN_GGUF_F64)
        return wn_fail(c->err, WN_ERR_FORMAT, "unknown value type %" PRIu32, id);
    *t = (enum wn_gguf_value)id;
    return true;
}

static bool skip_elements(struct cursor *c, const struct wn_gguf_kv *kv)
{
    unsigned each = wn_gguf_value_bytes(kv->element);
    struct wn_bytes s;
    char *p;

    if (kv->count > WN_GGUF_LENGTH_LIMIT || kv->count > left(c) / (each ? each : 8))
        return wn_fail(c->err, WN_ERR_FORMAT, "an array of %" PRIu64 " %ss with %" PRIu64 " bytes of file left",
                       kv->count, wn_gguf_value_name(kv->element), left(c));
    if (each)
        return take(c, kv->count * each, &p);
    for (uint64_t i = 0; i < kv->count; i++)
        if (!take_string(c, &s))
            return wn_fail_in(c->err, "string %" PRIu64 " of %" PRIu64, i, kv->count);
    return true;
}

static bool take_array(struct cursor *c, struct wn_gguf_kv *kv)
{
    if (!take_value_type(c, &kv->element) || !take_u64(c, &kv->count))
        return false;
    if (kv->element == WN_GGUF_ARRAY)
        return wn_fail(c->err, WN_ERR_FORMAT, "an array of arrays");
    kv->value.at = c->bytes + c->at;
    if (!skip_elements(c, kv))
        return false;
    kv->value.n = (size_t)(c->bytes + c->at - kv->value.at);
    return true;
}

static bool take_value(struct cursor *c, struct wn_gguf_kv *kv)
{
    struct wn_bytes s;
    char *p;

    if (!take_value_type(c, &kv->type))
        return false;
    if (kv->type == WN_GGUF_ARRAY)
        return take_array(c, kv);
    kv->element = kv->type;
    kv->count = 1;
    kv->value.at = c->bytes + c->at;
    if (kv->type == WN_GGUF_STRING ? !take_string(c, &s) : !take(c, wn_gguf_value_bytes(kv->type), &p))
        return false;
    kv->value.n = (size_t)(c->bytes + c->at - kv->value.at);
    return true;
}

static bool take_kv(struct cursor *c, struct wn_gguf_kv *kv)
{
    *kv = (struct wn_gguf_kv){0};
    if (!take_string(c, &kv->key))
        return false;
    if (kv->key.n == 0)
        return wn_fail(c->err, WN_ERR_FORMAT, "an empty key");
    return take_value(c, kv) || wn_fail_in(c->err, "key '%.*s'", (int)wn_min_size(kv->key.n, 100), kv->key.at);
}

static bool take_metadata(struct cursor *c, struct wn_gguf_meta *m, uint64_t count)
{
    size_t room = 0;

    for (uint64_t i = 0; i < count; i++) {
        struct wn_gguf_kv *more = wn_grow(m->kv, &room, m->n + 1, sizeof *more, c->err);

        if (!more)
            return false;
        m->kv = more;
        if (!take_kv(c, &m->kv[m->n]))
            return wn_fail_in(c->err, "metadata %" PRIu64 " of %" PRIu64, i + 1, count);
        m->n++;
    }
    return true;
}

/* Written twice by a published converter; the later one counts. */
static const char *const may_repeat[] = {"tokenizer.ggml.eos_token_id"};

static bool repeats_rightly(const struct wn_gguf_kv *a, const struct wn_gguf_kv *b)
{
    for (size_t i = 0; i < sizeof may_repeat / sizeof *may_repeat; i++)
        if (wn_bytes_is(a->key, may_repeat[i]))
            return a->type == b->type && a->element == b->element;
    return false;
}

static int by_key(const void *a, const void *b)
{
    const struct wn_gguf_kv *x = *(const struct wn_gguf_kv *const *)a, *y = *(const struct wn_gguf_kv *const *)b;
    int order = memcmp(x->key.at, y->key.at, wn_min_size(x->key.n, y->key.n));

    if (order != 0 || x->key.n == y->key.n)
        return order;
    return x->key.n < y->key.n ? -1 : 1;
}

static bool check_keys(const struct wn_gguf_meta *m, struct wn_err *err)
{
    const struct wn_gguf_kv **sorted = wn_alloc(m->n, sizeof *sorted, err);
    bool ok = sorted != NULL;

    for (size_t i = 0; ok && i < m->n; i++)
        sorted[i] = &m->kv[i];
    if (ok && m->n > 1)
        qsort(sorted, m->n, sizeof *sorted, by_key);
    for (size_t i = 1; ok && i < m->n; i++)
        if (by_key(&sorted[i - 1], &sorted[i]) == 0 && !repeats_rightly(sorted[i - 1], sorted[i]))
            ok = wn_fail(err, WN_ERR_FORMAT, "key '%.*s' occurs twice", (int)wn_min_size(sorted[i]->key.n, 100),
                         sorted[i]->key.at);
    free(sorted);
    return ok;
}

static bool find_alignment(struct wn_gguf_meta *m, struct wn_err *err)
{
    const struct wn_gguf_kv *kv = wn_gguf_find(m, WN_GGUF_ALIGNMENT_KEY);

    m->alignment = WN_GGUF_ALIGNMENT;
    if (!kv)
        return true;
    if (kv->type != WN_GGUF_U32)
        return wn_fail(err, WN_ERR_FORMAT, "'" WN_GGUF_ALIGNMENT_KEY "' is a %s, not a u32",
                       wn_gguf_value_name(kv->type));
    m->alignment = wn_load32(kv->value.at);
    if (m->alignment == 0 || (m->alignment & (m->alignment - 1)) != 0)
        return wn_fail(err, WN_ERR_FORMAT, "'" WN_GGUF_ALIGNMENT_KEY "' is %" PRIu32 ", not a power of two",
                       m->alignment);
    return true;
}

static bool find_type(uint32_t id, enum wn_type *t, struct wn_err *err)
{
    static const uint8_t retired[] = {4, 5, 31, 32, 33, 36, 37, 38};

    if (wn_type_from_gguf(id, t))
        return true;
    for (size_t i = 0; i < sizeof retired; i++)
        if (retired[i] == id)
            return wn_fail(err, WN_ERR_FORMAT, "type id %" PRIu32 " is retired: no reader knows it any more", id);
    return wn_fail(err, WN_ERR_FORMAT, "unknown type id %" PRIu32, id);
}

/* Shapes stand innermost first in the file. */
static bool take_shape(struct cursor *c, struct wn_tensor *t)
{
    if (!take_u32(c, &t->dims))
        return false;
    if (t->dims > WN_GGUF_DIMS)
        return wn_fail(c->err, WN_ERR_FORMAT, "%" PRIu32 " dimensions: the format's limit is %d", t->dims,
                       WN_GGUF_DIMS);
    for (int d = 0; d < WN_DIMS; d++)
        t->shape[d] = 1;
    for (uint32_t d = t->dims; d-- > 0;) {
        if (!take_u64(c, &t->shape[d]))
            return false;
        if (t->shape[d] > INT64_MAX)
            return wn_fail(c->err, WN_ERR_FORMAT, "a negative dimension");
    }
    return true;
}

/* Rows are whole blocks; *bytes of all of them. */
static bool find_bytes(struct wn_tensor *t, struct wn_err *err)
{
    const struct wn_type_info *type = wn_type_info(t->type);
    uint64_t row = t->dims ? t->shape[t->dims - 1] : 1, elements;

    if (!wn_shape_elements(t->dims, t->shape, &elements))
        return wn_fail(err, WN_ERR_FORMAT, "its shape overflows 63 bits");
    if (row % type->block_elements != 0)
        return wn_fail(err, WN_ERR_FORMAT, "rows of %" PRIu64 " elements are not whole blocks of %s (%" PRIu32 ")", row,
                       type->name, type->block_elements);
    if (!wn_type_bytes(t->type, elements, &t->bytes))
        return wn_fail(err, WN_ERR_FORMAT, "its %" PRIu64 " elements of %s overflow 64 bits", elements, type->name);
    return true;
}

/* The rest of an info, behind the name. The offset in the data section is left in t->at. */
static bool take_info(struct cursor *c, struct wn_tensor *t)
{
    uint32_t id;

    return take_shape(c, t) && take_u32(c, &id) && find_type(id, &t->type, c->err) && take_u64(c, &t->at) &&
           find_bytes(t, c->err);
}

/*
 * The name becomes a C string: the NUL goes where the number of dimensions stood, which has been read by then. The list
 * gets the tensor with its offset in the data section.
 */
static bool take_tensor(struct cursor *c, uint32_t file, struct wn_tensor_list *list)
{
    struct wn_tensor t = {.file = file};
    struct wn_bytes name;

    if (!take_string(c, &name))
        return false;
    if (name.n == 0 || name.n >= WN_GGUF_NAME_LIMIT)
        return wn_fail(c->err, WN_ERR_FORMAT, "a name of %zu bytes: it must have 1 to %d", name.n,
                       WN_GGUF_NAME_LIMIT - 1);
    if (memchr(name.at, '\0', name.n))
        return wn_fail(c->err, WN_ERR_FORMAT, "its name contains a NUL");
    if (!take_info(c, &t))
        return wn_fail_in(c->err, "'%.*s'", (int)name.n, name.at);
    t.name = name.at;
    c->bytes[name.at + name.n - c->bytes] = '\0';
    return wn_tensor_list_add(list, &t, c->err);
}

/*
 * Offsets must follow one another without gaps, each rounded up to the alignment: the reference reader accepts nothing
 * else, so a file that is otherwise has been damaged. The padding of the last tensor may be absent.
 */
static bool place(const struct wn_gguf_header *h, struct wn_tensor *t, uint64_t *next, uint64_t file_bytes,
                  struct wn_err *err)
{
    if (t->at != *next)
        return wn_fail(err, WN_ERR_FORMAT,
                       "its data begins at %" PRIu64 " of the data section, %s what is before it ends (%" PRIu64 ")",
                       t->at, t->at < *next ? "which overlaps: there" : "which leaves a gap: there", *next);
    if (!wn_add_u64(h->data_at, t->at, &t->at) || !wn_span_fits(t->at, t->bytes, file_bytes))
        return wn_fail(err, WN_ERR_FORMAT, "%" PRIu64 " bytes at %" PRIu64 " run past the file's end (%" PRIu64 ")",
                       t->bytes, t->at, file_bytes);
    if (!wn_align_u64(t->at + t->bytes - h->data_at, h->meta.alignment, next))
        return wn_fail(err, WN_ERR_FORMAT, "its end overflows 64 bits");
    return true;
}

static bool place_tensors(const struct wn_gguf_header *h, struct wn_tensor *t, uint64_t file_bytes, struct wn_err *err)
{
    uint64_t next = 0, end;

    assert(t || h->tensor_count == 0);
    for (uint64_t i = 0; i < h->tensor_count; i++)
        if (!place(h, &t[i], &next, file_bytes, err))
            return wn_fail_in(err, "tensor '%s'", t[i].name);
    if (wn_add_u64(h->data_at, next, &end) && file_bytes > end)
        return wn_fail(err, WN_ERR_FORMAT, "%" PRIu64 " bytes stand behind the last tensor", file_bytes - end);
    return true;
}

static bool take_version(struct cursor *c, uint32_t *version)
{
    char *magic;

    if (!take(c, 4, &magic))
        return false;
    if (memcmp(magic, "GGUF", 4) != 0)
        return wn_fail(c->err, WN_ERR_FORMAT, "it does not begin with 'GGUF'");
    if (!take_u32(c, version))
        return false;
    if (*version != 0 && (*version & 0xffff) == 0)
        return wn_fail(c->err, WN_ERR_FORMAT, "a big-endian GGUF; only little-endian ones are read");
    if (*version != 2 && *version != 3)
        return wn_fail(c->err, WN_ERR_FORMAT, "GGUF version %" PRIu32 "; 2 and 3 are read", *version);
    return true;
}

static bool take_counts(struct cursor *c, uint64_t *tensors, uint64_t *kvs)
{
    if (!take_u64(c, tensors) || !take_u64(c, kvs))
        return false;
    if (*tensors > left(c) / INFO_BYTES_MIN)
        return wn_fail(c->err, WN_ERR_FORMAT, "%" PRIu64 " tensors in a file of %" PRIu64 " bytes", *tensors,
                       c->file_bytes);
    if (*kvs > left(c) / KV_BYTES_MIN)
        return wn_fail(c->err, WN_ERR_FORMAT, "%" PRIu64 " metadata keys in a file of %" PRIu64 " bytes", *kvs,
                       c->file_bytes);
    return true;
}

bool wn_gguf_parse(struct wn_gguf_header *h, char *bytes, size_t n, uint64_t file_bytes, uint32_t file,
                   struct wn_tensor_list *list, struct wn_err *err)
{
    struct cursor c = {bytes, 0, n, file_bytes, &h->ran_out, err};
    size_t first = list->n;
    uint64_t kvs;

    *h = (struct wn_gguf_header){0};
    if (!take_version(&c, &h->meta.version) || !take_counts(&c, &h->tensor_count, &kvs) ||
        !take_metadata(&c, &h->meta, kvs) || !check_keys(&h->meta, err) || !find_alignment(&h->meta, err))
        return false;
    for (uint64_t i = 0; i < h->tensor_count; i++)
        if (!take_tensor(&c, file, list))
            return wn_fail_in(err, "tensor %" PRIu64 " of %" PRIu64, i + 1, h->tensor_count);
    if (!wn_align_u64(c.at, h->meta.alignment, &h->data_at))
        return wn_fail(err, WN_ERR_FORMAT, "the header's end overflows 64 bits");
    return place_tensors(h, list->at ? list->at + first : NULL, file_bytes, err);
}

void wn_gguf_header_release(struct wn_gguf_header *h)
{
    free(h->meta.kv);
    *h = (struct wn_gguf_header){0};
}
