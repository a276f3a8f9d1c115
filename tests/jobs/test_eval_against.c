/*
 * A cut model against its parent: figures of the long way, both roads to the bit, a masked model as the pruned one, and
 * what is refused. k3-mini, a quarter of its experts kept.
 */
#include "prune_help.h"
#include "base/alloc.h"
#include "engine/engine.h"
#include "jobs/bootstrap.h"
#include "sys/file.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <winnow/eval.h>
#include <winnow/plan.h>

#define EXPERTS 64
#define KEPT    16
#define TOP_K   4
#define TOKENS  8192

static struct wn_model *parent, *pruned;
static char folder[512], pruned_path[600], plan_path[600], work_path[600];

/* Experts that stay differ from layer to layer. */
static bool stays(uint32_t layer, uint32_t expert)
{
    return (expert + layer) % (EXPERTS / KEPT) == 0;
}

static void make_plan(struct wn_plan *p, const struct wn_config *c)
{
    *p = (struct wn_plan){.mode = "uniform", .top_k = TOP_K, .num_experts = EXPERTS, .min_experts = TOP_K};
    p->layers = calloc(c->layer_count, sizeof *p->layers);
    assert_non_null(p->layers);
    for (uint32_t i = 0; i < c->layer_count; i++) {
        struct wn_plan_layer *l = &p->layers[p->layer_count];

        if (!c->layers[i].moe)
            continue;
        assert_int_equal(c->layers[i].expert_count, EXPERTS);
        *l = (struct wn_plan_layer){.layer = i, .keep = calloc(KEPT, sizeof *l->keep)};
        for (uint32_t e = 0; e < EXPERTS; e++)
            if (stays(i, e))
                l->keep[l->keep_count++] = e;
        p->layer_count++;
    }
}

static int open_models(void **state)
{
    const char *path = wn_test_data("models/k3-mini");
    struct wn_plan plan;
    struct wn_err err;

    (void)state;
    if (!path)
        exit(0); /* the reason has been printed */
    snprintf(folder, sizeof folder, "%s", wn_test_folder());
    snprintf(pruned_path, sizeof pruned_path, "%s/pruned", folder);
    snprintf(plan_path, sizeof plan_path, "%s/plan.json", folder);
    snprintf(work_path, sizeof work_path, "%s/work", folder);
    parent = wn_model_open(path, &err);
    CHECK_OK(parent, &err);
    make_plan(&plan, wn_model_config(parent));
    CHECK_OK(wn_plan_write(&plan, plan_path, false, &err), &err);
    prune_ok(path, pruned_path, &plan, WN_LAYOUT_AS_SOURCE, 0);
    wn_plan_release(&plan);
    pruned = wn_model_open(pruned_path, &err);
    CHECK_OK(pruned, &err);
    return 0;
}

static int close_models(void **state)
{
    (void)state;
    wn_model_close(pruned);
    wn_model_close(parent);
    return 0;
}

/* What one evaluation said. */
struct outcome {
    struct wn_eval_result r;
    struct wn_eval_token *tokens;
    size_t n;
};

static void take_token(void *arg, const struct wn_eval_token *t)
{
    struct outcome *o = arg;

    assert_true(o->n < TOKENS);
    memset(&o->tokens[o->n], 0, sizeof *t); /* what lies between the fields too */
    o->tokens[o->n].text = t->text;
    o->tokens[o->n].window = t->window;
    o->tokens[o->n].position = t->position;
    o->tokens[o->n].nll = t->nll;
    o->tokens[o->n].parent_nll = t->parent_nll;
    o->tokens[o->n].kld = t->kld;
    o->tokens[o->n++].same_best = t->same_best;
}

static struct outcome evaluate(const struct wn_model *m, unsigned threads, struct wn_eval_options o)
{
    struct outcome out = {.tokens = calloc(TOKENS, sizeof *out.tokens)};
    struct wn_err err;
    struct wn_pool *pool = wn_pool_new(threads, &err);

    assert_non_null(pool);
    assert_non_null(out.tokens);
    o.token = take_token;
    o.token_arg = &out;
    CHECK_OK(wn_eval(m, pool, &o, NULL, &out.r, &err), &err);
    wn_pool_free(pool);
    return out;
}

static void release(struct outcome *o)
{
    free(o->tokens);
    wn_eval_result_release(&o->r);
}

/* Every prediction and every figure, to the bit; not what they took. */
static void check_same(const struct outcome *a, const struct outcome *b, size_t texts)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->tokens, b->tokens, a->n * sizeof *a->tokens);
    for (size_t t = 0; t <= texts; t++) {
        const struct wn_eval_domain *x = t < texts ? &a->r.domains[t] : &a->r.overall;
        const struct wn_eval_domain *y = t < texts ? &b->r.domains[t] : &b->r.overall;

        assert_memory_equal(&x->against, &y->against, sizeof x->against);
        assert_memory_equal(&x->nll, &y->nll, sizeof x->nll);
        assert_string_equal(x->sha256, y->sha256);
    }
}

static struct wn_eval_text texts[2];

static struct wn_eval_options options(uint32_t window, uint64_t windows)
{
    static char en[512], ja[512]; /* the names of test data do not last */

    (void)snprintf(en, sizeof en, "%s", wn_test_need_data("corpora/heldout-en.txt"));
    (void)snprintf(ja, sizeof ja, "%s", wn_test_need_data("corpora/heldout-ja.txt"));
    texts[0] = (struct wn_eval_text){"en", en};
    texts[1] = (struct wn_eval_text){"ja", ja};
    return (struct wn_eval_options){.texts = texts,
                                    .text_count = 2,
                                    .window = window,
                                    .max_windows = windows,
                                    .against = parent,
                                    .plan = plan_path};
}

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
            lost += stays((uint32_t)layer, ids[t * k + i]) ? 0 : (double)weights[t * k + i];
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
    struct wn_eval_options o = options(LONG_WINDOW, 1);
    struct outcome out = evaluate(pruned, 2, o);
    struct longhand p = {0}, q = {0};
    struct wn_err err;
    size_t n, count;
    uint32_t *ids;
    char *text = wn_file_slurp(texts[0].path, 1 << 20, &n, &err);

    (void)state;
    CHECK_OK(text && wn_vocab_encode(wn_model_vocab(parent, &err), text, n, false, &ids, &count, &err), &err);
    run_longhand(parent, ids, LONG_WINDOW - 1, &p);
    run_longhand(pruned, ids, LONG_WINDOW - 1, &q);
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
    release(&out);
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
    assert_true(a->kld_median == wn_quantile(kld, d->predicted, 0.5));
    assert_true(a->kld_p99 == wn_quantile(kld, d->predicted, 0.99) && a->kld_p90 < a->kld_p99);
    assert_true(a->kld_max == kld[d->predicted - 1]);
    free(kld);
}

static void figures_are_those_of_the_tokens(void **state)
{
    struct outcome out = evaluate(pruned, 2, options(32, 10));

    (void)state;
    assert_int_equal(out.n, 2 * 10 * 31);
    check_figures(&out.r.domains[0], out.tokens);
    check_figures(&out.r.domains[1], out.tokens + 310);
    check_figures(&out.r.overall, out.tokens);
    release(&out);
}

static void check_interval(const struct wn_eval_figure *f)
{
    assert_true(f->low < f->value && f->value < f->high);
}

static void intervals_hold_the_value_and_stand_for_themselves(void **state)
{
    struct wn_eval_options o = options(32, 10);
    struct outcome both = evaluate(pruned, 2, o), alone, few;

    (void)state;
    for (int t = 0; t < 3; t++) {
        const struct wn_eval_against *a = t < 2 ? &both.r.domains[t].against : &both.r.overall.against;

        check_interval(&a->kld);
        check_interval(&a->argmax);
        check_interval(&a->ratio);
        check_interval(&a->misroute);
    }
    /* more text, a narrower interval */
    assert_true(both.r.overall.against.kld.high - both.r.overall.against.kld.low <
                both.r.domains[0].against.kld.high - both.r.domains[0].against.kld.low);
    o.texts = texts + 1;
    o.text_count = 1;
    alone = evaluate(pruned, 2, o);
    assert_memory_equal(&alone.r.domains[0].against, &both.r.domains[1].against, sizeof alone.r.overall.against);
    o.max_windows = WN_EVAL_FEWEST_WINDOWS - 1;
    few = evaluate(pruned, 2, o);
    assert_true(isnan(few.r.domains[0].against.kld.low) && isnan(few.r.overall.against.ratio.high));
    release(&both);
    release(&alone);
    release(&few);
}

static void a_model_against_itself_differs_in_nothing(void **state)
{
    struct wn_eval_options o = options(32, 2);
    struct outcome out;

    (void)state;
    o.plan = NULL;
    out = evaluate(parent, 2, o);
    for (size_t i = 0; i < out.n; i++)
        assert_true(out.tokens[i].kld == 0 && out.tokens[i].same_best && out.tokens[i].nll == out.tokens[i].parent_nll);
    assert_true(out.r.overall.against.ratio.value == 1 && out.r.overall.against.argmax.value == 1);
    assert_true(out.r.overall.against.misroute.value == 0);
    assert_string_equal(out.r.dropped, "model");
    assert_string_equal(out.r.model_fingerprint, out.r.parent_fingerprint);
    release(&out);
}

/* ---- to the bit ---- */

static bool say_no(void *arg, const struct wn_eval_need *n)
{
    *(struct wn_eval_need *)arg = *n;
    return false;
}

static struct wn_eval_need need_of(const struct wn_model *m, struct wn_eval_options o)
{
    struct wn_eval_need need = {0};
    struct wn_eval_result r;
    struct wn_err err;
    struct wn_pool *pool = wn_pool_new(2, &err);

    assert_non_null(pool);
    o.told = say_no;
    o.told_arg = &need;
    CHECK_FAILS(wn_eval(m, pool, &o, NULL, &r, &err), &err, "stopped on request");
    wn_pool_free(pool);
    return need;
}

static void both_roads_and_all_threads_give_the_same_bits(void **state)
{
    struct wn_eval_options o = options(300, 1);
    struct outcome resident = evaluate(pruned, 1, o), three = evaluate(pruned, 3, o), streamed, tight;

    (void)state;
    check_same(&resident, &three, 2);
    o.stream = true;
    o.work = work_path;
    streamed = evaluate(pruned, 2, o);
    check_same(&resident, &streamed, 2);
    assert_false(wn_path_exists(work_path));
    assert_true(streamed.r.need.disk > 0 && streamed.r.need.weights < resident.r.need.weights);
    if (!WN_TEST_SANITIZED) {
        o.ram = need_of(pruned, o).peak - streamed.r.need.scratch / 4;
        tight = evaluate(pruned, 2, o);
        assert_true(tight.r.need.chunk < streamed.r.need.chunk && tight.r.need.peak <= o.ram);
        check_same(&resident, &tight, 2);
        release(&tight);
    }
    release(&resident);
    release(&three);
    release(&streamed);
}

static void a_masked_model_has_the_bits_of_the_pruned_one(void **state)
{
    struct wn_eval_options o = options(70, 2);
    struct outcome cut = evaluate(pruned, 2, o), masked, streamed, whole;

    (void)state;
    o.plan = NULL;
    whole = evaluate(parent, 2, o);
    o.masked = plan_path;
    masked = evaluate(parent, 2, o);
    o.stream = true;
    o.work = work_path;
    streamed = evaluate(parent, 2, o);
    check_same(&cut, &masked, 2);
    check_same(&cut, &streamed, 2);
    assert_string_equal(cut.r.plan_sha256, masked.r.plan_sha256);
    assert_int_equal(strlen(masked.r.plan_sha256), 64);
    /* the check can fail */
    assert_true(whole.tokens[5].nll != masked.tokens[5].nll);
    release(&cut);
    release(&masked);
    release(&streamed);
    release(&whole);
}

static void perplexity_alone_is_streamed_too(void **state)
{
    struct wn_eval_options o = options(40, 2);
    struct outcome resident, streamed;

    (void)state;
    o.against = NULL;
    o.plan = NULL;
    resident = evaluate(pruned, 2, o);
    o.stream = true;
    o.work = work_path;
    streamed = evaluate(pruned, 2, o);
    check_same(&resident, &streamed, 2);
    assert_true(resident.tokens[0].nll > 0 && resident.tokens[0].kld == 0);
    release(&resident);
    release(&streamed);
}

/* ---- what was dropped ---- */

/* A folder (good until the next call) with all of from's files linked, but for one, which is what the text says. */
static const char *altered(const char *from, const char *file, const char *text, size_t n)
{
    static char to[512];
    struct wn_err err;
    char **names;
    size_t count;

    snprintf(to, sizeof to, "%s", wn_test_folder());
    CHECK_OK(wn_path_list(from, &names, &count, &err), &err);
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], file) != 0)
            assert_int_equal(symlink(wn_test_path(from, names[i]), wn_test_path(to, names[i])), 0);
    wn_names_free(names, count);
    CHECK_OK(wn_file_put(wn_test_path(to, file), text, n, false, &err), &err);
    return to;
}

static struct wn_model *with_reap(json_t *reap)
{
    json_t *root = json_load_file(wn_test_path(pruned_path, "config.json"), 0, NULL);
    struct wn_model *m;
    struct wn_err err;
    char *text;

    assert_non_null(root);
    assert_int_equal(json_object_set_new(root, "reap", reap), 0);
    text = json_dumps(root, 0);
    m = wn_model_open(altered(pruned_path, "config.json", text, strlen(text)), &err);
    CHECK_OK(m, &err);
    free(text);
    json_decref(root);
    return m;
}

static json_t *reap_of_plan(void)
{
    json_t *plan = json_load_file(plan_path, 0, NULL), *keep = json_object(), *layer, *reap;
    const char *key;

    json_object_foreach(json_object_get(plan, "layers"), key, layer)
        json_object_set(keep, key, json_object_get(layer, "keep"));
    reap = json_pack("{si so}", "source_num_experts", EXPERTS, "keep", keep);
    json_decref(plan);
    return reap;
}

static void the_kept_lists_of_a_config_do_as_well_as_a_plan(void **state)
{
    struct wn_eval_options o = options(32, 2);
    struct outcome by_plan = evaluate(pruned, 2, o), unknown, by_config;
    struct wn_model *m = with_reap(reap_of_plan());

    (void)state;
    o.plan = NULL;
    unknown = evaluate(pruned, 2, o);
    assert_null(unknown.r.dropped);
    assert_true(isnan(unknown.r.overall.against.misroute.value) && unknown.r.overall.against.routed == 0);
    assert_true(unknown.r.overall.against.kld.value == by_plan.r.overall.against.kld.value);
    by_config = evaluate(m, 2, o);
    check_same(&by_plan, &by_config, 2);
    assert_string_equal(by_config.r.dropped, "model");
    wn_model_close(m);
    release(&by_plan);
    release(&unknown);
    release(&by_config);
}

/* ---- refused ---- */

static void check_refused(const struct wn_model *m, struct wn_eval_options o, const char *part)
{
    struct wn_eval_result r;
    struct wn_err err;
    struct wn_pool *pool = wn_pool_new(1, &err);

    assert_non_null(pool);
    CHECK_FAILS(wn_eval(m, pool, &o, NULL, &r, &err), &err, part);
    assert_null(r.domains);
    assert_false(wn_path_exists(work_path));
    wn_pool_free(pool);
}

static void a_plan_of_another_model_is_refused(void **state)
{
    struct wn_eval_options o = options(32, 2);
    const char *other = wn_test_path(folder, "other.json");
    json_t *reap = reap_of_plan();
    struct wn_model *m;
    struct wn_plan plan;
    struct wn_err err;

    (void)state;
    check_refused(parent, o, "the plan keeps 16 experts, the model has 64");
    make_plan(&plan, wn_model_config(parent));
    plan.layers[0].layer = 0;
    CHECK_OK(wn_plan_write(&plan, other, true, &err), &err);
    o.plan = other;
    check_refused(pruned, o, "the plan has layer 0, which has no experts in the model");
    plan.layers[0].layer = 1;
    plan.num_experts = EXPERTS + 1;
    CHECK_OK(wn_plan_write(&plan, other, true, &err), &err);
    check_refused(pruned, o, "the plan is for 65 experts, layer 1 has 64");
    o.plan = NULL;
    o.masked = other;
    check_refused(parent, o, "the plan is for 65 experts, layer 1 has 64");
    plan.num_experts = EXPERTS;
    free(plan.layers[--plan.layer_count].keep);
    CHECK_OK(wn_plan_write(&plan, other, true, &err), &err);
    check_refused(parent, o, "the plan has no layer");
    o.plan = other;
    check_refused(parent, o, "one of them is wanted");
    wn_plan_release(&plan);
    o = options(32, 2);
    o.against = NULL;
    check_refused(pruned, o, "there is none");
    o = options(32, 2);
    o.plan = NULL;
    (void)json_array_remove(json_object_get(json_object_get(reap, "keep"), "1"), 0);
    m = with_reap(reap);
    check_refused(m, o, "layer 1: the plan keeps 15 experts, the model has 16");
    wn_model_close(m);
}

static void another_vocabulary_is_refused(void **state)
{
    struct wn_eval_options o = options(32, 2);
    const char *tiny = wn_test_need_data("golden/text/tiny-a/hf");
    struct wn_model *m;
    struct wn_err err;
    char *text, *first, *second;
    size_t n;

    (void)state;
    m = wn_model_open(tiny, &err);
    CHECK_OK(m, &err);
    o.plan = NULL;
    check_refused(m, o, "there is no comparing them");
    wn_model_close(m);
    /* two tokens of one length change places */
    text = wn_file_slurp(wn_test_path(pruned_path, "tiktoken.model"), 1 << 24, &n, &err);
    CHECK_OK(text, &err);
    first = text;
    second = strchr(text, '\n') + 1;
    for (int i = 0; i < 4; i++) {
        char c = first[i];

        first[i] = second[i];
        second[i] = c;
    }
    m = wn_model_open(altered(pruned_path, "tiktoken.model", text, n), &err);
    CHECK_OK(m, &err);
    check_refused(m, o, "token 0 is not the same in the model's and the parent's vocabulary");
    wn_model_close(m);
    free(text);
}

static void too_little_memory_and_a_road_without_a_folder_are_refused(void **state)
{
    struct wn_eval_options o = options(32, 2);

    (void)state;
    o.ram = 1 << 20;
    check_refused(pruned, o, "--stream takes one layer at a time");
    o.stream = true;
    check_refused(pruned, o, "streaming needs a work folder");
    o.work = work_path;
    check_refused(pruned, o, "and 1048576 are allowed");
    o.ram = 0;
    wn_path_pretend_space(1000);
    check_refused(pruned, o, "1000 are free");
    wn_path_pretend_space(UINT64_MAX);
}

static void the_need_is_told_before_anything_is_done(void **state)
{
    struct wn_eval_options o = options(32, 2);
    struct wn_eval_need need = {0};

    (void)state;
    o.told = say_no;
    o.told_arg = &need;
    o.stream = true;
    o.work = work_path;
    check_refused(pruned, o, "stopped on request");
    assert_true(need.tokens == 2 * 2 * 32 && need.peak > need.weights && need.disk > 0);
}

struct stopper {
    unsigned calls, stop_at;
};

static bool stop_at(void *arg, const struct wn_progress *p)
{
    struct stopper *s = arg;

    assert_true(p->done <= p->total);
    return ++s->calls != s->stop_at;
}

static void a_stopped_stream_leaves_nothing(void **state)
{
    struct wn_eval_options o = options(32, 2);
    struct wn_err err;
    struct wn_pool *pool = wn_pool_new(1, &err);
    struct wn_eval_result r;
    struct stopper s = {0};
    struct wn_job job = {.progress = stop_at, .arg = &s};
    unsigned calls;

    (void)state;
    assert_non_null(pool);
    o.stream = true;
    o.work = work_path;
    CHECK_OK(wn_eval(pruned, pool, &o, &job, &r, &err), &err);
    wn_eval_result_release(&r);
    calls = s.calls;
    for (unsigned at = 1; at <= calls; at += 17) {
        s = (struct stopper){.stop_at = at};
        CHECK_FAILS(wn_eval(pruned, pool, &o, &job, &r, &err), &err, "stopped on request");
        assert_int_equal(err.code, WN_ERR_CANCELED);
        assert_false(wn_path_exists(work_path));
    }
    wn_pool_free(pool);
}

static void every_refused_allocation_is_survived(void **state)
{
    struct wn_eval_options o = options(8, 1);
    struct wn_err err;

    (void)state;
    o.text_count = 1;
    for (int road = 0; road < 2; road++) {
        long n = 0;
        bool ok;

        o.stream = road;
        o.work = work_path;
        do {
            struct wn_pool *pool = wn_pool_new(1, &err);
            struct wn_eval_result r;

            assert_non_null(pool);
            wn_alloc_fail_after(n);
            ok = wn_eval(pruned, pool, &o, NULL, &r, &err);
            wn_alloc_fail_after(-1);
            wn_eval_result_release(&r);
            wn_pool_free(pool);
            assert_true(ok || err.code == WN_ERR_NOMEM);
            n += n < 60 ? 1 : 31;
        } while (!ok && n < 100000);
        assert_true(ok && n > 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_is_that_of_the_long_way),
        cmocka_unit_test(figures_are_those_of_the_tokens),
        cmocka_unit_test(intervals_hold_the_value_and_stand_for_themselves),
        cmocka_unit_test(a_model_against_itself_differs_in_nothing),
        cmocka_unit_test(both_roads_and_all_threads_give_the_same_bits),
        cmocka_unit_test(a_masked_model_has_the_bits_of_the_pruned_one),
        cmocka_unit_test(perplexity_alone_is_streamed_too),
        cmocka_unit_test(the_kept_lists_of_a_config_do_as_well_as_a_plan),
        cmocka_unit_test(a_plan_of_another_model_is_refused),
        cmocka_unit_test(another_vocabulary_is_refused),
        cmocka_unit_test(too_little_memory_and_a_road_without_a_folder_are_refused),
        cmocka_unit_test(the_need_is_told_before_anything_is_done),
        cmocka_unit_test(a_stopped_stream_leaves_nothing),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, open_models, close_models);
}
