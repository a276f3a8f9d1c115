/* See eval_fixture.h. */
#include "eval_fixture.h"
#include "sys/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOP_K  4
#define TOKENS 8192

struct wn_model *eval_parent, *eval_pruned;
char eval_folder[512], eval_pruned_path[600], eval_plan_path[600], eval_work_path[600];
struct wn_eval_text eval_texts[2];

bool eval_stays(uint32_t layer, uint32_t expert)
{
    return (expert + layer) % (EXPERTS / KEPT) == 0;
}

void eval_make_plan(struct wn_plan *p, const struct wn_config *c)
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
            if (eval_stays(i, e))
                l->keep[l->keep_count++] = e;
        p->layer_count++;
    }
}

int eval_open_models(void **state)
{
    const char *path = wn_test_data("models/k3-mini");
    struct wn_plan plan;
    struct wn_err err;

    (void)state;
    if (!path)
        exit(0); /* the reason has been printed */
    snprintf(eval_folder, sizeof eval_folder, "%s", wn_test_folder());
    snprintf(eval_pruned_path, sizeof eval_pruned_path, "%s/pruned", eval_folder);
    snprintf(eval_plan_path, sizeof eval_plan_path, "%s/plan.json", eval_folder);
    snprintf(eval_work_path, sizeof eval_work_path, "%s/work", eval_folder);
    eval_parent = wn_model_open(path, &err);
    CHECK_OK(eval_parent, &err);
    eval_make_plan(&plan, wn_model_config(eval_parent));
    CHECK_OK(wn_plan_write(&plan, eval_plan_path, false, &err), &err);
    prune_ok(path, eval_pruned_path, &plan, WN_LAYOUT_AS_SOURCE, 0);
    wn_plan_release(&plan);
    eval_pruned = wn_model_open(eval_pruned_path, &err);
    CHECK_OK(eval_pruned, &err);
    return 0;
}

int eval_close_models(void **state)
{
    (void)state;
    wn_model_close(eval_pruned);
    wn_model_close(eval_parent);
    return 0;
}

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

struct outcome eval_run(const struct wn_model *m, unsigned threads, struct wn_eval_options o)
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

void eval_release(struct outcome *o)
{
    free(o->tokens);
    wn_eval_result_release(&o->r);
}

void eval_check_same(const struct outcome *a, const struct outcome *b, size_t texts)
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

struct wn_eval_options eval_options(uint32_t window, uint64_t windows)
{
    static char en[512], ja[512]; /* the names of test data do not last */

    (void)snprintf(en, sizeof en, "%s", wn_test_need_data("corpora/heldout-en.txt"));
    (void)snprintf(ja, sizeof ja, "%s", wn_test_need_data("corpora/heldout-ja.txt"));
    eval_texts[0] = (struct wn_eval_text){"en", en};
    eval_texts[1] = (struct wn_eval_text){"ja", ja};
    return (struct wn_eval_options){.texts = eval_texts,
                                    .text_count = 2,
                                    .window = window,
                                    .max_windows = windows,
                                    .against = eval_parent,
                                    .plan = eval_plan_path};
}

static bool say_no(void *arg, const struct wn_eval_need *n)
{
    *(struct wn_eval_need *)arg = *n;
    return false;
}

struct wn_eval_need eval_need(const struct wn_model *m, struct wn_eval_options o)
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
