/*
 * winnow convert: prune's road with the identity plan, to split, join or copy a model.
 */
#include "cut.h"

static struct cut_options o;

static const struct poptOption table[] = {CUT_OPTIONS(o), POPT_TABLEEND};

static int run(const struct command *self, int argc, const char **argv)
{
    const char **args;
    int n, code;

    if (!opt_parse(self, table, argc, argv, 1, 1, &args, &n, &code))
        return code;
    return cut(self, model_path(args[0]), NULL, &o);
}

const struct command cmd_convert = {"convert", "MODEL -o OUT [OPTIONS]",
                                    "copy a model within its container, split or joined, bytes unchanged", run,
                                    "model-00001-of-00014.gguf --joined --out model.gguf"};
