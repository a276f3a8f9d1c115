/*
 * A cut model against its parent: figures of the long way, both roads to the bit, a masked model as the pruned one.
 */
#include "eval_fixture.h"
#include "engine/engine.h"
#include "jobs/eval/bootstrap.h"
#include "sys/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the long way ---- */

struct longhand {
    float *logits; /* [positions][vocab] */
    size_t vocab;
    double lost; /* shares of dropped experts, over tokens and layers */
    uint64_t routed;
};

static bool keep_logits(void *arg, uint64_t position, const float *logits)
{
    struct longhand *h = arg;

    memcpy(h->logits + position * h->vocab, logits, h->vocab * sizeof *logits);
    return true;
}

static void keep_routed(void *arg, int32_t layer, const uint32_t *ids, const float *weights, const float *outputs,
                        size_t tokens, size_t k, size_t width)
{
    struct longhand *h = arg;

    (void)outputs;
    (void)width;
    for (size_t t = 0; t < tokens; t++) {
        double lost = 0, all = 0;

        for (size_t i = 0; i < k; i++) {
            lost += eval_stays((uint32_t)layer, ids[t * k + i]) ? 0 : (double)weights[t * k + i];
            all += (double)weights[t * k + i];
        }
        h->lost += lost / all;
        h->routed++;
    }
}

static void run_longhand(const struct wn_model *m, const uint32_t *ids, size_t n, struct longhand *h)
{
    struct wn_probe probe = {.arg = h, .routed = keep_routed};
    struct wn_err err;
    struct wn_pool *pool = wn_pool_new(1, &err);
    struct wn_weights *w = wn_weights_load(m, &err);
    struct wn_session *s;

    assert_true(pool && w);
    s = wn_session_new(m, w, pool, &(struct wn_session_options){.context = 200}, &err);
    CHECK_OK(s, &err);
    wn_session_probe(s, &probe);
    h->vocab = wn_model_config(m)->vocab_size;
    h->logits = malloc(n * h->vocab * sizeof *h->logits);
    assert_non_null(h->logits);
    CHECK_OK(wn_session_feed(s, ids, n, keep_logits, h, &err), &err);
    wn_session_free(s);
    wn_weights_free(w);
    wn_pool_free(pool);
}

static long double log_prob(const float *l, size_t n, size_t i)
{
    long double sum = 0;

    for (size_t k = 0; k < n; k++)
        sum += expl((long double)l[k]);
    return (long double)l[i] - logl(sum);
}

static double kld_longhand(const float *p, const float *q, size_t n)
{
    long double kld = 0, p0 = log_prob(p, n, 0) - (long double)p[0], q0 = log_prob(q, n, 0) - (long double)q[0];

    for (size_t i = 0; i < n; i++)
        kld += expl((long double)p[i] + p0) * ((long double)p[i] + p0 - ((long double)q[i] + q0));
    return (double)kld;
}

static size_t best(const float *l, size_t n)
{
    size_t b = 0;

    for (size_t i = 1; i < n; i++)
        b = l[i] > l[b] ? i : b;
    return b;
}

#define LONG_WINDOW 60

static void check_token(const struct wn_eval_token *t, const struct longhand *p, const struct longhand *q,
                        const uint32_t *ids)
{
    const float *a = p->logits + t->position * p->vocab, *b = q->logits + t->position * q->vocab;
    double kld = kld_longhand(a, b, p->vocab);

    assert_true(fabs(t->kld - kld) < 1e-12);
    assert_true(fabs(t->nll + (double)log_prob(b, p->vocab, ids[t->position + 1])) < 1e-12);
    assert_true(fabs(t->parent_nll + (double)log_prob(a, p->vocab, ids[t->position + 1])) < 1e-12);
    assert_int_equal(t->same_best, best(a, p->vocab) == best(b, p->vocab));
    /* the other way round it is another number */
    assert_true(fabs(kld_longhand(b, a, p->vocab) - kld) > 1e-9);
}

static void every_token_is_that_of_the_long_way(void **state)
{
    struct wn_eval_options o = eval_options(LONG_WINDOW, 1);
    struct outcome out = eval_run(eval_pruned, 2, o);
    struct longhand p = {0}, q = {0};
    struct wn_err err;
    size_t n, count;
    uint32_t *ids = NULL;
    char *text = wn_file_slurp(eval_texts[0].path, 1 << 20, &n, &err);

    (void)state;
    CHECK_OK(text && wn_vocab_encode(wn_model_vocab(eval_parent, &err), text, n, false, &ids, &count, &err), &err);
    if (!ids)
        return; /* has been said */
    run_longhand(eval_parent, ids, LONG_WINDOW - 1, &p);
    run_longhand(eval_pruned, ids, LONG_WINDOW - 1, &q);
    assert_int_equal(out.n, 2 * (LONG_WINDOW - 1));
    for (size_t i = 0; i < LONG_WINDOW - 1; i++)
        check_token(&out.tokens[i], &p, &q, ids);
    assert_int_equal(out.r.domains[0].against.routed, p.routed);
    assert_true(fabs(out.r.domains[0].against.misroute.value - p.lost / (double)p.routed) < 1e-12);
    assert_true(p.lost / (double)p.routed > 0.5);
    assert_string_equal(out.r.dropped, "plan");
    free(p.logits);
    free(q.logits);
    free(ids);
    free(text);
    eval_release(&out);
}

static void check_figures(const struct wn_eval_domain *d, const struct wn_eval_token *t)
{
    const struct wn_eval_against *a = &d->against;
    double *kld = malloc(d->predicted * sizeof *kld), sum = 0, nll = 0, gap = 0;
    uint64_t same = 0;

    assert_non_null(kld);
    for (size_t i = 0; i < d->predicted; i++) {
        sum += kld[i] = t[i].kld;
        nll += t[i].parent_nll;
        gap += t[i].nll - t[i].parent_nll;
        same += t[i].same_best;
    }
    wn_sort_f64(kld, d->predicted);
    assert_true(fabs(a->kld.value - sum / (double)d->predicted) < 1e-14);
    assert_true(fabs(a->nll - nll / (double)d->predicted) < 1e-12);
    assert_true(fabs(a->ratio.value - exp(gap / (double)d->predicted)) < 1e-12);
    assert_true(fabs(a->ratio.value - d->perplexity / a->perplexity) < 1e-12);
    assert_int_equal(a->same, same);
    assert_true(a->argmax.value == (double)same / (double)d->predicted);
    assert_true(a->kld_median.value == wn_quantile(kld, d->predicted, 0.5));
    assert_true(a->kld_p90.value == wn_quantile(kld, d->predicted, 0.9));
    assert_true(a->kld_p99.value == wn_quantile(kld, d->predicted, 0.99) && a->kld_p90.value < a->kld_p99.value);
    assert_true(a->kld_max == kld[d->predicted - 1]);
    free(kld);
}

static void figures_are_those_of_the_tokens(void **state)
{
    struct outcome out = eval_run(eval_pruned, 2, eval_options(32, 10));

    (void)state;
    assert_int_equal(out.n, 2 * 10 * 31);
    check_figures(&out.r.domains[0], out.tokens);
    check_figures(&out.r.domains[1], out.tokens + 310);
    check_figures(&out.r.overall, out.tokens);
    eval_release(&out);
}

static void check_interval(const struct wn_eval_figure *f)
{
    assert_true(f->low < f->value && f->value < f->high);
}

static void intervals_hold_the_value_and_stand_for_themselves(void **state)
{
    struct wn_eval_options o = eval_options(32, 10);
    struct outcome both = eval_run(eval_pruned, 2, o), alone, few;

    (void)state;
    for (int t = 0; t < 3; t++) {
        const struct wn_eval_against *a = t < 2 ? &both.r.domains[t].against : &both.r.overall.against;

        check_interval(&a->kld);
        check_interval(&a->argmax);
        check_interval(&a->ratio);
        check_interval(&a->misroute);
        check_interval(&a->kld_median);
        check_interval(&a->kld_p90);
        assert_true(a->kld_p99.low <= a->kld_p99.value && a->kld_p99.value <= a->kld_p99.high);
        assert_true(a->kld_p99.high <= a->kld_max);
    }
    /* more text, a narrower interval */
    assert_true(both.r.overall.against.kld.high - both.r.overall.against.kld.low <
                both.r.domains[0].against.kld.high - both.r.domains[0].against.kld.low);
    o.texts = eval_texts + 1;
    o.text_count = 1;
    alone = eval_run(eval_pruned, 2, o);
    assert_memory_equal(&alone.r.domains[0].against, &both.r.domains[1].against, sizeof alone.r.overall.against);
    o.max_windows = WN_EVAL_FEWEST_WINDOWS - 1;
    few = eval_run(eval_pruned, 2, o);
    assert_true(isnan(few.r.domains[0].against.kld.low) && isnan(few.r.overall.against.ratio.high));
    assert_true(isnan(few.r.domains[0].against.kld_p90.low) && few.r.overall.against.kld_p90.value > 0);
    eval_release(&both);
    eval_release(&alone);
    eval_release(&few);
}

/* Each draw's tokens put down one by one and sorted: of one text, and of both, each drawn within itself. */
static void intervals_of_quantiles_are_those_of_the_long_way(void **state)
{
    enum { WINDOWS = 10, PREDICTED = 31, MOST = 2 * WINDOWS * PREDICTED };
    static double median[WN_EVAL_RESAMPLES], kld[MOST];
    struct outcome out = eval_run(eval_pruned, 2, eval_options(PREDICTED + 1, WINDOWS));

    (void)state;
    for (size_t texts = 1; texts <= 2; texts++) {
        const struct wn_eval_against *a = texts == 1 ? &out.r.domains[0].against : &out.r.overall.against;
        struct wn_rng rng[2] = {{wn_bytes_hash(wn_bytes_of("en"))}, {wn_bytes_hash(wn_bytes_of("ja"))}};

        for (size_t r = 0; r < WN_EVAL_RESAMPLES; r++) {
            size_t n = 0;

            for (size_t i = 0; i < texts * WINDOWS; i++) {
                size_t t = i / WINDOWS, w = t * WINDOWS + wn_rng_below(&rng[t], WINDOWS);

                for (size_t k = 0; k < PREDICTED; k++)
                    kld[n++] = out.tokens[w * PREDICTED + k].kld;
            }
            wn_sort_f64(kld, n);
            median[r] = wn_quantile(kld, n, 0.5);
        }
        wn_sort_f64(median, WN_EVAL_RESAMPLES);
        assert_true(a->kld_median.low == wn_quantile(median, WN_EVAL_RESAMPLES, 0.025));
        assert_true(a->kld_median.high == wn_quantile(median, WN_EVAL_RESAMPLES, 0.975));
    }
    eval_release(&out);
}

static void a_model_against_itself_differs_in_nothing(void **state)
{
    struct wn_eval_options o = eval_options(32, 2);
    struct outcome out;

    (void)state;
    o.plan = NULL;
    out = eval_run(eval_parent, 2, o);
    for (size_t i = 0; i < out.n; i++)
        assert_true(out.tokens[i].kld == 0 && out.tokens[i].same_best && out.tokens[i].nll == out.tokens[i].parent_nll);
    assert_true(out.r.overall.against.ratio.value == 1 && out.r.overall.against.argmax.value == 1);
    assert_true(out.r.overall.against.misroute.value == 0);
    assert_string_equal(out.r.dropped, "model");
    assert_string_equal(out.r.model_fingerprint, out.r.parent_fingerprint);
    eval_release(&out);
}

/* ---- to the bit ---- */

static void both_roads_and_all_threads_give_the_same_bits(void **state)
{
    struct wn_eval_options o = eval_options(300, 1);
    struct outcome resident = eval_run(eval_pruned, 1, o), three = eval_run(eval_pruned, 3, o), streamed, tight;

    (void)state;
    eval_check_same(&resident, &three, 2);
    o.stream = true;
    o.work = eval_work_path;
    streamed = eval_run(eval_pruned, 2, o);
    eval_check_same(&resident, &streamed, 2);
    assert_false(wn_path_exists(eval_work_path));
    assert_true(streamed.r.need.disk > 0 && streamed.r.need.weights < resident.r.need.weights);
    if (!WN_TEST_SANITIZED) {
        o.ram = eval_need(eval_pruned, o).peak - streamed.r.need.scratch / 4;
        tight = eval_run(eval_pruned, 2, o);
        assert_true(tight.r.need.chunk < streamed.r.need.chunk && tight.r.need.peak <= o.ram);
        eval_check_same(&resident, &tight, 2);
        eval_release(&tight);
    }
    eval_release(&resident);
    eval_release(&three);
    eval_release(&streamed);
}

static void a_masked_model_has_the_bits_of_the_pruned_one(void **state)
{
    struct wn_eval_options o = eval_options(70, 2);
    struct outcome cut = eval_run(eval_pruned, 2, o), masked, streamed, whole;

    (void)state;
    o.plan = NULL;
    whole = eval_run(eval_parent, 2, o);
    o.masked = eval_plan_path;
    masked = eval_run(eval_parent, 2, o);
    o.stream = true;
    o.work = eval_work_path;
    streamed = eval_run(eval_parent, 2, o);
    eval_check_same(&cut, &masked, 2);
    eval_check_same(&cut, &streamed, 2);
    assert_string_equal(cut.r.plan_sha256, masked.r.plan_sha256);
    assert_int_equal(strlen(masked.r.plan_sha256), 64);
    /* the check can fail */
    assert_true(whole.tokens[5].nll != masked.tokens[5].nll);
    eval_release(&cut);
    eval_release(&masked);
    eval_release(&streamed);
    eval_release(&whole);
}

static void perplexity_alone_is_streamed_too(void **state)
{
    struct wn_eval_options o = eval_options(40, 2);
    struct outcome resident, streamed;

    (void)state;
    o.against = NULL;
    o.plan = NULL;
    resident = eval_run(eval_pruned, 2, o);
    o.stream = true;
    o.work = eval_work_path;
    streamed = eval_run(eval_pruned, 2, o);
    eval_check_same(&resident, &streamed, 2);
    assert_true(resident.tokens[0].nll > 0 && resident.tokens[0].kld == 0);
    eval_release(&resident);
    eval_release(&streamed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_is_that_of_the_long_way),
        cmocka_unit_test(figures_are_those_of_the_tokens),
        cmocka_unit_test(intervals_hold_the_value_and_stand_for_themselves),
        cmocka_unit_test(intervals_of_quantiles_are_those_of_the_long_way),
        cmocka_unit_test(a_model_against_itself_differs_in_nothing),
        cmocka_unit_test(both_roads_and_all_threads_give_the_same_bits),
        cmocka_unit_test(a_masked_model_has_the_bits_of_the_pruned_one),
        cmocka_unit_test(perplexity_alone_is_streamed_too),
    };

    return cmocka_run_group_tests(tests, eval_open_models, eval_close_models);
}
