/*
 * What all long jobs share: progress, cancelling, and saying beforehand what they will take.
 */
#ifndef WINNOW_JOB_H
#define WINNOW_JOB_H

#include <winnow/error.h>

struct wn_progress {
    const char *phase; /* "calibrating layer 12", "copying" */
    uint64_t done, total;
    const char *unit; /* "bytes", "tokens", "layers" */
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
