/*
 * winnow report: a saliency archive, and what a plan makes of it, as one page.
 */
#include "cli.h"

#include <inttypes.h>
#include <winnow/report.h>

static struct {
    const char **evals;
    char *out;
    int force;
} o;

static const struct poptOption table[] = {
    {"eval", 'e', POPT_ARG_ARGV, &o.evals, 0,
     "results of 'winnow eval --json'; may be given again, the first is compared with", "EVAL.json"},
    {"out", 'o', POPT_ARG_STRING, &o.out, 0, "where the page goes; must not exist", "REPORT.html"},
    {"force", 'f', POPT_ARG_NONE, &o.force, 0, "overwrite the output", NULL},
    POPT_TABLEEND};

static int run(const struct command *self, int argc, const char **argv)
{
    struct wn_report_options r = {0};
    struct wn_err err;
    const char **args;
    uint64_t bytes;
    int n, code;
    char size[64];

    if (!opt_parse(self, table, argc, argv, 1, 2, &args, &n, &code))
        return code;
    if (!o.out)
        return opt_wrong(self, "--out names the page");
    r.saliency_path = args[0];
    r.plan_path = args[1];
    r.eval_paths = o.evals;
    while (o.evals && o.evals[r.eval_count])
        r.eval_count++;
    r.overwrite = o.force;
    if (!wn_report(&r, o.out, &bytes, &err))
        return talk_failed(&err);
    if (common.json)
        return print_json(json_pack("{so sI}", "out", json_text(o.out), "bytes", (json_int_t)bytes));
    say("%s: %s\n", o.out, text_size(bytes, size, sizeof(size)));
    return finish_output();
}

const struct command cmd_report = {"report", "SAL.npz [PLAN.json] -o REPORT.html [OPTIONS]",
                                   "write one HTML page about an archive and what a plan keeps", run,
                                   "saliency.npz plan.json --eval eval.json --out report.html"};
