/*
 * The model against numbers of the vendor's own code: logits, greedy continuations, everything inside, final states,
 * and quantised files. With WINNOW_TEST_FIGURES set, each comparison prints what it found.
 */
#include "golden.h"

#include "formats/source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const PROMPTS[] = {"p1", "p2", "p3", "p5", "p17", "p64", "p65", "p130", "p300"};
#define PROMPT_COUNT (sizeof PROMPTS / sizeof PROMPTS[0])

/* Float noise between two summing orders; a wrong eps is visible above it. */
#define MOST 3e-4
#define MEAN 2e-5

static const char *in(const char *folder, const char *name)
{
    static char path[4][256];
    static unsigned at;
    char *p = path[at++ % 4];

    snprintf(p, sizeof path[0], "golden/text/%s/ref/%s.safetensors", folder, name);
    return p;
}

static void expect_logits(const char *folder, const struct wn_weights *w)
{
    struct wn_source *prompts = golden_ref(in(folder, "prompts")), *wanted = golden_ref(in(folder, "logits"));

    for (size_t i = 0; i < PROMPT_COUNT; i++) {
        size_t n, m;
        const uint32_t *ids = golden_ids(prompts, PROMPTS[i], &n);
        const float *ref = golden_f32(wanted, PROMPTS[i], &m);
        float *logits = golden_logits(w, (struct how){.threads = 2}, ids, n);

        assert_int_equal(m, n * w->config->vocab_size);
        golden_close(PROMPTS[i], logits, ref, m, MOST, MEAN);
        free(logits);
    }
    wn_source_close(prompts);
    wn_source_close(wanted);
}

static void expect_model(const char *folder, const char *file)
{
    char name[128];
    struct loaded l;

    snprintf(name, sizeof name, "golden/text/%s/%s", folder, file);
    l = golden_load(name);
    expect_logits(folder, l.weights);
    golden_unload(&l);
}

static void logits_of_every_prompt_agree_with_the_vendors_code(void **state)
{
    (void)state;
    expect_model("tiny-a", "hf");
}

static void so_do_those_of_the_second_model(void **state)
{
    (void)state;
    expect_model("tiny-b", "hf");
}

static void the_gguf_form_agrees_too(void **state)
{
    (void)state;
    expect_model("tiny-a", "gguf/tiny-a-BF16-MXFP4.gguf");
}

static void the_gguf_form_of_the_second_model_agrees_too(void **state)
{
    (void)state;
    expect_model("tiny-b", "gguf/tiny-b-BF16-MXFP4.gguf");
}

static void four_prompts_in_a_batch_are_four_prompts(void **state)
{
    struct loaded l = golden_load("golden/text/tiny-a/hf");
    struct wn_source *prompts = golden_ref(in("tiny-a", "prompts")), *wanted = golden_ref(in("tiny-a", "logits"));
    size_t n, m, vocab = l.config->vocab_size;
    const uint32_t *ids = golden_ids(prompts, "batch4x17", &n);
    const float *ref = golden_f32(wanted, "batch4x17", &m);
    struct wn_session *s = golden_session(l.weights, (struct how){0});
    float *logits = malloc(17 * vocab * sizeof *logits);

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        golden_feed(s, ids + i * 17, 17, logits);
        golden_close("batch4x17", logits, ref + i * 17 * vocab, 17 * vocab, MOST, MEAN);
        wn_session_reset(s);
    }
    free(logits);
    wn_session_free(s);
    wn_source_close(prompts);
    wn_source_close(wanted);
    golden_unload(&l);
}

static void expect_greedy(const char *folder)
{
    static const char *const names[] = {"g5", "g17", "g64"};
    char name[128];
    struct wn_source *ref = golden_ref(in(folder, "greedy"));
    struct loaded l;

    snprintf(name, sizeof name, "golden/text/%s/hf", folder);
    l = golden_load(name);
    for (size_t i = 0; i < 3; i++) {
        size_t n, m;
        const uint32_t *prompt, *wanted;
        uint32_t tokens[32];

        snprintf(name, sizeof name, "%s.prompt", names[i]);
        prompt = golden_ids(ref, name, &n);
        snprintf(name, sizeof name, "%s.tokens", names[i]);
        wanted = golden_ids(ref, name, &m);
        assert_int_equal(m, 32);
        golden_greedy(l.weights, (struct how){0}, prompt, n, tokens, 32);
        assert_memory_equal(tokens, wanted, sizeof tokens);
    }
    wn_source_close(ref);
    golden_unload(&l);
}

static void greedy_continuations_are_the_vendors_token_for_token(void **state)
{
    (void)state;
    expect_greedy("tiny-a");
}

static void so_are_those_of_the_second_model(void **state)
{
    (void)state;
    expect_greedy("tiny-b");
}

/*
 * Everything inside. A trace tensor has one slab per layer of its kind; `kind` lists those layers in order.
 */
struct trace {
    const struct wn_source *ref;
    const struct wn_config *config;
    size_t values_seen, routed_seen;
    size_t ends_at[32]; /* tokens of each ENDS value seen so far: the head takes them in blocks */
};

enum kind { ALL, MOE, KDA, MLA, ENDS };

static const struct {
    const char *name;
    enum kind kind;
    double most;
} TRACED[] = {
    {"attn_mix", ALL, 2e-4},       {"attn_norm", ALL, 1e-4},     {"attn_out", ALL, 1e-4},
    {"mlp_mix", ALL, 2e-4},        {"mlp_norm", ALL, 1e-4},      {"mlp_out", ALL, 1e-4},
    {"res_probs_attn", ALL, 2e-5}, {"res_probs_mlp", ALL, 2e-5}, {"latent_in", MOE, 1e-4},
    {"latent_sum", MOE, 1e-4},     {"router_scores", MOE, 2e-5}, {"router_choice_scores", MOE, 2e-5},
    {"mla_kv_c", MLA, 1e-4},       {"mla_k_rot", MLA, 1e-4},     {"kda_conv_q", KDA, 1e-4},
    {"kda_conv_k", KDA, 1e-4},     {"kda_conv_v", KDA, 1e-4},    {"kda_g", KDA, 1e-4},
    {"kda_beta", KDA, 2e-5},       {"kda_o_gated", KDA, 1e-4},   {"layer_out_prefix_sum", ALL, 2e-4},
    {"final_mix", ENDS, 2e-4},     {"final_norm", ENDS, 1e-4},   {"res_probs_out", ENDS, 2e-5},
};

static bool is_kind(const struct wn_config *c, uint32_t layer, enum kind kind)
{
    switch (kind) {
    case MOE:
        return c->layers[layer].moe;
    case KDA:
        return c->layers[layer].attention == WN_ATTENTION_KDA;
    case MLA:
        return c->layers[layer].attention == WN_ATTENTION_MLA;
    default:
        return true;
    }
}

static size_t slab_of(const struct wn_config *c, int32_t layer, enum kind kind)
{
    size_t slab = 0;

    for (int32_t i = 0; i < layer; i++)
        slab += is_kind(c, (uint32_t)i, kind);
    return slab;
}

static void compare_value(void *arg, const char *name, int32_t layer, const float *data, size_t tokens, size_t width)
{
    struct trace *t = arg;

    for (size_t i = 0; i < sizeof TRACED / sizeof TRACED[0]; i++) {
        size_t n, elements = tokens * width;
        const float *ref;
        char what[80];

        if (strcmp(name, TRACED[i].name) != 0)
            continue;
        ref = golden_f32(t->ref, name, &n);
        ref += TRACED[i].kind == ENDS ? t->ends_at[i] * width : slab_of(t->config, layer, TRACED[i].kind) * elements;
        t->ends_at[i] += tokens;
        snprintf(what, sizeof what, "%s of layer %d", name, (int)layer);
        golden_close(what, data, ref, elements, TRACED[i].most, TRACED[i].most / 3);
        t->values_seen++;
        return;
    }
    fail_msg("'%s' was shown and is not in the table", name);
}

static void compare_routed(void *arg, int32_t layer, const uint32_t *ids, const float *weights, const float *outputs,
                           size_t tokens, size_t k, size_t width)
{
    struct trace *t = arg;
    size_t n, slab = slab_of(t->config, layer, MOE), pairs = tokens * k;

    (void)outputs;
    assert_int_equal(width, t->config->latent_size);
    assert_memory_equal(ids, golden_ids(t->ref, "router_topk_ids", &n) + slab * pairs, pairs * sizeof *ids);
    /* the only place where a missing renormalisation shows clearly */
    golden_close("router_topk_weights", weights, golden_f32(t->ref, "router_topk_weights", &n) + slab * pairs, pairs,
                 1e-5, 2e-6);
    t->routed_seen++;
}

static void expect_trace(const char *folder)
{
    char name[128];
    struct wn_source *ref = golden_ref(in(folder, "trace_p17")), *prompts = golden_ref(in(folder, "prompts"));
    struct trace t = {.ref = ref};
    const struct wn_probe probe = {.arg = &t, .value = compare_value, .routed = compare_routed};
    size_t n, moe = 0, kda = 0, layers;
    const uint32_t *ids = golden_ids(prompts, "p17", &n);
    struct loaded l;
    float *logits;

    snprintf(name, sizeof name, "golden/text/%s/hf", folder);
    l = golden_load(name);
    t.config = l.config;
    layers = l.config->layer_count;
    for (uint32_t i = 0; i < layers; i++) {
        moe += l.config->layers[i].moe;
        kda += l.config->layers[i].attention == WN_ATTENTION_KDA;
    }
    logits = golden_logits(l.weights, (struct how){.probe = &probe}, ids, n);
    assert_int_equal(t.routed_seen, moe);
    /*
     * 9 values of every layer, but no first mix in layer 0; 4 of each MoE, 6 of KDA, 2 of MLA; the ends' 3 in two
     * blocks
     */
    assert_int_equal(t.values_seen, 9 * layers - 1 + 4 * moe + 6 * kda + 2 * (layers - kda) + 2 * 3);
    free(logits);
    wn_source_close(ref);
    wn_source_close(prompts);
    golden_unload(&l);
}

static void every_value_inside_agrees_with_the_vendors_code(void **state)
{
    (void)state;
    expect_trace("tiny-a");
}

static void so_does_every_value_of_the_second_model(void **state)
{
    (void)state;
    expect_trace("tiny-b");
}

/* State of the session after p130, in the reference's order of layers. */
static void expect_state(const char *folder)
{
    char name[128];
    struct wn_source *ref = golden_ref(in(folder, "state_p130")), *prompts = golden_ref(in(folder, "prompts"));
    size_t n, kda_n, conv_n, slab = 0, dim, heads, wide;
    const uint32_t *ids = golden_ids(prompts, "p130", &n);
    const float *kda = golden_f32(ref, "kda_state", &kda_n), *conv = golden_f32(ref, "kda_conv_state", &conv_n);
    struct loaded l;
    struct wn_session *s;
    struct wn_err err;

    snprintf(name, sizeof name, "golden/text/%s/hf", folder);
    l = golden_load(name);
    dim = l.config->kda_head_dim;
    heads = l.config->kda_heads;
    wide = heads * dim;
    s = golden_session(l.weights, (struct how){.threads = 2, .chunk = 50});
    CHECK_OK(wn_session_feed(s, ids, n, NULL, NULL, &err), &err);
    for (uint32_t i = 0; i < l.config->layer_count; i++) {
        const struct wn_layer_state *state = &s->state.layers[i];
        const float *tails[3] = {state->tail_q, state->tail_k, state->tail_v};

        if (l.config->layers[i].attention != WN_ATTENTION_KDA)
            continue;
        golden_close("kda_state", state->kda, kda + slab * wide * dim, wide * dim, 1e-4, 1e-5);
        for (size_t j = 0; j < 3; j++)
            for (size_t c = 0; c < wide; c++)
                for (size_t tap = 0; tap < 3; tap++) {
                    float got = tails[j][(c / dim * 3 + tap) * dim + c % dim];
                    float want = conv[((slab * 3 + j) * wide + c) * 3 + tap];

                    assert_true(fabs((double)got - (double)want) <= 1e-4);
                }
        slab++;
    }
    assert_int_equal(slab * wide * dim, kda_n);
    assert_int_equal(slab * 3 * wide * 3, conv_n);
    wn_session_free(s);
    wn_source_close(ref);
    wn_source_close(prompts);
    golden_unload(&l);
}

static void the_state_after_a_long_prompt_is_the_vendors(void **state)
{
    (void)state;
    expect_state("tiny-a");
}

static void so_is_that_of_the_second_model(void **state)
{
    (void)state;
    expect_state("tiny-b");
}

/* Logits of a file of {"pN.prompt", "pN" + suffix} against a model. */
static void expect_pruned(const struct wn_weights *w, const char *ref_name, const char *const *names, size_t count,
                          const char *suffix, double most, double mean)
{
    struct wn_source *ref = golden_ref(ref_name);

    for (size_t i = 0; i < count; i++) {
        char name[64];
        size_t n, m;
        const uint32_t *ids;
        const float *wanted;
        float *logits;

        snprintf(name, sizeof name, "%s.prompt", names[i]);
        ids = golden_ids(ref, name, &n);
        snprintf(name, sizeof name, "%s%s", names[i], suffix);
        wanted = golden_f32(ref, name, &m);
        assert_int_equal(m, n * w->config->vocab_size);
        logits = golden_logits(w, (struct how){0}, ids, n);
        golden_close(name, logits, wanted, m, most, mean);
        free(logits);
    }
    wn_source_close(ref);
}

static const char *const P17_P65_P130[] = {"p17", "p65", "p130"};

static void expect_prune(const char *folder)
{
    char name[128];
    struct keeps keeps;
    struct loaded l;
    struct variant *masked, *renumbered;
    struct wn_source *ref = golden_ref(in(folder, "prune_logits"));
    size_t n, m;
    const uint32_t *prompt = golden_ids(ref, "p17.prompt", &n), *greedy = golden_ids(ref, "greedy_p17", &m);
    uint32_t tokens[32];

    snprintf(name, sizeof name, "golden/text/%s/ref/prune_keep.json", folder);
    keeps = golden_keeps(name);
    snprintf(name, sizeof name, "golden/text/%s/hf", folder);
    l = golden_load(name);
    masked = golden_masked(l.weights, &keeps);
    renumbered = golden_renumbered(l.weights, &keeps);
    expect_pruned(&renumbered->weights, in(folder, "prune_logits"), P17_P65_P130, 3, "", MOST, MEAN);
    expect_pruned(&masked->weights, in(folder, "prune_logits"), P17_P65_P130, 3, "", MOST, MEAN);
    assert_int_equal(m, 32);
    golden_greedy(&renumbered->weights, (struct how){0}, prompt, n, tokens, 32);
    assert_memory_equal(tokens, greedy, sizeof tokens);
    golden_variant_free(masked);
    golden_variant_free(renumbered);
    wn_source_close(ref);
    golden_unload(&l);
}

static void a_pruned_model_has_the_vendors_logits(void **state)
{
    (void)state;
    expect_prune("tiny-a");
}

static void so_has_the_second_model_pruned(void **state)
{
    (void)state;
    expect_prune("tiny-b");
}

static void layers_may_keep_different_numbers_of_experts(void **state)
{
    static const char *const names[] = {"p17", "p65"};
    struct loaded l = golden_load("golden/text/tiny-a/hf");
    struct keeps keeps = golden_keeps("golden/text/tiny-a/ref/prune_nonuniform_keep.json");
    struct variant *v = golden_renumbered(l.weights, &keeps);

    (void)state;
    expect_pruned(&v->weights, in("tiny-a", "prune_nonuniform_logits"), names, 2, "", MOST, MEAN);
    golden_variant_free(v);
    golden_unload(&l);
}

static void expect_quant(const char *file, const char *type)
{
    static const char *const names[] = {"p17", "p65"};
    char name[128], ref[128];
    struct loaded l;

    snprintf(name, sizeof name, "golden/text/tiny-b/gguf/%s", file);
    snprintf(ref, sizeof ref, "golden/text/tiny-b/ref/quant_%s.safetensors", type);
    l = golden_load(name);
    expect_pruned(l.weights, ref, names, 2, ".torch_f32", MOST, MEAN);
    golden_unload(&l);
}

static void iq1_s_has_the_logits_of_its_dequantised_weights(void **state)
{
    (void)state;
    expect_quant("tiny-b-IQ1_S.gguf", "IQ1_S");
}

static void a_split_gguf_is_the_same_model(void **state)
{
    (void)state;
    expect_quant("split/tiny-b-IQ1_S-00001-of-00003.gguf", "IQ1_S");
}

static void q8_0_has_the_logits_of_its_dequantised_weights(void **state)
{
    (void)state;
    expect_quant("tiny-b-Q8_0.gguf", "Q8_0");
}

static void q4_k_m_has_the_logits_of_its_dequantised_weights(void **state)
{
    (void)state;
    expect_quant("tiny-b-Q4_K_M.gguf", "Q4_K_M");
}

static void q2_k_has_the_logits_of_its_dequantised_weights(void **state)
{
    (void)state;
    expect_quant("tiny-b-Q2_K.gguf", "Q2_K");
}

static void iq2_xxs_has_the_logits_of_its_dequantised_weights(void **state)
{
    (void)state;
    expect_quant("tiny-b-IQ2_XXS.gguf", "IQ2_XXS");
}

static void mxfp4_moe_has_the_logits_of_its_dequantised_weights(void **state)
{
    (void)state;
    expect_quant("tiny-b-MXFP4_MOE.gguf", "MXFP4_MOE");
}

/* The bounds above are worth something: small mistakes in the weights are outside of them. */
static void a_small_mistake_is_outside_the_bounds(void **state)
{
    struct loaded l = golden_load("golden/text/tiny-a/hf");
    struct wn_source *prompts = golden_ref(in("tiny-a", "prompts")), *wanted = golden_ref(in("tiny-a", "logits"));
    struct variant *v = golden_masked(l.weights, &(struct keeps){.counts = {0}});
    size_t n, m;
    const uint32_t *ids = golden_ids(prompts, "p65", &n);
    const float *ref = golden_f32(wanted, "p65", &m);
    float *logits;

    (void)state;
    memcpy(v->weights.layers, l.weights->layers, l.config->layer_count * sizeof *l.weights->layers);
    v->config.rms_norm_eps = 1e-6f;
    logits = golden_logits(&v->weights, (struct how){0}, ids, n);
    assert_true(golden_distance(logits, ref, m).most > MOST && golden_distance(logits, ref, m).mean > MEAN);
    free(logits);
    v->config.rms_norm_eps = l.config->rms_norm_eps;
    v->config.renormalize = false;
    logits = golden_logits(&v->weights, (struct how){0}, ids, n);
    assert_true(golden_distance(logits, ref, m).most > MOST);
    free(logits);
    golden_variant_free(v);
    wn_source_close(prompts);
    wn_source_close(wanted);
    golden_unload(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_of_every_prompt_agree_with_the_vendors_code),
        cmocka_unit_test(so_do_those_of_the_second_model),
        cmocka_unit_test(the_gguf_form_agrees_too),
        cmocka_unit_test(the_gguf_form_of_the_second_model_agrees_too),
        cmocka_unit_test(four_prompts_in_a_batch_are_four_prompts),
        cmocka_unit_test(greedy_continuations_are_the_vendors_token_for_token),
        cmocka_unit_test(so_are_those_of_the_second_model),
        cmocka_unit_test(every_value_inside_agrees_with_the_vendors_code),
        cmocka_unit_test(so_does_every_value_of_the_second_model),
        cmocka_unit_test(the_state_after_a_long_prompt_is_the_vendors),
        cmocka_unit_test(so_is_that_of_the_second_model),
        cmocka_unit_test(a_pruned_model_has_the_vendors_logits),
        cmocka_unit_test(so_has_the_second_model_pruned),
        cmocka_unit_test(layers_may_keep_different_numbers_of_experts),
        cmocka_unit_test(iq1_s_has_the_logits_of_its_dequantised_weights),
        cmocka_unit_test(a_split_gguf_is_the_same_model),
        cmocka_unit_test(q8_0_has_the_logits_of_its_dequantised_weights),
        cmocka_unit_test(q4_k_m_has_the_logits_of_its_dequantised_weights),
        cmocka_unit_test(q2_k_has_the_logits_of_its_dequantised_weights),
        cmocka_unit_test(iq2_xxs_has_the_logits_of_its_dequantised_weights),
        cmocka_unit_test(mxfp4_moe_has_the_logits_of_its_dequantised_weights),
        cmocka_unit_test(a_small_mistake_is_outside_the_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
