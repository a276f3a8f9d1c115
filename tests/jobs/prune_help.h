/* What the tests of prune and verify share: plans made by hand, and ways to spoil a model. */
#ifndef WN_TESTS_PRUNE_HELP_H
#define WN_TESTS_PRUNE_HELP_H

#include "wn_test.h"
#include <winnow/prune.h>
#include <winnow/session.h>

/* A plan out of the reference's {"keep": {"1": [...]}} for a model of that many experts. */
void plan_from_reference(struct wn_plan *p, const char *path, uint32_t top_k, uint32_t num_experts);

/* Prunes and fails with the library's sentence when that does not work. */
struct wn_prune_result prune_ok(const char *source, const char *out, const struct wn_plan *plan, enum wn_layout layout,
                                uint64_t shard_bytes);

/* Prunes in a child process that kill -9 ends before its n-th write; true: it got through before. */
bool prune_gets_through(const struct wn_prune_options *o, long n);

/* Changes one byte of a file: xor with mask. */
void flip_byte(const char *path, uint64_t at, uint8_t mask);
/* Exchanges n bytes at a with n bytes at b. */
void swap_bytes(const char *path, uint64_t a, uint64_t b, size_t n);
/* Replaces the first occurrence of `from` by `to` of the same length; false when there is none. */
bool replace_text(const char *path, const char *from, const char *to);

/*
 * Where a tensor lies: the file's path (good until the next call), the offset, its bytes. Fails when it is not there.
 */
struct place {
    char path[512];
    uint64_t at, bytes;
};
void find_tensor(const char *model, const char *name, struct place *p);

/* The logits of every position by a new session, [n][*vocab]; free them. */
float *logits_of(const char *model, const uint32_t *ids, size_t n, size_t *vocab);
float *logits_with(const struct wn_model *m, const struct wn_weights *w, const uint32_t *ids, size_t n, size_t *vocab);

/* Number of entries in a folder (-1: it does not exist). */
int count_entries(const char *folder);

#endif
