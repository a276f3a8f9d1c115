/*
 * winnow prune: the cut, without changing a surviving byte.
 */
#include "cut.h"

static struct {
    char *plan;
    struct cut_options cut;
} o;

static const struct poptOption table[] = {
    {"plan", 'p', POPT_ARG_STRING, &o.plan, 0, "experts to keep, as written by 'winnow plan'", "FILE"},
    {"lo-model", 0, POPT_ARG_STRING, &o.cut.lo_model, 0,
     "a GGUF of the same model, from which the experts come that the plan gives fewer bits", "LO.gguf"},
    {"ghosts", 0, POPT_ARG_STRING, &o.cut.ghosts, 0,
     "what is dropped may still be chosen: skip (it gives nothing), mean (its mean output), off (default)", "MODE"},
    {"saliency", 0, POPT_ARG_STRING, &o.cut.saliency, 0, "the archive with the means of --ghosts mean", "SAL.npz"},
    CUT_OPTIONS(o.cut),
    {"force-plan", 0, POPT_ARG_NONE, &o.cut.force_plan, 0, "accept a plan, or means, of another model", NULL},
    POPT_TABLEEND};

static int run(const struct command *self, int argc, const char **argv)
{
    const char **args;
    struct wn_plan plan;
    struct wn_err err;
    int n, code;

    if (!opt_parse(self, table, argc, argv, 1, 1, &args, &n, &code))
        return code;
    if (!o.plan)
        return opt_wrong(self, "--plan is missing");
    if (!wn_plan_read(&plan, o.plan, &err))
        return talk_failed(&err);
    o.cut.plan = o.plan;
    code = cut(self, model_path(args[0]), &plan, &o.cut);
    wn_plan_release(&plan);
    return code;
}

const struct command cmd_prune = {"prune", "MODEL --plan PLAN.json -o OUT [OPTIONS]",
                                  "cut the experts that a plan drops; the others stay byte for byte", run,
                                  "Kimi-K3 --plan plan.json --out Kimi-K3-640 --dry-run"};
