/*
 * The memory that a streamed job may take: how many tokens go through a layer at a time, and what a refusal names.
 */
#ifndef WN_JOBS_RAM_H
#define WN_JOBS_RAM_H

#include <winnow/error.h>

#define WN_CHUNK_MOST 512 /* more gains nothing: each expert of K3 already sees about nine tokens */

/* Code that runs for the first time, and pages that the system maps around those touched: 0.1 to 0.6 MB were seen. */
#define WN_RAM_UNFORESEEN ((uint64_t)1 << 20)

/* Largest resident set, in bytes, with `chunk` tokens at a time. */
typedef uint64_t wn_ram_fn(void *arg, uint32_t chunk);

/*
 * The largest of most, most / 2 ... least with which need(arg, chunk) is within ram (0: no limit). False: least is not
 * either. The last call of need was with the answer.
 */
bool wn_ram_chunk(uint64_t ram, uint32_t most, uint32_t least, wn_ram_fn *need, void *arg, uint32_t *chunk);

/* What a walk layer by layer may take: with its activations in memory if there is room, otherwise from their files. */
struct wn_ram_walk {
    const char *what; /* "calibrating" */
    uint64_t ram;     /* 0: no limit, and activations stay in files */
    uint64_t activations, layer;
    uint32_t longest, least; /* tokens of the longest sequence; at a time at least */
    wn_ram_fn *need;         /* takes *held into account */
    void *arg;
};
/* Sets *held and *chunk. Refused (WN_ERR_ARG), with what it needs: not even `least` tokens at a time are within ram. */
WN_CHECKED bool wn_ram_fit_walk(const struct wn_ram_walk *w, uint64_t *held, uint32_t *chunk, struct wn_err *err);

/*
 * What a process holds is measured, and differs a little from one start to the next. So a refusal names more than it
 * measured, and who comes back with that number passes.
 */
uint64_t wn_ram_named(uint64_t need);

#endif
