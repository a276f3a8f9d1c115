/* Time and memory of this process; what it has resident is told by <winnow/machine.h>. */
#ifndef WN_SYS_CLOCK_H
#define WN_SYS_CLOCK_H

#include <winnow/machine.h>

/* Seconds from some fixed moment; never goes back. */
double wn_clock_seconds(void);
/* Physical memory in bytes; 0 when the system does not say. */
uint64_t wn_total_memory(void);
/*
 * Gives freed memory back to the system where the C library keeps some of it, so that what is resident is what is used.
 */
void wn_memory_give_back(void);

#endif
