/* HF as GGUF: every tensor and every key of the converter's file, from the same model's folder. */
#include "wn_test.h"
#include "jobs/convert/recast.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct made {
    struct wn_model *model;
    struct wn_keep keep;
    struct wn_recast recast;
    struct wn_pool *pool;
};

static void open_made(struct made *m, const char *folder, const struct wn_plan *plan)
{
    struct wn_err err;

    m->model = wn_model_open(folder, &err);
    CHECK_OK(m->model, &err);
    CHECK_OK(wn_keep_init(&m->keep, wn_model_source(m->model), &(struct wn_keep_how){.plan = plan}, &err), &err);
    m->recast = (struct wn_recast){.model = m->model, .keep = &m->keep, .form = &wn_recast_form_gguf};
    m->pool = wn_pool_new(3, &err);
    CHECK_OK(m->pool, &err);
}

static void close_made(struct made *m)
{
    wn_pool_free(m->pool);
    wn_keep_release(&m->keep);
    wn_model_close(m->model);
}

/* Compares what is streamed with a tensor of the reference. */
struct check {
    const struct made *made;
    struct wn_source *wanted;
    const uint8_t *bytes;
    uint64_t at, n;
    const char *name;
    size_t tensors;
    struct wn_recast_side side;
};

static bool same_bytes(void *arg, const void *bytes, size_t n, struct wn_err *err)
{
    struct check *c = arg;

    assert_true(n <= c->n - c->at);
    if (memcmp(c->bytes + c->at, bytes, n) != 0)
        return wn_fail(err, WN_ERR_DIFFERENT, "'%s' differs within %zu bytes at %zu", c->name, n, (size_t)c->at);
    c->at += n;
    return true;
}

static uint64_t without_ones(const uint64_t *shape, uint32_t dims, uint64_t *out)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < dims; i++)
        if (shape[i] != 1)
            out[n++] = shape[i];
    return n;
}

static bool same_tensor(void *arg, const struct wn_recast_tensor *t, struct wn_err *err)
{
    struct check *c = arg;
    const struct wn_tensor *w = wn_source_find(c->wanted, t->name);
    uint64_t a[WN_DIMS], b[WN_DIMS], n;

    if (!w)
        return wn_fail(err, WN_ERR_DIFFERENT, "the reference has no '%s'", t->name);
    assert_int_equal(wn_recast_file_type(t), w->type);
    assert_int_equal(wn_recast_bytes(t), w->bytes);
    assert_int_equal(t->dims, w->dims);
    n = without_ones(t->shape, t->dims, a);
    assert_int_equal(n, without_ones(w->shape, w->dims, b));
    assert_memory_equal(a, b, n * sizeof a[0]);
    c->bytes = wn_source_view(c->wanted, w, err);
    c->at = 0;
    c->n = w->bytes;
    c->name = t->name;
    c->tensors++;
    return c->bytes && wn_recast_stream(t, c->made->pool, &c->side, same_bytes, c, err) && c->at == c->n;
}

static void check_tensors(const char *folder, const char *gguf)
{
    struct made m;
    struct check c = {.made = &m};
    struct wn_err err;

    open_made(&m, folder, NULL);
    c.wanted = wn_source_open(gguf, &err);
    CHECK_OK(c.wanted, &err);
    CHECK_OK(wn_recast_walk(&m.recast, same_tensor, &c, &err), &err);
    assert_int_equal(c.tensors, wn_source_tensor_count(c.wanted));
    wn_recast_side_release(&c.side);
    wn_source_close(c.wanted);
    close_made(&m);
}

static char *folder_of(const char *name)
{
    char path[64];

    snprintf(path, sizeof path, "golden/text/%s/hf", name);
    return strdup(wn_test_need_data(path));
}

static char *gguf_of(const char *name)
{
    char path[96];

    snprintf(path, sizeof path, "golden/text/%s/gguf/%s-BF16-MXFP4.gguf", name, name);
    return strdup(wn_test_need_data(path));
}

static void every_tensor_is_that_of_the_converter(void **state)
{
    char *folder = folder_of("tiny-a"), *gguf = gguf_of("tiny-a");

    (void)state;
    check_tensors(folder, gguf);
    free(folder);
    free(gguf);
}

/* The name is the folder's; all else is the converter's, key by key, in its order. */
static void every_key_is_that_of_the_converter(void **state)
{
    char *folder = folder_of("tiny-a"), *gguf = gguf_of("tiny-a");
    const struct wn_gguf_meta *wanted;
    struct wn_source *source;
    struct wn_recast_list list;
    struct wn_recast_kv kv;
    struct wn_err err;
    struct made m;

    (void)state;
    open_made(&m, folder, NULL);
    source = wn_source_open(gguf, &err);
    CHECK_OK(source, &err);
    wanted = wn_source_gguf(source);
    CHECK_OK(wn_recast_list(&m.recast, &list, &err), &err);
    CHECK_OK(wn_recast_kv(&m.recast, &list, &kv, &err), &err);
    assert_int_equal(kv.n, wanted->n);
    for (size_t i = 0; i < kv.n; i++) {
        if (wn_bytes_is(kv.kv[i].key, "general.name"))
            continue;
        if (!wn_gguf_same(&kv.kv[i], &wanted->kv[i]))
            fail_msg("record %zu is '%.*s', wanted '%.*s'", i, (int)kv.kv[i].key.n, kv.kv[i].key.at,
                     (int)wanted->kv[i].key.n, wanted->kv[i].key.at);
    }
    wn_recast_kv_release(&kv);
    wn_recast_list_release(&list);
    wn_source_close(source);
    close_made(&m);
    free(folder);
    free(gguf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tensor_is_that_of_the_converter),
        cmocka_unit_test(every_key_is_that_of_the_converter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
