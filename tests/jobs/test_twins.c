/*
 * Two GGUFs that are not one model never become one build: each way in which they can differ, and what is refused
 * beside that. Nothing is written then.
 */
#include "two_parents.h"
#include "jobs/prune/twins.h"
#include "quant/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* IQ1_S, with one thing changed. */
struct change {
    const char *name; /* of the tensor; NULL: none */
    void (*how)(struct twin_tensor *t);
};

static void edit(void *arg, struct twin_tensor *t)
{
    const struct change *c = arg;

    if (c->name && strcmp(c->name, t->name) == 0)
        c->how(t);
}

/* Checks the pair, and prunes it: the same words, and no file. NULL part: they are twins. */
static void checked(const char *hi, const char *lo, const char *part)
{
    const char *folder = wn_test_folder();
    struct wn_prune_options o = {
        .source = hi, .lo_source = lo, .out = wn_test_path(folder, "o.gguf"), .hashes = true, .resume = true};
    struct wn_err err;
    struct wn_source *a = wn_source_open(hi, &err), *b = wn_source_open(lo, &err);
    struct wn_prune_result r;
    struct wn_plan plan;

    CHECK_OK(a && b, &err);
    twin_plan(&plan);
    o.plan = &plan;
    if (part) {
        CHECK_FAILS(wn_twins_check(a, b, &err), &err, part);
        assert_int_equal(err.code, WN_ERR_ARG);
        CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, part);
        assert_int_equal(count_entries(folder), 0);
    } else {
        CHECK_OK(wn_twins_check(a, b, &err), &err);
        CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    }
    wn_plan_release(&plan);
    wn_source_close(a);
    wn_source_close(b);
}

static const char *changed(const struct change *c, const struct wn_gguf_kv *kv, size_t n)
{
    const char *lo = wn_test_path(wn_test_folder(), "lo.gguf");
    struct change copy = *c;

    twin_write(wn_test_need_data(TWIN_LO), lo, edit, &copy, kv, n);
    return lo;
}

/* ---- tensors ---- */

static void leave_out(struct twin_tensor *t)
{
    t->type = WN_TYPE_COUNT;
}

/* Fewer rows of the same data. */
static void shorten(struct twin_tensor *t)
{
    t->shape[t->dims > 1 ? t->dims - 2 : 0] /= 2;
}

static void one_bit(struct twin_tensor *t)
{
    t->bytes[4 * 256 * 7 + 9] ^= 0x20;
}

static void as_bf16(struct twin_tensor *t)
{
    twin_encode(t, WN_BF16);
}

/* Slabs of the first two experts change places. */
static void turn(struct twin_tensor *t)
{
    uint64_t elements = 1, bytes;
    uint8_t *room;

    for (uint32_t d = 1; d < t->dims; d++)
        elements *= t->shape[d];
    assert_true(wn_type_bytes(t->type, elements, &bytes));
    room = malloc((size_t)bytes);
    assert_non_null(room);
    memcpy(room, t->bytes, (size_t)bytes);
    memcpy(t->bytes, t->bytes + bytes, (size_t)bytes);
    memcpy(t->bytes + bytes, room, (size_t)bytes);
    free(room);
}

static void turn_in_bf16(struct twin_tensor *t)
{
    twin_encode(t, WN_BF16);
    turn(t);
}

static void zeros(struct twin_tensor *t)
{
    memset(t->bytes, 0, (size_t)(10 * 256 * 50));
}

/* 10 x 256 x 50 bytes are so many numbers of no weights. */
static void as_integers(struct twin_tensor *t)
{
    free(t->bytes);
    t->type = WN_I8;
    t->bytes = calloc(10 * 256, 256);
    assert_non_null(t->bytes);
}

static void rename_low(struct twin_tensor *t)
{
    (void)snprintf(t->name, sizeof t->name, "%s", "blk.2.ffn_up_exps_lo.weight");
}

static void what_differs_in_tensors_is_refused_by_name(void **state)
{
    static const struct {
        struct change c;
        const char *says;
    } cases[] = {
        {{"blk.1.ffn_up_exps.weight", shorten},
         "'blk.1.ffn_up_exps.weight' is [10, 256, 256] in the first and [10, 128, 256] in the second"},
        {{"output_norm.weight", shorten}, "'output_norm.weight' is [256] in the first and [128] in the second"},
        {{"blk.1.ffn_up_exps.weight", leave_out}, "'blk.1.ffn_up_exps.weight' is in the first only"},
        {{"blk.2.exp_probs_b.bias", leave_out}, "'blk.2.exp_probs_b.bias' is in the first only"},
        {{"blk.2.attn_norm.weight", rename_low},
         "'blk.2.ffn_up_exps_lo.weight' is in the second only, which is a graded build itself"},
        {{"blk.1.ffn_gate_inp.weight", one_bit},
         "layer 1, expert 7: byte 7177 of the router's 'blk.1.ffn_gate_inp.weight' is 0x"},
        {{"blk.2.exp_probs_b.bias", turn}, "layer 2, expert 0: byte "},
        {{"blk.2.ffn_gate_inp.weight", turn}, "layer 2, expert 0: byte 2 of the router's 'blk.2.ffn_gate_inp.weight'"},
        {{"blk.2.ffn_gate_inp.weight", turn_in_bf16},
         "layer 2, expert 0: the cosine between its rows of 'blk.2.ffn_gate_inp.weight' (F32 and BF16) is "},
        {{"blk.2.ffn_down_exps.weight", turn},
         "layer 2, expert 0: the cosine between its rows of 'blk.2.ffn_down_exps.weight' (Q8_0 and IQ1_S) is "},
        {{"blk.1.ffn_gate_exps.weight", as_integers},
         "'blk.1.ffn_gate_exps.weight' is of type I8 in the second, which winnow cannot compute with"},
    };
    char hi[600];

    (void)state;
    (void)snprintf(hi, sizeof hi, "%s", twin_parent(WN_Q8_0));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        checked(hi, changed(&cases[i].c, NULL, 0), cases[i].says);
}

/* What says nothing against it. */
static void what_is_not_taken_may_differ(void **state)
{
    static const struct change cases[] = {
        {NULL, NULL},
        {"output_norm.weight", leave_out},
        {"blk.2.ffn_gate_inp.weight", as_bf16},
        {"token_embd.weight", as_bf16},
        {"blk.1.ffn_gate_exps.weight", zeros}, /* as sparse files have them */
    };
    char hi[600];

    (void)state;
    (void)snprintf(hi, sizeof hi, "%s", twin_parent(WN_Q8_0));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        checked(hi, changed(&cases[i], NULL, 0), NULL);
}

/* ---- metadata ---- */

/* The records with one of them changed, and that one. */
static struct wn_gguf_kv *records(const struct wn_source *s, const char *key, struct wn_gguf_kv *kv, size_t *n)
{
    struct wn_gguf_kv *one = NULL;

    *n = wn_source_gguf(s)->n;
    assert_true(*n <= 64);
    memcpy(kv, wn_source_gguf(s)->kv, *n * sizeof *kv);
    for (size_t i = 0; i < *n; i++)
        if (wn_bytes_is(kv[i].key, key))
            one = &kv[i];
    assert_non_null(one);
    return one;
}

static void metadata(const char *hi, const char *key, enum wn_gguf_value type, const char *value, size_t bytes,
                     const char *part)
{
    const struct change none = {NULL, NULL};
    struct wn_gguf_kv kv[64], *one;
    struct wn_err err;
    struct wn_source *s = wn_source_open(wn_test_need_data(TWIN_LO), &err);
    size_t n;

    CHECK_OK(s, &err);
    one = records(s, key, kv, &n);
    one->type = type;
    one->value = (struct wn_bytes){value, bytes};
    checked(hi, changed(&none, kv, n), part);
    wn_source_close(s);
}

static void what_differs_in_metadata_is_refused_with_both_values(void **state)
{
    char hi[600];

    (void)state;
    (void)snprintf(hi, sizeof hi, "%s", twin_parent(WN_Q8_0));
    metadata(hi, "general.architecture", WN_GGUF_STRING, "\13\0\0\0\0\0\0\0kimi-linear", 19,
             "the architecture is 'kimi-k3' in the first and 'kimi-linear' in the second");
    metadata(hi, "kimi-k3.expert_used_count", WN_GGUF_U32, "\3\0\0\0", 4,
             "key 'kimi-k3.expert_used_count' is 4 in the first and 3 in the second");
    metadata(hi, "kimi-k3.expert_weights_scale", WN_GGUF_F32, "\0\0\0\x40", 4,
             "key 'kimi-k3.expert_weights_scale' is 1 in the first and 2 in the second");
    metadata(hi, "kimi-k3.expert_weights_norm", WN_GGUF_BOOL, "\0", 1,
             "key 'kimi-k3.expert_weights_norm' is true in the first and false in the second");
    metadata(hi, "kimi-k3.block_count", WN_GGUF_STRING, "\0\0\0\0\0\0\0\0", 8,
             "key 'kimi-k3.block_count' has other values");
    /* another type of the same number, and what is not about weights */
    metadata(hi, "kimi-k3.expert_used_count", WN_GGUF_U8, "\4", 1, NULL);
    metadata(hi, "kimi-k3.context_length", WN_GGUF_U32, "\0\1\0\0", 4, NULL);
    metadata(hi, "general.name", WN_GGUF_STRING, "\1\0\0\0\0\0\0\0x", 9, NULL);
}

static void other_words_are_refused_unless_they_are_special(void **state)
{
    const struct change none = {NULL, NULL};
    struct wn_gguf_kv kv[64], *tokens;
    struct wn_err err;
    struct wn_source *s = wn_source_open(wn_test_need_data(TWIN_LO), &err);
    char hi[600], *words;
    size_t n;

    (void)state;
    CHECK_OK(s, &err);
    (void)snprintf(hi, sizeof hi, "%s", twin_parent(WN_Q8_0));
    tokens = records(s, "tokenizer.ggml.tokens", kv, &n);
    words = malloc(tokens->value.n);
    assert_non_null(words);
    memcpy(words, tokens->value.at, tokens->value.n);
    tokens->value.at = words;
    words[9 * 5 + 8] = '!'; /* each of the first tokens is one letter behind eight bytes of length */
    checked(hi, changed(&none, kv, n), "token 5 is '&' in the first and '!' in the second");
    words[9 * 5 + 8] = '&';
    words[tokens->value.n - 1] ^= 1; /* the last one is special */
    checked(hi, changed(&none, kv, n), NULL);
    words[tokens->value.n - 1] ^= 1;
    tokens->count = 5;
    tokens->value.n = 45;
    checked(hi, changed(&none, kv, n), "the vocabulary has 512 tokens in the first and 5 in the second");
    free(words);
    wn_source_close(s);
}

/* ---- what else is refused ---- */

static void refused(struct wn_prune_options o, const char *part)
{
    const char *folder = wn_test_folder();
    struct wn_prune_result r;
    struct wn_err err;

    if (!o.out)
        o.out = wn_test_path(folder, "o.gguf");
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, part);
    assert_int_equal(count_entries(folder), 0);
}

static void what_does_not_go_together_is_refused(void **state)
{
    char hi[600], lo[600];
    struct wn_plan plan, whole;

    (void)state;
    (void)snprintf(lo, sizeof lo, "%s", wn_test_need_data(TWIN_LO));
    (void)snprintf(hi, sizeof hi, "%s", twin_parent(WN_Q8_0));
    twin_plan(&plan);
    twin_plan(&whole);
    whole.layers[0].lo_bits = whole.layers[1].lo_bits = 0;
    refused((struct wn_prune_options){.source = hi, .plan = &plan}, "it needs --lo-model");
    refused((struct wn_prune_options){.source = hi, .lo_source = lo, .plan = &whole}, "no expert fewer bits");
    refused((struct wn_prune_options){.source = hi, .lo_source = lo}, "no expert fewer bits");
    refused((struct wn_prune_options){.source = lo, .lo_source = hi, .plan = &plan}, "are the two exchanged?");
    refused((struct wn_prune_options){.source = lo, .lo_source = lo, .plan = &plan}, "are the two exchanged?");
    refused(
        (struct wn_prune_options){.source = hi, .lo_source = wn_test_need_data("golden/text/tiny-a/hf"), .plan = &plan},
        "the second is no GGUF");
    refused((struct wn_prune_options){.source = hi, .lo_source = lo, .plan = &plan, .format = WN_FORMAT_MLX},
            "not made into another container");
    refused(
        (struct wn_prune_options){
            .source = hi, .lo_source = lo, .plan = &plan, .consume = true, .resume = true, .hashes = true},
        "neither is consumed");
    refused((struct wn_prune_options){.source = hi, .lo_source = lo, .plan = &plan, .out = lo, .overwrite = true},
            "is a file of the source");
    refused((struct wn_prune_options){.source = hi, .lo_source = "nowhere.gguf", .plan = &plan}, "'nowhere.gguf'");
    plan.layers[1].keep_count--; /* GGUF has one count */
    refused((struct wn_prune_options){.source = hi, .lo_source = lo, .plan = &plan}, "different numbers of experts");
    wn_plan_release(&plan);
    wn_plan_release(&whole);
}

/* The smaller parent is the one that a saliency is likely of. */
static void a_plan_may_be_of_either_parent(void **state)
{
    const char *hi = twin_parent(WN_Q8_0), *lo = wn_test_need_data(TWIN_LO), *folder = wn_test_folder();
    struct wn_prune_options o = {.source = hi, .lo_source = lo, .out = wn_test_path(folder, "o.gguf"), .dry_run = true};
    struct wn_prune_result r;
    struct wn_source *s;
    struct wn_plan plan;
    struct wn_err err;

    (void)state;
    twin_plan(&plan);
    o.plan = &plan;
    s = wn_source_open(lo, &err);
    CHECK_OK(s, &err);
    wn_source_fingerprint(s, plan.model_fingerprint);
    wn_source_close(s);
    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    plan.model_fingerprint[0] ^= 1;
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "fingerprint");
    wn_plan_release(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_differs_in_tensors_is_refused_by_name),
        cmocka_unit_test(what_is_not_taken_may_differ),
        cmocka_unit_test(what_differs_in_metadata_is_refused_with_both_values),
        cmocka_unit_test(other_words_are_refused_unless_they_are_special),
        cmocka_unit_test(what_does_not_go_together_is_refused),
        cmocka_unit_test(a_plan_may_be_of_either_parent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
