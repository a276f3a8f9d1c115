/* What an output says of itself, and verify without a source. */
#include "prune_help.h"
#include "base/alloc.h"
#include "formats/source.h"
#include "jobs/hashing.h"
#include "jobs/prune/seal_json.h"
#include "sys/file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HF     "golden/text/tiny-a/hf"
#define SINGLE "golden/text/tiny-b/gguf/tiny-b-IQ1_S.gguf"
#define KEEP   "golden/text/tiny-a/ref/prune_keep.json"

static struct wn_prune_result hashed(const char *source, const char *out, const struct wn_plan *plan, bool hashes)
{
    struct wn_prune_options o = {.source = source, .out = out, .plan = plan, .hashes = hashes, .overwrite = true};
    struct wn_prune_result r;
    struct wn_err err;

    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    return r;
}

static const char *make_cut(void)
{
    const char *out = wn_test_path(wn_test_folder(), "cut");
    struct wn_plan plan;

    plan_from_reference(&plan, wn_test_need_data(KEEP), 4, 16);
    hashed(wn_test_need_data(HF), out, &plan, true);
    wn_plan_release(&plan);
    return out;
}

static void check_refused(const char *out, const char *part)
{
    struct wn_verify_result v;
    struct wn_err err;

    CHECK_FAILS(wn_verify(out, NULL, NULL, NULL, &v, &err), &err, part);
}

static void a_sound_output_is_told_so_with_all_its_files(void **state)
{
    const char *out = make_cut();
    struct wn_verify_result v;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_verify(out, NULL, NULL, NULL, &v, &err), &err);
    assert_int_equal(v.hashed_files, count_entries(out) - 1);
    assert_int_equal(v.bytes, 0);
}

/* The same digest by the library, which knows nothing of threads behind a writer. */
static void digests_are_those_of_the_files(void **state)
{
    const char *out = make_cut();
    json_t *root = json_load_file(wn_test_path(out, "winnow.json"), 0, NULL), *entry;
    size_t i;

    (void)state;
    assert_int_equal(json_array_size(json_object_get(root, "weights")), 4);
    json_array_foreach(json_object_get(root, "weights"), i, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        char want[2 * WN_DIGEST_BYTES + 1], *text;
        uint8_t digest[WN_DIGEST_BYTES];
        struct wn_err err;
        size_t n;

        text = wn_file_slurp(wn_test_path(out, name), 1 << 28, &n, &err);
        CHECK_OK(text, &err);
        CHECK_OK(wn_hash_bytes(text, n, digest, &err), &err);
        wn_hash_text(digest, sizeof digest, want);
        assert_string_equal(json_string_value(json_object_get(entry, "sha256")), want);
        free(text);
    }
    json_decref(root);
}

/* Adds what XXH3-128 of some bytes of a model is to that of others. */
static void add_sum_of(struct wn_checksum *to, const struct wn_source *s, const struct wn_tensor *t)
{
    struct wn_hash_part part = {t->at, t->bytes};
    uint8_t sum[WN_CHECKSUM_BYTES];
    struct wn_err err;

    CHECK_OK(wn_hash_file_part(&wn_source_file_at(s, t->file)->file, &part, sum, &err), &err);
    wn_checksum_add(to, sum, sizeof sum);
}

/* By the definition in docs/formats/provenance.md: the parts' digests, in the order in which they lie in the files. */
static void an_experts_digest_is_that_of_its_parts_digests(void **state)
{
    const char *out = make_cut();
    json_t *root = json_load_file(wn_test_path(out, "winnow.json"), 0, NULL);
    struct wn_checksum c = {0};
    uint8_t sum[WN_CHECKSUM_BYTES];
    char want[2 * WN_CHECKSUM_BYTES + 1];
    struct wn_source *s;
    struct wn_err err;
    size_t parts = 0;

    (void)state;
    CHECK_OK(s = wn_source_open(out, &err), &err);
    CHECK_OK(wn_checksum_begin(&c, &err), &err);
    for (size_t i = 0; i < wn_source_tensor_count(s); i++)
        if (strstr(wn_source_tensor_at(s, i)->name, "layers.2.block_sparse_moe.experts.3.")) {
            add_sum_of(&c, s, wn_source_tensor_at(s, i));
            parts++;
        }
    assert_int_equal(parts, 6);
    wn_checksum_end(&c, sum);
    wn_hash_text(sum, sizeof sum, want);
    assert_string_equal(json_string_value(json_array_get(json_object_get(wn_seal_experts(root), "2"), 3)), want);
    wn_checksum_release(&c);
    wn_source_close(s);
    json_decref(root);
}

static void one_changed_bit_names_file_layer_and_expert(void **state)
{
    const char *out = make_cut(), *name = "language_model.model.layers.2.block_sparse_moe.experts.3.w2.weight_packed";
    struct place p;
    char want[200];

    (void)state;
    find_tensor(out, name, &p);
    flip_byte(p.path, p.at + p.bytes / 2, 0x10);
    snprintf(want, sizeof want, "'%s' is not as its record says: layer 2, expert 3 has other bytes",
             strrchr(p.path, '/') + 1);
    check_refused(out, want);
}

static void a_changed_bit_of_no_expert_names_the_file(void **state)
{
    const char *out = make_cut();
    struct place p;

    (void)state;
    find_tensor(out, "language_model.model.norm.weight", &p);
    flip_byte(p.path, p.at, 1);
    check_refused(out, "though all of its experts are");
}

/* A record whose experts' digests are of a kind that this winnow does not know still tells of files. */
static void digests_of_another_kind_name_no_expert(void **state)
{
    const char *out = make_cut(), *record = wn_test_path(out, "winnow.json");
    json_t *root = json_load_file(record, 0, NULL), *experts = json_object_get(root, "experts");
    char self[2 * WN_DIGEST_BYTES + 1];
    struct wn_verify_result v;
    struct place p;
    struct wn_err err;

    (void)state;
    json_object_set(experts, "of-tomorrow", json_object_get(experts, WN_SEAL_EXPERTS));
    json_object_del(experts, WN_SEAL_EXPERTS);
    json_object_del(root, "record");
    CHECK_OK(wn_seal_self(root, self, &err), &err);
    json_object_set_new(root, "record", json_string(self));
    assert_int_equal(json_dump_file(root, record, 0), 0);
    json_decref(root);
    CHECK_OK(wn_verify(out, NULL, NULL, NULL, &v, &err), &err);
    find_tensor(out, "language_model.model.layers.2.block_sparse_moe.experts.3.w2.weight_packed", &p);
    flip_byte(p.path, p.at, 1);
    check_refused(out, "is not as its record says, which has no xxh3_128 of experts");
}

static void files_beside_the_weights_are_held_against_it_too(void **state)
{
    const char *out = make_cut();

    (void)state;
    flip_byte(wn_test_path(out, "tiktoken.model"), 10, 1);
    check_refused(out, "'tiktoken.model' is not as its record says");
    assert_true(wn_path_remove(wn_test_path(out, "tiktoken.model")));
    check_refused(out, "'tiktoken.model' is missing");
}

/* With the source at hand, too. */
static void a_changed_record_is_noticed(void **state)
{
    const char *out = make_cut();
    struct wn_verify_result v;
    struct wn_plan plan;
    struct wn_err err;

    (void)state;
    assert_true(
        replace_text(wn_test_path(out, "winnow.json"), "\"layout\": \"as-source\"", "\"layout\": \"xs-source\""));
    check_refused(out, "the record 'winnow.json' was changed");
    plan_from_reference(&plan, wn_test_need_data(KEEP), 4, 16);
    CHECK_FAILS(wn_verify(out, wn_test_need_data(HF), &plan, NULL, &v, &err), &err,
                "the record 'winnow.json' was changed");
    wn_plan_release(&plan);
}

/* Its bytes stay the source's, so the record lies beside it. */
static void a_gguf_has_it_beside_itself(void **state)
{
    const char *folder = wn_test_folder(), *out = wn_test_path(folder, "copy.gguf");
    struct wn_verify_result v;
    struct place p;
    struct wn_err err;

    (void)state;
    hashed(wn_test_need_data(SINGLE), out, NULL, true);
    wn_test_same_file(wn_test_need_data(SINGLE), out);
    assert_int_equal(count_entries(folder), 2);
    CHECK_OK(wn_verify(out, NULL, NULL, NULL, &v, &err), &err);
    assert_int_equal(v.hashed_files, 1);
    find_tensor(out, "blk.2.ffn_up_exps.weight", &p);
    flip_byte(out, p.at + p.bytes - 1, 1);
    check_refused(out, "layer 2, expert ");
}

/* What overwrites a model does away with what was said of it. */
static void no_record_outlives_its_files(void **state)
{
    const char *folder = wn_test_folder(), *gguf = wn_test_path(folder, "copy.gguf"), *out = wn_test_path(folder, "hf");

    (void)state;
    hashed(wn_test_need_data(SINGLE), gguf, NULL, true);
    hashed(wn_test_need_data(SINGLE), gguf, NULL, false);
    assert_false(wn_path_exists(wn_test_path(folder, "copy.gguf.winnow.json")));
    hashed(wn_test_need_data(HF), out, NULL, true);
    assert_true(wn_path_exists(wn_test_path(out, "winnow.json")));
    hashed(wn_test_need_data(HF), out, NULL, false);
    assert_false(wn_path_exists(wn_test_path(out, "winnow.json")));
}

/* A copy of a copy has a record of its own, which names its parent's. */
static void records_are_a_chain(void **state)
{
    const char *first = make_cut(), *second = wn_test_path(wn_test_folder(), "again");
    json_t *a, *b;
    struct wn_verify_result v;
    struct wn_err err;

    (void)state;
    hashed(first, second, NULL, true);
    a = json_load_file(wn_test_path(first, "winnow.json"), 0, NULL);
    b = json_load_file(wn_test_path(second, "winnow.json"), 0, NULL);
    assert_true(json_equal(json_object_get(a, "record"), json_object_get(json_object_get(b, "parent"), "record")));
    assert_true(json_equal(json_object_get(a, "experts"), json_object_get(b, "experts")));
    json_decref(a);
    json_decref(b);
    CHECK_OK(wn_verify(second, first, NULL, NULL, &v, &err), &err);
    assert_true(v.identical_files);
}

static void every_refused_allocation_is_survived(void **state)
{
    const char *source = wn_test_need_data(SINGLE), *folder = wn_test_folder(),
               *out = wn_test_path(folder, "copy.gguf");
    struct wn_prune_options o = {.source = source, .out = out, .hashes = true, .resume = true};
    struct wn_prune_result r;
    struct wn_err err;
    bool ok = false;

    (void)state;
    for (long n = 0; !ok && n < 20000; n += 7) {
        wn_alloc_fail_after(n);
        ok = wn_prune(&o, NULL, &r, &err);
        wn_alloc_fail_after(-1);
        if (!ok)
            assert_int_equal(err.code, WN_ERR_NOMEM);
        assert_int_equal(wn_path_exists(out), ok);
    }
    assert_true(ok);
    wn_test_same_file(source, out);
}

static void added_files_that_a_loader_reads_are_named(void **state)
{
    static const char *const read[] = {"modeling_evil.py",  "model-00009-of-00009.gguf",
                                       "added_tokens.json", "chat_template.jinja",
                                       "x.model",           "merges.txt"};
    static const char *const spared[] = {"README.md", "NOTES.txt", ".hidden.py", "picture.png", "a.json.part"};
    const char *out = make_cut();
    struct wn_verify_result v;
    struct wn_err err;

    (void)state;
    for (size_t i = 0; i < sizeof spared / sizeof spared[0]; i++)
        CHECK_OK(wn_file_put(wn_test_path(out, spared[i]), "x", 1, true, &err), &err);
    CHECK_OK(wn_verify(out, NULL, NULL, NULL, &v, &err), &err);
    for (size_t i = 0; i < sizeof read / sizeof read[0]; i++) {
        const char *path = wn_test_path(out, read[i]);

        CHECK_OK(wn_file_put(path, "{}", 2, false, &err), &err);
        CHECK_FAILS(wn_verify(out, NULL, NULL, NULL, &v, &err), &err, "was added");
        assert_int_equal(err.code, WN_ERR_DIFFERENT);
        assert_true(wn_test_contains(err.msg, read[i]));
        assert_true(wn_path_remove(path));
    }
    CHECK_OK(wn_verify(out, NULL, NULL, NULL, &v, &err), &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_output_is_told_so_with_all_its_files),
        cmocka_unit_test(digests_are_those_of_the_files),
        cmocka_unit_test(an_experts_digest_is_that_of_its_parts_digests),
        cmocka_unit_test(one_changed_bit_names_file_layer_and_expert),
        cmocka_unit_test(a_changed_bit_of_no_expert_names_the_file),
        cmocka_unit_test(digests_of_another_kind_name_no_expert),
        cmocka_unit_test(files_beside_the_weights_are_held_against_it_too),
        cmocka_unit_test(added_files_that_a_loader_reads_are_named),
        cmocka_unit_test(a_changed_record_is_noticed),
        cmocka_unit_test(a_gguf_has_it_beside_itself),
        cmocka_unit_test(no_record_outlives_its_files),
        cmocka_unit_test(records_are_a_chain),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };

    wn_file_pretend_sync(true); /* no test here takes the power away */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
