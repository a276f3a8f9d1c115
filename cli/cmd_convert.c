/*
 * winnow convert: prune's road with the identity plan, to split, join or copy a model, or to change its container.
 */
#include "cut.h"

static struct cut_options o;

static const struct poptOption table[] = {{"plain", 0, POPT_ARG_NONE, &o.plain, 0,
                                           "of a build with ghosts, the same without them, which other engines read",
                                           NULL},
                                          CUT_OPTIONS(o),
                                          POPT_TABLEEND};

static int run(const struct command *self, int argc, const char **argv)
{
    const char **args;
    int n, code;

    if (!opt_parse(self, table, argc, argv, 1, 1, &args, &n, &code))
        return code;
    return cut(self, model_path(args[0]), NULL, &o);
}

const struct command cmd_convert = {"convert", "MODEL -o OUT [OPTIONS]",
                                    "copy a model, split or joined, or make a GGUF or an MLX folder of it", run,
                                    "Kimi-K3 --format gguf --shard-size 48GB --out Kimi-K3.gguf"};
