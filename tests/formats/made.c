/* See made.h. */
#include "made.h"
#include "base/bits.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void add(struct wn_buf *b, const void *bytes, size_t n)
{
    struct wn_err err;

    CHECK_OK(wn_buf_add(b, bytes, n, &err), &err);
}

void made_number(struct wn_buf *b, unsigned bytes, uint64_t v)
{
    char le[8];

    wn_store_le(le, bytes, v);
    add(b, le, bytes);
}

void made_string(struct wn_buf *b, const char *s)
{
    made_number(b, 8, strlen(s));
    add(b, s, strlen(s));
}

void made_zeros(struct wn_buf *b, size_t n)
{
    static const char zeros[4096];

    for (; n > sizeof zeros; n -= sizeof zeros)
        add(b, zeros, sizeof zeros);
    add(b, zeros, n);
}

void made_pad(struct wn_buf *b, size_t align)
{
    made_zeros(b, (align - b->n % align) % align);
}

void made_gguf(struct wn_buf *b, uint64_t tensors, uint64_t kvs)
{
    add(b, "GGUF", 4);
    made_number(b, 4, 3);
    made_number(b, 8, tensors);
    made_number(b, 8, kvs);
}

void made_kv_number(struct wn_buf *b, const char *key, enum wn_gguf_value type, uint64_t v)
{
    static const unsigned bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

    made_string(b, key);
    made_number(b, 4, type);
    made_number(b, bytes[type], v);
}

void made_kv_string(struct wn_buf *b, const char *key, const char *value)
{
    made_string(b, key);
    made_number(b, 4, WN_GGUF_STRING);
    made_string(b, value);
}

void made_info(struct wn_buf *b, const char *name, uint32_t dims, const uint64_t *ne, uint32_t type, uint64_t offset)
{
    made_string(b, name);
    made_number(b, 4, dims);
    for (uint32_t d = 0; d < dims; d++)
        made_number(b, 8, ne[d]);
    made_number(b, 4, type);
    made_number(b, 8, offset);
}

/* Not through wn_file_put, whose fsync hundreds of small files would pay for. */
const char *made_file(const char *folder, const char *name, struct wn_buf *b)
{
    const char *path = wn_test_path(folder, name);
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(b->at ? b->at : "", 1, b->n, f), b->n);
    assert_int_equal(fclose(f), 0);
    wn_buf_release(b);
    return path;
}

const char *made_safetensors(const char *folder, const char *name, const char *json, uint64_t data_bytes)
{
    struct wn_buf b = {0};
    const char *path;

    made_number(&b, 8, strlen(json));
    add(&b, json, strlen(json));
    data_bytes += b.n;
    path = made_file(folder, name, &b);
    made_longer(path, data_bytes);
    return path;
}

void made_longer(const char *path, uint64_t bytes)
{
    if (truncate(path, (off_t)bytes) != 0)
        fail_msg("'%s' cannot be made %llu bytes long", path, (unsigned long long)bytes);
}

void made_write_at(const char *path, uint64_t at, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, n, (off_t)at), (ssize_t)n);
    close(fd);
}

size_t made_count_names(const char *folder)
{
    struct wn_err err;
    char **names;
    size_t n;

    CHECK_OK(wn_path_list(folder, &names, &n, &err), &err);
    wn_names_free(names, n);
    return n;
}

bool made_declare_all(struct wn_sink *s, const struct wn_source *from, struct wn_err *err)
{
    for (size_t i = 0; i < wn_source_tensor_count(from); i++) {
        const struct wn_tensor *t = wn_source_tensor_at(from, i);

        if (!wn_sink_declare(s, t->name, t->type, t->dims, t->shape, t->file, err))
            return false;
    }
    wn_sink_file_count_at_least(s, (uint32_t)wn_source_file_count(from));
    return true;
}

/* Records of files 2 .. of a set; free the array. */
static struct wn_gguf_meta *later_of(const struct wn_source *s, uint32_t *n)
{
    struct wn_gguf_meta *later = calloc(wn_source_file_count(s), sizeof *later);

    *n = (uint32_t)wn_source_file_count(s) - 1;
    assert_non_null(later);
    for (uint32_t i = 0; i < *n; i++)
        later[i] = *wn_source_gguf_of(s, i + 1);
    return later;
}

/* In two pieces each, so that the account of a tensor in pieces is kept too. */
bool made_copy_all(struct wn_sink *s, const struct wn_source *from, struct wn_err *err)
{
    for (size_t i = 0; i < wn_source_tensor_count(from); i++) {
        const struct wn_tensor *t = wn_source_tensor_at(from, i);
        uint64_t half = t->bytes / 3;

        if (!wn_sink_copy(s, from, t, 0, half, err) || !wn_sink_copy(s, from, t, half, t->bytes - half, err))
            return false;
    }
    return true;
}

bool made_identity(const char *from, const char *to, struct wn_err *err)
{
    struct wn_source *source = wn_source_open(from, err);
    struct wn_sink_options o = {0};
    struct wn_gguf_meta *later = NULL;
    const struct wn_gguf_meta *m;
    struct wn_sink *sink = NULL;
    bool ok = false;

    if (!source)
        return false;
    m = wn_source_gguf(source);
    if (m) {
        o.kv = m->kv;
        o.kv_count = m->n;
        o.gguf_version = m->version;
        o.gguf_alignment = m->alignment;
        o.later = later = later_of(source, &o.later_count);
    } else {
        o.metadata = wn_source_metadata(source);
    }
    sink = wn_sink_new(wn_source_container(source), to, &o, err);
    ok = sink && made_declare_all(sink, source, err) && wn_sink_begin(sink, err) && made_copy_all(sink, source, err) &&
         wn_sink_commit(sink, err);
    wn_sink_free(sink);
    free(later);
    wn_source_close(source);
    return ok;
}
