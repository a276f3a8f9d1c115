/* What lies beside a folder's weights: configs that say a thing twice, cards, and scales that are no numbers. */
#include "prune_help.h"
#include "base/bits.h"
#include "jobs/verify/verify_parts.h"
#include "sys/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <winnow/model.h>

#define TINY_A_GGUF "golden/text/tiny-a/gguf/tiny-a-BF16-MXFP4.gguf"
#define TINY_A_HF   "golden/text/tiny-a/hf"
#define TINY_A_KEEP "golden/text/tiny-a/ref/prune_keep.json"
#define TINY_A_NONU "golden/text/tiny-a/ref/prune_nonuniform_keep.json"

static struct wn_err err;

struct folder {
    char source[512], out[512], config[600];
};

/* A copy of tiny-a whose files may be changed, and a name for the output. */
static void copy_tiny(struct folder *f)
{
    const char *folder = wn_test_folder();

    snprintf(f->source, sizeof(f->source), "%s/source", folder);
    snprintf(f->out, sizeof(f->out), "%s/out", folder);
    snprintf(f->config, sizeof(f->config), "%s/config.json", f->source);
    prune_ok(wn_test_need_data(TINY_A_HF), f->source, NULL, WN_LAYOUT_AS_SOURCE, 0);
}

static void put_text(const char *folder, const char *name, const char *text)
{
    CHECK_OK(wn_file_put(wn_test_path(folder, name), text, strlen(text), true, &err), &err);
}

/* Puts text behind the first brace of the config. */
static void widen_config(const struct folder *f, const char *text)
{
    size_t n;
    char *old = wn_file_slurp(f->config, 1 << 20, &n, &err), *all;

    CHECK_OK(old, &err);
    all = malloc(n + strlen(text) + 1);
    assert_non_null(all);
    assert_int_equal(old[0], '{');
    sprintf(all, "{%s%s", text, old + 1);
    CHECK_OK(wn_file_put(f->config, all, strlen(all), true, &err), &err);
    free(old);
    free(all);
}

static bool text_has(const char *folder, const char *name, const char *part)
{
    size_t n;
    char *text = wn_file_slurp(wn_test_path(folder, name), 1 << 20, &n, &err);
    bool has;

    CHECK_OK(text, &err);
    has = strstr(text, part) != NULL;
    free(text);
    return has;
}

static void opens(const char *path)
{
    struct wn_model *m = wn_model_open(path, &err);

    CHECK_OK(m, &err);
    wn_model_close(m);
}

static void a_wrapper_that_repeats_the_count_is_edited_too(void **state)
{
    static const struct {
        const char *keep, *outer, *want;
    } cases[] = {
        {TINY_A_KEEP, "\n  \"num_experts\": 16,", "{\n  \"num_experts\": 10,"},
        {TINY_A_NONU, "\n  \"num_experts\": 16,", "{\n  \"num_experts\": 15,"},
        {TINY_A_KEEP, " \"num_experts\": 16, \"expert_counts\": [0, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16],",
         "{ \"num_experts\": 10, \"expert_counts\": [0, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10],"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wn_verify_result v;
        struct wn_plan plan;
        struct folder f;

        copy_tiny(&f);
        widen_config(&f, cases[i].outer);
        opens(f.source);
        plan_from_reference(&plan, wn_test_need_data(cases[i].keep), 4, 16);
        prune_ok(f.source, f.out, &plan, WN_LAYOUT_AS_SOURCE, 0);
        assert_true(text_has(f.out, "config.json", cases[i].want));
        opens(f.out);
        CHECK_OK(wn_verify(f.out, f.source, &plan, NULL, &v, &err), &err);
        CHECK_OK(wn_verify(f.out, NULL, NULL, NULL, &v, &err), &err);
        wn_plan_release(&plan);
    }
}

static void a_wrapper_that_contradicts_the_tensors_is_refused(void **state)
{
    struct wn_prune_result r;
    struct wn_plan plan;
    struct folder f;

    (void)state;
    copy_tiny(&f);
    widen_config(&f, "\"num_experts\": 17,");
    plan_from_reference(&plan, wn_test_need_data(TINY_A_KEEP), 4, 16);
    CHECK_FAILS(wn_prune(&(struct wn_prune_options){.source = f.source, .out = f.out, .plan = &plan}, NULL, &r, &err),
                &err, "beside 'text_config': 'num_experts' is 17, the tensors have 16");
    wn_plan_release(&plan);
}

static void a_folder_that_does_not_open_is_not_sound(void **state)
{
    struct wn_verify_result v;
    struct folder f;

    (void)state;
    copy_tiny(&f);
    CHECK_OK(wn_verify(f.source, NULL, NULL, NULL, &v, &err), &err);
    assert_true(replace_text(f.config, "\"kimi_k3\"", "\"kimi_k4\""));
    CHECK_FAILS(wn_verify(f.source, NULL, NULL, NULL, &v, &err), &err, "kimi_k4");
    assert_true(replace_text(f.config, "\"kimi_k4\"", "\"kimi_k3\""));
    widen_config(&f, "\"quantization\": {\"bits\": 4},");
    CHECK_FAILS(wn_verify(f.source, NULL, NULL, NULL, &v, &err), &err, "quantization");
    assert_int_equal(unlink(f.config), 0);
    CHECK_FAILS(wn_verify(f.source, NULL, NULL, NULL, &v, &err), &err, "config.json");
}

static void add_space(const char *path)
{
    FILE *f = fopen(path, "a");

    assert_non_null(f);
    fputc('\n', f);
    assert_int_equal(fclose(f), 0);
}

/* "every file is its source": whatever differs, or is more or less, takes that claim back, but is no fault. */
static void another_card_or_index_is_no_identical_folder(void **state)
{
    struct wn_verify_result v;
    struct folder f;

    (void)state;
    for (int i = 0; i < 5; i++) {
        char index[600];

        copy_tiny(&f);
        put_text(f.source, "README.md", "the card");
        prune_ok(f.source, f.out, NULL, WN_LAYOUT_AS_SOURCE, 0);
        CHECK_OK(wn_verify(f.out, f.source, NULL, NULL, &v, &err), &err);
        assert_true(v.identical_files);
        snprintf(index, sizeof(index), "%s/model.safetensors.index.json", f.out);
        if (i == 0)
            put_text(f.out, "README.md", "my card");
        else if (i == 1)
            assert_int_equal(unlink(wn_test_path(f.out, "README.md")), 0);
        else if (i == 2)
            add_space(index);
        else if (i == 3)
            put_text(f.out, ".gitattributes", "more");
        else
            assert_int_equal(unlink(wn_test_path(f.source, "README.md")), 0);
        CHECK_OK(wn_verify(f.out, f.source, NULL, NULL, &v, &err), &err);
        assert_false(v.identical_files);
    }
}

static void is_different(const struct folder *f, const char *part)
{
    struct wn_verify_result v;

    CHECK_FAILS(wn_verify(f->out, f->source, NULL, NULL, &v, &err), &err, part);
    assert_int_equal(err.code, WN_ERR_DIFFERENT);
}

/* Nothing that a loader might read is changed, added or taken away without being told. */
static void what_a_loader_reads_is_the_sources(void **state)
{
    static const char *const added[] = {"modeling_kimi_k3.py", "generation_config.json", "chat_template.jinja",
                                        "adapter_model.bin"};
    struct wn_verify_result v;
    struct folder f;
    char index[600];

    (void)state;
    copy_tiny(&f);
    put_text(f.source, "generation_config.json", "{\"temperature\": 1}");
    prune_ok(f.source, f.out, NULL, WN_LAYOUT_AS_SOURCE, 0);
    put_text(f.out, "generation_config.json", "{\"temperature\": 2}");
    is_different(&f, "'generation_config.json' differs from the source's at byte 16");
    assert_int_equal(unlink(wn_test_path(f.out, "generation_config.json")), 0);
    is_different(&f, "'generation_config.json' is missing");
    assert_int_equal(unlink(wn_test_path(f.source, "generation_config.json")), 0);
    put_text(f.out, "NOTES.txt", "which no loader reads");
    CHECK_OK(wn_verify(f.out, f.source, NULL, NULL, &v, &err), &err);
    assert_false(v.identical_files);
    assert_int_equal(unlink(wn_test_path(f.out, "NOTES.txt")), 0);
    for (size_t i = 0; i < sizeof(added) / sizeof(added[0]); i++) {
        char want[100];

        put_text(f.out, added[i], "more");
        snprintf(want, sizeof(want), "'%s' should not be there", added[i]);
        is_different(&f, want);
        assert_int_equal(unlink(wn_test_path(f.out, added[i])), 0);
    }
    snprintf(index, sizeof(index), "%s/model.safetensors.index.json", f.out);
    assert_true(replace_text(index, "\"total_size\": 5", "\"total_size\": 6"));
    is_different(&f, "total_size is 6");
    assert_true(replace_text(index, "\"total_size\":", "\"tctal_size\":"));
    is_different(&f, "tells no total_size");
    assert_int_equal(unlink(index), 0);
    is_different(&f, "'model.safetensors.index.json' is missing");
}

/* Puts __metadata__ into a shard's header. */
static void give_metadata(const char *path)
{
    static const char text[] =
        "{\"__metadata__\":{\"format\":\"pt\"},         "; /* for the brace; a multiple of 8 more */
    size_t n, more = sizeof(text) - 2;
    char *old = wn_file_slurp(path, 1 << 26, &n, &err), *all;

    CHECK_OK(old, &err);
    assert_int_equal(more % 8, 0);
    all = malloc(n + more);
    assert_non_null(all);
    wn_store_le(all, 8, wn_load_le(old, 8) + more);
    memcpy(all + 8, text, more + 1);
    memcpy(all + 8 + more + 1, old + 9, n - 9);
    CHECK_OK(wn_file_put(path, all, n + more, true, &err), &err);
    free(old);
    free(all);
}

static void nothing_hides_in_the_files_of_weights(void **state)
{
    struct wn_verify_result v;
    struct folder f;
    char shard[600];

    (void)state;
    copy_tiny(&f);
    give_metadata(wn_test_path(f.source, "model-00001-of-000004.safetensors"));
    give_metadata(wn_test_path(f.source, "model-00002-of-000004.safetensors"));
    prune_ok(f.source, f.out, NULL, WN_LAYOUT_AS_SOURCE, 0);
    CHECK_OK(wn_verify(f.out, f.source, NULL, NULL, &v, &err), &err);
    snprintf(shard, sizeof(shard), "%s/model-00002-of-000004.safetensors", f.out);
    assert_true(replace_text(shard, "{\"format\":\"pt\"}", "{\"format\":\"tf\"}"));
    is_different(&f, "'model-00002-of-000004.safetensors': '__metadata__' key 'format' is not as in the source");
    assert_true(replace_text(shard, "{\"format\":\"tf\"}", "{\"format\":\"pt\"}"));
    add_space(shard);
    is_different(&f, "'model-00002-of-000004.safetensors' has 1 bytes that belong to no tensor");
    /* of what the source has there too, a copy is true */
    CHECK_OK(wn_verify(f.out, f.out, NULL, NULL, &v, &err), &err);
    assert_true(v.identical_files);
}

struct notes {
    int n;
    char first[256], last[256];
};

static void keep_note(void *arg, const char *line)
{
    struct notes *n = arg;

    if (strstr(line, "no number")) /* others are about memory */
        snprintf(n->n++ ? n->last : n->first, sizeof(n->first), "%s", line);
}

static void verify_noting(const char *path, struct notes *notes, struct wn_verify_result *v)
{
    struct wn_job job = {.note = keep_note, .arg = notes};

    *notes = (struct notes){0};
    CHECK_OK(wn_verify(path, path, NULL, &job, v, &err), &err);
}

static void set_byte(const struct place *p, uint64_t at, uint8_t value)
{
    FILE *f = fopen(p->path, "r+b");

    assert_non_null(f);
    assert_int_equal(fseeko(f, (off_t)(p->at + at), SEEK_SET), 0);
    assert_int_equal(fputc(value, f), value);
    assert_int_equal(fclose(f), 0);
}

/* 64 rows of 96 weights: three blocks of 17 bytes a row, 3264 an expert. */
static void scales_that_are_no_number_are_told_in_a_gguf(void **state)
{
    char path[512];
    struct notes notes;
    struct wn_verify_result v;
    struct place p;

    (void)state;
    snprintf(path, sizeof(path), "%s/m.gguf", wn_test_folder());
    prune_ok(wn_test_need_data(TINY_A_GGUF), path, NULL, WN_LAYOUT_AS_SOURCE, 0);
    verify_noting(path, &notes, &v);
    assert_int_equal(notes.n, 0);
    assert_int_equal(v.bad_scales, 0);
    find_tensor(path, "blk.3.ffn_up_exps.weight", &p);
    set_byte(&p, 3264 * 5 + 17 * 7 + 3, 255); /* a code, which may be anything */
    set_byte(&p, 3264 * 5 + 17 * 8, 255);
    set_byte(&p, 3264 * 5 + 17 * 191, 255);
    set_byte(&p, 3264 * 6, 255);
    verify_noting(path, &notes, &v);
    assert_int_equal(v.bad_scales, 3);
    assert_int_equal(notes.n, 2);
    assert_string_equal(notes.first, "layer 3, new expert 5, 'blk.3.ffn_up_exps.weight': 2 scales of MXFP4 that are no "
                                     "number (255)");
    assert_non_null(strstr(notes.last, "new expert 6"));
    for (int e = 0; e < 16; e++)
        set_byte(&p, 3264 * (uint64_t)e, 255);
    verify_noting(path, &notes, &v);
    assert_int_equal(notes.n, 9); /* not sixteen */
    assert_string_equal(notes.last, "in all 18 scales that are no number, in 16 matrices");
}

/* However the bytes come in pieces, blocks stay where they are. */
static void pieces_of_any_length_count_the_same(void **state)
{
    enum { BLOCKS = 12, BYTES = BLOCKS * 17 };
    const struct wn_tensor from = {.name = "t", .type = WN_MXFP4};
    const struct wn_keep_layer layer = {.layer = 1};
    const struct wn_keep_tensor t = {
        .from = &from, .name = "t", .axis = WN_AXIS_OUTER, .layer = &layer, .slab_bytes = 4 * 17};
    uint8_t bytes[BYTES];

    (void)state;
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = i % 17 == 0 ? (i / 17 % 3 == 0 ? 255 : 127) : 255; /* codes may be anything */
    for (size_t piece = 1; piece <= BYTES; piece++) {
        struct wn_scales s = {0};

        for (size_t at = 0; at < BYTES; at += piece)
            wn_scales_look(&s, &t, at, bytes + at, at + piece < BYTES ? piece : BYTES - at);
        wn_scales_end(&s);
        assert_int_equal(s.all, BLOCKS / 3);
        assert_int_equal(s.notes, BLOCKS / 4);
    }
}

static void scales_that_are_no_number_are_told_in_a_folder(void **state)
{
    struct notes notes;
    struct wn_verify_result v;
    struct folder f;
    struct place p;

    (void)state;
    copy_tiny(&f);
    find_tensor(f.source, "language_model.model.layers.5.block_sparse_moe.experts.9.w2.weight_scale", &p);
    set_byte(&p, 7, 255);
    find_tensor(f.source, "language_model.model.layers.5.block_sparse_moe.experts.9.w2.weight_packed", &p);
    set_byte(&p, 7, 255);
    verify_noting(f.source, &notes, &v);
    assert_int_equal(notes.n, 1);
    assert_int_equal(v.bad_scales, 1);
    assert_true(wn_test_contains(notes.first, "layer 5, new expert 9, "));
    assert_true(wn_test_contains(notes.first, "w2.weight_scale': 1 scale of MXFP4 that is no number"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrapper_that_repeats_the_count_is_edited_too),
        cmocka_unit_test(a_wrapper_that_contradicts_the_tensors_is_refused),
        cmocka_unit_test(a_folder_that_does_not_open_is_not_sound),
        cmocka_unit_test(another_card_or_index_is_no_identical_folder),
        cmocka_unit_test(what_a_loader_reads_is_the_sources),
        cmocka_unit_test(nothing_hides_in_the_files_of_weights),
        cmocka_unit_test(scales_that_are_no_number_are_told_in_a_gguf),
        cmocka_unit_test(scales_that_are_no_number_are_told_in_a_folder),
        cmocka_unit_test(pieces_of_any_length_count_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
