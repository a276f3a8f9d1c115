/*
 * What a prune means: a model without its dropped experts computes what the full model does when its router may not
 * choose them (their bias is minus infinity). The two are compared bit for bit, and with the reference's logits of its
 * own prune.
 */
#include "prune_help.h"
#include "formats/source.h"
#include <winnow/session.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TINY_A_GGUF "golden/text/tiny-a/gguf/tiny-a-BF16-MXFP4.gguf"
#define TINY_A_HF   "golden/text/tiny-a/hf"
#define EVEN        "golden/text/tiny-a/ref/prune_"
#define UNEVEN      "golden/text/tiny-a/ref/prune_nonuniform_"

#define LOGIT_TOLERANCE 3e-4f /* the reference's own two ways differ by 6e-5, another engine by 2.1e-4 */

struct prompt {
    uint32_t ids[512];
    size_t n;
};

static const float *reference(struct wn_source *s, const char *name, struct prompt *p)
{
    char key[64];
    const struct wn_tensor *t, *l = wn_source_find(s, name);
    const uint8_t *view;
    struct wn_err err;

    snprintf(key, sizeof(key), "%s.prompt", name);
    t = wn_source_find(s, key);
    assert_non_null(t);
    assert_non_null(l);
    assert_int_equal(t->type, WN_I32);
    assert_int_equal(l->type, WN_F32);
    p->n = (size_t)t->shape[0];
    assert_true(p->n <= sizeof(p->ids) / sizeof(p->ids[0]));
    view = wn_source_view(s, t, &err);
    CHECK_OK(view, &err);
    memcpy(p->ids, view, p->n * 4);
    view = wn_source_view(s, l, &err);
    CHECK_OK(view, &err);
    return (const float *)(const void *)view;
}

/* A copy of the whole model in which the experts that the plan drops can never be chosen. */
static void mask(const char *source, const char *out, const struct wn_plan *plan, const char *bias_name)
{
    const float never = -INFINITY;

    prune_ok(source, out, NULL, WN_LAYOUT_AS_SOURCE, 0);
    for (uint32_t i = 0; i < plan->layer_count; i++) {
        const struct wn_plan_layer *l = &plan->layers[i];
        struct place p;
        char name[128];
        FILE *f;

        snprintf(name, sizeof(name), "%.*s%u%s", (int)(strchr(bias_name, '#') - bias_name), bias_name, l->layer,
                 strchr(bias_name, '#') + 1);
        find_tensor(out, name, &p);
        f = fopen(p.path, "r+b");
        assert_non_null(f);
        for (uint32_t e = 0; e < plan->num_experts; e++) {
            bool stays = false;

            for (uint32_t k = 0; k < l->keep_count; k++)
                stays = stays || l->keep[k] == e;
            if (stays)
                continue;
            assert_int_equal(fseeko(f, (off_t)(p.at + 4 * e), SEEK_SET), 0);
            assert_int_equal(fwrite(&never, 4, 1, f), 1);
        }
        assert_int_equal(fclose(f), 0);
    }
}

static float largest_difference(const float *a, const float *b, size_t n)
{
    float max = 0;

    for (size_t i = 0; i < n; i++) {
        float d = fabsf(a[i] - b[i]);

        max = d > max || d != d ? d : max;
    }
    return max;
}

static void check(const char *model, const char *bias_name, const char *reference_stem, const char *const *prompts)
{
    const char *folder = wn_test_folder();
    char source[600], keep[600], logits[600], pruned[600], masked[600];
    struct wn_plan plan;
    struct wn_source *s;
    struct wn_err err;

    snprintf(keep, sizeof(keep), "%skeep.json", reference_stem);
    snprintf(logits, sizeof(logits), "%slogits.safetensors", reference_stem);
    snprintf(source, sizeof(source), "%s", wn_test_need_data(model));
    snprintf(pruned, sizeof(pruned), "%s/pruned", folder);
    snprintf(masked, sizeof(masked), "%s/masked", folder);
    plan_from_reference(&plan, wn_test_need_data(keep), 4, 16);
    prune_ok(source, pruned, &plan, WN_LAYOUT_AS_SOURCE, 0);
    mask(source, masked, &plan, bias_name);
    s = wn_source_open(wn_test_need_data(logits), &err);
    CHECK_OK(s, &err);
    for (; *prompts; prompts++) {
        struct prompt p;
        const float *want = reference(s, *prompts, &p);
        size_t vocab, same_vocab;
        float *a = logits_of(pruned, p.ids, p.n, &vocab), *b = logits_of(masked, p.ids, p.n, &same_vocab);
        float *full = logits_of(source, p.ids, p.n, &same_vocab), max = largest_difference(a, want, p.n * vocab);

        assert_int_equal(vocab, same_vocab);
        assert_memory_equal(a, b, p.n * vocab * sizeof(float));
        if (!(max <= LOGIT_TOLERANCE))
            fail_msg("%s: the largest difference to the reference is %g", *prompts, (double)max);
        /* the check can fail: the full model is another one */
        assert_true(largest_difference(full, want, p.n * vocab) > 0.1f);
        free(full);
        free(b);
        free(a);
    }
    wn_source_close(s);
    wn_plan_release(&plan);
}

static void a_pruned_gguf_computes_what_the_masked_model_does(void **state)
{
    static const char *const prompts[] = {"p17", "p65", NULL};

    (void)state;
    check(TINY_A_GGUF, "blk.#.exp_probs_b.bias", EVEN, prompts);
}

static void a_pruned_folder_computes_what_the_masked_model_does(void **state)
{
    static const char *const prompts[] = {"p17", "p65", NULL};

    (void)state;
    check(TINY_A_HF, "language_model.model.layers.#.block_sparse_moe.gate.e_score_correction_bias", EVEN, prompts);
}

static void so_does_a_folder_with_uneven_counts(void **state)
{
    static const char *const prompts[] = {"p17", "p65", NULL};

    (void)state;
    check(TINY_A_HF, "language_model.model.layers.#.block_sparse_moe.gate.e_score_correction_bias", UNEVEN, prompts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pruned_gguf_computes_what_the_masked_model_does),
        cmocka_unit_test(a_pruned_folder_computes_what_the_masked_model_does),
        cmocka_unit_test(so_does_a_folder_with_uneven_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
