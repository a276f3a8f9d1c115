/*
 * What this machine can do.
 */
#ifndef WINNOW_MACHINE_H
#define WINNOW_MACHINE_H

#include <winnow/pool.h>

/*
 * The read roof: all workers of the pool read a buffer that no cache holds (512 MiB), nine times; *bytes_per_second is
 * the median. Decoding reads each active weight once per token, so this bounds its speed. Takes about a second.
 * WN_ERR_NOMEM when the buffer cannot be had.
 */
WN_API WN_CHECKED bool wn_measure_bandwidth(struct wn_pool *pool, double *bytes_per_second, struct wn_err *err);

/* The resident set of this process now, and the largest so far, in bytes; 0 when the system does not say. */
WN_API uint64_t wn_resident_memory(void);
WN_API uint64_t wn_peak_memory(void);

#endif
