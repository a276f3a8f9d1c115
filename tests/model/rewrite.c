/* See rewrite.h. */
#include "rewrite.h"
#include "formats/sink.h"
#include "wn_test.h"

#include <stdlib.h>
#include <string.h>

struct job {
    const struct wn_source *source; /* NULL: none */
    const struct edit *edits;
    size_t n;
    struct wn_sink *sink;
    struct wn_err err;
};

static const struct edit *edit_of(const struct job *j, const char *name)
{
    for (size_t i = 0; i < j->n; i++)
        if (strcmp(j->edits[i].name, name) == 0)
            return &j->edits[i];
    return NULL;
}

static size_t source_count(const struct job *j)
{
    return j->source ? wn_source_tensor_count(j->source) : 0;
}

static bool is_added(const struct job *j, const struct edit *e)
{
    return !j->source || !wn_source_find(j->source, e->name);
}

static void declare_edit(struct job *j, const struct edit *e)
{
    CHECK_OK(wn_sink_declare(j->sink, e->rename ? e->rename : e->name, e->type, e->dims, e->shape, 0, &j->err),
             &j->err);
}

static void write_edit(struct job *j, const struct edit *e)
{
    uint64_t bytes = wn_type_info(e->type)->block_bytes;
    void *zeros;

    for (uint32_t d = 0; d < e->dims; d++)
        bytes *= e->shape[d];
    bytes /= wn_type_info(e->type)->block_elements;
    zeros = calloc(1, bytes + 1);
    CHECK_OK(wn_sink_write(j->sink, e->bytes ? e->bytes : zeros, bytes, &j->err), &j->err);
    free(zeros);
}

/* Once to declare, once to give the bytes, in the same order. */
static void walk(struct job *j, bool write)
{
    for (size_t i = 0; i < source_count(j); i++) {
        const struct wn_tensor *t = wn_source_tensor_at(j->source, i);
        const struct edit *e = edit_of(j, t->name);

        if (e && e->drop)
            continue;
        if (e && e->replace)
            write ? write_edit(j, e) : declare_edit(j, e);
        else if (write)
            CHECK_OK(wn_sink_copy(j->sink, j->source, t, 0, t->bytes, &j->err), &j->err);
        else
            CHECK_OK(
                wn_sink_declare(j->sink, e && e->rename ? e->rename : t->name, t->type, t->dims, t->shape, 0, &j->err),
                &j->err);
    }
    for (size_t i = 0; i < j->n; i++)
        if (is_added(j, &j->edits[i]))
            write ? write_edit(j, &j->edits[i]) : declare_edit(j, &j->edits[i]);
}

static void rewrite(struct job *j, enum wn_container container, const char *out, const struct wn_sink_options *o)
{
    j->sink = wn_sink_new(container, out, o, &j->err);
    if (!j->sink)
        fail_msg("%s", j->err.msg);
    walk(j, false);
    CHECK_OK(wn_sink_begin(j->sink, &j->err), &j->err);
    walk(j, true);
    CHECK_OK(wn_sink_commit(j->sink, &j->err), &j->err);
    wn_sink_free(j->sink);
}

static struct wn_source *opened(const char *path)
{
    struct wn_err err;
    struct wn_source *s = wn_source_open(path, &err);

    if (!s)
        fail_msg("%s", err.msg);
    return s;
}

const char *rewritten_hf(const char *source, const struct edit *edits, size_t n, const char *config)
{
    struct wn_source *s = source ? opened(source) : NULL;
    struct job j = {.source = s, .edits = edits, .n = n};
    const char *folder = wn_test_folder();

    rewrite(&j, WN_CONTAINER_SAFETENSORS, folder, &(struct wn_sink_options){0});
    CHECK_OK(wn_file_put(wn_test_path(folder, "config.json"), config, strlen(config), false, &j.err), &j.err);
    wn_source_close(s);
    return folder;
}

const char *rewritten_gguf(const char *source, const struct edit *edits, size_t n, const char *key, const void *value)
{
    struct wn_source *s = opened(source);
    const struct wn_gguf_meta *meta = wn_source_gguf(s);
    struct job j = {.source = s, .edits = edits, .n = n};
    struct wn_gguf_kv *kv = calloc(meta->n, sizeof(*kv));
    const char *out = wn_test_path(wn_test_folder(), "rewritten.gguf");
    bool found = key == NULL;

    memcpy(kv, meta->kv, meta->n * sizeof(*kv));
    for (size_t i = 0; i < meta->n && key; i++) {
        if (wn_bytes_is(kv[i].key, key)) {
            kv[i].value.at = value;
            found = true;
        }
    }
    assert_true(found);
    rewrite(&j, WN_CONTAINER_GGUF, out, &(struct wn_sink_options){.kv = kv, .kv_count = meta->n});
    free(kv);
    wn_source_close(s);
    return out;
}

const char *written_gguf(const struct edit *edits, size_t n, const struct wn_gguf_kv *kv, size_t kv_count)
{
    struct job j = {.edits = edits, .n = n};
    const char *out = wn_test_path(wn_test_folder(), "written.gguf");

    rewrite(&j, WN_CONTAINER_GGUF, out, &(struct wn_sink_options){.kv = kv, .kv_count = kv_count});
    return out;
}
