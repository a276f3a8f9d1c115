/*
 * What the tests of `eval --against` share: k3-mini, a quarter of its experts kept, and an evaluation with all that it
 * says.
 */
#ifndef WN_TESTS_EVAL_FIXTURE_H
#define WN_TESTS_EVAL_FIXTURE_H

#include "prune_help.h"

#include <winnow/eval.h>
#include <winnow/plan.h>

#define EXPERTS 64
#define KEPT    16

/* Made by eval_open_models: the parent, the folder it was cut into and its plan; work is for --stream and not there. */
extern struct wn_model *eval_parent, *eval_pruned;
extern char eval_folder[512], eval_pruned_path[600], eval_plan_path[600], eval_work_path[600];

/* cmocka's group fixtures. */
int eval_open_models(void **state);
int eval_close_models(void **state);

/* Experts that stay differ from layer to layer. */
bool eval_stays(uint32_t layer, uint32_t expert);
void eval_make_plan(struct wn_plan *p, const struct wn_config *c);

/* What one evaluation said. */
struct outcome {
    struct wn_eval_result r;
    struct wn_eval_token *tokens;
    size_t n;
};
struct outcome eval_run(const struct wn_model *m, unsigned threads, struct wn_eval_options o);
void eval_release(struct outcome *o);

/* Every prediction and every figure of both, to the bit; not what they took. */
void eval_check_same(const struct outcome *a, const struct outcome *b, size_t texts);

/* English and Japanese, against the parent, by the plan. */
extern struct wn_eval_text eval_texts[2];
struct wn_eval_options eval_options(uint32_t window, uint64_t windows);

/* What it would take, and nothing else is done. */
struct wn_eval_need eval_need(const struct wn_model *m, struct wn_eval_options o);

#endif
