/* Time and memory of this process. */
#ifndef WN_SYS_CLOCK_H
#define WN_SYS_CLOCK_H

#include <winnow/common.h>

/* Seconds from some fixed moment; never goes back. */
double wn_clock_seconds(void);
/* Largest resident set so far, in bytes; 0 when the system does not say. */
uint64_t wn_peak_memory(void);
/* The resident set now, in bytes; 0 when the system does not say. */
uint64_t wn_resident_memory(void);
/* Physical memory in bytes; 0 when the system does not say. */
uint64_t wn_total_memory(void);

#endif
