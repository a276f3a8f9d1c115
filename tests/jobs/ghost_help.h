/* What the tests of builds with ghosts share: a plan, an archive of means, and the whole model with ghosts by hand. */
#ifndef WN_TESTS_GHOST_HELP_H
#define WN_TESTS_GHOST_HELP_H

#include "prune_help.h"

#define GHOST_HF    "golden/text/tiny-a/hf"
#define GHOST_GGUF  "golden/text/tiny-a/gguf/tiny-a-BF16-MXFP4.gguf"
#define GHOST_WIDTH 96

/*
 * Of tiny-a: 9 of 16 experts in an order of its own in each of 12 layers; uneven: 7 to 12 of them, and in layer 5 all.
 */
void ghost_plan(struct wn_plan *p, bool even);

/* The f16 mean of an expert, as bits. No token chose expert 3 of any layer: zeros. */
void ghost_mean(uint32_t layer, uint32_t expert, uint16_t *row, uint32_t width);
/* An archive of them for that model. Good until the 16th call after. */
const char *ghost_archive(const char *model);

/* Prunes, the model open, with the archive where the mode wants it; fails with the library's sentence. */
struct wn_prune_result ghost_prune(const char *source, const char *out, const struct wn_plan *plan,
                                   enum wn_ghosts ghosts, enum wn_format format);
/* The same with a second parent, NULL: none. */
struct wn_prune_result ghost_prune_of_two(const char *source, const char *lo, const char *out,
                                          const struct wn_plan *plan, enum wn_ghosts ghosts, enum wn_format format);

/* Logits of `n` ids, [n][*vocab]; free them: of the whole model in which what the plan drops is ghosts, ... */
float *ghost_logits_masked(const char *whole, const struct wn_plan *plan, bool means, const uint32_t *ids, size_t n,
                           size_t *vocab);
/* ... and of a build, run so. */
float *ghost_logits(const char *build, enum wn_ghosts ghosts, const uint32_t *ids, size_t n, size_t *vocab);

/* Some ids of tiny-a. */
#define GHOST_IDS 40
void ghost_ids(uint32_t ids[GHOST_IDS]);
/* Frees both. vocab is read here, for nothing says which argument of a call is made first. */
void ghost_expect_same(float *a, float *b, const size_t *vocab);

#endif
