/* Runs that die: in a child process, by a real SIGKILL. */
#ifndef KILLS_H
#define KILLS_H

#include "wn_test.h"
#include <winnow/job.h>

/* A few moments ordinarily; WINNOW_KILLS asks for more (`make kills`). */
unsigned kill_count(void);

/* True when run(arg) was still at work so many microseconds after its start, and is no more. */
bool killed_after(bool (*run)(void *arg), void *arg, uint64_t us);

/* run(arg), which must be killed on its way (raise(SIGKILL) in a callback). */
void killed_on_its_way(bool (*run)(void *arg), void *arg);

/* True when run(arg) was killed on its way; false when it succeeded. */
bool killed_in(bool (*run)(void *arg), void *arg);

/*
 * Dies, or says stop, at the n-th call of progress of its phase. A run that is taken up does not embed again, so calls
 * of that step are not counted.
 */
struct killer {
    const char *phase;
    int calls_left;
    bool stops;
};
/* wn_progress_fn; arg: a killer */
bool kill_count_down(void *arg, const struct wn_progress *p);

#endif
