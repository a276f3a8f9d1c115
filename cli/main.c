/*
 * winnow COMMAND [OPTIONS] ARGS: the table of commands and nothing else. Each command lives in cmd_NAME.c.
 */
#include "cli.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <winnow/session.h>
#include <winnow/version.h>

static const struct command *const commands[] = {
    &cmd_inspect, &cmd_tokenize, &cmd_corpus, &cmd_calibrate, &cmd_probe, &cmd_merge,  &cmd_plan, &cmd_prune,
    &cmd_convert, &cmd_verify,   &cmd_eval,   &cmd_report,    &cmd_card,  &cmd_logits, &cmd_run,
};
#define STACK_BYTES ((size_t)1 << 20)
#define COMMANDS    (sizeof commands / sizeof commands[0])

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
    complain("winnow: there is no command '%s'%s%s%s", name, near ? "; did you mean '" : "", near ? near : "",
             near ? "'?" : "");
    complain("'winnow --help' lists the commands");
    return EXIT_USAGE;
}

/*
 * A model may lie in more files than a process may open at first (256 on macOS, 1024 on most Linux); it may raise that
 * itself up to the hard limit. When it cannot, the open that fails says so.
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

struct call {
    const struct command *command;
    int argc, code;
    const char **argv;
};

static void *run_call(void *arg)
{
    struct call *c = arg;

    c->code = c->command->run(c->command, c->argc, c->argv);
    return NULL;
}

/*
 * Kernels take up to 80 KiB of stack, which `ulimit -s` may not leave to the first thread; another one gets what it
 * asks for. The first then does nothing but wait, with signals held off, so that they meet the thread that works.
 */
static int run_on_enough_stack(struct call *c)
{
    struct rlimit l;
    pthread_attr_t how;
    pthread_t thread;
    sigset_t all;
    bool started;

    if (getrlimit(RLIMIT_STACK, &l) != 0 || l.rlim_cur >= STACK_BYTES || pthread_attr_init(&how) != 0) {
        run_call(c);
        return c->code;
    }
    started = pthread_attr_setstacksize(&how, STACK_BYTES) == 0 && pthread_create(&thread, &how, run_call, c) == 0;
    pthread_attr_destroy(&how);
    if (!started) {
        complain("winnow: %" PRIu64 " bytes of stack (ulimit -s) are too few, and no thread could be had with more",
                 (uint64_t)l.rlim_cur);
        return EXIT_FAILED;
    }
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, NULL);
    (void)pthread_join(thread, NULL);
    return c->code;
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
            return run_on_enough_stack(&(struct call){commands[i], argc - 1, EXIT_FAILED, (const char **)argv + 1});
    return unknown_command(name);
}
