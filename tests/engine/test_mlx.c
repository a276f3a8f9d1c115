/*
 * MLX folders give the logits of what they hold: the HF folder's bits where nothing was quantised anew, and otherwise
 * those of the same values stored as floats. All comparisons are memcmp.
 */
#include "mlx_folder.h"

#include <stdlib.h>
#include <string.h>

#define TINY_A "golden/text/tiny-a/hf"
#define TINY_B "golden/text/tiny-b/hf"

static const uint32_t prompt[] = {5, 77, 301, 12, 440, 9, 210, 33, 150, 401, 66, 7, 280, 99, 3, 120, 55};
#define PROMPT (sizeof prompt / sizeof prompt[0])

static float *logits_of(const char *path, struct how how)
{
    struct loaded l = golden_open(path);
    float *logits = golden_logits(l.weights, how, prompt, PROMPT);

    golden_unload(&l);
    return logits;
}

static const char *folder_of(const char *hf, struct rest rest)
{
    struct loaded l = golden_load(hf);
    struct made m = made_mlx(&l, rest, NULL, NULL);
    const char *folder;

    golden_unload(&l);
    folder = made_folder(&m);
    return folder;
}

static void expect_same(const float *a, const float *b)
{
    assert_memory_equal(a, b, PROMPT * 512 * sizeof *a);
}

static void check_unchanged(const char *hf)
{
    struct loaded l = golden_load(hf);
    float *wanted = golden_logits(l.weights, (struct how){0}, prompt, PROMPT);
    float *got = logits_of(folder_of(hf, (struct rest){0}), (struct how){0});

    expect_same(got, wanted);
    free(got);
    free(wanted);
    golden_unload(&l);
}

static void an_mlx_folder_of_the_same_weights_has_the_bits_of_the_hf_folder(void **state)
{
    (void)state;
    check_unchanged(TINY_A);
    check_unchanged(TINY_B);
}

static void affine_weights_count_as_the_floats_that_they_decode_to(void **state)
{
    static const struct rest rests[] = {{8, 64, false}, {8, 32, false}, {4, 64, false}, {6, 128, false},
                                        {5, 32, false}, {3, 64, false}, {2, 64, false}};

    (void)state;
    for (size_t i = 0; i < sizeof rests / sizeof rests[0]; i++) {
        const char *hf = i == 1 ? TINY_A : TINY_B;
        struct rest floats = rests[i];
        float *a, *b;

        floats.as_floats = true;
        a = logits_of(folder_of(hf, rests[i]), (struct how){0});
        b = logits_of(folder_of(hf, floats), (struct how){0});
        expect_same(a, b);
        free(a);
        free(b);
    }
}

/* A swapped bank, half or order is 0.8 and more. */
static void eight_bits_stay_near_the_source(void **state)
{
    struct loaded l = golden_load(TINY_B);
    float *wanted = golden_logits(l.weights, (struct how){0}, prompt, PROMPT);
    float *got = logits_of(folder_of(TINY_B, (struct rest){8, 64, false}), (struct how){0});
    struct distance d = golden_distance(got, wanted, PROMPT * 512);

    (void)state;
    if (getenv("WINNOW_TEST_FIGURES"))
        print_message("8 bits: max %.2e mean %.2e\n", d.most, d.mean);
    assert_true(d.mean > 0 && d.mean < 0.15);
    free(got);
    free(wanted);
    golden_unload(&l);
}

static void threads_and_cuts_do_not_show_in_quantised_folders(void **state)
{
    const char *folder = folder_of(TINY_A, (struct rest){8, 32, false});
    float *whole = logits_of(folder, (struct how){0});

    (void)state;
    for (unsigned threads = 1; threads <= 3; threads++) {
        float *cut = logits_of(folder, (struct how){.threads = threads, .chunk = 2 * threads - 1});

        expect_same(cut, whole);
        free(cut);
    }
    free(whole);
}

static const struct wn_type_bytes *row_of(const struct wn_inspection *in, const char *type)
{
    for (size_t i = 0; i < in->type_count; i++)
        if (strcmp(in->types[i].type, type) == 0)
            return &in->types[i];
    fail_msg("no tensors of type %s are told", type);
    return NULL;
}

static void inspect_tells_the_types_that_words_and_scales_make_together(void **state)
{
    struct wn_inspection hf, in;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_inspect(wn_test_need_data(TINY_B), &hf, &err), &err);
    CHECK_OK(wn_inspect(folder_of(TINY_B, (struct rest){8, 64, false}), &in, &err), &err);
    assert_string_equal(in.container, "mlx");
    assert_true(in.known);
    /* 2 layers, 3 stacks of 10 matrices of 256 x 256: codes and scales */
    assert_int_equal(row_of(&in, "MXFP4")->bytes, 2 * 3 * 10 * (256 * 256 / 32 * 17));
    assert_int_equal(row_of(&in, "MXFP4")->tensors, 2 * 3 * 2);
    assert_int_equal(row_of(&in, "affine 8-bit")->tensors % 3, 0);
    assert_int_equal(in.expert_bytes, hf.expert_bytes);
    assert_true(in.class_bytes[WN_CLASS_ROUTED] == hf.class_bytes[WN_CLASS_ROUTED]);
    assert_true(in.class_token_bytes[WN_CLASS_ROUTED] == hf.class_token_bytes[WN_CLASS_ROUTED]);
    assert_int_equal(in.class_bytes[WN_CLASS_OTHER], 0);
    /* the head, and one row of the embedding: 8.5 bits a weight */
    assert_int_equal(in.class_token_bytes[WN_CLASS_EMBEDDING], (512 + 1) * (256 + 256 / 64 * 4));
    assert_true(in.state_bytes == hf.state_bytes && in.kv_bytes_per_token == hf.kv_bytes_per_token);
    wn_inspection_release(&hf);
    wn_inspection_release(&in);
}

/* ---- what is refused ---- */

static void refused(struct made *m, const char *part)
{
    golden_refused(made_folder(m), part);
}

static struct made made(struct rest rest)
{
    struct loaded l = golden_load(TINY_B);
    struct made m = made_mlx(&l, rest, NULL, NULL);

    golden_unload(&l);
    return m;
}

static const struct rest eight = {8, 64, false}, plain = {0, 0, false};

#define Q_PROJ "model.layers.0.self_attn.q_proj"
#define GATES  "model.layers.1.block_sparse_moe.switch_mlp.gate_proj"

static void parts_of_a_quantised_matrix_must_all_be_there(void **state)
{
    struct made m;

    (void)state;
    m = made(eight);
    made_drop(&m, Q_PROJ ".biases");
    refused(&m, "'" Q_PROJ ".weight' is affine and has scales, but its '.biases' are missing");
    m = made(eight);
    made_drop(&m, Q_PROJ ".scales");
    refused(&m, "'" Q_PROJ "' is quantised by config.json, but '" Q_PROJ ".scales' is missing");
    m = made(eight);
    made_drop(&m, Q_PROJ ".weight");
    refused(&m, "'" Q_PROJ "'");
    m = made(plain);
    (void)made_add(&m, Q_PROJ ".biases", WN_BF16, 2, (const uint64_t[]){256, 4});
    refused(&m, "tensor '" Q_PROJ ".biases' has no place");
    m = made(plain);
    (void)made_add(&m, GATES ".biases", WN_U8, 3, (const uint64_t[]){10, 256, 8});
    refused(&m, "tensor '" GATES ".biases' has no place: mxfp4 has no biases");
}

static void shapes_and_config_must_say_the_same_bits_and_groups(void **state)
{
    struct made m;

    (void)state;
    m = made(eight);
    made_quantise(&m, Q_PROJ, "{\"mode\":\"affine\",\"bits\":4,\"group_size\":64}");
    refused(&m, "config.json says affine, 4 bits in groups of 64: tensor '" Q_PROJ
                ".weight' is [256, 64], wanted [256, 32]");
    m = made(eight);
    made_quantise(&m, Q_PROJ, "{\"mode\":\"affine\",\"bits\":8,\"group_size\":32}");
    refused(&m, "8 bits in groups of 32: tensor '" Q_PROJ ".scales' is [256, 4], wanted [256, 8]");
    m = made(eight);
    made_quantise(&m, Q_PROJ, NULL); /* the defaults, mxfp4 */
    refused(&m, "'" Q_PROJ ".weight' is [256, 64], wanted [256, 32]");
    m = made(eight);
    made_quantise(&m, Q_PROJ, "false");
    refused(&m, "'" Q_PROJ "' is not quantised by config.json, but has scales");
    m = made(eight);
    json_object_del(m.config, "quantization");
    refused(&m, "has scales, but config.json has no 'quantization'");
    m = made(eight);
    made_find(&m, Q_PROJ ".scales")->type = WN_F16;
    refused(&m, "'" Q_PROJ ".biases' is of type BF16, wanted F16");
    m = made(eight);
    made_find(&m, GATES ".scales")->type = WN_I8;
    refused(&m, "'" GATES ".scales' is of type I8, wanted U8 for mxfp4");
    m = made(eight);
    made_find(&m, GATES ".weight")->type = WN_I32;
    refused(&m, "'" GATES ".weight' is of type I32, wanted U32");
}

static void forms_that_do_not_exist_are_refused(void **state)
{
    static const struct {
        const char *form, *part;
    } cases[] = {
        {"{\"mode\":\"nvfp4\",\"bits\":4,\"group_size\":16}",
         "'quantization." Q_PROJ ".mode' is \"nvfp4\", wanted \"affine\" or \"mxfp4\""},
        {"{\"mode\":7,\"bits\":4,\"group_size\":64}", ".mode' is 7"},
        {"{\"bits\":7,\"group_size\":64}", ".bits' is 7, wanted 2, 3, 4, 5, 6 or 8"},
        {"{\"bits\":8,\"group_size\":48}", ".group_size' is 48, wanted 32, 64 or 128"},
        {"{\"bits\":-8,\"group_size\":64}", ".bits' is -8"},
        {"{\"bits\":4294967304,\"group_size\":64}", ".bits' is 4294967304"},
        {"{\"group_size\":64}", "lacks 'bits'"},
        {"{\"bits\":8}", "lacks 'group_size'"},
        {"{\"mode\":\"mxfp4\",\"bits\":8,\"group_size\":32}", ".bits' is 8, wanted 4 for mxfp4"},
        {"{\"mode\":\"mxfp4\",\"bits\":4,\"group_size\":64}", ".group_size' is 64, wanted 32 for mxfp4"},
        {"[8,64]", "'quantization." Q_PROJ "' is [8,64]"},
    };
    struct made m;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        m = made(eight);
        made_quantise(&m, Q_PROJ, cases[i].form);
        refused(&m, cases[i].part);
    }
    m = made(eight);
    made_quantise(&m, "model.layers.0.self_attn.Q_proj", "{\"bits\":8,\"group_size\":64}");
    refused(&m, "'quantization' names 'model.layers.0.self_attn.Q_proj'");
    m = made(eight);
    json_object_set_new(m.config, "quantization", json_string("mxfp4"));
    refused(&m, "'quantization' is \"mxfp4\"");
}

static void columns_that_are_no_whole_groups_are_refused(void **state)
{
    struct loaded l = golden_load(TINY_A);
    struct made m = made_mlx(&l, (struct rest){8, 64, false}, NULL, NULL);
    static const char up[] = "model.layers.1.block_sparse_moe.routed_expert_up_proj"; /* 96 columns */
    struct made_tensor *w;
    char name[WN_NAME_BYTES];

    (void)state;
    golden_unload(&l);
    assert_true(wn_name_beside("model.layers.1.block_sparse_moe.routed_expert_up_proj.weight", "weight", name));
    w = made_find(&m, name);
    assert_int_equal(w->type, WN_BF16);
    made_drop(&m, name);
    (void)made_add(&m, name, WN_U32, 2, (const uint64_t[]){128, 24});
    (void)made_add(&m, "model.layers.1.block_sparse_moe.routed_expert_up_proj.scales", WN_BF16, 2,
                   (const uint64_t[]){128, 1});
    made_quantise(&m, up, "{\"bits\":8,\"group_size\":64}");
    refused(&m, "96 columns are no whole groups of 64");
}

static void a_head_beside_tied_embeddings_is_refused_whole_or_in_part(void **state)
{
    struct made m = made(eight);

    (void)state;
    json_object_set_new(m.config, "tie_word_embeddings", json_true());
    json_object_set_new(json_object_get(m.config, "text_config"), "tie_word_embeddings", json_true());
    made_drop(&m, "lm_head.weight");
    made_quantise(&m, "lm_head", NULL);
    refused(&m, "tensor 'lm_head.scales' has no place: the config has 'tie_word_embeddings'");
}

static void folders_that_are_half_hf_are_refused(void **state)
{
    struct made m;

    (void)state;
    m = made(eight);
    json_object_del(m.config, "quantization");
    json_object_set_new(m.config, "quantization_config",
                        json_pack("{ss ss}", "quant_method", "compressed-tensors", "format", "mxfp4-pack-quantized"));
    refused(&m, "'quantization_config' says that this is an HF folder");
    m = made(eight);
    json_object_set_new(m.config, "quantization_config", json_pack("{ss}", "quant_method", "compressed-tensors"));
    refused(&m, "say different things");
    m = made(plain);
    (void)made_add(&m, "model.layers.1.block_sparse_moe.experts.0.w1.weight", WN_BF16, 2, (const uint64_t[]){256, 256});
    refused(&m, "has no place in layer 1");
    m = made(plain);
    (void)made_add(&m, "model.layers.1.block_sparse_moe.switch_mlp.bank_lo.up_proj.weight", WN_BF16, 3,
                   (const uint64_t[]){1, 256, 256});
    refused(&m, "has no place in layer 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_mlx_folder_of_the_same_weights_has_the_bits_of_the_hf_folder),
        cmocka_unit_test(affine_weights_count_as_the_floats_that_they_decode_to),
        cmocka_unit_test(eight_bits_stay_near_the_source),
        cmocka_unit_test(threads_and_cuts_do_not_show_in_quantised_folders),
        cmocka_unit_test(inspect_tells_the_types_that_words_and_scales_make_together),
        cmocka_unit_test(parts_of_a_quantised_matrix_must_all_be_there),
        cmocka_unit_test(shapes_and_config_must_say_the_same_bits_and_groups),
        cmocka_unit_test(forms_that_do_not_exist_are_refused),
        cmocka_unit_test(columns_that_are_no_whole_groups_are_refused),
        cmocka_unit_test(a_head_beside_tied_embeddings_is_refused_whole_or_in_part),
        cmocka_unit_test(folders_that_are_half_hf_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
