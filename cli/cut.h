/*
 * What prune and convert share: one road, with a plan or with the identity.
 */
#ifndef WN_CLI_CUT_H
#define WN_CLI_CUT_H

#include "cli.h"
#include <winnow/prune.h>

struct cut_options {
    char *out, *shard_size;
    const char *plan; /* the plan's file, which the output must spare; NULL: none */
    int joined, dry_run, force, force_plan;
};

/* The options both commands have, for their tables. */
#define CUT_OPTIONS(o)                                                                                                 \
    {"out", 'o', POPT_ARG_STRING, &(o).out, 0, "where the output goes; must not exist", "PATH"},                       \
        {"shard-size", 0, POPT_ARG_STRING, &(o).shard_size, 0, "split into files of at most this size", "48GB"},       \
        {"joined", 0, POPT_ARG_NONE, &(o).joined, 0, "one file", NULL},                                                \
        {"dry-run", 'n', POPT_ARG_NONE, &(o).dry_run, 0, "say what would be written, and its size, then stop", NULL},  \
    {                                                                                                                  \
        "force", 'f', POPT_ARG_NONE, &(o).force, 0, "overwrite the output", NULL                                       \
    }

/* Runs it and prints what was done. plan NULL: the identity. Returns the exit code. */
int cut(const struct command *self, const char *source, const struct wn_plan *plan, const struct cut_options *o);

#endif
