/* See two_parents.h. */
#include "two_parents.h"
#include "quant/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t elements_of(const struct twin_tensor *t)
{
    uint64_t n = 1;

    for (uint32_t d = 0; d < t->dims; d++)
        n *= t->shape[d];
    return n;
}

static uint64_t bytes_of(enum wn_type type, uint64_t elements)
{
    uint64_t bytes;

    assert_true(wn_type_bytes(type, elements, &bytes));
    return bytes;
}

static void take(struct twin_tensor *to, const struct wn_source *s, const struct wn_tensor *t)
{
    struct wn_err err;

    *to = (struct twin_tensor){.type = t->type, .dims = t->dims, .bytes = malloc(t->bytes)};
    (void)snprintf(to->name, sizeof to->name, "%s", t->name);
    memcpy(to->shape, t->shape, sizeof to->shape);
    assert_non_null(to->bytes);
    CHECK_OK(wn_source_read(s, t, 0, to->bytes, (size_t)t->bytes, &err), &err);
    wn_part_of(WN_CONTAINER_GGUF, t->name, &to->part);
}

void twin_write(const char *from, const char *out, twin_edit_fn *edit, void *arg, const struct wn_gguf_kv *kv,
                size_t kv_count)
{
    struct wn_err err;
    struct wn_source *s = wn_source_open(from, &err);
    struct wn_sink_options o = {.kv = kv, .kv_count = kv_count};
    struct twin_tensor *all;
    struct wn_sink *sink;
    size_t n;

    CHECK_OK(s, &err);
    if (!kv) {
        o.kv = wn_source_gguf(s)->kv;
        o.kv_count = wn_source_gguf(s)->n;
    }
    sink = wn_sink_new(WN_CONTAINER_GGUF, out, &o, &err);
    CHECK_OK(sink, &err);
    n = wn_source_tensor_count(s);
    all = calloc(n, sizeof *all);
    assert_non_null(all);
    for (size_t i = 0; i < n; i++) {
        take(&all[i], s, wn_source_tensor_at(s, i));
        if (edit)
            edit(arg, &all[i]);
        if (all[i].type != WN_TYPE_COUNT)
            CHECK_OK(wn_sink_declare(sink, all[i].name, all[i].type, all[i].dims, all[i].shape, 0, &err), &err);
    }
    CHECK_OK(wn_sink_begin(sink, &err), &err);
    for (size_t i = 0; i < n; i++) {
        if (all[i].type != WN_TYPE_COUNT)
            CHECK_OK(wn_sink_write(sink, all[i].bytes, (size_t)bytes_of(all[i].type, elements_of(&all[i])), &err),
                     &err);
        free(all[i].bytes);
    }
    CHECK_OK(wn_sink_commit(sink, &err), &err);
    wn_sink_free(sink);
    wn_source_close(s);
    free(all);
}

void twin_encode(struct twin_tensor *t, enum wn_type type)
{
    uint64_t n = elements_of(t);
    float *values = malloc((size_t)n * sizeof *values);

    assert_non_null(values);
    wn_quant_decoder(t->type)(t->bytes, values, (size_t)n);
    free(t->bytes);
    t->bytes = malloc((size_t)bytes_of(type, n));
    assert_non_null(t->bytes);
    wn_quant_encoder(type)(values, t->bytes, (size_t)n);
    t->type = type;
    free(values);
}

void twin_experts(void *arg, struct twin_tensor *t)
{
    if (t->part.axis == WN_AXIS_OUTER && !t->part.router)
        twin_encode(t, *(const enum wn_type *)arg);
}

const char *twin_parent_of(const char *from, enum wn_type type)
{
    const char *out = wn_test_path(wn_test_folder(), "hi.gguf");

    twin_write(from, out, twin_experts, &type, NULL, 0);
    return out;
}

const char *twin_parent(enum wn_type type)
{
    return twin_parent_of(wn_test_need_data(TWIN_LO), type);
}

void twin_plan(struct wn_plan *p)
{
    static const char json[] =
        "{\"mode\":\"graded\",\"top_k\":4,\"num_experts\":10,\"layers\":{"
        "\"1\":{\"keep\":[7,0,2,5,9,4],\"bits\":{\"7\":\"mxfp4\",\"2\":\"mxfp4\",\"9\":\"mxfp4\",\"0\":\"2bit\",\"5\":"
        "\"2bit\",\"4\":\"2bit\"}},"
        "\"2\":{\"keep\":[3,1,8,6,0,2],\"bits\":{\"3\":\"mxfp4\",\"1\":\"mxfp4\",\"8\":\"2bit\",\"6\":\"2bit\",\"0\":"
        "\"2bit\",\"2\":\"2bit\"}}}}";
    struct wn_err err;

    CHECK_OK(wn_plan_parse(p, json, sizeof json - 1, &err), &err);
}

struct wn_prune_result twin_prune(const char *hi, const char *lo, const char *out, const struct wn_plan *plan,
                                  enum wn_layout layout, uint64_t shard_bytes)
{
    struct wn_prune_options o = {.source = hi,
                                 .lo_source = lo,
                                 .out = out,
                                 .plan = plan,
                                 .layout = layout,
                                 .shard_bytes = shard_bytes,
                                 .hashes = true};
    struct wn_prune_result r, dry;
    struct wn_err err;

    o.dry_run = true;
    CHECK_OK(wn_prune(&o, NULL, &dry, &err), &err);
    o.dry_run = false;
    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    assert_int_equal(dry.out_bytes, r.out_bytes);
    assert_int_equal(dry.out_tensor_bytes, r.out_tensor_bytes);
    assert_int_equal(dry.lo_bytes, r.lo_bytes);
    assert_int_equal(dry.files, r.files);
    return r;
}

/* ---- bytes ---- */

struct sides {
    struct wn_source *hi, *lo, *out;
};

static uint8_t *bytes_in(const struct wn_source *s, const char *name, const struct wn_tensor **t)
{
    struct wn_err err;
    uint8_t *bytes;

    *t = wn_source_find(s, name);
    if (!*t)
        fail_msg("'%s' has no '%s'", wn_source_path(s), name);
    bytes = malloc((size_t)(*t)->bytes);
    assert_non_null(bytes);
    CHECK_OK(wn_source_read(s, *t, 0, bytes, (size_t)(*t)->bytes, &err), &err);
    return bytes;
}

/* Experts n of `name` in out are the experts old[n] of `parent_name` in the parent. */
static void check_slabs(const struct sides *x, const struct wn_source *parent, const char *parent_name,
                        const char *name, const uint32_t *old, uint32_t n)
{
    const struct wn_tensor *a, *b;
    uint8_t *want = bytes_in(parent, parent_name, &a), *have = bytes_in(x->out, name, &b);
    uint64_t slab = a->bytes / a->shape[0];

    assert_int_equal(a->type, b->type);
    assert_int_equal(b->shape[0], n);
    assert_int_equal(b->bytes, n * slab);
    for (uint32_t i = 0; i < n; i++)
        if (memcmp(have + i * slab, want + old[i] * slab, (size_t)slab) != 0)
            fail_msg("'%s': expert %u is not expert %u of '%s'", name, i, old[i], wn_source_path(parent));
    free(want);
    free(have);
}

static void check_tensor(const struct sides *x, const char *name, const struct wn_plan *plan, size_t *seen)
{
    const struct wn_plan_layer *l;
    char low[WN_NAME_BYTES];
    struct wn_part part;
    size_t stem;

    wn_part_of(WN_CONTAINER_GGUF, name, &part);
    l = part.axis == WN_AXIS_OUTER ? wn_plan_find(plan, (uint32_t)part.layer) : NULL;
    *seen += 1;
    if (!l) {
        const struct wn_tensor *a, *b;
        uint8_t *want = bytes_in(x->hi, name, &a), *have = bytes_in(x->out, name, &b);

        assert_int_equal(a->type, b->type);
        assert_int_equal(a->bytes, b->bytes);
        assert_memory_equal(want, have, (size_t)a->bytes);
        free(want);
        free(have);
        return;
    }
    if (part.router) {
        check_slabs(x, x->hi, name, name, l->keep, l->keep_count);
        return;
    }
    check_slabs(x, x->hi, name, name, l->keep, l->hi_count);
    stem = (size_t)(strstr(name, "_exps") - name) + 5;
    (void)snprintf(low, sizeof low, "%.*s_lo%s", (int)stem, name, name + stem);
    check_slabs(x, x->lo, name, low, l->keep + l->hi_count, l->keep_count - l->hi_count);
    *seen += 1;
}

void twin_check_bytes(const char *hi, const char *lo, const char *out, const struct wn_plan *plan)
{
    struct wn_err err;
    struct sides x = {wn_source_open(hi, &err), wn_source_open(lo, &err), wn_source_open(out, &err)};
    size_t seen = 0;

    CHECK_OK(x.hi && x.lo && x.out, &err);
    for (size_t i = 0; i < wn_source_tensor_count(x.hi); i++)
        check_tensor(&x, wn_source_tensor_at(x.hi, i)->name, plan, &seen);
    assert_int_equal(seen, wn_source_tensor_count(x.out));
    wn_source_close(x.hi);
    wn_source_close(x.lo);
    wn_source_close(x.out);
}
