/* What a tensor's name means, for both containers and for GGUFs of any mixture of experts. */
#include "model/names.h"
#include "wn_test.h"

#include <stdio.h>
#include <string.h>

static struct wn_part gguf(const char *name)
{
    struct wn_part p;

    wn_part_of(WN_CONTAINER_GGUF, name, &p);
    return p;
}

static struct wn_part hf(const char *name)
{
    struct wn_part p;

    wn_part_of(WN_CONTAINER_SAFETENSORS, name, &p);
    return p;
}

static void check_written(enum wn_naming naming, enum wn_role role, const char *name)
{
    struct wn_part p;

    wn_part_of(naming == WN_NAMING_GGUF ? WN_CONTAINER_GGUF : WN_CONTAINER_SAFETENSORS, name, &p);
    if (p.class != wn_role_names(role)->class)
        fail_msg("'%s' is taken for '%s'", name, wn_class_name(p.class));
    assert_int_equal(p.layer, wn_role_names(role)->in_layer ? 92 : -1);
    assert_true(p.router == (role == WN_ROLE_ROUTER || role == WN_ROLE_ROUTER_BIAS));
    if (p.naming != naming && p.naming != WN_NAMING_COUNT)
        fail_msg("'%s' is taken for a name of another naming", name);
}

static void every_name_the_table_writes_is_understood(void **state)
{
    static const char *const prefixes[] = {"language_model.", ""};

    (void)state;
    for (int naming = 0; naming < WN_NAMING_COUNT; naming++) {
        for (int i = 0; i < WN_ROLE_COUNT; i++) {
            for (unsigned which = 0; which < 2; which++) {
                uint32_t expert = naming == WN_NAMING_HF ? 895 : WN_BANK_LO;
                char name[WN_NAME_BYTES];

                if (wn_name_write((enum wn_naming)naming, prefixes[i % 2], (enum wn_role)i, which, 92, expert, name))
                    check_written((enum wn_naming)naming, (enum wn_role)i, name);
            }
        }
    }
}

static void mlx_names_scales_and_biases_after_their_weight(void **state)
{
    char weight[WN_NAME_BYTES], beside[WN_NAME_BYTES];

    (void)state;
    for (int i = 0; i < WN_ROLE_COUNT; i++) {
        if (!wn_role_is_matrix((enum wn_role)i))
            continue;
        assert_true(wn_name_write(WN_NAMING_MLX, "", (enum wn_role)i, 0, 92, WN_BANK_HI, weight));
        assert_true(wn_name_beside(weight, "scales", beside));
        check_written(WN_NAMING_MLX, (enum wn_role)i, beside);
        assert_int_equal(hf(beside).naming, WN_NAMING_MLX);
        assert_true(wn_name_beside(weight, "biases", beside));
        check_written(WN_NAMING_MLX, (enum wn_role)i, beside);
    }
    assert_true(wn_name_write(WN_NAMING_MLX, "", WN_ROLE_EXPERT_UP, 0, 3, WN_BANK_LO, weight));
    assert_true(wn_name_beside(weight, NULL, beside));
    assert_string_equal(beside, "model.layers.3.block_sparse_moe.switch_mlp.bank_lo.up_proj");
    assert_false(wn_name_beside("model.layers.0.self_attn.A_log", "scales", beside));
}

/* True when some role, in some bank of layer 1, is called that. */
static bool is_written(const char *name)
{
    char made[WN_NAME_BYTES];

    for (int i = 0; i < WN_ROLE_COUNT; i++)
        for (unsigned k = 0; k < 2; k++)
            for (uint32_t bank = WN_BANK_ONLY; bank <= WN_BANK_LO; bank++)
                if (wn_name_write(WN_NAMING_MLX, "", (enum wn_role)i, k, 1, bank, made) && strcmp(made, name) == 0)
                    return true;
    return false;
}

/* Columns of a line: the name or module, the source, the shape, the layers, the stored form. */
static void the_table_writes_every_mlx_name_of_the_released_model(void **state)
{
    const char *path = wn_test_need_data("catalog/k3-mlx-names.tsv");
    FILE *f = fopen(path, "r");
    char line[1024];
    size_t n = 0;

    (void)state;
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof(line), f));
    while (fgets(line, sizeof(line), f)) {
        char name[WN_NAME_BYTES], *layer = strstr(line, "{l}"), *end = strchr(line, '\t');
        const char *tail;

        assert_non_null(end);
        if (strncmp(line, "vision_tower", 12) == 0)
            continue;
        *end = '\0';
        tail = strstr(end + 1, ".scales") ? ".weight" : "";
        if (layer)
            (void)snprintf(name, sizeof(name), "%.*s1%s%s", (int)(layer - line), line, layer + 3, tail);
        else
            (void)snprintf(name, sizeof(name), "%s%s", line, tail);
        if (!is_written(name))
            fail_msg("no role is called '%s'", name);
        n++;
    }
    assert_int_equal(fclose(f), 0);
    assert_true(n > 40);
}

static void the_second_bank_of_a_graded_layer_is_told_from_the_first(void **state)
{
    (void)state;
    assert_true(gguf("blk.3.ffn_up_exps_lo.weight").low);
    assert_false(gguf("blk.3.ffn_up_exps.weight").low);
    assert_int_equal(gguf("blk.3.ffn_up_exps_lo.weight").axis, WN_AXIS_OUTER);
    assert_int_equal(gguf("blk.3.ffn_up_exps_low.weight").axis, WN_AXIS_NONE);
    assert_true(hf("model.layers.3.block_sparse_moe.switch_mlp.bank_lo.up_proj.scales").low);
    assert_false(hf("model.layers.3.block_sparse_moe.switch_mlp.bank_hi.up_proj.scales").low);
    assert_int_equal(hf("model.layers.3.block_sparse_moe.switch_mlp.up_proj.weight").axis, WN_AXIS_OUTER);
    assert_int_equal(hf("model.layers.3.block_sparse_moe.switch_mlp.bank_mid.up_proj.weight").axis, WN_AXIS_NONE);
}

static void hf_experts_carry_their_number_in_the_name(void **state)
{
    static const char name[] = "language_model.model.layers.7.block_sparse_moe.experts.895.w2.weight_scale";
    struct wn_part p = hf(name);

    (void)state;
    assert_int_equal(p.class, WN_CLASS_ROUTED);
    assert_int_equal(p.axis, WN_AXIS_NAME);
    assert_int_equal(p.layer, 7);
    assert_int_equal(p.expert, 895);
    assert_int_equal(p.expert_digits, 3);
    assert_memory_equal(name + p.expert_at, "895.", 4);
    p = hf("model.layers.0.block_sparse_moe.experts.0.w1.weight");
    assert_int_equal(p.axis, WN_AXIS_NAME);
    assert_int_equal(p.expert, 0);
}

static void the_router_and_its_bias_share_the_expert_axis(void **state)
{
    (void)state;
    assert_true(gguf("blk.1.ffn_gate_inp.weight").router);
    assert_int_equal(gguf("blk.1.ffn_gate_inp.weight").axis, WN_AXIS_OUTER);
    assert_int_equal(gguf("blk.1.exp_probs_b.bias").axis, WN_AXIS_OUTER);
    assert_int_equal(hf("model.layers.1.block_sparse_moe.gate.weight").axis, WN_AXIS_OUTER);
    assert_int_equal(hf("model.layers.1.block_sparse_moe.gate.e_score_correction_bias").axis, WN_AXIS_OUTER);
}

static void stacks_of_any_architecture_are_known(void **state)
{
    static const char *const stacks[] = {"blk.3.ffn_gate_exps.weight", "blk.3.ffn_up_exps.weight",
                                         "blk.3.ffn_down_exps.weight", "blk.3.ffn_gate_up_exps.weight",
                                         "blk.3.ffn_down_exps.bias",   "blk.3.ffn_gate_up_exps.bias"};

    (void)state;
    for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
        assert_int_equal(gguf(stacks[i]).axis, WN_AXIS_OUTER);
        assert_int_equal(gguf(stacks[i]).class, WN_CLASS_ROUTED);
        assert_int_equal(gguf(stacks[i]).layer, 3);
    }
}

static void look_alikes_have_no_expert_axis(void **state)
{
    (void)state;
    assert_int_equal(gguf("blk.1.ffn_gate_inp_shexp.weight").axis, WN_AXIS_NONE);
    assert_int_equal(gguf("blk.1.ffn_gate_inp_shexp.weight").class, WN_CLASS_SHARED);
    assert_int_equal(gguf("blk.1.ffn_norm_exps.weight").axis, WN_AXIS_NONE);
    assert_int_equal(gguf("blk.1.ffn_down_shexp.weight").axis, WN_AXIS_NONE);
    assert_int_equal(gguf("ffn_gate_exps.weight").axis, WN_AXIS_NONE);
    assert_int_equal(gguf("blk.x.ffn_gate_exps.weight").axis, WN_AXIS_NONE);
    assert_int_equal(hf("model.layers.1.block_sparse_moe.shared_experts.up_proj.weight").axis, WN_AXIS_NONE);
    assert_int_equal(hf("model.layers.1.block_sparse_moe.experts.07.w1.weight").axis, WN_AXIS_NONE);
    assert_int_equal(hf("model.layers.1.block_sparse_moe.experts.99999999999.w1.weight").axis, WN_AXIS_NONE);
}

static void any_name_gets_an_answer(void **state)
{
    (void)state;
    assert_int_equal(hf("vision_tower.encoder.blocks.0.wo.weight").class, WN_CLASS_VISION);
    assert_int_equal(hf("mm_projector.proj.0.weight").class, WN_CLASS_VISION);
    assert_int_equal(gguf("v.blk.0.attn_q.weight").class, WN_CLASS_VISION);
    assert_int_equal(gguf("").class, WN_CLASS_OTHER);
    assert_int_equal(hf("").class, WN_CLASS_OTHER);
    assert_int_equal(hf("model.layers.4294967296.mlp.up_proj.weight").class, WN_CLASS_OTHER);
    assert_int_equal(gguf("blk.0.something_new.weight").class, WN_CLASS_OTHER);
    assert_int_equal(gguf("blk.0.attn_qkv.weight").class, WN_CLASS_ATTENTION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_the_table_writes_is_understood),
        cmocka_unit_test(mlx_names_scales_and_biases_after_their_weight),
        cmocka_unit_test(the_table_writes_every_mlx_name_of_the_released_model),
        cmocka_unit_test(the_second_bank_of_a_graded_layer_is_told_from_the_first),
        cmocka_unit_test(hf_experts_carry_their_number_in_the_name),
        cmocka_unit_test(the_router_and_its_bias_share_the_expert_axis),
        cmocka_unit_test(stacks_of_any_architecture_are_known),
        cmocka_unit_test(look_alikes_have_no_expert_axis),
        cmocka_unit_test(any_name_gets_an_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
