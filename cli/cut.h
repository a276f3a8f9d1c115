/*
 * What prune and convert share: one road, with a plan or with the identity.
 */
#ifndef WN_CLI_CUT_H
#define WN_CLI_CUT_H

#include "cli.h"
#include <winnow/prune.h>

struct cut_options {
    char *out, *shard_size, *format, *rest_bits, *encoder, *lo_model, *ghosts, *saliency;
    const char *plan; /* the plan's file, which the output must spare; NULL: none */
    int joined, dry_run, force, force_plan, no_hash, consume, yes, plain;
};

/* The options both commands have, for their tables. */
#define CUT_OPTIONS(o)                                                                                                 \
    {"out", 'o', POPT_ARG_STRING, &(o).out, 0, "where the output goes; must not exist", "PATH"},                       \
        {"shard-size", 0, POPT_ARG_STRING, &(o).shard_size, 0, "split into files of at most this size", "48GB"},       \
        {"format", 0, POPT_ARG_STRING, &(o).format, 0, "gguf, hf or mlx (default: the source's)", "NAME"},             \
        {"rest-bits",                                                                                                  \
         0,                                                                                                            \
         POPT_ARG_STRING,                                                                                              \
         &(o).rest_bits,                                                                                               \
         0,                                                                                                            \
         "mlx: bits of matrices that are no experts, 16 for as they are (default: 8)",                                 \
         "N"},                                                                                                         \
        {"encoder",    0, POPT_ARG_STRING,                                                                             \
         &(o).encoder, 0, "mlx: how experts of fewer bits are encoded, fit or minmax (default: fit)",                  \
         "NAME"},                                                                                                      \
        {"no-hash", 0, POPT_ARG_NONE, &(o).no_hash, 0, "no SHA-256 of files and experts (winnow.json)", NULL},         \
        {"consume",    0, POPT_ARG_NONE,                                                                               \
         &(o).consume, 0, "give the source's bytes back to the disk as the output becomes durable; needs --yes",       \
         NULL},                                                                                                        \
        {"yes", 0, POPT_ARG_NONE, &(o).yes, 0, "the source may be destroyed (with --consume)", NULL},                  \
        {"joined", 0, POPT_ARG_NONE, &(o).joined, 0, "one file", NULL},                                                \
        {"dry-run", 'n', POPT_ARG_NONE, &(o).dry_run, 0, "say what would be written, and its size, then stop", NULL},  \
    {                                                                                                                  \
        "force", 'f', POPT_ARG_NONE, &(o).force, 0, "overwrite the output", NULL                                       \
    }

/*
 * What --format, --rest-bits and --encoder say about the container goes to p; false: a sentence was said. Commands that
 * only reckon with a container ask here too.
 */
bool cut_take_format(const struct command *self, const struct cut_options *o, struct wn_prune_options *p);

/* Runs it and prints what was done. plan NULL: the identity. Returns the exit code. */
int cut(const struct command *self, const char *source, const struct wn_plan *plan, const struct cut_options *o);

#endif
