/*
 * Options on top of popt: one table per command gives the parser and the help. Wrong calls say what is wrong, suggest
 * the nearest right option, and exit with 2.
 */
#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct common common;

static int help_wanted;

static const struct poptOption common_table[] = {
    {"json", '\0', POPT_ARG_NONE, &common.json, 0, "print the result as one JSON document", NULL},
    {"threads", 't', POPT_ARG_INT, &common.threads, 0, "worker threads (default: one per core)", "N"},
    {"quiet", 'q', POPT_ARG_NONE, &common.quiet, 0, "no progress and no notes on stderr", NULL},
    {"help", 'h', POPT_ARG_NONE, &help_wanted, 0, "show this text", NULL},
    POPT_TABLEEND};

#define MAX_WORDS 128

/* Levenshtein's distance of two short words. */
static size_t distance(const char *a, const char *b)
{
    size_t row[64], n = strlen(b);

    if (n >= sizeof row / sizeof row[0])
        return n;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t before = row[0];

        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            size_t change = before + (a[i] != b[j]), best = row[j] + 1;

            before = row[j + 1];
            if (before + 1 < best)
                best = before + 1;
            row[j + 1] = change < best ? change : best;
        }
    }
    return row[n];
}

const char *opt_nearest(const char *wrong, const char *const *words, size_t n)
{
    const char *best = NULL;
    size_t least = strlen(wrong) / 2 + 1;

    for (size_t i = 0; i < n; i++) {
        size_t d = distance(wrong, words[i]);

        if (d < least) {
            least = d;
            best = words[i];
        }
    }
    return best;
}

static size_t add_words(const struct poptOption *o, const char **words, size_t n)
{
    for (; o->longName || o->shortName || o->arg; o++)
        if (o->longName && n < MAX_WORDS)
            words[n++] = o->longName;
    return n;
}

int opt_wrong(const struct command *cmd, const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "winnow %s: ", cmd->name);
    va_start(ap, fmt);
    (void)vprint_visible(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\nUsage: winnow %s %s\n'winnow %s --help' tells more\n", cmd->name, cmd->args, cmd->name);
    return EXIT_USAGE;
}

static int wrong_option(const struct command *cmd, const struct poptOption *table, const char *bad, int why)
{
    const char *words[MAX_WORDS], *near = NULL;
    char name[64];
    size_t n;

    if (why != POPT_ERROR_BADOPT)
        return opt_wrong(cmd, "%s: %s", bad, poptStrerror(why));
    if (strncmp(bad, "--", 2) == 0) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(bad + 2, "="), bad + 2);
        n = add_words(table, words, 0);
        near = opt_nearest(name, words, add_words(common_table, words, n));
    }
    if (near)
        return opt_wrong(cmd, "there is no option %s; did you mean --%s?", bad, near);
    return opt_wrong(cmd, "there is no option %s", bad);
}

static void print_option(const struct poptOption *o)
{
    char left[64];
    int n = snprintf(left, sizeof left, "  %c%c%c --%s", o->shortName ? '-' : ' ', o->shortName ? o->shortName : ' ',
                     o->shortName ? ',' : ' ', o->longName);

    if (o->argDescrip && n > 0 && (size_t)n < sizeof left)
        snprintf(left + n, sizeof left - (size_t)n, " %s", o->argDescrip);
    printf("%-30s %s\n", left, o->descrip);
}

static void print_help(const struct command *cmd, const struct poptOption *table)
{
    printf("Usage: winnow %s %s\n\n%c%s.\n\nOptions:\n", cmd->name, cmd->args, toupper((unsigned char)cmd->summary[0]),
           cmd->summary + 1);
    for (const struct poptOption *o = table; o->longName; o++)
        print_option(o);
    for (const struct poptOption *o = common_table; o->longName; o++)
        print_option(o);
    printf("\nExample:\n  winnow %s %s\n", cmd->name, cmd->example);
}

/* The command's options and the common ones, in the order of the help. */
static void join_tables(const struct poptOption *table, struct poptOption *joined)
{
    size_t n = 0;

    for (const struct poptOption *o = table; o->longName && n < MAX_WORDS - 8; o++)
        joined[n++] = *o;
    for (const struct poptOption *o = common_table; o->longName; o++)
        joined[n++] = *o;
    joined[n] = (struct poptOption)POPT_TABLEEND;
}

/* The same for popt: flags are its own, of an option with an argument it tells number + 1 and the word. */
static void make_words(const struct poptOption *joined, struct poptOption *words)
{
    size_t i;

    for (i = 0; joined[i].longName; i++) {
        words[i] = joined[i];
        words[i].val = 0;
        if (joined[i].argInfo == POPT_ARG_NONE)
            continue;
        words[i].argInfo = POPT_ARG_STRING;
        words[i].arg = NULL;
        words[i].val = (int)i + 1;
    }
    words[i] = (struct poptOption)POPT_TABLEEND;
}

/* False with *code, when a value is wrong. */
static bool read_options(const struct command *cmd, poptContext context, const struct poptOption *joined, int *rc,
                         int *code)
{
    while ((*rc = poptGetNextOpt(context)) > 0) {
        if (!opt_take_value(cmd, &joined[*rc - 1], poptGetOptArg(context))) {
            *code = EXIT_USAGE;
            return false;
        }
    }
    return true;
}

bool opt_parse(const struct command *cmd, const struct poptOption *table, int argc, const char **argv, int min, int max,
               const char ***args, int *arg_count, int *code)
{
    static struct poptOption joined[MAX_WORDS], words[MAX_WORDS];
    static const char *none[1];
    /* positional arguments stay in the context, which therefore lives as long as the program */
    static poptContext context;
    int rc;

    join_tables(table, joined);
    make_words(joined, words);
    context = poptGetContext("winnow", argc, argv, words, 0);
    if (!read_options(cmd, context, joined, &rc, code))
        return false;
    *code = EXIT_DONE;
    if (help_wanted) {
        print_help(cmd, table);
        *code = finish_output();
        return false;
    }
    if (rc < -1) {
        *code = wrong_option(cmd, joined, poptBadOption(context, POPT_BADOPTION_NOALIAS), rc);
        return false;
    }
    *args = poptGetArgs(context);
    if (!*args)
        *args = none;
    for (*arg_count = 0; (*args)[*arg_count]; ++*arg_count)
        ;
    if (*arg_count < min || *arg_count > max) {
        *code = *arg_count < min ? opt_wrong(cmd, "an argument is missing")
                                 : opt_wrong(cmd, "'%s' is one argument too many", (*args)[max]);
        return false;
    }
    if (*arg_count > 0 && !(*args)[0][0]) {
        *code = opt_wrong(cmd, "the first argument is empty");
        return false;
    }
    if (common.threads < 0 || common.threads > 4096) {
        *code = opt_wrong(cmd, "--threads %d: 1 to 4096, or 0 for one per core", common.threads);
        return false;
    }
    return true;
}

#define BYTES_MOST 9e18

bool opt_bytes(const struct command *cmd, const char *name, const char *text, uint64_t *bytes)
{
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {{"", 1},         {"B", 1},        {"K", 1e3},      {"KB", 1e3},    {"M", 1e6},
                 {"MB", 1e6},     {"G", 1e9},      {"GB", 1e9},     {"T", 1e12},    {"TB", 1e12},
                 {"KiB", 1024.0}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
    char *end;
    double n;

    errno = 0;
    n = strtod(text, &end);
    while (*end == ' ')
        end++;
    for (size_t i = 0; end != text && errno == 0 && i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].unit) != 0 || !(n >= 0))
            continue;
        if (n * units[i].bytes < BYTES_MOST) {
            *bytes = (uint64_t)(n * units[i].bytes);
            return true;
        }
        opt_wrong(cmd, "--%s %s: that is too large, less than %.0fe18 bytes is wanted", name, text, BYTES_MOST / 1e18);
        return false;
    }
    opt_wrong(cmd, "--%s %s: a size like 480GiB, 48GB or 65536 is wanted", name, text);
    return false;
}
