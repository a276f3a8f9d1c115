/*
 * The values of options: what popt would read itself it takes too much for. An empty word or one with something behind
 * its number is none, a number out of range is told with its range, and of an option given twice the first value is let
 * go.
 */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_whole(const struct command *cmd, const char *name, const char *text, long long least, long long most,
                       long long *v)
{
    char *end;

    errno = 0;
    *v = strtoll(text, &end, 10);
    if (end == text || *end) {
        (void)opt_wrong(cmd, "--%s %s: a whole number is wanted", name, text);
        return false;
    }
    if (errno == 0 && *v >= least && *v <= most)
        return true;
    if (*v < 0)
        (void)opt_wrong(cmd, "--%s %s: at least %lld is wanted", name, text, least);
    else
        (void)opt_wrong(cmd, "--%s %s: at most %lld is wanted", name, text, most);
    return false;
}

static bool read_float(const struct command *cmd, const char *name, const char *text, float *v)
{
    char *end;

    *v = strtof(text, &end);
    if (end != text && *end == '\0' && isfinite(*v))
        return true;
    (void)opt_wrong(cmd, "--%s %s: a number is wanted", name, text);
    return false;
}

/* A word of its own behind those that the option got before; freed with the program. */
static bool add_word(const struct command *cmd, const struct poptOption *o, const char *text)
{
    if (poptSaveString(o->arg, POPT_ARG_ARGV, text) == 0)
        return true;
    (void)opt_wrong(cmd, "--%s %s: could not be kept", o->longName, text);
    return false;
}

bool opt_take_value(const struct command *cmd, const struct poptOption *o, char *text)
{
    long long v;
    bool ok;

    if (!*text && o->val != OPT_MAY_BE_EMPTY) {
        (void)opt_wrong(cmd, "--%s: the value is empty, %s is wanted", o->longName, o->argDescrip);
        free(text);
        return false;
    }
    switch (o->argInfo & POPT_ARG_MASK) {
    case POPT_ARG_STRING:
        free(*(char **)o->arg);
        *(char **)o->arg = text;
        return true;
    case POPT_ARG_INT:
        ok = read_whole(cmd, o->longName, text, INT_MIN, INT_MAX, &v);
        if (ok)
            *(int *)o->arg = (int)v;
        break;
    case POPT_ARG_LONGLONG:
        ok = read_whole(cmd, o->longName, text, LLONG_MIN, LLONG_MAX, o->arg);
        break;
    case POPT_ARG_FLOAT:
        ok = read_float(cmd, o->longName, text, o->arg);
        break;
    default:
        ok = add_word(cmd, o, text);
    }
    free(text);
    return ok;
}

bool opt_word(const struct command *self, const char *option, const char *text, const char *const *names, int n,
              int *which)
{
    char list[64] = "";

    *which = 0;
    for (int i = 0; i < n; i++) {
        if (!text || strcmp(text, names[i]) == 0) {
            *which = i;
            return true;
        }
        (void)snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", names[i]);
    }
    (void)opt_wrong(self, "--%s is '%s', known are %s", option, text, list);
    return false;
}

bool opt_sequence(const struct command *cmd, int given, uint32_t *sequence)
{
    if (given == OPT_UNSET)
        return true;
    if (given > 0) {
        *sequence = (uint32_t)given;
        return true;
    }
    (void)opt_wrong(cmd, "--seq %d: a sequence has at least one token (512 without --seq)", given);
    return false;
}

bool opt_ram(const struct command *cmd, const char *text, uint64_t *bytes)
{
    if (!text)
        return true;
    if (!opt_bytes(cmd, "ram", text, bytes))
        return false;
    if (*bytes > 0)
        return true;
    (void)opt_wrong(cmd, "--ram %s: that is no memory at all; without --ram there is no limit", text);
    return false;
}
