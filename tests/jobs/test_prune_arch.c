/*
 * Models of other architectures, made here: GGUF is cut for any that stacks its experts, in whatever types it keeps
 * routers and counts; what cannot be cut soundly is refused with the reason.
 */
#include "two_parents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPERTS 6

/* Metadata of a small GGUF. */
struct meta {
    struct wn_gguf_kv kv[8];
    size_t n;
    char bytes[8][8];
};

static void add_string(struct meta *m, const char *key, const char *with_length, size_t n)
{
    m->kv[m->n++] =
        (struct wn_gguf_kv){.key = wn_bytes_of(key), .type = WN_GGUF_STRING, .count = 1, .value = {with_length, n}};
}

static void add_number(struct meta *m, const char *key, enum wn_gguf_value type, size_t bytes, uint64_t v)
{
    for (size_t i = 0; i < 8; i++)
        m->bytes[m->n][i] = (char)(v >> (8 * i));
    m->kv[m->n] =
        (struct wn_gguf_kv){.key = wn_bytes_of(key), .type = type, .count = 1, .value = {m->bytes[m->n], bytes}};
    m->n++;
}

/* architecture "moe"; the count in the given type, two experts per token. */
static void start_meta(struct meta *m, enum wn_gguf_value type, size_t bytes)
{
    memset(m, 0, sizeof(*m));
    add_string(m, "general.architecture", "\3\0\0\0\0\0\0\0moe", 11);
    add_number(m, "moe.expert_count", type, bytes, EXPERTS);
    add_number(m, "moe.expert_used_count", WN_GGUF_U32, 4, 2);
}

struct decl {
    const char *name;
    enum wn_type type;
    uint32_t dims;
    uint64_t shape[3]; /* outermost first */
};

/* Layer 1 has experts in several types; layer 0 is dense. */
static const struct decl common[] = {
    {"token_embd.weight", WN_F16, 2, {10, 32}},
    {"blk.0.ffn_up.weight", WN_Q8_0, 2, {64, 32}},
    {"blk.1.attn_q_norm.weight", WN_F32, 1, {EXPERTS}}, /* a head of six: no expert axis, and known not to be one */
    {"blk.1.exp_probs_b.bias", WN_F32, 1, {EXPERTS}},
    {"blk.1.ffn_down_exps.weight", WN_Q4_K, 3, {EXPERTS, 2, 256}},
    {"blk.1.ffn_down_exps.bias", WN_F32, 2, {EXPERTS, 2}},
    {"blk.1.ffn_gate_exps.weight", WN_IQ1_S, 3, {EXPERTS, 3, 256}},
    {"blk.1.ffn_gate_inp.weight", WN_Q8_0, 2, {EXPERTS, 32}},
    {"blk.1.ffn_gate_inp.bias", WN_F16, 1, {EXPERTS}},
    {"blk.1.ffn_up_exps.weight", WN_MXFP4, 3, {EXPERTS, 3, 64}},
};
#define COMMON (sizeof(common) / sizeof(common[0]))

/* Each byte tells tensor and place. */
static void write_tensors(const char *path, const struct meta *m, const struct decl *decls, size_t n)
{
    struct wn_sink_options o = {.kv = m->kv, .kv_count = m->n};
    struct wn_err err;
    struct wn_sink *s = wn_sink_new(WN_CONTAINER_GGUF, path, &o, &err);

    CHECK_OK(s, &err);
    for (const struct decl *d = decls; d < decls + n; d++)
        CHECK_OK(wn_sink_declare(s, d->name, d->type, d->dims, d->shape, 0, &err), &err);
    CHECK_OK(wn_sink_begin(s, &err), &err);
    for (size_t i = 0; i < n; i++) {
        uint64_t elements = 1, bytes;

        for (uint32_t k = 0; k < decls[i].dims; k++)
            elements *= decls[i].shape[k];
        assert_true(wn_type_bytes(decls[i].type, elements, &bytes));
        for (uint64_t b = 0; b < bytes; b++) {
            uint8_t byte = (uint8_t)(i * 31 + b * 7 + b / 251);

            CHECK_OK(wn_sink_write(s, &byte, 1, &err), &err);
        }
    }
    CHECK_OK(wn_sink_commit(s, &err), &err);
    wn_sink_free(s);
}

/* The common tensors and one more (NULL: none). */
static void write_model(const char *path, const struct meta *m, const struct decl *extra)
{
    struct decl all[COMMON + 1];

    memcpy(all, common, sizeof(common));
    if (extra)
        all[COMMON] = *extra;
    write_tensors(path, m, all, COMMON + (extra ? 1 : 0));
}

static void plan_of(struct wn_plan *p, const char *keep)
{
    char json[256];
    struct wn_err err;

    snprintf(json, sizeof(json), "{\"top_k\":2,\"num_experts\":%d,\"layers\":{\"1\":{\"keep\":%s}}}", EXPERTS, keep);
    CHECK_OK(wn_plan_parse(p, json, strlen(json), &err), &err);
}

static void any_architecture_is_cut_by_its_slabs(void **state)
{
    static const struct {
        enum wn_gguf_value type;
        size_t bytes;
    } counts[] = {{WN_GGUF_U8, 1}, {WN_GGUF_U16, 2}, {WN_GGUF_I32, 4}, {WN_GGUF_U32, 4}, {WN_GGUF_U64, 8}};
    struct wn_plan plan;
    struct wn_err err;

    (void)state;
    plan_of(&plan, "[5,1,2]");
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        const char *folder = wn_test_folder();
        const char *source = wn_test_path(folder, "a.gguf"), *out = wn_test_path(folder, "b.gguf");
        const char *same = wn_test_path(folder, "c.gguf");
        struct wn_verify_result v;
        const struct wn_gguf_kv *kv;
        struct wn_source *s;
        struct meta m;
        uint64_t count;

        start_meta(&m, counts[i].type, counts[i].bytes);
        write_model(source, &m, NULL);
        prune_ok(source, same, NULL, WN_LAYOUT_AS_SOURCE, 0);
        wn_test_same_file(source, same);
        prune_ok(source, out, &plan, WN_LAYOUT_AS_SOURCE, 0);
        CHECK_OK(wn_verify(out, source, &plan, NULL, &v, &err), &err);
        CHECK_OK(wn_verify(out, NULL, NULL, NULL, &v, &err), &err);
        s = wn_source_open(out, &err);
        CHECK_OK(s, &err);
        kv = wn_gguf_find(wn_source_gguf(s), "moe.expert_count");
        assert_int_equal(kv->type, counts[i].type);
        assert_true(wn_gguf_as_u64(kv, &count));
        assert_int_equal(count, 3);
        assert_int_equal(wn_source_find(s, "blk.1.attn_q_norm.weight")->shape[0], EXPERTS);
        assert_int_equal(wn_source_find(s, "blk.1.ffn_gate_inp.bias")->shape[0], 3);
        assert_int_equal(wn_source_find(s, "blk.1.ffn_gate_inp.bias")->bytes, 6);
        assert_int_equal(wn_source_find(s, "blk.1.ffn_down_exps.bias")->bytes, 3 * 8);
        wn_source_close(s);
    }
    wn_plan_release(&plan);
}

static void refused(const struct meta *m, const struct decl *extra, const char *part)
{
    const char *folder = wn_test_folder();
    const char *source = wn_test_path(folder, "a.gguf");
    struct wn_prune_options o = {.source = source, .out = wn_test_path(folder, "b.gguf")};
    struct wn_prune_result r;
    struct wn_plan plan;
    struct wn_err err;

    plan_of(&plan, "[0,3]");
    write_model(source, m, extra);
    o.plan = &plan;
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, part);
    assert_int_equal(count_entries(folder), 1);
    /* but the identity is always possible */
    o.plan = NULL;
    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    wn_test_same_file(source, o.out);
    wn_plan_release(&plan);
}

static void an_unknown_tensor_that_may_run_over_experts_is_refused(void **state)
{
    const struct decl outer = {"blk.1.mystery.weight", WN_F32, 2, {EXPERTS, 4}};
    const struct decl inner = {"blk.1.mystery.weight", WN_F32, 2, {4, EXPERTS}};
    /* a stack by another name: with the experts' count, with one of its own, and where no experts are known */
    const struct decl stack = {"blk.1.ffn_gate_chexps.weight", WN_F32, 3, {EXPERTS, 2, 32}};
    const struct decl chunks = {"blk.1.ffn_up_chexps.weight", WN_F32, 3, {EXPERTS / 2, 2, 32}};
    const struct decl elsewhere = {"blk.0.ffn_up_chexps.weight", WN_F32, 3, {EXPERTS / 2, 2, 32}};
    struct meta m;

    (void)state;
    start_meta(&m, WN_GGUF_U32, 4);
    refused(&m, &stack, "'blk.1.ffn_gate_chexps.weight' is unknown, and by its name holds experts");
    refused(&m, &chunks, "'blk.1.ffn_up_chexps.weight' is unknown, and by its name holds experts");
    refused(&m, &elsewhere, "'blk.0.ffn_up_chexps.weight' is unknown, and by its name holds experts");
    refused(&m, &outer, "'blk.1.mystery.weight' is unknown, and its dimension 0 is as long as layer 1 has experts (6)");
    refused(&m, &inner, "its dimension 1");
}

static void an_unknown_tensor_of_another_shape_or_layer_is_copied(void **state)
{
    const struct decl shape = {"blk.1.mystery.weight", WN_F32, 2, {5, 4}};
    const struct decl dense = {"blk.0.mystery.weight", WN_F32, 2, {EXPERTS, 4}};
    const struct decl *extras[] = {&shape, &dense};
    struct wn_verify_result v;
    struct wn_plan plan;
    struct wn_err err;
    struct meta m;

    (void)state;
    plan_of(&plan, "[0,3]");
    start_meta(&m, WN_GGUF_U32, 4);
    for (int i = 0; i < 2; i++) {
        const char *folder = wn_test_folder();
        const char *source = wn_test_path(folder, "a.gguf"), *out = wn_test_path(folder, "b.gguf");

        write_model(source, &m, extras[i]);
        prune_ok(source, out, &plan, WN_LAYOUT_AS_SOURCE, 0);
        CHECK_OK(wn_verify(out, source, &plan, NULL, &v, &err), &err);
    }
    wn_plan_release(&plan);
}

static void groups_of_experts_are_not_cut(void **state)
{
    struct meta m;

    (void)state;
    start_meta(&m, WN_GGUF_U32, 4);
    add_number(&m, "moe.expert_group_count", WN_GGUF_U32, 4, 3);
    refused(&m, NULL, "3 groups of experts");
}

static void a_router_that_chooses_none_is_not_cut(void **state)
{
    struct meta m;

    (void)state;
    memset(&m, 0, sizeof(m));
    add_string(&m, "general.architecture", "\3\0\0\0\0\0\0\0moe", 11);
    add_number(&m, "moe.expert_count", WN_GGUF_U32, 4, EXPERTS);
    add_number(&m, "moe.expert_used_count", WN_GGUF_U32, 4, 0);
    refused(&m, NULL, "an expert used count of 0: a token is given to no expert");
}

static void a_count_that_contradicts_the_tensors_is_refused(void **state)
{
    struct meta m;

    (void)state;
    memset(&m, 0, sizeof(m));
    add_string(&m, "general.architecture", "\3\0\0\0\0\0\0\0moe", 11);
    add_number(&m, "moe.expert_count", WN_GGUF_U32, 4, 8);
    refused(&m, NULL, "an expert count of 8, the tensors have 6");
    memset(&m, 0, sizeof(m));
    add_string(&m, "general.architecture", "\3\0\0\0\0\0\0\0moe", 11);
    refused(&m, NULL, "an expert count of 0, the tensors have 6");
}

static void stacks_that_disagree_are_refused_by_name(void **state)
{
    const struct decl odd = {"blk.1.ffn_gate_up_exps.weight", WN_F32, 3, {EXPERTS - 1, 2, 2}};
    const char *folder = wn_test_folder();
    const char *source = wn_test_path(folder, "a.gguf");
    struct wn_prune_options o = {.source = source, .out = wn_test_path(folder, "b.gguf")};
    struct wn_prune_result r;
    struct wn_err err;
    struct meta m;

    (void)state;
    start_meta(&m, WN_GGUF_U32, 4);
    write_model(source, &m, &odd);
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err,
                "'blk.1.ffn_gate_up_exps.weight' has 5 experts, but 'blk.1.ffn_down_exps.weight' has 6");
}

static void a_graded_build_is_copied_and_not_cut(void **state)
{
    struct decl graded[] = {{"blk.1.ffn_gate_inp.weight", WN_F32, 2, {EXPERTS, 32}},
                            {"blk.1.ffn_down_exps.weight", WN_Q4_K, 3, {4, 2, 256}},
                            {"blk.1.ffn_down_exps_lo.weight", WN_Q2_K, 3, {2, 2, 256}}};
    const char *folder = wn_test_folder();
    const char *source = wn_test_path(folder, "a.gguf");
    struct wn_prune_options o = {.source = source, .out = wn_test_path(folder, "b.gguf")};
    struct wn_prune_result r;
    struct wn_verify_result v;
    struct wn_plan plan;
    struct wn_err err;
    struct meta m;

    (void)state;
    start_meta(&m, WN_GGUF_U32, 4);
    write_tensors(source, &m, graded, 3);
    plan_of(&plan, "[0,3]");
    o.plan = &plan;
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "graded build ('blk.1.ffn_down_exps_lo.weight'");
    o.plan = NULL;
    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    wn_test_same_file(source, o.out);
    CHECK_OK(wn_verify(o.out, source, NULL, NULL, &v, &err), &err);
    graded[2].shape[0] = 3;
    write_tensors(wn_test_path(folder, "c.gguf"), &m, graded, 3);
    o.source = wn_test_path(folder, "c.gguf");
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "4 experts in one bank and 3 in the other");
    wn_plan_release(&plan);
}

static void graded_plan_of(struct wn_plan *p)
{
    static const char json[] = "{\"top_k\":2,\"num_experts\":6,\"layers\":{\"1\":{\"keep\":[5,1,4],\"bits\":"
                               "{\"5\":\"mxfp4\",\"1\":\"4bit\",\"4\":\"4bit\"}}}}";
    struct wn_err err;

    CHECK_OK(wn_plan_parse(p, json, sizeof json - 1, &err), &err);
}

/* Biases and scales of a stack go with it, of both banks. */
static void so_it_is_out_of_two_parents(void **state)
{
    const struct decl scale = {"blk.1.ffn_gate_up_exps.scale", WN_F32, 1, {EXPERTS}};
    const char *folder = wn_test_folder(), *lo = wn_test_path(folder, "lo.gguf"), *hi = wn_test_path(folder, "hi.gguf"),
               *out = wn_test_path(folder, "out.gguf");
    enum wn_type whole = WN_F32;
    struct wn_verify_result v;
    struct wn_source *s;
    struct wn_plan plan;
    struct wn_err err;
    struct meta m;

    (void)state;
    graded_plan_of(&plan);
    start_meta(&m, WN_GGUF_U16, 2);
    add_number(&m, "moe.block_count", WN_GGUF_U32, 4, 3);
    write_model(lo, &m, &scale);
    twin_write(lo, hi, twin_experts, &whole, NULL, 0);
    twin_prune(hi, lo, out, &plan, WN_LAYOUT_AS_SOURCE, 0);
    twin_check_bytes(hi, lo, out, &plan);
    CHECK_OK(wn_verify_all(&(struct wn_verify_options){out, hi, lo, &plan, NULL}, NULL, &v, &err), &err);
    CHECK_OK(wn_verify(out, NULL, NULL, NULL, &v, &err), &err);
    assert_int_equal(v.experts, 3);
    s = wn_source_open(out, &err);
    CHECK_OK(s, &err);
    assert_int_equal(wn_source_find(s, "blk.1.ffn_gate_up_exps_lo.scale")->shape[0], 2);
    assert_int_equal(wn_gguf_find(wn_source_gguf(s), "moe.expert_lo_count")->count, 3);
    assert_memory_equal(wn_gguf_find(wn_source_gguf(s), "moe.expert_lo_count")->value.at, "\0\0\0\0\2\0\0\0\0\0\0\0",
                        12);
    wn_source_close(s);
    wn_plan_release(&plan);
}

static void a_second_bank_needs_the_number_of_layers(void **state)
{
    const char *folder = wn_test_folder(), *lo = wn_test_path(folder, "lo.gguf"), *hi = wn_test_path(folder, "hi.gguf");
    enum wn_type whole = WN_F32;
    struct wn_prune_options o = {.source = hi, .lo_source = lo, .out = wn_test_path(folder, "out.gguf")};
    struct wn_prune_result r;
    struct wn_plan plan;
    struct wn_err err;
    struct meta m;

    (void)state;
    graded_plan_of(&plan);
    o.plan = &plan;
    start_meta(&m, WN_GGUF_U32, 4);
    write_model(lo, &m, NULL);
    twin_write(lo, hi, twin_experts, &whole, NULL, 0);
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "layer 1 has experts, but 'block_count' is 0");
    start_meta(&m, WN_GGUF_U32, 4);
    add_number(&m, "moe.block_count", WN_GGUF_U32, 4, 3);
    add_number(&m, "moe.expert_lo_count", WN_GGUF_U32, 4, 0);
    twin_write(lo, wn_test_path(folder, "hi2.gguf"), twin_experts, &whole, m.kv, m.n);
    o.source = wn_test_path(folder, "hi2.gguf");
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "'moe.expert_lo_count' already");
    wn_plan_release(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_architecture_is_cut_by_its_slabs),
        cmocka_unit_test(so_it_is_out_of_two_parents),
        cmocka_unit_test(a_second_bank_needs_the_number_of_layers),
        cmocka_unit_test(an_unknown_tensor_that_may_run_over_experts_is_refused),
        cmocka_unit_test(an_unknown_tensor_of_another_shape_or_layer_is_copied),
        cmocka_unit_test(groups_of_experts_are_not_cut),
        cmocka_unit_test(a_router_that_chooses_none_is_not_cut),
        cmocka_unit_test(a_count_that_contradicts_the_tensors_is_refused),
        cmocka_unit_test(stacks_that_disagree_are_refused_by_name),
        cmocka_unit_test(a_graded_build_is_copied_and_not_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
