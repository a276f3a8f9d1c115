/* Perplexity: the numbers published with the model, the windows, and what is refused. */
#include "wn_test.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "jobs/exact_math.h"
#include "sys/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
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

static int open_mini(void **state)
{
    const char *path = wn_test_data("models/k3-mini");
    struct wn_err err;

    (void)state;
    if (!path)
        exit(0); /* the reason has been printed */
    model = wn_model_open(path, &err);
    if (!model)
        print_error("%s\n", err.msg);
    return model ? 0 : -1;
}

static int close_mini(void **state)
{
    (void)state;
    wn_model_close(model);
    return 0;
}

static void evaluate(unsigned threads, const struct wn_eval_options *o, struct wn_eval_domain *results)
{
    struct wn_eval_result r;
    struct wn_err err;
    struct wn_pool *pool = wn_pool_new(threads, &err);

    assert_non_null(pool);
    CHECK_OK(wn_eval(model, pool, o, NULL, &r, &err), &err);
    memcpy(results, r.domains, o->text_count * sizeof *results);
    wn_eval_result_release(&r);
    wn_pool_free(pool);
}

/* ---- the two functions ---- */

static double ulps(double got, long double wanted)
{
    return fabs((double)((long double)got - wanted)) /
           (nextafter(fabs((double)wanted), INFINITY) - fabs((double)wanted));
}

static void exp_and_log_are_right_to_two_places(void **state)
{
    struct wn_rng rng = {3};

    (void)state;
    for (int i = 0; i < 200000; i++) {
        double x = -700 + 1400 * wn_rng_unit(&rng), small = -2 * wn_rng_unit(&rng), y = wn_exact_exp(x);

        assert_true(ulps(y, expl((long double)x)) <= 2);
        assert_true(ulps(wn_exact_exp(small), expl((long double)small)) <= 2);
        assert_true(ulps(wn_exact_log(y), logl((long double)y)) <= 2);
        y = 0.5 + wn_rng_unit(&rng);
        assert_true(ulps(wn_exact_log(y), logl((long double)y)) <= 2);
    }
    assert_true(wn_exact_exp(0) == 1 && wn_exact_log(1) == 0);
    assert_true(wn_exact_exp(-1e300) > 0 && wn_exact_exp(-1e300) < 1e-300 && wn_exact_exp(-INFINITY) < 1e-300);
}

/* ---- against the long way ---- */

struct longhand {
    const uint32_t *ids;
    uint32_t vocab;
    long double sum, shifted; /* shifted: had the token itself been asked for instead of the next one */
};

static bool add_longhand(void *arg, uint64_t position, const float *logits)
{
    struct longhand *h = arg;
    long double total = 0;

    for (uint32_t i = 0; i < h->vocab; i++)
        total += expl((long double)logits[i]);
    h->sum += logl(total) - (long double)logits[h->ids[position + 1]];
    h->shifted += logl(total) - (long double)logits[h->ids[position]];
    return true;
}

static void perplexity_is_that_of_the_long_way(void **state)
{
    const char *path = wn_test_need_data("corpora/heldout-zh.txt");
    struct wn_eval_text text = {"zh", path};
    struct wn_eval_options o = {.texts = &text, .text_count = 1, .window = 100, .max_windows = 3};
    struct longhand h = {.vocab = wn_model_config(model)->vocab_size};
    struct wn_eval_domain d;
    struct wn_weights *weights;
    struct wn_session *session;
    struct wn_pool *pool;
    struct wn_err err;
    uint32_t *ids;
    size_t n, count;
    char *bytes;

    (void)state;
    evaluate(2, &o, &d);
    pool = wn_pool_new(1, &err);
    weights = wn_weights_load(model, &err);
    CHECK_OK(weights, &err);
    session = wn_session_new(model, weights, pool, &(struct wn_session_options){.context = 200}, &err);
    bytes = wn_file_slurp(path, 1 << 20, &n, &err);
    assert_true(pool && session && bytes);
    CHECK_OK(wn_vocab_encode(wn_model_vocab(model, &err), bytes, n, false, &ids, &count, &err), &err);
    for (int w = 0; w < 3; w++) {
        h.ids = ids + w * 100;
        wn_session_reset(session);
        for (int i = 0; i < 99; i += 33) /* also cut differently */
            CHECK_OK(wn_session_feed(session, h.ids + i, 33, add_longhand, &h, &err), &err);
    }
    assert_int_equal(d.tokens, count);
    assert_int_equal(d.windows, 3);
    assert_int_equal(d.predicted, 3 * 99);
    assert_true(fabs(d.nll - (double)(h.sum / (3 * 99))) < 1e-12);
    assert_true(fabs(d.perplexity / exp(d.nll) - 1) < 1e-14);
    assert_true(fabs(d.nll - (double)(h.shifted / (3 * 99))) > 1);
    free(ids);
    free(bytes);
    wn_session_free(session);
    wn_weights_free(weights);
    wn_pool_free(pool);
}

static void threads_change_no_bit(void **state)
{
    struct wn_eval_text texts[2] = {{"code", wn_test_need_data("corpora/heldout-code.txt")},
                                    {"ja", wn_test_need_data("corpora/heldout-ja.txt")}};
    struct wn_eval_options o = {.texts = texts, .text_count = 2, .window = 128, .max_windows = 2};
    struct wn_eval_domain a[2], b[2];

    (void)state;
    evaluate(1, &o, a);
    for (unsigned threads = 2; threads <= 5; threads += 3) {
        evaluate(threads, &o, b);
        for (int i = 0; i < 2; i++) {
            assert_memory_equal(&a[i].nll, &b[i].nll, sizeof a[i].nll);
            assert_memory_equal(&a[i].perplexity, &b[i].perplexity, sizeof a[i].perplexity);
        }
    }
    assert_true(a[0].nll != a[1].nll);
}

/* The published counts are (window - 1) tokens of each whole window; one window each is enough to see them. */
static void whole_windows_are_counted_as_published(void **state)
{
    struct wn_eval_text texts[4];
    struct wn_eval_domain d[4];
    struct wn_eval_options o = {.texts = texts, .text_count = 4, .max_windows = 1};

    (void)state;
    for (int i = 0; i < 4; i++)
        texts[i] = (struct wn_eval_text){published[i].domain, wn_test_need_data(published[i].file)};
    evaluate(2, &o, d);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(d[i].domain, published[i].domain);
        assert_int_equal(d[i].tokens / 512 * 511, published[i].predicted);
        assert_int_equal(d[i].predicted, 511);
        /* one window is not the whole text, but not another model either */
        assert_true(d[i].perplexity > published[i].perplexity / 5 && d[i].perplexity < published[i].perplexity * 5);
    }
}

/* All windows of all four texts take minutes: WINNOW_SLOW_TESTS=1 asks for them. */
static void the_published_perplexities_come_out(void **state)
{
    struct wn_eval_text texts[4];
    struct wn_eval_domain d[4];
    struct wn_eval_options o = {.texts = texts, .text_count = 4};

    (void)state;
    if (!getenv("WINNOW_SLOW_TESTS")) {
        printf("skipped: WINNOW_SLOW_TESTS=1 asks for it\n");
        skip();
    }
    for (int i = 0; i < 4; i++)
        texts[i] = (struct wn_eval_text){published[i].domain, wn_test_need_data(published[i].file)};
    evaluate(0, &o, d);
    for (int i = 0; i < 4; i++) {
        printf("%s: perplexity %.4f of %llu tokens, published %.3f\n", d[i].domain, d[i].perplexity,
               (unsigned long long)d[i].predicted, published[i].perplexity);
        assert_int_equal(d[i].predicted, published[i].predicted);
        assert_true(fabs(d[i].perplexity / published[i].perplexity - 1) < 1e-3);
    }
}

/* ---- refused ---- */

static bool eval_one(const struct wn_model *m, struct wn_eval_text text, uint32_t window, const struct wn_job *job,
                     struct wn_err *err)
{
    struct wn_eval_options o = {.texts = &text, .text_count = 1, .window = window, .max_windows = 4};
    struct wn_eval_result r;
    struct wn_pool *pool = wn_pool_new(1, err);
    bool ok;

    assert_non_null(pool);
    ok = wn_eval(m, pool, &o, job, &r, err);
    assert_true(ok == (r.domains != NULL));
    wn_eval_result_release(&r);
    wn_pool_free(pool);
    return ok;
}

struct listener {
    unsigned calls, stop_at; /* the call that answers false; 0: none */
    uint64_t done, total;
};

static bool listen_to(void *arg, const struct wn_progress *p)
{
    struct listener *l = arg;

    assert_string_equal(p->phase, "evaluating x");
    assert_string_equal(p->unit, "tokens");
    assert_true(p->done >= l->done && p->done <= p->total);
    l->done = p->done;
    l->total = p->total;
    return ++l->calls != l->stop_at;
}

static void a_stop_is_seen_within_a_layer_not_after_a_window(void **state)
{
    const char *some = wn_test_path(wn_test_folder(), "some.txt");
    uint32_t layers = wn_model_config(model)->layer_count;
    struct listener l = {0};
    struct wn_job job = {.progress = listen_to, .arg = &l};
    struct wn_eval_text text = {"x", some};
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_file_put(some, "The purpose of this chapter is to show what it shows.", 52, false, &err), &err);
    CHECK_OK(eval_one(model, text, 4, &job, &err), &err);
    assert_int_equal(l.total, 16);
    assert_int_equal(l.done, 16);
    assert_int_equal(l.calls, 4 * (layers + 1)); /* before each layer, and when a window is done */
    for (unsigned stop = 1; stop < 4 * (layers + 1); stop += 3) {
        l = (struct listener){.stop_at = stop};
        CHECK_FAILS(eval_one(model, text, 4, &job, &err), &err, "some.txt': stopped on request (evaluating x)");
        assert_int_equal(err.code, WN_ERR_CANCELED);
        assert_int_equal(l.calls, stop);
    }
}

static void what_cannot_be_scored_is_refused(void **state)
{
    const char *folder = wn_test_folder(), *some = wn_test_path(folder, "some.txt"),
               *none = wn_test_path(folder, "none.txt");
    char name[65];
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_file_put(some, "The purpose of this chapter is to show what it shows.", 52, false, &err), &err);
    CHECK_OK(wn_file_put(none, "", 0, false, &err), &err);
    CHECK_FAILS(eval_one(model, (struct wn_eval_text){"x", some}, 0, NULL, &err), &err, "fewer than one window of 512");
    assert_true(wn_test_contains(err.msg, "some.txt"));
    CHECK_FAILS(eval_one(model, (struct wn_eval_text){"x", none}, 0, NULL, &err), &err,
                "0 tokens, fewer than one window");
    CHECK_FAILS(eval_one(model, (struct wn_eval_text){"x", folder}, 0, NULL, &err), &err, folder);
    CHECK_FAILS(eval_one(model, (struct wn_eval_text){"x", "/no/such/file"}, 0, NULL, &err), &err, "/no/such/file");
    CHECK_FAILS(eval_one(model, (struct wn_eval_text){"x", some}, 1, NULL, &err), &err,
                "windows of 1 tokens: wanted 2 to 4096");
    CHECK_FAILS(eval_one(model, (struct wn_eval_text){"x", some}, 4097, NULL, &err), &err, "windows of 4097 tokens");
    memset(name, 'n', 64);
    name[64] = 0;
    CHECK_FAILS(eval_one(model, (struct wn_eval_text){name, some}, 4, NULL, &err), &err, "longer than 63 bytes");
    name[63] = 0;
    CHECK_OK(eval_one(model, (struct wn_eval_text){name, some}, 4, NULL, &err), &err);
}

static void two_texts_of_one_name_are_refused(void **state)
{
    struct wn_eval_text texts[2] = {{"x", "/no/a"}, {"x", "/no/b"}};
    struct wn_eval_options o = {.texts = texts, .text_count = 2};
    struct wn_eval_result r;
    struct wn_err err;
    struct wn_pool *pool = wn_pool_new(1, &err);

    (void)state;
    assert_non_null(pool);
    CHECK_FAILS(wn_eval(model, pool, &o, NULL, &r, &err), &err, "two texts are called 'x'");
    wn_pool_free(pool);
}

static void a_model_without_vocabulary_is_refused(void **state)
{
    const char *folder = wn_test_folder(), *source = wn_test_need_data("golden/text/tiny-a/hf");
    struct wn_model *m;
    struct wn_err err;
    char **names;
    size_t n;

    (void)state;
    CHECK_OK(wn_path_list(source, &names, &n, &err), &err);
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], "tiktoken.model") != 0)
            assert_int_equal(symlink(wn_test_path(source, names[i]), wn_test_path(folder, names[i])), 0);
    wn_names_free(names, n);
    m = wn_model_open(folder, &err);
    if (!m)
        fail_msg("%s", err.msg);
    CHECK_FAILS(eval_one(m, (struct wn_eval_text){"x", "/no/matter"}, 0, NULL, &err), &err,
                "evaluating needs a vocabulary");
    wn_model_close(m);
}

static void every_refused_allocation_is_survived(void **state)
{
    const char *some = wn_test_path(wn_test_folder(), "some.txt");
    struct wn_err err;
    long n = 0;
    bool ok;

    (void)state;
    CHECK_OK(wn_file_put(some, "The purpose of this chapter.", 28, false, &err), &err);
    do {
        struct wn_eval_text text = {"x", some};
        struct wn_eval_options o = {.texts = &text, .text_count = 1, .window = 4};
        struct wn_eval_result r;
        struct wn_pool *pool = wn_pool_new(1, &err);

        assert_non_null(pool);
        wn_alloc_fail_after(n++);
        ok = wn_eval(model, pool, &o, NULL, &r, &err);
        wn_alloc_fail_after(-1);
        wn_eval_result_release(&r);
        wn_pool_free(pool);
        assert_true(ok || err.code == WN_ERR_NOMEM);
    } while (!ok && n < 1000);
    assert_true(ok && n > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_and_log_are_right_to_two_places),
        cmocka_unit_test(perplexity_is_that_of_the_long_way),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(whole_windows_are_counted_as_published),
        cmocka_unit_test(the_published_perplexities_come_out),
        cmocka_unit_test(a_stop_is_seen_within_a_layer_not_after_a_window),
        cmocka_unit_test(what_cannot_be_scored_is_refused),
        cmocka_unit_test(two_texts_of_one_name_are_refused),
        cmocka_unit_test(a_model_without_vocabulary_is_refused),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, open_mini, close_mini);
}
