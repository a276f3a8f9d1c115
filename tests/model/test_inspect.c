/*
 * What `inspect` tells, to the byte; of the published full-size files too, where they have been made (`make sparse`).
 */
#include "edited_json.h"
#include "rewrite.h"
#include "wn_test.h"
#include <winnow/model.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct wn_inspection inspected(const char *path)
{
    struct wn_inspection in;
    struct wn_err err;

    CHECK_OK(wn_inspect(path, &in, &err), &err);
    return in;
}

static uint64_t sum(const uint64_t *v)
{
    uint64_t n = 0;

    for (int i = 0; i < WN_CLASS_COUNT; i++)
        n += v[i];
    return n;
}

static void check_sums(const struct wn_inspection *in)
{
    uint64_t bytes = 0, tensors = 0;

    for (size_t i = 0; i < in->type_count; i++) {
        bytes += in->types[i].bytes;
        tensors += in->types[i].tensors;
        assert_true(i == 0 || in->types[i].bytes <= in->types[i - 1].bytes);
    }
    assert_true(bytes == in->tensor_bytes && tensors == in->tensors);
    assert_true(sum(in->class_bytes) == in->tensor_bytes);
    assert_true(sum(in->class_tensors) == in->tensors);
    assert_true(sum(in->class_token_bytes) == in->token_bytes);
}

static void tiny_a_adds_up(void **state)
{
    /* one MXFP4 expert: three matrices of 64 x 96 weights, half a byte each and a scale for 32 */
    const uint64_t expert = 3 * (64 * 96 / 2 + 64 * 96 / 32);
    struct wn_inspection in = inspected(wn_test_need_data("golden/text/tiny-a/hf"));

    (void)state;
    check_sums(&in);
    assert_true(in.known);
    assert_string_equal(in.architecture, "kimi-k3");
    assert_string_equal(in.container, "safetensors");
    assert_int_equal(strlen(in.fingerprint), 16);
    assert_int_equal(in.files, 4);
    assert_int_equal(in.tensor_bytes, 5866496); /* total_size of its index */
    assert_true(in.file_bytes == in.tensor_bytes + in.header_bytes);
    assert_int_equal(in.expert_bytes, expert);
    assert_int_equal(in.class_bytes[WN_CLASS_ROUTED], 12 * 16 * expert);
    assert_int_equal(in.class_token_bytes[WN_CLASS_ROUTED], 12 * 4 * expert);
    assert_int_equal(in.class_bytes[WN_CLASS_EMBEDDING], 2 * 512 * 128 * 2);
    assert_int_equal(in.class_token_bytes[WN_CLASS_EMBEDDING], (512 + 1) * 128 * 2);
    assert_int_equal(in.class_bytes[WN_CLASS_LATENT], 12 * (2 * 96 * 128 + 96) * 2);
    assert_int_equal(in.class_token_bytes[WN_CLASS_ATTENTION], in.class_bytes[WN_CLASS_ATTENTION]);
    assert_int_equal(in.class_bytes[WN_CLASS_OTHER], 0);
    assert_int_equal(in.state_bytes, 9 * (3 * 32 * 32 + 3 * 3 * 96) * 4);
    assert_int_equal(in.kv_bytes_per_token, 4 * (64 + 16) * 4);
    wn_inspection_release(&in);
}

static void the_gguf_form_has_the_same_experts(void **state)
{
    struct wn_inspection in = inspected(wn_test_need_data("golden/text/tiny-a/gguf/tiny-a-BF16-MXFP4.gguf"));

    (void)state;
    check_sums(&in);
    assert_true(in.known);
    assert_string_equal(in.container, "gguf");
    assert_int_equal(in.expert_bytes, 3 * (64 * 96 / 32 * 17));
    assert_int_equal(in.class_tensors[WN_CLASS_ROUTED], 3 * 12);
    wn_inspection_release(&in);
}

static void a_split_set_weighs_what_the_single_file_does(void **state)
{
    struct wn_inspection one = inspected(wn_test_need_data("golden/text/tiny-b/gguf/tiny-b-IQ1_S.gguf"));
    struct wn_inspection set =
        inspected(wn_test_need_data("golden/text/tiny-b/gguf/split/tiny-b-IQ1_S-00001-of-00003.gguf"));

    (void)state;
    check_sums(&one);
    check_sums(&set);
    assert_int_equal(set.files, 3);
    assert_true(one.tensor_bytes == set.tensor_bytes && one.token_bytes == set.token_bytes);
    wn_inspection_release(&one);
    wn_inspection_release(&set);
}

static void an_architecture_that_is_not_computed_is_still_weighed(void **state)
{
    const char *path = rewritten_gguf(wn_test_need_data("golden/text/tiny-a/gguf/tiny-a-BF16-MXFP4.gguf"), NULL, 0,
                                      "general.architecture", "\x07\0\0\0\0\0\0\0qwen3mo");
    struct wn_inspection in = inspected(path);

    (void)state;
    assert_false(in.known);
    assert_null(in.config);
    assert_string_equal(in.architecture, "qwen3mo");
    assert_true(wn_test_contains(in.why_unknown, "'qwen3mo' is not computed"));
    assert_int_equal(in.class_bytes[WN_CLASS_ROUTED], 12 * 16 * 3 * (64 * 96 / 32 * 17));
    assert_int_equal(in.token_bytes, 0);
    wn_inspection_release(&in);
}

static void a_folder_without_config_is_still_weighed(void **state)
{
    const struct edit one = {.name = "lonely.weight", .type = WN_F32, .dims = 2, .shape = {3, 5}};
    struct wn_inspection in = inspected(rewritten_hf(NULL, &one, 1, "{\"model_type\":\"gpt9\"}"));
    struct wn_err err;

    (void)state;
    assert_false(in.known);
    assert_string_equal(in.architecture, "gpt9");
    assert_int_equal(in.class_bytes[WN_CLASS_OTHER], 60);
    wn_inspection_release(&in);
    CHECK_FAILS(wn_inspect("/nowhere", &in, &err), &err, "/nowhere");
    wn_inspection_release(&in);
}

static void the_released_checkpoint_adds_up_to_the_byte(void **state)
{
    struct wn_inspection in = inspected(wn_test_need_sparse("hf"));

    (void)state;
    check_sums(&in);
    assert_true(in.known);
    assert_int_equal(in.files, 96);
    assert_int_equal(in.tensors, 497220);
    assert_true(in.file_bytes == 1560936091448u);
    assert_true(in.tensor_bytes == 1560860324864u);
    assert_true(in.header_bytes == 75766584u);
    assert_true(in.class_bytes[WN_CLASS_ROUTED] == 1446456066048u);
    assert_int_equal(in.expert_bytes, 17547264);
    assert_true(in.class_token_bytes[WN_CLASS_ROUTED] == 16ull * 17547264 * 92);
    assert_int_equal(in.class_bytes[WN_CLASS_VISION], 894717952);
    assert_int_equal(in.class_bytes[WN_CLASS_OTHER], 0);
    assert_true(in.class_bytes[WN_CLASS_EMBEDDING] == 2 * 2348810240ull);
    assert_true(in.state_bytes == 69ull * (96 * 128 * 128 + 9 * 12288) * 4);
    assert_int_equal(in.kv_bytes_per_token, 24 * 576 * 4);
    wn_inspection_release(&in);
}

static void a_published_gguf_adds_up_to_the_byte(void **state)
{
    struct wn_inspection in = inspected(wn_test_need_sparse("gguf-r2/Kimi-K3-UD-IQ1_S-00001-of-00014.gguf"));

    (void)state;
    check_sums(&in);
    assert_true(in.known);
    assert_int_equal(in.files, 14);
    assert_int_equal(in.tensors, 2573);
    assert_true(in.file_bytes == 594040923616u);
    assert_int_equal(in.class_bytes[WN_CLASS_OTHER], 0);
    /* 254 IQ1_S and 22 IQ2_XXS tensors of 896 slabs */
    assert_true(in.class_bytes[WN_CLASS_ROUTED] == 896ull * (254 * 2150400ull + 22 * 2838528ull));
    assert_true(in.class_token_bytes[WN_CLASS_ROUTED] == 16ull * (254 * 2150400ull + 22 * 2838528ull));
    wn_inspection_release(&in);
}

static void an_open_model_is_inspected_as_its_path_is(void **state)
{
    struct wn_inspection by_path, open;
    struct wn_model *m;
    struct wn_err err;

    (void)state;
    by_path = inspected(wn_test_need_data("golden/text/tiny-a/hf"));
    m = wn_model_open(wn_test_need_data("golden/text/tiny-a/hf"), &err);
    CHECK_OK(m, &err);
    CHECK_OK(wn_model_inspect(m, &open, &err), &err);
    wn_model_close(m); /* the inspection stands for itself */
    assert_true(open.known && open.config->layer_count == by_path.config->layer_count);
    assert_string_equal(open.fingerprint, by_path.fingerprint);
    assert_int_equal(open.token_bytes, by_path.token_bytes);
    assert_int_equal(open.tensor_bytes, by_path.tensor_bytes);
    assert_memory_equal(open.class_bytes, by_path.class_bytes, sizeof open.class_bytes);
    check_sums(&open);
    wn_inspection_release(&by_path);
    wn_inspection_release(&open);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_a_adds_up),
        cmocka_unit_test(the_gguf_form_has_the_same_experts),
        cmocka_unit_test(a_split_set_weighs_what_the_single_file_does),
        cmocka_unit_test(an_architecture_that_is_not_computed_is_still_weighed),
        cmocka_unit_test(a_folder_without_config_is_still_weighed),
        cmocka_unit_test(an_open_model_is_inspected_as_its_path_is),
        cmocka_unit_test(the_released_checkpoint_adds_up_to_the_byte),
        cmocka_unit_test(a_published_gguf_adds_up_to_the_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
