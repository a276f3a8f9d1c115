/* Files of the output that are laid out as the source's: they keep their names and, in GGUF sets, their own records. */
#include "prune_help.h"
#include "formats/sink.h"
#include "formats/source.h"
#include <winnow/plan.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SET    "golden/text/tiny-b/gguf/split/tiny-b-IQ1_S-00001-of-00003.gguf"
#define SINGLE "golden/text/tiny-b/gguf/tiny-b-IQ1_S.gguf"
#define HF     "golden/text/tiny-a/hf"

/* Records of the set's files with some of file 1's put before those of file 2 and 3. */
struct records {
    struct wn_gguf_kv kv[2][8];
    struct wn_gguf_meta later[2];
};

static void add_record(struct wn_gguf_meta *m, const struct wn_gguf_kv *kv)
{
    memmove(m->kv + 1, m->kv, m->n * sizeof *m->kv);
    m->kv[0] = *kv;
    m->n++;
}

static void fill(struct records *r, const struct wn_source *s)
{
    for (int i = 0; i < 2; i++) {
        r->later[i] = *wn_source_gguf_of(s, (size_t)i + 1);
        assert_true(r->later[i].n <= 4);
        memcpy(r->kv[i], r->later[i].kv, r->later[i].n * sizeof r->kv[i][0]);
        r->later[i].kv = r->kv[i];
    }
}

/* The golden set once more, with these records in its later files. Path of the first file. */
static const char *make_set(const struct wn_source *s, const struct records *r)
{
    const char *folder = wn_test_folder();
    const struct wn_gguf_meta *m = wn_source_gguf(s);
    struct wn_sink_options o = {.kv = m->kv, .kv_count = m->n, .later = r->later, .later_count = 2};
    struct wn_err err;
    struct wn_sink *sink = wn_sink_new(WN_CONTAINER_GGUF, wn_test_path(folder, "made"), &o, &err);

    CHECK_OK(sink, &err);
    for (size_t i = 0; i < wn_source_tensor_count(s); i++) {
        const struct wn_tensor *t = wn_source_tensor_at(s, i);

        CHECK_OK(wn_sink_declare(sink, t->name, t->type, t->dims, t->shape, t->file, &err), &err);
    }
    wn_sink_file_count_at_least(sink, 3);
    CHECK_OK(wn_sink_begin(sink, &err), &err);
    for (size_t i = 0; i < wn_source_tensor_count(s); i++)
        CHECK_OK(wn_sink_copy(sink, s, wn_source_tensor_at(s, i), 0, wn_source_tensor_at(s, i)->bytes, &err), &err);
    CHECK_OK(wn_sink_commit(sink, &err), &err);
    wn_sink_free(sink);
    return wn_test_path(folder, "made-00001-of-00003.gguf");
}

static struct wn_source *open_ok(const char *path)
{
    struct wn_err err;
    struct wn_source *s = wn_source_open(path, &err);

    CHECK_OK(s, &err);
    return s;
}

static const struct wn_gguf_kv *record_of(const struct wn_source *s, const char *tail)
{
    const struct wn_gguf_meta *m = wn_source_gguf(s);

    for (size_t i = 0; i < m->n; i++)
        if (m->kv[i].key.n >= strlen(tail) &&
            memcmp(m->kv[i].key.at + m->kv[i].key.n - strlen(tail), tail, strlen(tail)) == 0)
            return &m->kv[i];
    fail_msg("no key ends in '%s'", tail);
    return NULL;
}

static void later_files_of_a_set_keep_their_own_records(void **state)
{
    struct wn_source *golden = open_ok(wn_test_need_data(SET));
    const char *folder = wn_test_folder(), *set;
    struct records r;
    char a[600], b[600];

    (void)state;
    fill(&r, golden);
    add_record(&r.later[0], record_of(golden, "general.architecture"));
    add_record(&r.later[1], record_of(golden, "general.architecture"));
    set = make_set(golden, &r);
    prune_ok(set, wn_test_path(folder, "t-00001-of-00003.gguf"), NULL, WN_LAYOUT_AS_SOURCE, 0);
    for (int i = 1; i <= 3; i++) {
        snprintf(a, sizeof a, "%.*s%05d-of-00003.gguf", (int)(strlen(set) - strlen("00001-of-00003.gguf")), set, i);
        snprintf(b, sizeof b, "%s/t-%05d-of-00003.gguf", folder, i);
        wn_test_same_file(a, b);
    }
    prune_ok(set, wn_test_path(folder, "joined.gguf"), NULL, WN_LAYOUT_JOINED, 0);
    wn_test_same_file(wn_test_need_data(SINGLE), wn_test_path(folder, "joined.gguf"));
    wn_source_close(golden);
}

/* A set that lost or changed a record of a later file is not its source's. */
static void verify_reads_the_records_of_every_file(void **state)
{
    struct wn_source *golden = open_ok(wn_test_need_data(SET));
    struct wn_gguf_kv other = *record_of(golden, "general.architecture");
    struct wn_verify_result v;
    struct wn_err err;
    struct records r;
    char source[600];

    (void)state;
    fill(&r, golden);
    add_record(&r.later[1], &other);
    snprintf(source, sizeof source, "%s", make_set(golden, &r));
    CHECK_OK(wn_verify(source, source, NULL, NULL, &v, &err), &err);

    other.value = (struct wn_bytes){"\7\0\0\0\0\0\0\0kimi-k4", 15};
    fill(&r, golden);
    add_record(&r.later[1], &other);
    CHECK_FAILS(wn_verify(make_set(golden, &r), source, NULL, NULL, &v, &err), &err,
                "'made-00003-of-00003.gguf': metadata: key 'general.architecture' has another value");
    other.key = (struct wn_bytes){"general.license", 15};
    fill(&r, golden);
    add_record(&r.later[0], &other);
    CHECK_FAILS(wn_verify(make_set(golden, &r), source, NULL, NULL, &v, &err), &err,
                "key 'general.license' should not");
    /* cut anew, a set has no records of its own in later files */
    CHECK_OK(wn_verify(wn_test_need_data(SET), source, NULL, NULL, &v, &err), &err);
    wn_source_close(golden);
}

static void a_record_that_a_joined_file_has_no_place_for_is_named(void **state)
{
    struct wn_source *golden = open_ok(wn_test_need_data(SET));
    struct wn_gguf_kv own = *record_of(golden, "general.architecture");
    const char *folder = wn_test_folder();
    struct wn_prune_options o = {.out = wn_test_path(folder, "joined.gguf"), .layout = WN_LAYOUT_JOINED};
    struct wn_prune_result result;
    struct records r;
    struct wn_err err;

    (void)state;
    fill(&r, golden);
    own.key = (struct wn_bytes){"general.note", 12};
    add_record(&r.later[1], &own);
    o.source = make_set(golden, &r);
    CHECK_FAILS(wn_prune(&o, NULL, &result, &err), &err, "key 'general.note' of '");
    o.layout = WN_LAYOUT_SPLIT;
    o.shard_bytes = 1 << 20;
    CHECK_FAILS(wn_prune(&o, NULL, &result, &err), &err, "key 'general.note' of '");
    o.layout = WN_LAYOUT_AS_SOURCE;
    o.out = wn_test_path(folder, "same");
    CHECK_OK(wn_prune(&o, NULL, &result, &err), &err);
    wn_source_close(golden);
}

/* The first experts of each layer. */
static void first_experts(struct wn_plan *p, const struct wn_source *s, uint32_t keep)
{
    uint64_t top_k;

    assert_true(wn_gguf_as_u64(record_of(s, ".expert_used_count"), &top_k));
    *p = (struct wn_plan){.mode = "uniform", .top_k = (uint32_t)top_k, .min_experts = (uint32_t)top_k};
    p->layers = calloc(100, sizeof *p->layers);
    assert_non_null(p->layers);
    for (uint32_t layer = 0; layer < 100; layer++) {
        struct wn_plan_layer *l = &p->layers[p->layer_count];
        const struct wn_tensor *t;
        char name[64];

        snprintf(name, sizeof name, "blk.%u.ffn_gate_exps.weight", layer);
        t = wn_source_find(s, name);
        if (!t)
            continue;
        p->num_experts = (uint32_t)t->shape[0];
        *l = (struct wn_plan_layer){.layer = layer, .keep_count = keep, .keep = calloc(keep, sizeof *l->keep)};
        assert_non_null(l->keep);
        for (uint32_t e = 0; e < keep; e++)
            l->keep[e] = e;
        p->layer_count++;
    }
}

static void a_count_that_later_files_repeat_changes_in_all_of_them(void **state)
{
    struct wn_source *golden = open_ok(wn_test_need_data(SET)), *out;
    const struct wn_gguf_kv *count = record_of(golden, ".expert_count");
    struct wn_gguf_kv other = *count;
    const char *folder = wn_test_folder();
    struct wn_plan plan;
    struct wn_prune_options o = {.plan = &plan, .out = wn_test_path(folder, "t"), .force_plan = true};
    struct wn_prune_result result;
    struct records r;
    struct wn_err err;
    uint64_t v;

    (void)state;
    first_experts(&plan, golden, 7);
    fill(&r, golden);
    add_record(&r.later[0], count);
    o.source = make_set(golden, &r);
    CHECK_OK(wn_prune(&o, NULL, &result, &err), &err);
    out = open_ok(wn_test_path(folder, "t-00001-of-00003.gguf"));
    assert_true(wn_gguf_as_u64(&wn_source_gguf_of(out, 1)->kv[0], &v));
    assert_int_equal(v, 7);
    wn_source_close(out);

    other.value = (struct wn_bytes){"\x63\0\0\0", 4};
    fill(&r, golden);
    add_record(&r.later[0], &other);
    o.source = make_set(golden, &r);
    o.out = wn_test_path(folder, "u");
    CHECK_FAILS(wn_prune(&o, NULL, &result, &err), &err, "has another value than in the set's first file");
    wn_plan_release(&plan);
    wn_source_close(golden);
}

static void copy_file(const char *from, const char *to)
{
    struct wn_err err;
    size_t n;
    char *bytes = wn_file_slurp(from, 1 << 28, &n, &err);

    CHECK_OK(bytes, &err);
    CHECK_OK(wn_file_put(to, bytes, n, true, &err), &err);
    free(bytes);
}

/* Most folders number with five digits on either side; winnow's own names have six on the right, as K3's. */
static void shards_keep_the_names_that_they_have(void **state)
{
    const char *golden = wn_test_need_data(HF);
    char from[512], to[512], name[64];

    (void)state;
    snprintf(from, sizeof from, "%s", wn_test_folder());
    snprintf(to, sizeof to, "%s", wn_test_folder());
    copy_file(wn_test_path(golden, "config.json"), wn_test_path(from, "config.json"));
    for (int i = 1; i <= 4; i++) {
        const char *shard;

        snprintf(name, sizeof name, "model-%05d-of-%06d.safetensors", i, 4);
        shard = wn_test_path(golden, name);
        snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", i, 4);
        copy_file(shard, wn_test_path(from, name));
    }
    prune_ok(from, to, NULL, WN_LAYOUT_AS_SOURCE, 0);
    for (int i = 1; i <= 4; i++) {
        snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", i, 4);
        wn_test_same_file(wn_test_path(from, name), wn_test_path(to, name));
    }
    assert_true(wn_path_exists(wn_test_path(to, "model.safetensors.index.json")));
    prune_ok(to, wn_test_path(wn_test_folder(), "again"), NULL, WN_LAYOUT_AS_SOURCE, 0); /* its index names them */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_files_of_a_set_keep_their_own_records),
        cmocka_unit_test(verify_reads_the_records_of_every_file),
        cmocka_unit_test(a_record_that_a_joined_file_has_no_place_for_is_named),
        cmocka_unit_test(a_count_that_later_files_repeat_changes_in_all_of_them),
        cmocka_unit_test(shards_keep_the_names_that_they_have),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
