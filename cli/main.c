/*
 * winnow COMMAND [OPTIONS] ARGS: the table of commands and nothing else. Each command lives in cmd_NAME.c.
 */
#include "cli.h"

#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <winnow/session.h>
#include <winnow/version.h>

static const struct command *const commands[] = {
    &cmd_inspect, &cmd_tokenize, &cmd_calibrate, &cmd_plan,   &cmd_prune,
    &cmd_convert, &cmd_verify,   &cmd_eval,      &cmd_logits, &cmd_run,
};
#define COMMANDS (sizeof commands / sizeof commands[0])

static void print_help(FILE *f)
{
    fprintf(f, "Usage: winnow COMMAND [OPTIONS] ARGS\n\n"
               "Makes a mixture-of-experts model fit the machine you own, says what that cost, and runs it there.\n\n"
               "Commands:\n");
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(f, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(f, "\nMODEL is a GGUF file (the first file of a split set names the set), a folder of safetensors shards, "
               "or the name of\n"
               "an installed model ('k3-mini' comes with winnow).\n"
               "'winnow COMMAND --help' tells more about a command; 'winnow --version' names the version and the "
               "kernels in use.\n"
               "WINNOW_CPU=scalar|avx2|avx512|neon narrows the kernels; results are the same bits with each.\n");
}

static int print_version(void)
{
    struct wn_err err;
    const char *kernels = wn_kernels_name(&err);

    if (!kernels)
        return talk_failed(&err);
    printf("winnow %s (kernels: %s)\n", WINNOW_VERSION, kernels);
    return finish_output();
}

static int unknown_command(const char *name)
{
    const char *names[COMMANDS], *near;

    for (size_t i = 0; i < COMMANDS; i++)
        names[i] = commands[i]->name;
    near = opt_nearest(name, names, COMMANDS);
    fprintf(stderr, "winnow: there is no command '%s'%s%s%s\n", name, near ? "; did you mean '" : "", near ? near : "",
            near ? "'?" : "");
    fprintf(stderr, "'winnow --help' lists the commands\n");
    return EXIT_USAGE;
}

/*
 * A model may lie in more files than a process may open at first (256 on macOS, 1024 on most Linux); it may raise that itself
 * up to the hard limit. When it cannot, the open that fails says so.
 */
static void allow_many_files(void)
{
    struct rlimit l;

    if (getrlimit(RLIMIT_NOFILE, &l) != 0)
        return;
    l.rlim_cur = l.rlim_max;
#if defined(__APPLE__) && defined(OPEN_MAX)
    /* there the hard limit may be "none", which is more than can be set */
    if (l.rlim_cur > OPEN_MAX)
        l.rlim_cur = OPEN_MAX;
#endif
    (void)setrlimit(RLIMIT_NOFILE, &l);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;

    data_dir_of_program(argv[0]);
    if (!name) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return finish_output();
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        return print_version();
    catch_signals();
    allow_many_files();
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i]->run(commands[i], argc - 1, (const char **)argv + 1);
    return unknown_command(name);
}
