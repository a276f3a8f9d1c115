/* Prune: identity, plans by golden order, layouts, refusals, and that nothing is left when it is stopped. */
#include "prune_help.h"
#include "base/alloc.h"
#include "formats/source.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TINY_A_GGUF "golden/text/tiny-a/gguf/tiny-a-BF16-MXFP4.gguf"
#define TINY_A_HF   "golden/text/tiny-a/hf"
#define TINY_A_KEEP "golden/text/tiny-a/ref/prune_keep.json"
#define TINY_A_NONU "golden/text/tiny-a/ref/prune_nonuniform_keep.json"
#define TINY_B_GGUF "golden/text/tiny-b/gguf/"
#define TINY_B_SET  "golden/text/tiny-b/gguf/split/tiny-b-IQ1_S-00001-of-00003.gguf"

static const char *text_of(const char *path)
{
    static char text[1 << 20];
    FILE *f = fopen(path, "rb");
    size_t n;

    assert_non_null(f);
    n = fread(text, 1, sizeof(text) - 1, f);
    text[n] = 0;
    fclose(f);
    return text;
}

static void verify_ok(const char *out, const char *source, const struct wn_plan *plan, struct wn_verify_result *r)
{
    struct wn_err err;

    CHECK_OK(wn_verify(out, source, plan, NULL, r, &err), &err);
}

static void check_identity(const char *name)
{
    const char *source = wn_test_need_data(name), *out = wn_test_path(wn_test_folder(), "same.gguf");
    struct wn_verify_result v;
    struct wn_prune_result r = prune_ok(source, out, NULL, WN_LAYOUT_AS_SOURCE, 0);

    wn_test_same_file(source, out);
    assert_int_equal(r.source_bytes, r.out_bytes);
    verify_ok(out, source, NULL, &v);
    assert_true(v.identical_files);
}

static void the_identity_plan_returns_the_same_gguf(void **state)
{
    (void)state;
    check_identity(TINY_A_GGUF);
    check_identity(TINY_B_GGUF "tiny-b-IQ1_S.gguf");
}

static void the_identity_plan_returns_every_quantised_gguf(void **state)
{
    static const char *const types[] = {"BF16-MXFP4", "IQ2_XXS", "MXFP4_MOE", "Q2_K", "Q4_K_M", "Q8_0"};
    char name[128];

    (void)state;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        snprintf(name, sizeof(name), TINY_B_GGUF "tiny-b-%s.gguf", types[i]);
        check_identity(name);
    }
}

static void the_identity_plan_returns_the_same_split_set(void **state)
{
    const char *source = wn_test_need_data(TINY_B_SET), *folder = wn_test_folder();
    struct wn_verify_result v;
    char a[600], b[600];

    (void)state;
    prune_ok(source, wn_test_path(folder, "t-00001-of-00003.gguf"), NULL, WN_LAYOUT_AS_SOURCE, 0);
    for (int i = 1; i <= 3; i++) {
        snprintf(a, sizeof(a), "%.*s%05d-of-00003.gguf", (int)(strlen(source) - strlen("00001-of-00003.gguf")), source,
                 i);
        snprintf(b, sizeof(b), "%s/t-%05d-of-00003.gguf", folder, i);
        wn_test_same_file(a, b);
    }
    verify_ok(wn_test_path(folder, "t-00001-of-00003.gguf"), source, NULL, &v);
    assert_true(v.identical_files);
}

static void a_split_set_joins_to_one_file_and_splits_again(void **state)
{
    const char *source = wn_test_need_data(TINY_B_SET), *folder = wn_test_folder();
    const char *single = wn_test_need_data(TINY_B_GGUF "tiny-b-IQ1_S.gguf");
    const char *joined = wn_test_path(folder, "joined.gguf"), *again = wn_test_path(folder, "again.gguf");
    struct wn_prune_result r;
    struct wn_verify_result v;

    (void)state;
    r = prune_ok(source, joined, NULL, WN_LAYOUT_JOINED, 0);
    assert_int_equal(r.files, 1);
    verify_ok(joined, source, NULL, &v);
    assert_false(v.identical_files);
    verify_ok(joined, single, NULL, &v);
    r = prune_ok(joined, again, NULL, WN_LAYOUT_SPLIT, 400000);
    assert_true(r.files > 2);
    verify_ok(wn_test_path(folder, r.files == 4 ? "again-00001-of-00004.gguf" : "again-00001-of-00005.gguf"), source,
              NULL, &v);
}

static void a_split_file_never_exceeds_its_limit(void **state)
{
    const char *source = wn_test_need_data(TINY_A_GGUF), *folder = wn_test_folder();
    struct wn_prune_result r =
        prune_ok(source, wn_test_path(folder, "x.gguf"), NULL, WN_LAYOUT_SPLIT, (uint64_t)1 << 20);
    char first[600];
    struct wn_source *s;
    struct wn_err err;

    (void)state;
    snprintf(first, sizeof(first), "%s/x-00001-of-%05u.gguf", folder, r.files);
    s = wn_source_open(first, &err);
    CHECK_OK(s, &err);
    for (size_t i = 0; i < wn_source_file_count(s); i++) {
        const struct wn_source_file *f = wn_source_file_at(s, i);

        assert_true(f->file.bytes - f->header_bytes <= (uint64_t)1 << 20);
        assert_true(f->tensor_count > 0);
    }
    wn_source_close(s);
}

static void the_identity_plan_returns_the_same_folder(void **state)
{
    const char *source = wn_test_need_data(TINY_A_HF), *out = wn_test_path(wn_test_folder(), "hf");
    static const char *const names[] = {"config.json",
                                        "tokenizer_config.json",
                                        "tiktoken.model",
                                        "model-00001-of-000004.safetensors",
                                        "model-00002-of-000004.safetensors",
                                        "model-00003-of-000004.safetensors",
                                        "model-00004-of-000004.safetensors"};
    struct wn_verify_result v;
    struct wn_prune_result r;
    char a[600], b[600];

    (void)state;
    snprintf(a, sizeof(a), "%s", source); /* paths by the helpers are soon made over */
    snprintf(b, sizeof(b), "%s", out);
    source = a;
    out = b;
    r = prune_ok(source, out, NULL, WN_LAYOUT_AS_SOURCE, 0);
    assert_int_equal(r.source_bytes, r.out_bytes); /* the index, laid out as the source's, is on both sides */
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        wn_test_same_file(wn_test_path(source, names[i]), wn_test_path(out, names[i]));
    assert_int_equal(count_entries(out), 8);
    verify_ok(out, source, NULL, &v);
    assert_true(v.identical_files);
}

static void a_pruned_gguf_verifies_and_has_the_new_count(void **state)
{
    const char *source = wn_test_need_data(TINY_A_GGUF), *out = wn_test_path(wn_test_folder(), "p.gguf");
    struct wn_verify_result v;
    struct wn_plan plan;
    struct wn_source *s;
    struct wn_err err;
    const struct wn_gguf_kv *kv;
    uint64_t count;

    (void)state;
    plan_from_reference(&plan, wn_test_need_data(TINY_A_KEEP), 4, 16);
    prune_ok(source, out, &plan, WN_LAYOUT_AS_SOURCE, 0);
    verify_ok(out, source, &plan, &v);
    assert_int_equal(v.experts, 12 * 10);
    assert_false(v.identical_files);
    s = wn_source_open(out, &err);
    CHECK_OK(s, &err);
    kv = wn_gguf_find(wn_source_gguf(s), "kimi-k3.expert_count");
    assert_non_null(kv);
    assert_int_equal(kv->type, WN_GGUF_U32);
    assert_true(wn_gguf_as_u64(kv, &count));
    assert_int_equal(count, 10);
    wn_source_close(s);
    CHECK_OK(wn_verify(out, NULL, NULL, NULL, &v, &err), &err);
    wn_plan_release(&plan);
}

/* Independent of keep.c: the slab of new expert j is the slab of old expert keep[j], for each of the five tensors. */
static void every_new_expert_is_its_old_one(void **state)
{
    static const char *const parts[] = {"ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight",
                                        "ffn_gate_inp.weight", "exp_probs_b.bias"};
    const char *source = wn_test_need_data(TINY_A_GGUF), *out = wn_test_path(wn_test_folder(), "p.gguf");
    struct wn_source *a, *b;
    struct wn_plan plan;
    struct wn_err err;
    char name[64];

    (void)state;
    plan_from_reference(&plan, wn_test_need_data(TINY_A_KEEP), 4, 16);
    prune_ok(source, out, &plan, WN_LAYOUT_AS_SOURCE, 0);
    a = wn_source_open(source, &err);
    b = wn_source_open(out, &err);
    assert_non_null(a);
    assert_non_null(b);
    for (uint32_t i = 0; i < plan.layer_count; i++) {
        for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
            const struct wn_tensor *x, *y;
            const uint8_t *p, *q;

            snprintf(name, sizeof(name), "blk.%u.%s", plan.layers[i].layer, parts[k]);
            x = wn_source_find(a, name);
            y = wn_source_find(b, name);
            assert_non_null(x);
            assert_non_null(y);
            assert_int_equal(x->bytes / 16, y->bytes / 10);
            p = wn_source_view(a, x, &err);
            q = wn_source_view(b, y, &err);
            assert_non_null(p);
            assert_non_null(q);
            for (uint32_t e = 0; e < 10; e++)
                assert_memory_equal(q + e * (y->bytes / 10), p + plan.layers[i].keep[e] * (x->bytes / 16),
                                    x->bytes / 16);
        }
    }
    wn_source_close(b);
    wn_source_close(a);
    wn_plan_release(&plan);
}

static void a_pruned_folder_verifies_and_changes_one_number_of_the_config(void **state)
{
    const char *source = wn_test_need_data(TINY_A_HF), *out = wn_test_path(wn_test_folder(), "hf");
    char want[16384], *at;
    struct wn_verify_result v;
    struct wn_plan plan;
    struct wn_err err;

    (void)state;
    plan_from_reference(&plan, wn_test_need_data(TINY_A_KEEP), 4, 16);
    prune_ok(source, out, &plan, WN_LAYOUT_AS_SOURCE, 0);
    verify_ok(out, source, &plan, &v);
    assert_int_equal(v.experts, 12 * 10);
    snprintf(want, sizeof(want), "%s", text_of(wn_test_path(source, "config.json")));
    at = strstr(want, "\"num_experts\": 16");
    assert_non_null(at);
    memcpy(at + strlen("\"num_experts\": "), "10", 2);
    assert_string_equal(text_of(wn_test_path(out, "config.json")), want);
    CHECK_OK(wn_verify(out, NULL, NULL, NULL, &v, &err), &err);
    wn_plan_release(&plan);
}

static void uneven_counts_are_told_layer_by_layer(void **state)
{
    const char *source = wn_test_need_data(TINY_A_HF), *out = wn_test_path(wn_test_folder(), "hf");
    const char *again = wn_test_path(wn_test_folder(), "again");
    const char *counts =
        "\"num_experts\": 15,\n    \"expert_counts\": [0, 11, 12, 10, 11, 9, 14, 11, 14, 5, 15, 9, 10],";
    struct wn_verify_result v;
    struct wn_plan plan;
    struct wn_err err;

    (void)state;
    plan_from_reference(&plan, wn_test_need_data(TINY_A_NONU), 4, 16);
    prune_ok(source, out, &plan, WN_LAYOUT_AS_SOURCE, 0);
    verify_ok(out, source, &plan, &v);
    assert_non_null(strstr(text_of(wn_test_path(out, "config.json")), counts));
    CHECK_OK(wn_verify(out, NULL, NULL, NULL, &v, &err), &err);
    prune_ok(out, again, NULL, WN_LAYOUT_AS_SOURCE, 0);
    verify_ok(again, source, &plan, &v);
    wn_plan_release(&plan);
}

/* Cutting what was cut: the list that the config has is brought up to date where it stands. */
static void an_uneven_model_can_be_cut_again(void **state)
{
    const char *source = wn_test_need_data(TINY_A_HF), *out = wn_test_path(wn_test_folder(), "hf");
    const char *again = wn_test_path(wn_test_folder(), "again");
    struct wn_verify_result v;
    struct wn_plan plan, second;
    struct wn_err err;

    (void)state;
    plan_from_reference(&plan, wn_test_need_data(TINY_A_NONU), 4, 16);
    prune_ok(source, out, &plan, WN_LAYOUT_AS_SOURCE, 0);
    plan_from_reference(&second, wn_test_need_data(TINY_A_NONU), 4, 16);
    second.num_experts = 15;
    for (uint32_t i = 0; i < second.layer_count; i++)
        for (uint32_t e = 0; e < (second.layers[i].keep_count = 5); e++)
            second.layers[i].keep[e] = 4 - e;
    prune_ok(out, again, &second, WN_LAYOUT_AS_SOURCE, 0);
    verify_ok(again, out, &second, &v);
    assert_non_null(strstr(text_of(wn_test_path(again, "config.json")),
                           "\"num_experts\": 5,\n    \"expert_counts\": [0, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5],"));
    CHECK_OK(wn_verify(again, NULL, NULL, NULL, &v, &err), &err);
    wn_plan_release(&second);
    wn_plan_release(&plan);
}

static void a_folder_joins_to_one_file_and_splits_again(void **state)
{
    const char *source = wn_test_need_data(TINY_A_HF), *folder = wn_test_folder();
    struct wn_verify_result v;
    struct wn_prune_result r;
    struct wn_plan plan;

    (void)state;
    plan_from_reference(&plan, wn_test_need_data(TINY_A_KEEP), 4, 16);
    r = prune_ok(source, wn_test_path(folder, "joined"), &plan, WN_LAYOUT_JOINED, 0);
    assert_int_equal(r.files, 1);
    verify_ok(wn_test_path(folder, "joined"), source, &plan, &v);
    r = prune_ok(wn_test_path(folder, "joined"), wn_test_path(folder, "split"), NULL, WN_LAYOUT_SPLIT, 1000000);
    assert_true(r.files >= 4);
    verify_ok(wn_test_path(folder, "split"), source, &plan, &v);
    wn_plan_release(&plan);
}

static void gguf_refuses_uneven_counts(void **state)
{
    const char *source = wn_test_need_data(TINY_A_GGUF), *folder = wn_test_folder();
    struct wn_prune_options o = {.source = source, .out = wn_test_path(folder, "p.gguf")};
    struct wn_prune_result r;
    struct wn_plan plan;
    struct wn_err err;

    (void)state;
    plan_from_reference(&plan, wn_test_need_data(TINY_A_NONU), 4, 16);
    o.plan = &plan;
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "one expert count");
    assert_int_equal(count_entries(folder), 0);
    wn_plan_release(&plan);
}

static void a_plan_for_another_model_is_refused_with_numbers(void **state)
{
    const char *source = wn_test_need_data(TINY_A_GGUF), *folder = wn_test_folder();
    struct wn_prune_options o = {.source = source, .out = wn_test_path(folder, "p.gguf")};
    struct wn_prune_result r;
    struct wn_plan plan;
    struct wn_err err;

    (void)state;
    plan_from_reference(&plan, wn_test_need_data(TINY_A_KEEP), 4, 16);
    o.plan = &plan;
    plan.layers[11].layer = 13;
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "layer 13");
    plan.layers[11].layer = 12;
    plan.layer_count = 11;
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "layer 12 has experts, but is not in the plan");
    plan.layer_count = 12;
    plan.num_experts = 17;
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "17 experts a layer, the model has 16");
    plan.num_experts = 16;
    plan.top_k = 8;
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "8 experts per token, the model chooses 4");
    plan.top_k = 4;
    plan.layers[3].keep[5] = 16;
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "expert 16, the model has 16");
    plan.layers[3].keep[5] = plan.layers[3].keep[4];
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "twice");
    assert_int_equal(count_entries(folder), 0);
    wn_plan_release(&plan);
}

static void a_plan_by_fingerprint_fits_its_model_only(void **state)
{
    const char *source = wn_test_need_data(TINY_A_GGUF), *folder = wn_test_folder();
    struct wn_prune_options o = {.source = source, .out = wn_test_path(folder, "p.gguf"), .dry_run = true};
    struct wn_prune_result r;
    struct wn_plan plan;
    struct wn_err err;
    struct wn_source *s = wn_source_open(source, &err);

    (void)state;
    assert_non_null(s);
    plan_from_reference(&plan, wn_test_need_data(TINY_A_KEEP), 4, 16);
    o.plan = &plan;
    wn_source_fingerprint(s, plan.model_fingerprint);
    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    plan.model_fingerprint[3] ^= 1;
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "fingerprint");
    o.force_plan = true;
    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    wn_source_close(s);
    wn_plan_release(&plan);
}

static void a_dry_run_tells_the_exact_size_and_touches_nothing(void **state)
{
    static const char *const names[] = {TINY_A_GGUF, TINY_A_HF};
    struct wn_plan plan;

    (void)state;
    plan_from_reference(&plan, wn_test_need_data(TINY_A_KEEP), 4, 16);
    for (int i = 0; i < 2; i++) {
        const char *folder = wn_test_folder(), *out = wn_test_path(folder, "out");
        struct wn_prune_options o = {.source = wn_test_need_data(names[i]), .out = out, .plan = &plan, .dry_run = true};
        struct wn_prune_result dry, real;
        struct wn_source *s;
        struct wn_err err;
        uint64_t bytes = 0;

        CHECK_OK(wn_prune(&o, NULL, &dry, &err), &err);
        assert_int_equal(count_entries(folder), 0);
        assert_int_equal(dry.copied_bytes, 0);
        real = prune_ok(o.source, out, &plan, WN_LAYOUT_AS_SOURCE, 0);
        assert_int_equal(dry.out_bytes, real.out_bytes);
        assert_int_equal(dry.out_tensor_bytes, real.copied_bytes);
        s = wn_source_open(out, &err);
        CHECK_OK(s, &err);
        for (size_t f = 0; f < wn_source_file_count(s); f++)
            bytes += wn_source_file_at(s, f)->file.bytes;
        if (i == 1) {
            struct stat st;

            assert_int_equal(stat(wn_test_path(out, "model.safetensors.index.json"), &st), 0);
            bytes += (uint64_t)st.st_size;
        }
        assert_int_equal(bytes, dry.out_bytes);
        wn_source_close(s);
    }
    wn_plan_release(&plan);
}

static void nothing_is_written_over(void **state)
{
    const char *folder = wn_test_folder(), *gguf = wn_test_path(folder, "a.gguf"), *hf = wn_test_path(folder, "hf");
    struct wn_prune_options o = {.source = gguf, .out = gguf, .overwrite = true};
    struct wn_prune_result r;
    struct wn_err err;

    (void)state;
    prune_ok(wn_test_need_data(TINY_A_GGUF), gguf, NULL, WN_LAYOUT_AS_SOURCE, 0);
    prune_ok(wn_test_need_data(TINY_A_HF), hf, NULL, WN_LAYOUT_AS_SOURCE, 0);
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "is a file of the source");
    o.source = wn_test_need_data(TINY_A_GGUF);
    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    o.overwrite = false;
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "exists already");
    o.source = hf;
    o.out = hf;
    o.overwrite = true;
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "lies in the source's folder");
    o.out = wn_test_path(hf, "deep/../inside");
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "lies in the source's folder");
    o.source = wn_test_need_data(TINY_A_HF);
    o.out = hf;
    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    o.overwrite = false;
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "not empty");
    o.overwrite = true;
    o.layout = WN_LAYOUT_JOINED;
    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err); /* the old shards and their index go */
    assert_true(wn_path_exists(wn_test_path(hf, "model.safetensors")));
    assert_false(wn_path_exists(wn_test_path(hf, "model.safetensors.index.json")));
    assert_false(wn_path_exists(wn_test_path(hf, "model-00001-of-000004.safetensors")));
}

static bool stop_at_once(void *arg, const struct wn_progress *p)
{
    int *left = arg;

    (void)p;
    return (*left)-- > 0;
}

static void a_canceled_prune_leaves_nothing(void **state)
{
    static const char *const names[] = {TINY_A_GGUF, TINY_A_HF};

    (void)state;
    for (int i = 0; i < 4; i++) {
        const char *folder = wn_test_folder();
        int left = i / 2;
        struct wn_prune_options o = {.source = wn_test_need_data(names[i % 2]), .out = wn_test_path(folder, "out")};
        struct wn_job job = {.progress = stop_at_once, .arg = &left};
        struct wn_prune_result r;
        struct wn_err err;

        assert_false(wn_prune(&o, &job, &r, &err));
        assert_int_equal(err.code, WN_ERR_CANCELED);
        assert_int_equal(count_entries(folder), 0);
    }
}

/* True when the prune worked with only n writes allowed; otherwise nothing may be left. */
static bool works_with_writes(const struct wn_prune_options *o, const char *folder, long n)
{
    struct wn_prune_result r;
    struct wn_err err;
    bool ok;

    wn_file_fail_writes_after(n);
    ok = wn_prune(o, NULL, &r, &err);
    wn_file_fail_writes_after(-1);
    if (!ok && count_entries(folder) != 0)
        fail_msg("write %ld refused ('%s'), and something is left", n, err.msg);
    return ok;
}

static void a_full_disk_leaves_nothing(void **state)
{
    static const char *const names[] = {TINY_A_GGUF, TINY_A_HF};

    (void)state;
    for (int i = 0; i < 2; i++) {
        long low = 0, high = 8000; /* the number of writes that it takes lies between */
        const char *folder = NULL;
        struct wn_prune_options o = {.source = wn_test_need_data(names[i])};
        char source[600];

        snprintf(source, sizeof(source), "%s", o.source);
        o.source = source;
        while (high - low > 1) {
            folder = wn_test_folder();
            o.out = wn_test_path(folder, "out");
            if (works_with_writes(&o, folder, (low + high) / 2))
                high = (low + high) / 2;
            else
                low = (low + high) / 2;
        }
        folder = wn_test_folder();
        o.out = wn_test_path(folder, "out");
        for (long n = 0; n < 12; n++)
            assert_false(works_with_writes(&o, folder, n));
        for (long n = 0; n < 24; n += 2 - i) /* the commits */
            assert_false(works_with_writes(&o, folder, high - 1 - n));
    }
}

/* Fails each allocation in turn until the job gets through. */
static void no_memory_is_said_and_leaves_nothing(void **state)
{
    static const char *const names[] = {TINY_B_GGUF "tiny-b-IQ1_S.gguf", TINY_A_HF};
    struct wn_plan plan;

    (void)state;
    plan_from_reference(&plan, wn_test_need_data(TINY_A_KEEP), 4, 16);
    for (int i = 0; i < 2; i++) {
        const char *folder = wn_test_folder();
        struct wn_prune_options o = {.source = wn_test_need_data(names[i]), .plan = i ? &plan : NULL};
        struct wn_prune_result r;
        struct wn_verify_result v;
        struct wn_err err;
        bool ok = false;

        o.out = wn_test_path(folder, "out");
        for (long n = 0; !ok; n += 1 + n / 16) {
            wn_alloc_fail_after(n);
            ok = wn_prune(&o, NULL, &r, &err);
            wn_alloc_fail_after(-1);
            assert_true(ok || (err.code == WN_ERR_NOMEM && count_entries(folder) == 0));
        }
        ok = false;
        for (long n = 0; !ok; n += 1 + n / 16) {
            wn_alloc_fail_after(n);
            ok = wn_verify(o.out, o.source, o.plan, NULL, &v, &err);
            wn_alloc_fail_after(-1);
            assert_true(ok || err.code == WN_ERR_NOMEM);
        }
    }
    wn_plan_release(&plan);
}

static void what_a_killed_run_left_is_replaced(void **state)
{
    const char *folder = wn_test_folder(), *hf = wn_test_path(folder, "hf");
    const char *source = wn_test_need_data(TINY_A_HF), *gguf = wn_test_need_data(TINY_A_GGUF);
    struct wn_verify_result v;
    FILE *f;

    (void)state;
    assert_int_equal(mkdir(hf, 0777), 0);
    f = fopen(wn_test_path(hf, "model-00002-of-000004.safetensors.part"), "w");
    assert_non_null(f);
    fputs("half a shard", f);
    fclose(f);
    f = fopen(wn_test_path(folder, "a.gguf.part"), "w");
    assert_non_null(f);
    fclose(f);
    prune_ok(source, hf, NULL, WN_LAYOUT_AS_SOURCE, 0);
    verify_ok(hf, source, NULL, &v);
    assert_int_equal(count_entries(hf), 8);
    prune_ok(gguf, wn_test_path(folder, "a.gguf"), NULL, WN_LAYOUT_AS_SOURCE, 0);
    assert_int_equal(count_entries(folder), 2);
}

static bool die(void *arg, const struct wn_progress *p)
{
    (void)arg;
    if (p->done == p->total)
        (void)kill(getpid(), SIGKILL);
    return true;
}

static void a_killed_run_leaves_only_unfinished_files(void **state)
{
    static const char *const names[] = {TINY_A_GGUF, TINY_A_HF};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *folder = wn_test_folder(), *out = wn_test_path(folder, "out");
        struct wn_prune_options o = {.source = wn_test_need_data(names[i]), .out = out};
        struct wn_job job = {.progress = die};
        struct wn_verify_result v;
        struct wn_prune_result r;
        struct wn_err err;
        char **left;
        size_t n;
        int status;
        pid_t child = fork();

        if (child == 0) {
            _exit(wn_prune(&o, &job, &r, &err));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        CHECK_OK(wn_path_list(i ? out : folder, &left, &n, &err), &err);
        assert_true(n > 0);
        for (size_t k = 0; k < n; k++)
            assert_non_null(strstr(left[k], ".part"));
        wn_names_free(left, n);
        CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
        verify_ok(out, o.source, NULL, &v);
        assert_int_equal(count_entries(folder), 1);
    }
}

static void a_disk_too_small_is_refused_with_the_figures(void **state)
{
    static const char *const models[] = {TINY_A_GGUF, TINY_A_HF};
    struct wn_prune_result r;
    struct wn_err err;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const char *folder = wn_test_folder();
        struct wn_prune_options o = {.source = wn_test_need_data(models[i]), .out = wn_test_path(folder, "out")};
        bool ok;

        /* no room for the last bytes, though all but them would fit */
        o.dry_run = true;
        CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
        o.dry_run = false;
        wn_path_pretend_space(r.out_bytes - 1);
        ok = wn_prune(&o, NULL, &r, &err);
        wn_path_pretend_space(UINT64_MAX);
        CHECK_FAILS(ok, &err, "bytes free, the output needs");
        assert_int_equal(err.code, WN_ERR_IO);
        assert_int_equal(count_entries(folder), 0);
        /* a little more than the files themselves will do */
        wn_path_pretend_space(r.out_bytes + r.out_bytes / 500 + (2 << 20));
        ok = wn_prune(&o, NULL, &r, &err);
        wn_path_pretend_space(UINT64_MAX);
        CHECK_OK(ok, &err);
    }
}

/* Puts a file of somebody else's under the name arg while the prune runs. */
static bool take_the_name(void *arg, const struct wn_progress *p)
{
    const char *path = arg;

    if (p->done == p->total && !wn_path_exists(path)) {
        FILE *f = fopen(path, "w");

        assert_non_null(f);
        fputs("theirs", f);
        fclose(f);
    }
    return true;
}

static void a_name_taken_meanwhile_keeps_its_file_and_ours_go(void **state)
{
    static const char *const taken[] = {"model-00003-of-000004.safetensors", "model.safetensors.index.json",
                                        "tiktoken.model", "config.json"};
    struct wn_prune_result r;
    struct wn_err err;

    (void)state;
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        char out[600], path[700];
        struct wn_prune_options o = {.source = wn_test_need_data(TINY_A_HF), .out = out};
        struct wn_job job = {.progress = take_the_name, .arg = path};

        snprintf(out, sizeof(out), "%s/out", wn_test_folder());
        snprintf(path, sizeof(path), "%s/%s", out, taken[i]);
        /* the small files are begun when the weights are copied */
        CHECK_FAILS(wn_prune(&o, &job, &r, &err), &err,
                    i < 2 ? "appeared while it was being written" : "exists already");
        assert_string_equal(text_of(path), "theirs");
        assert_int_equal(count_entries(out), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_identity_plan_returns_the_same_gguf),
        cmocka_unit_test(the_identity_plan_returns_every_quantised_gguf),
        cmocka_unit_test(the_identity_plan_returns_the_same_split_set),
        cmocka_unit_test(a_split_set_joins_to_one_file_and_splits_again),
        cmocka_unit_test(a_split_file_never_exceeds_its_limit),
        cmocka_unit_test(the_identity_plan_returns_the_same_folder),
        cmocka_unit_test(a_pruned_gguf_verifies_and_has_the_new_count),
        cmocka_unit_test(every_new_expert_is_its_old_one),
        cmocka_unit_test(a_pruned_folder_verifies_and_changes_one_number_of_the_config),
        cmocka_unit_test(uneven_counts_are_told_layer_by_layer),
        cmocka_unit_test(an_uneven_model_can_be_cut_again),
        cmocka_unit_test(a_folder_joins_to_one_file_and_splits_again),
        cmocka_unit_test(gguf_refuses_uneven_counts),
        cmocka_unit_test(a_plan_for_another_model_is_refused_with_numbers),
        cmocka_unit_test(a_plan_by_fingerprint_fits_its_model_only),
        cmocka_unit_test(a_dry_run_tells_the_exact_size_and_touches_nothing),
        cmocka_unit_test(nothing_is_written_over),
        cmocka_unit_test(a_canceled_prune_leaves_nothing),
        cmocka_unit_test(a_full_disk_leaves_nothing),
        cmocka_unit_test(no_memory_is_said_and_leaves_nothing),
        cmocka_unit_test(what_a_killed_run_left_is_replaced),
        cmocka_unit_test(a_killed_run_leaves_only_unfinished_files),
        cmocka_unit_test(a_disk_too_small_is_refused_with_the_figures),
        cmocka_unit_test(a_name_taken_meanwhile_keeps_its_file_and_ours_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
