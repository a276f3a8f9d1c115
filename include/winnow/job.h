/*
 * What all long jobs share: progress, cancelling, and saying beforehand what they will take.
 */
#ifndef WINNOW_JOB_H
#define WINNOW_JOB_H

#include <winnow/error.h>

struct wn_progress {
    const char *phase;    /* "calibrating", "copying": another one begins a new count */
    uint64_t done, total; /* of the phase; what is taken up from an earlier run is done from the start */
    const char *unit;     /* "bytes", "tokens", "layers" */
    const char *step;     /* where in the phase: "layer 12 of 0 to 92"; NULL: nothing to add */
};

/* Called now and then from the thread that runs the job; false stops it (WN_ERR_CANCELED) at the next safe place. */
typedef bool wn_progress_fn(void *arg, const struct wn_progress *p);

/* A line of talk for the user ("resuming after layer 3"). */
typedef void wn_note_fn(void *arg, const char *line);

struct wn_job {
    wn_progress_fn *progress; /* may be NULL */
    wn_note_fn *note;         /* may be NULL */
    void *arg;
};

#endif
