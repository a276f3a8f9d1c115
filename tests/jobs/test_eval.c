/* Perplexity: the numbers published with the model, the windows, and what is refused. */
#include "wn_test.h"

#include "base/alloc.h"
#include "jobs/exact_math.h"
#include "sys/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winnow/eval.h>

static const struct {
    const char *domain, *file;
    double perplexity;
    uint64_t predicted;
} published[] = {{"code", "corpora/heldout-code.txt", 29.360, 59276},
                 {"en", "corpora/heldout-en.txt", 54.827, 56721},
                 {"zh", "corpora/heldout-zh.txt", 68.474, 56210},
                 {"ja", "corpora/heldout-ja.txt", 30.457, 42413}};

static struct wn_model *model;
static struct wn_weights *weights;

static int open_mini(void **state)
{
    const char *path = wn_test_data("models/k3-mini");
    struct wn_err err;

    (void)state;
    if (!path)
        return 0;
    model = wn_model_open(path, &err);
    weights = model ? wn_weights_load(model, &err) : NULL;
    if (!weights)
        print_error("%s\n", err.msg);
    return weights ? 0 : -1;
}

static int close_mini(void **state)
{
    (void)state;
    wn_weights_free(weights);
    wn_model_close(model);
    return 0;
}

static void evaluate(unsigned threads, const struct wn_eval_options *o, struct wn_eval_domain *results)
{
    struct wn_err err;
    struct wn_pool *pool = wn_pool_new(threads, &err);

    assert_non_null(pool);
    CHECK_OK(wn_eval(model, weights, pool, o, NULL, results, &err), &err);
    wn_pool_free(pool);
}

static bool refused(const struct wn_eval_text *text, uint32_t window, struct wn_err *err)
{
    struct wn_eval_options o = {.texts = text, .text_count = 1, .window = window, .max_windows = 1};
    struct wn_eval_domain d;
    struct wn_pool *pool = wn_pool_new(1, err);
    bool ok;

    assert_non_null(pool);
    ok = wn_eval(model, weights, pool, &o, NULL, &d, err);
    wn_pool_free(pool);
    return !ok;
}

/* All windows of all four texts take about a minute: WINNOW_SLOW_TESTS=1 asks for them. */
static void the_published_perplexities_come_out(void **state)
{
    struct wn_eval_text texts[4];
    struct wn_eval_domain d[4];
    struct wn_eval_options o = {.texts = texts, .text_count = 4};

    (void)state;
    if (!getenv("WINNOW_SLOW_TESTS") || !model)
        skip();
    for (int i = 0; i < 4; i++)
        texts[i] = (struct wn_eval_text){published[i].domain, wn_test_need_data(published[i].file)};
    evaluate(0, &o, d);
    for (int i = 0; i < 4; i++) {
        printf("%s: perplexity %.4f of %llu tokens, published %.3f\n", d[i].domain, d[i].perplexity,
               (unsigned long long)d[i].predicted, published[i].perplexity);
        assert_string_equal(d[i].domain, published[i].domain);
        assert_int_equal(d[i].predicted, published[i].predicted);
        assert_true(fabs(d[i].perplexity / published[i].perplexity - 1) < 1e-3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_perplexities_come_out),
    };

    (void)refused;
    return cmocka_run_group_tests(tests, open_mini, close_mini);
}
