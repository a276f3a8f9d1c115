/*
 * winnow card: what a build is and what logs measured of it, as a model card.
 */
#include "cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <winnow/card.h>

static struct {
    const char **evals, **verifies, **runs;
    char *plan, *out;
    int force;
} o;

static const struct poptOption table[] = {
    {"eval", 'e', POPT_ARG_ARGV, &o.evals, 0, "a log of 'winnow eval --json'; may be given again", "EVAL.json"},
    {"verify", 0, POPT_ARG_ARGV, &o.verifies, 0, "a log of 'winnow verify --json'; may be given again", "VERIFY.json"},
    {"run", 0, POPT_ARG_ARGV, &o.runs, 0, "a log of 'winnow run --json'; may be given again", "RUN.json"},
    {"plan", 'p', POPT_ARG_STRING, &o.plan, 0, "the plan that it was cut by", "PLAN.json"},
    {"out", 'o', POPT_ARG_STRING, &o.out, 0, "where the card goes (default: standard output)", "README.md"},
    {"force", 'f', POPT_ARG_NONE, &o.force, 0, "overwrite the output", NULL},
    POPT_TABLEEND};

static size_t count(const char *const *list)
{
    size_t n = 0;

    while (list && list[n])
        n++;
    return n;
}

static int write_card(const struct wn_card_options *c)
{
    struct wn_err err;
    uint64_t bytes;
    char size[64];

    if (!wn_card_write(c, o.out, o.force, &bytes, &err))
        return talk_failed(&err);
    if (common.json)
        return print_json(json_pack("{so sI}", "out", json_text(o.out), "bytes", (json_int_t)bytes));
    say("%s: %s\n", o.out, text_size(bytes, size, sizeof size));
    return finish_output();
}

static int print_card(const struct wn_card_options *c)
{
    struct wn_err err;
    size_t n;
    char *text = wn_card_text(c, &n, &err);
    int code;

    if (!text)
        return talk_failed(&err);
    if (common.json) {
        code = print_json(json_pack("{so}", "card", json_bytes(text, n)));
    } else {
        (void)say_text(text, n); /* finish_output sees what failed */
        code = finish_output();
    }
    free(text);
    return code;
}

static int run(const struct command *self, int argc, const char **argv)
{
    struct wn_card_options c = {0};
    const char **args;
    int n, code;

    if (!opt_parse(self, table, argc, argv, 1, 1, &args, &n, &code))
        return code;
    c = (struct wn_card_options){.build = model_path(args[0]),
                                 .evals = o.evals,
                                 .verifies = o.verifies,
                                 .runs = o.runs,
                                 .plan_path = o.plan,
                                 .eval_count = count(o.evals),
                                 .verify_count = count(o.verifies),
                                 .run_count = count(o.runs)};
    return o.out ? write_card(&c) : print_card(&c);
}

const struct command cmd_card = {"card", "OUT [--eval EVAL.json] [-o README.md] [OPTIONS]",
                                 "write a model card from logged measurements only", run,
                                 "Kimi-K3-640 --eval eval.json --verify verify.json --out README.md"};
