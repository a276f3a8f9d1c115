/*
 * Graded GGUFs of two GGUFs of one model: each bank is a byte copy, from its parent; the model computes what another
 * assembly of the same experts does; verify finds what is not so.
 */
#include "two_parents.h"
#include "base/alloc.h"
#include "jobs/prune/seal_json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t ids[] = {5, 77, 301, 12, 440, 9, 210, 3, 88, 17};
#define IDS (sizeof ids / sizeof ids[0])

static void verified(const char *hi, const char *lo, const char *out, const struct wn_plan *plan)
{
    struct wn_verify_result v;
    struct wn_err err;

    CHECK_OK(wn_verify_all(&(struct wn_verify_options){out, hi, lo, plan, NULL}, NULL, &v, &err), &err);
    assert_int_equal(v.experts, 12);
    assert_false(v.identical_files);
    assert_int_equal(strlen(v.lo_fingerprint), 16);
    CHECK_OK(wn_verify(out, NULL, NULL, NULL, &v, &err), &err);
    assert_true(v.parts_bound);
    assert_int_equal(v.experts, 12);
}

/* The path of the first of so many files that were written as folder/name. */
static void first_file(char path[600], const char *folder, const char *name, uint32_t files)
{
    if (files == 1)
        (void)snprintf(path, 600, "%s/%s", folder, name);
    else
        (void)snprintf(path, 600, "%s/%.*s-00001-of-%05u.gguf", folder, (int)(strlen(name) - 5), name, files);
}

static void check_same_logits(const char *a, const char *b)
{
    size_t vocab;
    float *x = logits_of(a, ids, IDS, &vocab), *y = logits_of(b, ids, IDS, &vocab);

    assert_memory_equal(x, y, IDS * vocab * sizeof *x);
    free(x);
    free(y);
}

/* Single files and sets on both sides and as output: the files differ, the tensors do not. */
static void banks_are_byte_copies_one_from_each_parent(void **state)
{
    char hi[2][600], lo[2][600], first[600], out[600], name[16];
    const struct {
        int hi, lo; /* 1: a set */
        enum wn_layout layout;
        bool several;
    } cases[] = {
        {0, 0, WN_LAYOUT_AS_SOURCE, false}, {0, 1, WN_LAYOUT_AS_SOURCE, false}, {1, 0, WN_LAYOUT_AS_SOURCE, true},
        {1, 1, WN_LAYOUT_JOINED, false},    {1, 1, WN_LAYOUT_SPLIT, true},
    };
    const char *folder = wn_test_folder();
    struct wn_plan plan;

    (void)state;
    twin_plan(&plan);
    (void)snprintf(hi[0], sizeof hi[0], "%s", twin_parent(WN_Q8_0));
    (void)snprintf(out, sizeof out, "%s/hi.gguf", folder);
    first_file(hi[1], folder, "hi.gguf", prune_ok(hi[0], out, NULL, WN_LAYOUT_SPLIT, 1000000).files);
    (void)snprintf(lo[0], sizeof lo[0], "%s", wn_test_need_data(TWIN_LO));
    (void)snprintf(lo[1], sizeof lo[1], "%s", wn_test_need_data(TWIN_LO_SET));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *from = hi[cases[i].hi], *low = lo[cases[i].lo];
        struct wn_prune_result r;

        (void)snprintf(name, sizeof name, "%zu.gguf", i);
        (void)snprintf(out, sizeof out, "%s/%s", folder, name);
        r = twin_prune(from, low, out, &plan, cases[i].layout, cases[i].layout == WN_LAYOUT_SPLIT ? 700000 : 0);
        first_file(out, folder, name, r.files);
        assert_true((r.files > 1) == cases[i].several);
        assert_int_equal(r.lo_weights, 3 * 7 * 256 * 256);
        assert_int_equal(r.lo_bytes, r.lo_weights / 256 * 50);
        twin_check_bytes(from, low, out, &plan);
        verified(from, low, out, &plan);
        if (i == 0)
            memcpy(first, out, sizeof first);
        else
            check_same_logits(first, out);
    }
    wn_plan_release(&plan);
}

/* Every type that is at hand with every smaller one, where the shared folder has them. */
static void any_two_types_go_together(void **state)
{
    static const char *const names[] = {"IQ1_S", "IQ2_XXS", "Q2_K", "MXFP4_MOE", "Q4_K_M", "Q8_0"}; /* rising */
    struct wn_plan plan;

    (void)state;
    twin_plan(&plan);
    for (size_t a = 1; a < 6; a++)
        for (size_t b = 0; b < a; b++) {
            char hi[600], lo[600];
            const char *out = wn_test_path(wn_test_folder(), "o.gguf");

            (void)snprintf(hi, sizeof hi, "golden/text/tiny-b/gguf/tiny-b-%s.gguf", names[a]);
            (void)snprintf(lo, sizeof lo, "golden/text/tiny-b/gguf/tiny-b-%s.gguf", names[b]);
            (void)snprintf(hi, sizeof hi, "%s", wn_test_need_data(hi));
            (void)snprintf(lo, sizeof lo, "%s", wn_test_need_data(lo));
            twin_prune(hi, lo, out, &plan, WN_LAYOUT_AS_SOURCE, 0);
            twin_check_bytes(hi, lo, out, &plan);
            verified(hi, lo, out, &plan);
        }
    wn_plan_release(&plan);
}

/* ---- what it computes ---- */

struct assembly {
    const struct wn_plan *plan;
    struct wn_source *lo;
};

static void gather(struct twin_tensor *t, const struct wn_plan_layer *l, const uint8_t *low, uint64_t slab)
{
    uint8_t *to = malloc((size_t)(l->keep_count * slab));

    assert_non_null(to);
    for (uint32_t i = 0; i < l->keep_count; i++)
        memcpy(to + i * slab, (low && i >= l->hi_count ? low : t->bytes) + l->keep[i] * slab, (size_t)slab);
    free(t->bytes);
    t->bytes = to;
    t->shape[0] = l->keep_count;
}

/* twin_edit_fn: one bank of decoded numbers, each expert's of the parent that the plan gives it. */
static void assemble(void *arg, struct twin_tensor *t)
{
    const struct assembly *a = arg;
    const struct wn_plan_layer *l = wn_plan_find(a->plan, (uint32_t)t->part.layer);
    struct twin_tensor low = {0};
    uint64_t slab = 4;

    if (t->part.axis != WN_AXIS_OUTER)
        return;
    if (!t->part.router) {
        const struct wn_tensor *from = wn_source_find(a->lo, t->name);
        struct wn_err err;

        low = *t;
        low.type = from->type;
        low.bytes = malloc((size_t)from->bytes);
        assert_non_null(low.bytes);
        CHECK_OK(wn_source_read(a->lo, from, 0, low.bytes, (size_t)from->bytes, &err), &err);
        twin_encode(&low, WN_F32);
        twin_encode(t, WN_F32);
    }
    for (uint32_t d = 1; d < t->dims; d++)
        slab *= t->shape[d];
    gather(t, l, low.bytes, slab);
    free(low.bytes);
}

static void it_computes_what_one_bank_of_the_same_numbers_does(void **state)
{
    const char *hi = twin_parent(WN_Q8_0), *lo = wn_test_need_data(TWIN_LO), *folder = wn_test_folder();
    const char *out = wn_test_path(folder, "graded.gguf"), *one = wn_test_path(folder, "one.gguf"),
               *whole = wn_test_path(folder, "whole.gguf");
    struct wn_gguf_kv kv[64];
    struct wn_plan plan;
    struct assembly how = {.plan = &plan};
    struct wn_err err;
    size_t n, vocab;
    float *a, *b, *c;

    (void)state;
    twin_plan(&plan);
    twin_prune(hi, lo, out, &plan, WN_LAYOUT_AS_SOURCE, 0);
    how.lo = wn_source_open(lo, &err);
    CHECK_OK(how.lo, &err);
    n = wn_source_gguf(how.lo)->n;
    assert_true(n <= 64);
    memcpy(kv, wn_source_gguf(how.lo)->kv, n * sizeof *kv);
    for (size_t i = 0; i < n; i++)
        if (wn_bytes_is(kv[i].key, "kimi-k3.expert_count"))
            kv[i].value = (struct wn_bytes){"\6\0\0\0", 4};
    twin_write(hi, one, assemble, &how, kv, n);
    for (uint32_t i = 0; i < plan.layer_count; i++)
        plan.layers[i].lo_bits = 0;
    prune_ok(hi, whole, &plan, WN_LAYOUT_AS_SOURCE, 0);
    a = logits_of(out, ids, IDS, &vocab);
    b = logits_of(one, ids, IDS, &vocab);
    c = logits_of(whole, ids, IDS, &vocab);
    assert_memory_equal(a, b, IDS * vocab * sizeof *a);
    /* and it is told from all experts of the first parent */
    assert_memory_not_equal(a, c, IDS * vocab * sizeof *a);
    free(a);
    free(b);
    free(c);
    wn_source_close(how.lo);
    wn_plan_release(&plan);
}

/* ---- what verify finds ---- */

struct built {
    const char *hi, *lo, *out;
    struct wn_plan plan;
};

static void build(struct built *b)
{
    b->hi = twin_parent(WN_Q8_0);
    b->lo = wn_test_need_data(TWIN_LO);
    b->out = wn_test_path(wn_test_folder(), "o.gguf");
    twin_plan(&b->plan);
    twin_prune(b->hi, b->lo, b->out, &b->plan, WN_LAYOUT_AS_SOURCE, 0);
}

static void differs(const struct built *b, const char *part)
{
    struct wn_verify_result v;
    struct wn_err err;

    CHECK_FAILS(wn_verify_all(&(struct wn_verify_options){b->out, b->hi, b->lo, &b->plan, NULL}, NULL, &v, &err), &err,
                part);
    assert_int_equal(err.code, WN_ERR_DIFFERENT);
}

static void a_flipped_bit_names_the_expert_and_its_parent(void **state)
{
    static const struct {
        const char *name, *says;
        uint64_t expert; /* in its bank */
    } cases[] = {
        {"blk.2.ffn_up_exps_lo.weight",
         "layer 2, new expert 4 (old expert 0), 'blk.2.ffn_up_exps_lo.weight': byte 77 of the expert, 25677 of the "
         "tensor, is 0x",
         2},
        {"blk.1.ffn_down_exps.weight", "layer 1, new expert 1 (old expert 2), 'blk.1.ffn_down_exps.weight': byte 77",
         1},
        {"blk.1.ffn_gate_inp.weight", "layer 1, new expert 3 (old expert 0), router 'blk.1.ffn_gate_inp.weight'", 3},
    };
    struct built b;

    (void)state;
    build(&b);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct place p;
        uint64_t experts = i == 0 ? 4 : i == 1 ? 3 : 6, at;

        find_tensor(b.out, cases[i].name, &p);
        at = p.at + cases[i].expert * (p.bytes / experts) + 77;
        flip_byte(p.path, at, 0x40);
        differs(&b, cases[i].says);
        differs(&b, i == 0 ? "the second parent has 0x" : "the source has 0x");
        flip_byte(p.path, at, 0x40);
    }
    wn_plan_release(&b.plan);
}

static void exchanged_experts_and_counts_are_found(void **state)
{
    struct built b;
    struct place p;

    (void)state;
    build(&b);
    find_tensor(b.out, "blk.1.ffn_gate_exps_lo.weight", &p);
    swap_bytes(p.path, p.at, p.at + p.bytes / 3, (size_t)p.bytes / 3);
    differs(&b, "layer 1, new expert 3 (old expert 0), 'blk.1.ffn_gate_exps_lo.weight'");
    swap_bytes(p.path, p.at, p.at + p.bytes / 3, (size_t)p.bytes / 3);
    assert_true(replace_text(b.out, "kimi-k3.expert_lo_count", "kimi-k3.expert_lo_cownt"));
    differs(&b, "key 'kimi-k3.expert_lo_cownt' stands where the source has 'kimi-k3.expert_lo_count'");
    wn_plan_release(&b.plan);
}

static void another_second_parent_or_plan_is_found(void **state)
{
    enum wn_type type = WN_Q2_K;
    struct wn_verify_result v;
    struct wn_err err;
    struct built b;
    uint32_t first;

    (void)state;
    build(&b);
    CHECK_FAILS(wn_verify(b.out, b.hi, &b.plan, NULL, &v, &err), &err, "--lo-model");
    CHECK_FAILS(wn_verify_all(&(struct wn_verify_options){b.out, b.hi, b.lo, NULL, NULL}, NULL, &v, &err), &err,
                "gives no expert fewer bits");
    first = b.plan.layers[0].keep[3];
    b.plan.layers[0].keep[3] = b.plan.layers[0].keep[4];
    b.plan.layers[0].keep[4] = first;
    differs(&b, "layer 1, new expert 3 (old expert 5)");
    b.plan.layers[0].hi_count = 2;
    differs(&b, "key 'kimi-k3.expert_lo_count' has another value");
    b.plan.layers[0].hi_count = 3;
    b.lo = wn_test_path(wn_test_folder(), "q2k.gguf");
    twin_write(wn_test_need_data(TWIN_LO), b.lo, twin_experts, &type, NULL, 0);
    differs(&b, "_lo.weight' is of type IQ1_S, the source has Q2_K");
    wn_plan_release(&b.plan);
}

/* ---- what it says of itself, and when memory is refused ---- */

static void the_record_names_both_parents(void **state)
{
    struct built b;
    char path[600], hi[17], lo[17];
    json_t *root, *parent, *second;
    struct wn_source *s;
    struct wn_err err;

    (void)state;
    build(&b);
    (void)snprintf(path, sizeof path, "%s.winnow.json", b.out);
    root = json_load_file(path, 0, NULL);
    parent = json_object_get(root, "parent");
    second = json_object_get(root, "lo_parent");
    CHECK_OK(s = wn_source_open(b.hi, &err), &err);
    wn_source_fingerprint(s, hi);
    wn_source_close(s);
    CHECK_OK(s = wn_source_open(b.lo, &err), &err);
    wn_source_fingerprint(s, lo);
    wn_source_close(s);
    assert_string_equal(json_string_value(json_object_get(parent, "fingerprint")), hi);
    assert_string_equal(json_string_value(json_object_get(second, "fingerprint")), lo);
    assert_string_not_equal(hi, lo);
    assert_int_equal(json_array_size(json_object_get(second, "files")), 1);
    /* of experts too, which count on behind the first bank */
    assert_int_equal(json_array_size(json_object_get(wn_seal_experts(root), "2")), 6);
    json_decref(root);
    wn_plan_release(&b.plan);
}

static void every_refused_allocation_is_survived(void **state)
{
    const char *hi = twin_parent(WN_Q8_0), *folder = wn_test_folder();
    struct wn_prune_options o = {.source = hi,
                                 .lo_source = wn_test_need_data(TWIN_LO_SET),
                                 .out = wn_test_path(folder, "o.gguf"),
                                 .hashes = true};
    struct wn_prune_result r;
    struct wn_verify_result v;
    struct wn_plan plan;
    struct wn_err err;
    bool ok = false;

    (void)state;
    twin_plan(&plan);
    o.plan = &plan;
    for (long n = 0; !ok; n += 1 + n / 16) {
        wn_alloc_fail_after(n);
        ok = wn_prune(&o, NULL, &r, &err);
        wn_alloc_fail_after(-1);
        assert_true(ok || (err.code == WN_ERR_NOMEM && count_entries(folder) == 0));
    }
    ok = false;
    for (long n = 0; !ok; n += 1 + n / 16) {
        wn_alloc_fail_after(n);
        ok = wn_verify_all(&(struct wn_verify_options){o.out, o.source, o.lo_source, &plan, NULL}, NULL, &v, &err);
        wn_alloc_fail_after(-1);
        assert_true(ok || err.code == WN_ERR_NOMEM);
    }
    wn_plan_release(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(banks_are_byte_copies_one_from_each_parent),
        cmocka_unit_test(any_two_types_go_together),
        cmocka_unit_test(it_computes_what_one_bank_of_the_same_numbers_does),
        cmocka_unit_test(a_flipped_bit_names_the_expert_and_its_parent),
        cmocka_unit_test(exchanged_experts_and_counts_are_found),
        cmocka_unit_test(another_second_parent_or_plan_is_found),
        cmocka_unit_test(the_record_names_both_parents),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
