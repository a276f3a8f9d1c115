/* See made.h. */
#include "made.h"

#include "formats/sink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct made_tensor *made_find(struct made *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->t[i].name, name) == 0)
            return &m->t[i];
    fail_msg("nothing called '%s' was made", name);
    return NULL;
}

struct made_tensor *made_add(struct made *m, const char *name, enum wn_type type, uint32_t dims, const uint64_t *shape)
{
    struct made_tensor *t;

    if (m->n == m->room) {
        m->room = m->room ? 2 * m->room : 64;
        m->t = realloc(m->t, m->room * sizeof *m->t);
        assert_non_null(m->t);
    }
    t = &m->t[m->n++];
    *t = (struct made_tensor){.type = type, .dims = dims, .bytes = wn_type_info(type)->block_bytes};
    assert_true(snprintf(t->name, sizeof t->name, "%s", name) < (int)sizeof t->name);
    for (uint32_t i = 0; i < dims; i++) {
        t->shape[i] = shape[i];
        t->bytes *= shape[i];
    }
    t->bytes /= wn_type_info(type)->block_elements;
    t->data = calloc(1, t->bytes + 1);
    assert_non_null(t->data);
    return t;
}

void made_drop(struct made *m, const char *name)
{
    struct made_tensor *t = made_find(m, name);

    free(t->data);
    *t = m->t[--m->n];
}

json_t *made_quantization(struct made *m)
{
    json_t *q = json_object_get(m->config, "quantization");

    if (!q) {
        q = json_pack("{ss si si}", "mode", "mxfp4", "group_size", 32, "bits", 4);
        json_object_set_new(m->config, "quantization", q);
    }
    return q;
}

void made_quantise(struct made *m, const char *module, const char *form)
{
    if (form)
        assert_int_equal(json_object_set_new(made_quantization(m), module, json_loads(form, JSON_DECODE_ANY, NULL)), 0);
    else
        json_object_del(made_quantization(m), module);
}

static void write_all(struct made *m, enum wn_container container, const char *out, const struct wn_sink_options *o)
{
    struct wn_err err;
    struct wn_sink *s = wn_sink_new(container, out, o, &err);

    CHECK_OK(s, &err);
    for (size_t i = 0; i < m->n; i++)
        CHECK_OK(wn_sink_declare(s, m->t[i].name, m->t[i].type, m->t[i].dims, m->t[i].shape, 0, &err), &err);
    CHECK_OK(wn_sink_begin(s, &err), &err);
    for (size_t i = 0; i < m->n; i++) {
        CHECK_OK(wn_sink_write(s, m->t[i].data, m->t[i].bytes, &err), &err);
        free(m->t[i].data);
    }
    CHECK_OK(wn_sink_commit(s, &err), &err);
    wn_sink_free(s);
    free(m->t);
}

const char *made_folder(struct made *m)
{
    const char *folder = wn_test_folder();

    write_all(m, WN_CONTAINER_SAFETENSORS, folder, &(struct wn_sink_options){0});
    assert_int_equal(json_dump_file(m->config, wn_test_path(folder, "config.json"), JSON_INDENT(1)), 0);
    json_decref(m->config);
    *m = (struct made){0};
    return folder;
}

const char *made_gguf(struct made *m, const struct wn_gguf_kv *kv, size_t kv_count)
{
    const char *out = wn_test_path(wn_test_folder(), "made.gguf");

    write_all(m, WN_CONTAINER_GGUF, out, &(struct wn_sink_options){.kv = kv, .kv_count = kv_count});
    *m = (struct made){0};
    return out;
}
