/* Verify: what was pruned rightly passes (test_prune.c), and here every kind of damage is seen and named. */
#include "prune_help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TINY_A_GGUF "golden/text/tiny-a/gguf/tiny-a-BF16-MXFP4.gguf"
#define TINY_A_HF   "golden/text/tiny-a/hf"
#define TINY_A_KEEP "golden/text/tiny-a/ref/prune_keep.json"

#define HF_LAYER "language_model.model.layers.5.block_sparse_moe."

/* A pruned copy of tiny-a to spoil. */
struct fixture {
    char source[600], out[600];
    struct wn_plan plan;
};

static void prune_tiny(struct fixture *f, const char *name)
{
    snprintf(f->source, sizeof(f->source), "%s", wn_test_need_data(name));
    snprintf(f->out, sizeof(f->out), "%s/out", wn_test_folder());
    plan_from_reference(&f->plan, wn_test_need_data(TINY_A_KEEP), 4, 16);
    prune_ok(f->source, f->out, &f->plan, WN_LAYOUT_AS_SOURCE, 0);
}

static void is_different(const struct fixture *f, const char *part)
{
    struct wn_verify_result r;
    struct wn_err err;

    CHECK_FAILS(wn_verify(f->out, f->source, &f->plan, NULL, &r, &err), &err, part);
    assert_int_equal(err.code, WN_ERR_DIFFERENT);
}

static void is_right(const struct fixture *f)
{
    struct wn_verify_result r;
    struct wn_err err;

    CHECK_OK(wn_verify(f->out, f->source, &f->plan, NULL, &r, &err), &err);
}

/* Turns the n rows of a tensor by one: the last comes first. */
static void turn_rows(const char *model, const char *name, size_t n)
{
    struct place p;
    size_t row;

    find_tensor(model, name, &p);
    row = (size_t)p.bytes / n;
    for (size_t i = n - 1; i > 0; i--)
        swap_bytes(p.path, p.at + i * row, p.at + (i - 1) * row, row);
}

/* The mistake that no shape check sees: all rows are there, each one expert off. */
static void a_router_turned_by_one_row_is_noticed(void **state)
{
    struct fixture f;

    (void)state;
    prune_tiny(&f, TINY_A_GGUF);
    turn_rows(f.out, "blk.5.ffn_gate_inp.weight", 10);
    is_different(&f, "layer 5, new expert 0 (old expert 0), router 'blk.5.ffn_gate_inp.weight'");
    for (int i = 1; i < 10; i++)
        turn_rows(f.out, "blk.5.ffn_gate_inp.weight", 10);
    is_right(&f);
    wn_plan_release(&f.plan);
    prune_tiny(&f, TINY_A_HF);
    turn_rows(f.out, HF_LAYER "gate.weight", 10);
    is_different(&f, "layer 5, new expert 0 (old expert 0), router '" HF_LAYER "gate.weight'");
    wn_plan_release(&f.plan);
}

static void a_bias_turned_by_one_entry_is_noticed(void **state)
{
    struct fixture f;

    (void)state;
    prune_tiny(&f, TINY_A_GGUF);
    turn_rows(f.out, "blk.12.exp_probs_b.bias", 10);
    is_different(&f, "layer 12, new expert 0 (old expert 15), router 'blk.12.exp_probs_b.bias'");
    wn_plan_release(&f.plan);
}

static void two_experts_that_changed_places_are_noticed(void **state)
{
    struct fixture f;
    struct place p, q;

    (void)state;
    prune_tiny(&f, TINY_A_GGUF);
    find_tensor(f.out, "blk.3.ffn_down_exps.weight", &p);
    swap_bytes(p.path, p.at + 4 * (p.bytes / 10), p.at + 7 * (p.bytes / 10), (size_t)p.bytes / 10);
    is_different(&f, "layer 3, new expert 4 (old expert 14), 'blk.3.ffn_down_exps.weight'");
    wn_plan_release(&f.plan);
    prune_tiny(&f, TINY_A_HF);
    find_tensor(f.out, HF_LAYER "experts.2.w1.weight_packed", &p);
    find_tensor(f.out, HF_LAYER "experts.3.w1.weight_packed", &q);
    assert_string_equal(p.path, q.path);
    swap_bytes(p.path, p.at, q.at, (size_t)p.bytes);
    is_different(&f, "layer 5, new expert 2 (old expert 10), '" HF_LAYER "experts.2.w1.weight_packed'");
    wn_plan_release(&f.plan);
}

static void one_flipped_bit_anywhere_is_noticed(void **state)
{
    static const char *const gguf[] = {"token_embd.weight",          "blk.0.attn_norm.weight",
                                       "blk.7.ffn_gate_exps.weight", "blk.7.ffn_gate_inp.weight",
                                       "blk.12.exp_probs_b.bias",    "blk.3.attn_k_b.weight"};
    static const char *const hf[] = {"language_model.lm_head.weight", HF_LAYER "experts.9.w2.weight_scale",
                                     HF_LAYER "gate.e_score_correction_bias",
                                     "language_model.model.layers.12.self_attn.g_proj.weight"};
    struct fixture f;
    struct place p;

    (void)state;
    for (int container = 0; container < 2; container++) {
        size_t n = container ? sizeof(hf) / sizeof(hf[0]) : sizeof(gguf) / sizeof(gguf[0]);

        prune_tiny(&f, container ? TINY_A_HF : TINY_A_GGUF);
        for (size_t i = 0; i < 3 * n; i++) {
            const char *name = container ? hf[i / 3] : gguf[i / 3];
            uint64_t at;

            find_tensor(f.out, name, &p);
            at = i % 3 == 0 ? 0 : i % 3 == 1 ? p.bytes / 2 : p.bytes - 1;
            flip_byte(p.path, p.at + at, 1);
            is_different(&f, name);
            flip_byte(p.path, p.at + at, 1);
        }
        is_right(&f);
        wn_plan_release(&f.plan);
    }
}

static void the_byte_is_named(void **state)
{
    struct fixture f;
    struct place p;

    (void)state;
    prune_tiny(&f, TINY_A_GGUF);
    find_tensor(f.out, "blk.9.ffn_up_exps.weight", &p);
    assert_int_equal(p.bytes, 10 * 3264); /* 64 rows of 96 weights, 17 bytes for 32 */
    flip_byte(p.path, p.at + 6 * 3264 + 1000, 0x80);
    is_different(&f,
                 "layer 9, new expert 6 (old expert 8), 'blk.9.ffn_up_exps.weight': byte 1000 of the expert, 20584 of "
                 "the tensor");
    wn_plan_release(&f.plan);
}

static void another_plan_is_noticed(void **state)
{
    struct fixture f;
    uint32_t id;

    (void)state;
    prune_tiny(&f, TINY_A_GGUF);
    id = f.plan.layers[4].keep[8];
    f.plan.layers[4].keep[8] = f.plan.layers[4].keep[9];
    f.plan.layers[4].keep[9] = id;
    is_different(&f, "layer 5, new expert 8");
    wn_plan_release(&f.plan);
}

static void a_wrong_expert_count_is_noticed(void **state)
{
    struct fixture f;
    struct wn_verify_result r;
    struct wn_err err;
    char text[8192];
    size_t n;
    FILE *file;

    (void)state;
    prune_tiny(&f, TINY_A_GGUF);
    file = fopen(f.out, "rb");
    assert_non_null(file);
    n = fread(text, 1, sizeof(text), file);
    fclose(file);
    for (size_t i = 0; i + 40 < n; i++) {
        if (memcmp(text + i, "kimi-k3.expert_count", 20) != 0)
            continue;
        flip_byte(f.out, i + 24, 1); /* behind the type; 10 becomes 11 */
        is_different(&f, "'kimi-k3.expert_count' is 11, wanted 10");
        CHECK_FAILS(wn_verify(f.out, NULL, NULL, NULL, &r, &err), &err, "expert count of 11, the tensors have 10");
        wn_plan_release(&f.plan);
        return;
    }
    fail_msg("there is no 'kimi-k3.expert_count'");
}

static void a_changed_key_is_noticed(void **state)
{
    struct fixture f;

    (void)state;
    prune_tiny(&f, TINY_A_GGUF);
    assert_true(replace_text(f.out, "kimi-k3.kda.head_dim", "kimi-k3.kda.head_dIm"));
    is_different(&f, "key 'kimi-k3.kda.head_dIm' stands where the source has 'kimi-k3.kda.head_dim'");
    wn_plan_release(&f.plan);
}

static void a_changed_config_is_noticed(void **state)
{
    struct fixture f;
    char path[700];
    struct wn_verify_result r;
    struct wn_err err;

    (void)state;
    prune_tiny(&f, TINY_A_HF);
    snprintf(path, sizeof(path), "%s/config.json", f.out);
    assert_true(replace_text(path, "\"num_experts\": 10", "\"num_experts\": 11"));
    is_different(&f, "config: 'text_config.num_experts' has another value");
    assert_false(wn_verify(f.out, NULL, NULL, NULL, &r, &err));
    assert_true(replace_text(path, "\"num_experts\": 11", "\"num_experts\": 10"));
    assert_true(replace_text(path, "\"eos_token_id\": 482", "\"eos_token_id\": 481"));
    is_different(&f, "config: 'eos_token_id' has another value");
    assert_true(replace_text(path, "\"eos_token_id\": 481", "\"eos_token_id\": 482"));
    assert_true(replace_text(path, "\"eos_token_id\": 482", "\"eos_token_ie\": 482"));
    is_different(&f, "config: 'eos_token_id' is missing");
    assert_true(replace_text(path, "\"eos_token_ie\": 482", "\"eos_token_id\": 482"));
    assert_true(replace_text(path, ",\n  \"dtype\"", " ,\n \"dtype\"")); /* only space */
    is_right(&f);
    wn_plan_release(&f.plan);
}

static void a_changed_or_missing_tokenizer_is_noticed(void **state)
{
    struct fixture f;
    char path[700];

    (void)state;
    prune_tiny(&f, TINY_A_HF);
    snprintf(path, sizeof(path), "%s/tiktoken.model", f.out);
    flip_byte(path, 100, 1);
    is_different(&f, "'tiktoken.model' differs from the source's at byte 100");
    assert_int_equal(unlink(path), 0);
    is_different(&f, "'tiktoken.model' is missing");
    wn_plan_release(&f.plan);
}

static void a_tensor_too_few_or_too_many_is_noticed(void **state)
{
    struct fixture f, more;
    struct wn_verify_result r;
    struct wn_err err;

    (void)state;
    prune_tiny(&f, TINY_A_HF);
    plan_from_reference(&more.plan, wn_test_need_data(TINY_A_KEEP), 4, 16);
    /* against the unpruned model, the pruned one lacks experts; against the pruned one, the unpruned has too many */
    CHECK_FAILS(wn_verify(f.out, f.source, NULL, NULL, &r, &err), &err, "num_experts");
    CHECK_FAILS(wn_verify(f.source, f.source, &f.plan, NULL, &r, &err), &err, "num_experts");
    wn_plan_release(&more.plan);
    wn_plan_release(&f.plan);
}

static void identity_of_another_model_is_no_identity(void **state)
{
    const char *a = wn_test_need_data("golden/text/tiny-b/gguf/tiny-b-IQ1_S.gguf"), *b = wn_test_need_data(TINY_A_GGUF);
    struct wn_verify_result r;
    struct wn_err err;

    (void)state;
    assert_false(wn_verify(a, b, NULL, NULL, &r, &err));
    assert_int_equal(err.code, WN_ERR_DIFFERENT);
    CHECK_FAILS(wn_verify(wn_test_need_data(TINY_A_HF), b, NULL, NULL, &r, &err), &err,
                "another container than the source");
}

static void without_a_source_verify_says_what_it_cannot_tell(void **state)
{
    static const char *const models[] = {TINY_A_GGUF, TINY_A_HF};
    struct wn_err err;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct wn_verify_result r;

        CHECK_OK(wn_verify(wn_test_need_data(models[i]), NULL, NULL, NULL, &r, &err), &err);
        assert_true(r.parts_bound);
        assert_int_equal(r.experts, 12 * 16);
        assert_int_equal(r.bytes, 0);
        assert_false(r.identical_files);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_router_turned_by_one_row_is_noticed),
        cmocka_unit_test(a_bias_turned_by_one_entry_is_noticed),
        cmocka_unit_test(two_experts_that_changed_places_are_noticed),
        cmocka_unit_test(one_flipped_bit_anywhere_is_noticed),
        cmocka_unit_test(the_byte_is_named),
        cmocka_unit_test(another_plan_is_noticed),
        cmocka_unit_test(a_wrong_expert_count_is_noticed),
        cmocka_unit_test(a_changed_key_is_noticed),
        cmocka_unit_test(a_changed_config_is_noticed),
        cmocka_unit_test(a_changed_or_missing_tokenizer_is_noticed),
        cmocka_unit_test(a_tensor_too_few_or_too_many_is_noticed),
        cmocka_unit_test(identity_of_another_model_is_no_identity),
        cmocka_unit_test(without_a_source_verify_says_what_it_cannot_tell),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
