/* See kills.h. */
#include "kills.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

unsigned kill_count(void)
{
    const char *asked = getenv("WINNOW_KILLS");

    return asked ? (unsigned)strtoul(asked, NULL, 10) : 3;
}

static pid_t start(bool (*run)(void *arg), void *arg)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        _exit(run(arg) ? 0 : 1);
    return child;
}

bool killed_after(bool (*run)(void *arg), void *arg, uint64_t us)
{
    struct timespec wait = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    pid_t child = start(run, arg);
    int status;

    nanosleep(&wait, NULL);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status);
}

bool killed_in(bool (*run)(void *arg), void *arg)
{
    pid_t child = start(run, arg);
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

void killed_on_its_way(bool (*run)(void *arg), void *arg)
{
    assert_true(killed_in(run, arg));
}

bool kill_count_down(void *arg, const struct wn_progress *p)
{
    struct killer *k = arg;

    if (strcmp(p->phase, k->phase) != 0 || (p->step && strcmp(p->step, "embedding") == 0) || k->calls_left-- > 0)
        return true;
    if (!k->stops)
        raise(SIGKILL);
    return false;
}
