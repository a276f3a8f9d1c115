/*
 * What the kernel tests share: every table this processor offers, random numbers whose seed is printed, values that are
 * mostly trouble, and buffers that end at an unreadable page.
 */
#ifndef KERNELS_SUPPORT_H
#define KERNELS_SUPPORT_H

#include "base/rng.h"
#include "kernels/kernels.h"

/* The scalar table, and the variants that this processor can run (0 of them is possible). */
extern struct wn_kernels scalar;
extern struct wn_kernels variants[2];
extern size_t variant_count;

/* The seed is WN_SEED or taken from the clock; it is printed. */
extern struct wn_rng rng;

/* Fills the above; a group's set-up. Frees the buffers of guarded(); its tear-down. */
int kernels_set_up(void **state);
int kernels_tear_down(void **state);

/*
 * bytes of memory of which the next byte cannot be read or written, in place `slot`, whose earlier contents are lost.
 * Not cleared. At most SLOT_BYTES.
 */
enum { SLOTS = 12, SLOT_BYTES = 1 << 20 };
void *guarded(unsigned slot, size_t bytes);

/* How wild the values are. */
enum mood { TAME, MIXED, WILD, MOODS };
float float_any(enum mood mood);
void floats_fill(float *x, size_t n, enum mood mood);

/* n stored elements of a type, all bit patterns when WILD, decodable to moderate values otherwise; scales for SPLIT. */
void stored_fill(enum wn_type type, uint8_t *bytes, uint8_t *scales, size_t n, enum mood mood);

/* n numbers of a type of floats, F32 among them. */
void numbers_fill(enum wn_type type, uint8_t *bytes, size_t n, enum mood mood);

/* Equal bits, or both a NaN. */
bool same_floats(const float *a, const float *b, size_t n, size_t *differs_at);
/* Fails the test, naming what, n and the variant. */
void check_same(const char *what, const char *variant, size_t n, const float *want, const float *got, size_t count);

#endif
