/*
 * winnow merge: saliency archives of the same model into one.
 */
#include "cli.h"

#include <inttypes.h>
#include <winnow/merge.h>

static struct {
    char *out;
    int force;
} o;

static const struct poptOption table[] = {
    {"out", 'o', POPT_ARG_STRING, &o.out, 0, "the merged archive; must not exist", "SAL.npz"},
    {"force", 'f', POPT_ARG_NONE, &o.force, 0, "overwrite the output", NULL},
    POPT_TABLEEND};

static int run(const struct command *self, int argc, const char **argv)
{
    struct wn_merge_options m = {0};
    struct wn_merge_result r;
    struct wn_job job = talk_job();
    struct wn_err err;
    const char **args;
    int n, code;

    if (!opt_parse(self, table, argc, argv, 2, 1024, &args, &n, &code))
        return code;
    if (!o.out)
        return opt_wrong(self, "--out names the merged archive");
    m.archives = args;
    m.count = (size_t)n;
    m.out = o.out;
    m.overwrite = o.force;
    if (!wn_merge(&m, &job, &r, &err))
        return talk_failed(&err);
    if (common.json)
        return print_json(json_pack("{so si sI sI sI sb}", "out", json_text(o.out), "archives", n, "tokens",
                                    (json_int_t)r.tokens, "sources", (json_int_t)r.sources, "corpora",
                                    (json_int_t)r.corpora, "exact", (int)r.exact));
    say("%s: %d archives, %" PRIu64 " tokens of %" PRIu32 " source%s%s\n", o.out, n, r.tokens, r.sources,
        r.sources == 1 ? "" : "s", r.exact ? "" : "; not all have exact sums, so the last bits depend on the order");
    return finish_output();
}

const struct command cmd_merge = {"merge", "A.npz B.npz... -o SAL.npz [OPTIONS]",
                                  "add up saliency archives of different texts", run,
                                  "code.npz prose.npz --out both.npz"};
