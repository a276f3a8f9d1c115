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
    const char *step;     /* where in the phase: "layer 12 of 93"; NULL: nothing to add */
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

struct wn_model;

/*
 * Asked before an output is begun: false (WN_ERR_ARG) when out, or the out.part that it is written as first, is one of
 * inputs[n] (a NULL among them is none) or, unless m is NULL, a file of the model or of the folder that it lies in.
 * Told by inode, so that another name or a link of the same file is seen through.
 */
WN_API WN_CHECKED bool wn_output_spares(const char *out, const char *const *inputs, size_t n, const struct wn_model *m,
                                        struct wn_err *err);

/*
 * Removes the .part of every output that is being written, for a program that will not live to see them finished. May
 * be called from a signal handler, after which the program must end.
 */
WN_API void wn_remove_unfinished(void);

#endif
