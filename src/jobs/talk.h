/*
 * What a long job says on its way. Nobody listening (job NULL, or its functions NULL) is fine.
 */
#ifndef WN_JOBS_TALK_H
#define WN_JOBS_TALK_H

#include <winnow/job.h>

/*
 * Reports progress. False, WN_ERR_CANCELED, when the listener asked to stop. The texts are copied by nobody. step may
 * be NULL.
 */
WN_CHECKED static inline bool wn_job_step(const struct wn_job *job, const char *phase, const char *step, uint64_t done,
                                          uint64_t total, const char *unit, struct wn_err *err)
{
    struct wn_progress p = {.phase = phase, .done = done, .total = total, .unit = unit, .step = step};

    if (!job || !job->progress || job->progress(job->arg, &p))
        return true;
    return wn_fail(err, WN_ERR_CANCELED, "stopped on request (%s)", phase);
}

WN_CHECKED static inline bool wn_job_progress(const struct wn_job *job, const char *phase, uint64_t done,
                                              uint64_t total, const char *unit, struct wn_err *err)
{
    return wn_job_step(job, phase, NULL, done, total, unit, err);
}

/*
 * Notes the largest resident set that the job will have: what there is now, and `more` bytes. To be called when what
 * grows with the model is there, and before the long work.
 */
void wn_job_note_memory(const struct wn_job *job, uint64_t more);

static inline void wn_job_note(const struct wn_job *job, const char *line)
{
    if (job && job->note)
        job->note(job->arg, line);
}

#endif
