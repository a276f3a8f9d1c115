/*
 * How a GGUF is written: see sink_parts.h. Metadata records are repeated as the raw bytes they were, but for the three
 * split keys, which belong to the files being written and not to the model:
 *
 *   a set     each file has them with its own values; in file 1 they stand where they stood in the records, or at the
 *             end in the order in which the reference tool leaves them; the other files have the records that were
 *             passed for them with the split keys where they stood, or the split keys alone in the order of file 1
 *   one file  they are dropped, unless the name says that it is a set of one (-00001-of-00001.gguf) and so do the
 *             records
 *
 * An alignment other than 32 is stated in every file that has no records of its own, since a reader knows a file only
 * by its own keys.
 */
#include "formats/sink_parts.h"
#include "formats/gguf_parse.h"
#include "base/bits.h"
#include "base/alloc.h"
#include "base/checked.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SUFFIX_BYTES 20 /* "-00001-of-00003.gguf" */

/* In the reference tool's order. */
static const struct {
    const char *key;
    enum wn_gguf_value type;
} split_keys[3] = {
    {WN_GGUF_SPLIT_NO, WN_GGUF_U16},
    {WN_GGUF_SPLIT_TENSORS, WN_GGUF_I32},
    {WN_GGUF_SPLIT_COUNT, WN_GGUF_U16},
};

static int split_key_of(struct wn_bytes key)
{
    for (int i = 0; i < 3; i++)
        if (wn_bytes_is(key, split_keys[i].key))
            return i;
    return -1;
}

static bool check(const struct wn_tensor *t, struct wn_err *err)
{
    size_t n = strlen(t->name);

    if (n == 0 || n >= WN_GGUF_NAME_LIMIT)
        return wn_fail(err, WN_ERR_ARG, "a name of %zu bytes: GGUF takes 1 to %d", n, WN_GGUF_NAME_LIMIT - 1);
    if (t->dims > WN_GGUF_DIMS)
        return wn_fail(err, WN_ERR_ARG, "%" PRIu32 " dimensions: GGUF takes at most %d", t->dims, WN_GGUF_DIMS);
    if (wn_type_info(t->type)->gguf_id < 0)
        return wn_fail(err, WN_ERR_ARG, "GGUF has no type %s", wn_type_info(t->type)->name);
    return true;
}

/* A file's records; none for one that is not file 1 and has no records of its own. */
static struct wn_gguf_meta records_of(const struct wn_sink *s, uint32_t file)
{
    if (file > 0)
        return s->o.later ? s->o.later[file - 1] : (struct wn_gguf_meta){.version = s->o.gguf_version};
    return (struct wn_gguf_meta){
        .kv = (struct wn_gguf_kv *)(uintptr_t)s->o.kv, .n = s->o.kv_count, .version = s->o.gguf_version};
}

static bool find_alignment(const struct wn_sink *s, uint64_t *alignment, struct wn_err *err)
{
    struct wn_gguf_meta m = records_of(s, 0);
    const struct wn_gguf_kv *kv = wn_gguf_find(&m, WN_GGUF_ALIGNMENT_KEY);
    uint64_t stated = WN_GGUF_ALIGNMENT;

    *alignment = s->o.gguf_alignment;
    if (kv && !wn_gguf_as_u64(kv, &stated))
        return wn_fail(err, WN_ERR_ARG, "'" WN_GGUF_ALIGNMENT_KEY "' is a %s", wn_gguf_value_name(kv->type));
    if (*alignment == 0)
        *alignment = stated;
    if (kv && stated != *alignment)
        return wn_fail(err, WN_ERR_ARG, "'" WN_GGUF_ALIGNMENT_KEY "' says %" PRIu64 ", the option %" PRIu64, stated,
                       *alignment);
    if (*alignment == 0 || *alignment > UINT32_MAX || (*alignment & (*alignment - 1)) != 0)
        return wn_fail(err, WN_ERR_ARG, "an alignment of %" PRIu64 " is not a power of two", *alignment);
    return true;
}

static bool settle_alignment(struct wn_sink *s, struct wn_err *err)
{
    uint64_t alignment;

    if (!find_alignment(s, &alignment, err))
        return false;
    for (uint32_t f = 0; f < s->file_count; f++)
        s->files[f].alignment = f > 0 && s->o.later ? s->o.later[f - 1].alignment : alignment;
    return true;
}

/* Keys in the order of the records; those that the records lack behind them. */
static void settle_split_order(struct wn_sink *s)
{
    bool seen[3] = {false};
    size_t n = 0;

    for (size_t i = 0; i < s->o.kv_count; i++) {
        int k = split_key_of(s->o.kv[i].key);

        if (k < 0 || seen[k])
            continue;
        seen[k] = true;
        s->split_order[n++] = (unsigned char)k;
    }
    for (int k = 0; k < 3; k++)
        if (!seen[k])
            s->split_order[n++] = (unsigned char)k;
}

/* True when the path ends in -NNNNN-of-NNNNN.gguf. */
static bool numbered(const char *path, unsigned *no, unsigned *count)
{
    size_t n = strlen(path);
    const char *p;

    if (n <= SUFFIX_BYTES)
        return false;
    p = path + n - SUFFIX_BYTES;
    if (strspn(p + 1, "0123456789") != 5 || strspn(p + 10, "0123456789") != 5)
        return false;
    return sscanf(p, "-%5u-of-%5u", no, count) == 2 && memcmp(p + 6, "-of-", 4) == 0 && strcmp(p + 15, ".gguf") == 0;
}

static bool settle_name(struct wn_sink *s, struct wn_err *err)
{
    struct wn_gguf_meta first;
    unsigned no, count;

    s->split = s->file_count > 1;
    if (!numbered(s->out, &no, &count))
        return true;
    if (no != 1 || count != s->file_count)
        return wn_fail(err, WN_ERR_ARG, "'%s' names file %u of %u, but the first of %" PRIu32 " is to be written",
                       s->out, no, count, s->file_count);
    first = records_of(s, 0);
    s->split = s->split || wn_gguf_find(&first, WN_GGUF_SPLIT_COUNT) != NULL;
    return true;
}

static bool settle(struct wn_sink *s, struct wn_err *err)
{
    if (s->file_count > UINT16_MAX || s->tensors.n > INT32_MAX)
        return wn_fail(err, WN_ERR_ARG, "%" PRIu32 " files with %zu tensors are more than a split set can count",
                       s->file_count, s->tensors.n);
    if (s->o.later && s->o.later_count != s->file_count - 1)
        return wn_fail(err, WN_ERR_ARG, "records for %" PRIu32 " later files, there are %" PRIu32, s->o.later_count,
                       s->file_count - 1);
    settle_split_order(s);
    return settle_name(s, err) && settle_alignment(s, err);
}

static char *path(const struct wn_sink *s, uint32_t file, struct wn_err *err)
{
    size_t n = strlen(s->out);
    unsigned no, count;

    if (s->file_count == 1)
        return wn_strdup(s->out, err);
    if (numbered(s->out, &no, &count))
        n -= SUFFIX_BYTES;
    else if (n > 5 && wn_ends_with(s->out, ".gguf"))
        n -= 5;
    return wn_asprintf(err, "%.*s-%05" PRIu32 "-of-%05" PRIu32 ".gguf", (int)n, s->out, file + 1, s->file_count);
}

static bool put(struct wn_buf *b, unsigned bytes, uint64_t v, struct wn_err *err)
{
    char le[8];

    wn_store_le(le, bytes, v);
    return wn_buf_add(b, le, bytes, err);
}

static bool put_string(struct wn_buf *b, const char *s, size_t n, struct wn_err *err)
{
    return put(b, 8, n, err) && wn_buf_add(b, s, n, err);
}

static bool put_record(struct wn_buf *b, const struct wn_gguf_kv *kv, struct wn_err *err)
{
    if (!put_string(b, kv->key.at, kv->key.n, err) || !put(b, 4, kv->type, err))
        return false;
    if (kv->type == WN_GGUF_ARRAY && (!put(b, 4, kv->element, err) || !put(b, 8, kv->count, err)))
        return false;
    return wn_buf_add(b, kv->value.at, kv->value.n, err);
}

static bool put_number(struct wn_buf *b, const char *key, enum wn_gguf_value type, uint64_t v, struct wn_err *err)
{
    return put_string(b, key, strlen(key), err) && put(b, 4, type, err) && put(b, wn_gguf_value_bytes(type), v, err);
}

static bool put_split(const struct wn_sink *s, uint32_t file, int k, enum wn_gguf_value type, struct wn_buf *b,
                      struct wn_err *err)
{
    const uint64_t value[3] = {file, s->tensors.n, s->file_count};

    return put_number(b, split_keys[k].key, type, value[k], err);
}

/* The type that a record has, if the new number fits it; the usual one otherwise. */
static enum wn_gguf_value split_type(const struct wn_sink *s, int k, const struct wn_gguf_kv *kv)
{
    const uint64_t largest = s->tensors.n > s->file_count ? s->tensors.n : s->file_count;
    uint64_t v;

    if (!wn_gguf_as_u64(kv, &v) || (wn_gguf_value_bytes(kv->type) == 1 && largest > INT8_MAX) ||
        (wn_gguf_value_bytes(kv->type) == 2 && largest > INT16_MAX))
        return split_keys[k].type;
    return kv->type;
}

/* A file's records, split keys with new values where they stood or not at all. */
static bool put_records(const struct wn_sink *s, uint32_t file, bool written[3], uint64_t *count, struct wn_buf *b,
                        struct wn_err *err)
{
    struct wn_gguf_meta m = records_of(s, file);

    for (size_t i = 0; i < m.n; i++) {
        int k = split_key_of(m.kv[i].key);

        if (k >= 0 && !s->split)
            continue;
        if (!(k >= 0 ? put_split(s, file, k, split_type(s, k, &m.kv[i]), b, err) : put_record(b, &m.kv[i], err)))
            return false;
        if (k >= 0)
            written[k] = true;
        ++*count;
    }
    return true;
}

static bool put_metadata(const struct wn_sink *s, uint32_t file, uint64_t *count, struct wn_buf *b, struct wn_err *err)
{
    struct wn_gguf_meta m = records_of(s, file);
    bool written[3] = {false};

    if (!put_records(s, file, written, count, b, err))
        return false;
    if (file > 0 && s->o.later)
        return true;
    if (s->files[file].alignment != WN_GGUF_ALIGNMENT && !wn_gguf_find(&m, WN_GGUF_ALIGNMENT_KEY)) {
        if (!put_number(b, WN_GGUF_ALIGNMENT_KEY, WN_GGUF_U32, s->files[file].alignment, err))
            return false;
        ++*count;
    }
    for (int i = 0; s->split && i < 3; i++) {
        int k = s->split_order[i];

        if (written[k])
            continue;
        if (!put_split(s, file, k, split_keys[k].type, b, err))
            return false;
        ++*count;
    }
    return true;
}

static bool put_info(const struct wn_tensor *t, struct wn_buf *b, struct wn_err *err)
{
    if (!put_string(b, t->name, strlen(t->name), err) || !put(b, 4, t->dims, err))
        return false;
    for (uint32_t d = t->dims; d-- > 0;)
        if (!put(b, 8, t->shape[d], err))
            return false;
    return put(b, 4, (uint64_t)wn_type_info(t->type)->gguf_id, err) && put(b, 8, t->at, err);
}

static bool pad(uint64_t alignment, struct wn_buf *b, struct wn_err *err)
{
    uint64_t end;
    size_t more;

    if (!wn_align_u64(b->n, alignment, &end) || end > SIZE_MAX)
        return wn_fail(err, WN_ERR_ARG, "an alignment of %" PRIu64 " is too large", alignment);
    more = (size_t)end - b->n;
    if (more == 0)
        return true;
    if (!wn_buf_reserve(b, more, err))
        return false;
    memset(b->at + b->n, 0, more);
    b->n += more;
    return true;
}

static bool header(const struct wn_sink *s, uint32_t file, struct wn_buf *b, struct wn_err *err)
{
    const struct wn_sink_file *f = &s->files[file];
    const size_t kv_count_at = 16;
    uint32_t version = records_of(s, file).version;
    uint64_t kv_count = 0;

    /* the number of records is known when they are written */
    if (!wn_buf_add(b, "GGUF", 4, err) || !put(b, 4, version ? version : 3, err) || !put(b, 8, f->count, err) ||
        !put(b, 8, 0, err) || !put_metadata(s, file, &kv_count, b, err))
        return false;
    wn_store_le(b->at + kv_count_at, 8, kv_count);
    for (size_t i = f->first; i < f->first + f->count; i++)
        if (!put_info(&s->tensors.at[i], b, err))
            return false;
    return pad(f->alignment, b, err);
}

const struct wn_sink_writer wn_gguf_writer = {check, settle, path, header};
