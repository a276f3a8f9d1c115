/* See talk.h. */
#include "jobs/talk.h"
#include "sys/clock.h"

#include <stdio.h>

void wn_job_note_memory(const struct wn_job *job, uint64_t more)
{
    uint64_t now = wn_resident_memory(), peak = wn_peak_memory();
    char line[96];

    if (now == 0) /* the system does not say */
        return;
    /* reading the lists may have taken more for a moment than is left of it */
    (void)snprintf(line, sizeof line, "memory: about %.0f MB at most: lists of tensors and buffers",
                   (double)(peak > now + more ? peak : now + more) * 1e-6);
    wn_job_note(job, line);
}
