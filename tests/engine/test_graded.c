/*
 * Graded builds: the first experts of a layer keep their bytes, the others have two bits. The reference's logits were
 * computed with exactly the values of golden/text's low bank; MLX's two banks and GGUF's tail must give them, and each
 * other's bits.
 */
#include "mlx_folder.h"

#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REF    "golden/text/tiny-b/ref/"
#define GGUF   "golden/text/tiny-b/gguf/tiny-b-BF16-MXFP4.gguf"
#define LAYERS 3

struct graded {
    struct graded_layer layers[64];
    struct wn_source *low;
};

static struct graded graded(void)
{
    struct graded g = {.low = golden_ref(REF "graded_2bit.safetensors")};

    graded_plan(REF "graded_plan.json", g.layers);
    return g;
}

static struct made mlx_made(struct graded *g)
{
    struct loaded hf = golden_load("golden/text/tiny-b/hf");
    struct made m = made_mlx(&hf, (struct rest){0}, g->layers, g->low);

    golden_unload(&hf);
    return m;
}

/* ---- GGUF keys of a tail ---- */

struct keys {
    struct wn_gguf_kv *kv; /* owned; room for two more */
    size_t n;
    struct wn_source *source; /* whose bytes they borrow */
};

static struct wn_gguf_kv count_array(const char *key, const uint32_t *counts, uint64_t n)
{
    return (struct wn_gguf_kv){.key = wn_bytes_of(key),
                               .type = WN_GGUF_ARRAY,
                               .element = WN_GGUF_U32,
                               .count = n,
                               .value = {(const char *)counts, n * sizeof *counts}};
}

/* The source's keys with another expert_count, and the arrays: NULL leaves one out. All are borrowed. */
static struct keys tail_keys(const uint32_t *count, const uint32_t *low, const uint32_t *all)
{
    struct wn_err err;
    struct keys k = {.source = wn_source_open(wn_test_need_data(GGUF), &err)};
    const struct wn_gguf_meta *meta;

    CHECK_OK(k.source, &err);
    meta = wn_source_gguf(k.source);
    k.kv = calloc(meta->n + 2, sizeof *k.kv);
    memcpy(k.kv, meta->kv, meta->n * sizeof *k.kv);
    k.n = meta->n;
    for (size_t i = 0; i < k.n; i++)
        if (wn_bytes_is(k.kv[i].key, "kimi-k3.expert_count"))
            k.kv[i].value = (struct wn_bytes){(const char *)count, sizeof *count};
    if (low)
        k.kv[k.n++] = count_array("kimi-k3.expert_lo_count", low, LAYERS);
    if (all)
        k.kv[k.n++] = count_array("kimi-k3.expert_counts", all, LAYERS);
    return k;
}

static const char *tail_file(struct made *m, const struct keys *k)
{
    const char *path = made_gguf(m, k->kv, k->n);

    free(k->kv);
    wn_source_close(k->source);
    return path;
}

static struct made tail_made(const struct graded *g)
{
    struct wn_err err;
    struct wn_source *gguf = wn_source_open(wn_test_need_data(GGUF), &err);
    struct wn_config c = {.layer_count = LAYERS};
    struct made m;

    CHECK_OK(gguf, &err);
    m = made_tail(gguf, &c, g->layers, g->low);
    wn_source_close(gguf);
    return m;
}

static const uint32_t six = 6, four_low[LAYERS] = {0, 4, 4};

static void both_forms_give_the_reference_and_each_others_bits(void **state)
{
    struct graded g = graded();
    struct made m = mlx_made(&g), t = tail_made(&g);
    struct keys k = tail_keys(&six, four_low, NULL);
    struct loaded mlx = golden_open(made_folder(&m)), tail = golden_open(tail_file(&t, &k));
    struct wn_source *ref = golden_ref(REF "graded_logits.safetensors");
    static const char *const prompts[] = {"p17", "p65", "p130"};

    (void)state;
    assert_int_equal(mlx.config->layers[1].low_count, 4);
    assert_int_equal(tail.config->layers[1].low_count, 4);
    assert_int_equal(mlx.weights->layers[2].mixture.experts[1].up.type, WN_MXFP4_SPLIT);
    assert_int_equal(mlx.weights->layers[2].mixture.experts[2].up.type, WN_AFFINE2);
    for (size_t i = 0; i < sizeof prompts / sizeof prompts[0]; i++) {
        size_t n, all;
        char name[32];
        const uint32_t *ids;
        const float *wanted;
        float *a, *b;

        (void)snprintf(name, sizeof name, "%s.prompt", prompts[i]);
        ids = golden_ids(ref, name, &n);
        wanted = golden_f32(ref, prompts[i], &all);
        a = golden_logits(mlx.weights, (struct how){.threads = 2}, ids, n);
        b = golden_logits(tail.weights, (struct how){.chunk = 7}, ids, n);
        golden_close(prompts[i], a, wanted, all, 3e-4, 2e-5);
        assert_memory_equal(a, b, all * sizeof *a);
        free(a);
        free(b);
    }
    wn_source_close(ref);
    golden_unload(&mlx);
    golden_unload(&tail);
    wn_source_close(g.low);
}

static void inspect_reads_the_mean_of_a_layers_experts_per_token(void **state)
{
    const uint64_t high = 3 * (256 * 256 / 32 * 17), low = 3 * (256 * 256 / 4 + 256 * 4 * 4);
    struct graded g = graded();
    struct wn_inspection in;
    struct wn_err err;
    struct made m;

    (void)state;
    /* one of the high experts goes, so that the means of the layers differ, and one is no whole number */
    memmove(&g.layers[2].old[0], &g.layers[2].old[1], 5 * sizeof g.layers[2].old[0]);
    g.layers[2].high = 1;
    m = mlx_made(&g);
    CHECK_OK(wn_inspect(made_folder(&m), &in, &err), &err);
    assert_true(in.known);
    assert_true(in.class_bytes[WN_CLASS_ROUTED] == 2 * high + 4 * low + (high + 4 * low));
    assert_true((high + 4 * low) % 5 * 4 / 5 != 0);
    assert_true(in.class_token_bytes[WN_CLASS_ROUTED] == (2 * high + 4 * low) * 4 / 6 + (high + 4 * low) * 4 / 5);
    assert_true(in.expert_bytes == (2 * high + 4 * low) / 6);
    wn_inspection_release(&in);
    wn_source_close(g.low);
}

/* Layer 1 in one bank of all its experts, layer 2 graded: counts differ, and so does what a layer is made of. */
static void layers_may_be_graded_or_not_and_differ_in_count(void **state)
{
    static const uint32_t ten = 10, low[LAYERS] = {0, 0, 4}, all[LAYERS] = {0, 10, 6},
                          ids[] = {5, 77, 301, 12, 440, 9, 210};
    struct graded g = graded();
    struct made m, t;
    struct keys k = tail_keys(&ten, low, all);
    struct loaded mlx, tail;
    float *a, *b;

    (void)state;
    g.layers[1] = (struct graded_layer){.high = 10, .old = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}};
    m = mlx_made(&g);
    t = tail_made(&g);
    mlx = golden_open(made_folder(&m));
    tail = golden_open(tail_file(&t, &k));
    assert_int_equal(mlx.config->expert_count, 10);
    assert_int_equal(mlx.config->layers[1].expert_count, 10);
    assert_int_equal(mlx.config->layers[2].expert_count, 6);
    assert_memory_equal(mlx.config->layers, tail.config->layers, LAYERS * sizeof *mlx.config->layers);
    a = golden_logits(mlx.weights, (struct how){.threads = 2}, ids, 7);
    b = golden_logits(tail.weights, (struct how){0}, ids, 7);
    assert_memory_equal(a, b, 7 * 512 * sizeof *a);
    free(a);
    free(b);
    golden_unload(&mlx);
    golden_unload(&tail);
    wn_source_close(g.low);
}

/* ---- what is refused ---- */

#define MOE "model.layers.2.block_sparse_moe."

static void banks_must_be_what_the_split_says(void **state)
{
    struct graded g = graded();
    struct made m = mlx_made(&g);
    json_t *text = json_object_get(m.config, "text_config");

    (void)state;
    json_object_set_new(text, "expert_bank_split", json_pack("[i i i]", 0, 2, 3));
    golden_refused(made_folder(&m),
                   "'" MOE "switch_mlp.bank_hi.gate_proj.weight' is [2, 256, 32], wanted [3, 256, 32]");
    m = mlx_made(&g);
    json_object_del(json_object_get(m.config, "text_config"), "expert_bank_split");
    golden_refused(made_folder(&m), "'model.layers.1.block_sparse_moe.switch_mlp.gate_proj.weight' is missing");
    m = mlx_made(&g);
    made_drop(&m, MOE "switch_mlp.bank_lo.up_proj.weight");
    made_drop(&m, MOE "switch_mlp.bank_lo.up_proj.scales");
    made_drop(&m, MOE "switch_mlp.bank_lo.up_proj.biases");
    made_quantise(&m, MOE "switch_mlp.bank_lo.up_proj", NULL);
    golden_refused(made_folder(&m), "'" MOE "switch_mlp.bank_lo.up_proj.weight' is missing");
    m = mlx_made(&g);
    made_quantise(&m, MOE "switch_mlp.bank_lo.up_proj", NULL); /* the defaults, mxfp4 */
    golden_refused(made_folder(&m), "config.json says mxfp4, 4 bits in groups of 32: tensor '" MOE
                                    "switch_mlp.bank_lo.up_proj.weight' is [4, 256, 16], wanted [4, 256, 32]");
    m = mlx_made(&g);
    json_object_set_new(json_object_get(m.config, "text_config"), "expert_counts", json_pack("[i i i]", 0, 6, 5));
    golden_refused(made_folder(&m), "'" MOE "gate.weight' is [6, 256], wanted [5, 256]");
    wn_source_close(g.low);
}

static void tail_refused(const struct graded *g, const uint32_t *low, const uint32_t *all, const char *drop,
                         bool short_array, const char *part)
{
    struct made m = tail_made(g);
    struct keys k = tail_keys(&six, low, all);

    for (size_t i = 0; short_array && i < k.n; i++)
        if (wn_bytes_is(k.kv[i].key, "kimi-k3.expert_lo_count"))
            k.kv[i] = count_array("kimi-k3.expert_lo_count", low, LAYERS - 1);
    if (drop)
        made_drop(&m, drop);
    golden_refused(tail_file(&m, &k), part);
}

static void a_tail_must_be_what_its_key_says(void **state)
{
    static const uint32_t five[LAYERS] = {0, 4, 5}, whole[LAYERS] = {0, 4, 6}, dense[LAYERS] = {1, 4, 4},
                          counts[LAYERS] = {0, 6, 5}, wide[LAYERS] = {0, 6, 7};
    struct graded g = graded();

    (void)state;
    tail_refused(&g, NULL, NULL, NULL, false, "'blk.1.ffn_gate_exps.weight' is [2, 256, 256], wanted [6, 256, 256]");
    tail_refused(&g, five, NULL, NULL, false, "'blk.2.ffn_gate_exps.weight' is [2, 256, 256], wanted [1, 256, 256]");
    tail_refused(&g, whole, NULL, NULL, false, "layer 2 has 6 of its 6 experts in the second bank");
    tail_refused(&g, dense, NULL, NULL, false, "layer 0 is dense but has a bank of 1 experts");
    tail_refused(&g, four_low, counts, NULL, false,
                 "'blk.2.ffn_gate_inp.weight' has 6 rows, but 'kimi-k3.expert_counts' says 5 of layer 2");
    tail_refused(&g, four_low, wide, NULL, false, "'kimi-k3.expert_counts' says 7 of layer 2");
    tail_refused(&g, four_low, NULL, "blk.2.ffn_down_exps_lo.weight", false,
                 "'blk.2.ffn_down_exps_lo.weight' is missing");
    tail_refused(&g, four_low, NULL, NULL, true, "'kimi-k3.expert_lo_count' has 2 entries, but 'block_count' is 3");
    wn_source_close(g.low);
}

/* One thing wrong at random: a tensor's type or shape, its absence, a count or a form in config.json. */
static void mangle(struct made *m, struct wn_rng *rng)
{
    static const char *const forms[] = {"{\"bits\":8,\"group_size\":32}",
                                        "{\"bits\":2,\"group_size\":128}",
                                        "{\"mode\":\"mxfp4\",\"bits\":4,\"group_size\":32}",
                                        "false",
                                        "true",
                                        "null"};
    static const enum wn_type types[] = {WN_U32, WN_F32, WN_I8, WN_BF16, WN_U8, WN_C64};
    struct made_tensor *t = &m->t[wn_rng_below(rng, m->n)], copy = *t;
    json_t *text = json_object_get(m->config, "text_config");
    char module[WN_NAME_BYTES];

    switch (wn_rng_below(rng, 6)) {
    case 0:
        made_drop(m, copy.name);
        break;
    case 1:
        made_drop(m, copy.name);
        (void)made_add(m, copy.name, types[wn_rng_below(rng, 6)], copy.dims, copy.shape);
        break;
    case 2:
        copy.shape[wn_rng_below(rng, copy.dims)] = wn_rng_below(rng, 300);
        made_drop(m, copy.name);
        (void)made_add(m, copy.name, copy.type, copy.dims, copy.shape);
        break;
    case 3:
        if (wn_name_beside(copy.name, NULL, module))
            made_quantise(m, module, forms[wn_rng_below(rng, 6)]);
        break;
    case 4:
        json_object_set_new(text, "expert_bank_split",
                            json_pack("[i i i]", 0, (int)wn_rng_below(rng, 7), (int)wn_rng_below(rng, 7)));
        break;
    default:
        json_object_set_new(text, "expert_counts",
                            json_pack("[i i i]", 0, (int)wn_rng_below(rng, 8), (int)wn_rng_below(rng, 8)));
    }
}

static void a_folder_that_is_mangled_anywhere_runs_or_is_refused(void **state)
{
    struct graded g = graded();
    struct wn_rng rng = {g.layers[1].high};
    unsigned refused = 0;

    (void)state;
    for (int round = 0; round < 40; round++) {
        struct made m = mlx_made(&g);
        struct wn_err err = {0};
        struct wn_model *model;
        struct wn_weights *w;

        mangle(&m, &rng);
        model = wn_model_open(made_folder(&m), &err);
        w = model ? wn_weights_load(model, &err) : NULL;
        if (w)
            free(golden_logits(w, (struct how){0}, (const uint32_t[]){3, 400}, 2));
        else
            assert_true(err.code != WN_OK && err.msg[0] != '\0');
        refused += !w;
        wn_weights_free(w);
        wn_model_close(model);
    }
    assert_true(refused > 20);
    wn_source_close(g.low);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_give_the_reference_and_each_others_bits),
        cmocka_unit_test(inspect_reads_the_mean_of_a_layers_experts_per_token),
        cmocka_unit_test(layers_may_be_graded_or_not_and_differ_in_count),
        cmocka_unit_test(banks_must_be_what_the_split_says),
        cmocka_unit_test(a_tail_must_be_what_its_key_says),
        cmocka_unit_test(a_folder_that_is_mangled_anywhere_runs_or_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
