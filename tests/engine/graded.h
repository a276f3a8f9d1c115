/* The graded build of golden/text: which experts, the low bank's values, and the GGUF with a tail. */
#ifndef GRADED_H
#define GRADED_H

#include "golden.h"
#include "made.h"

/* Experts of both banks of a layer, in the order of its router's rows. */
struct graded_layer {
    uint32_t high, low; /* 0: the whole layer in one bank, as it is */
    uint32_t old[64];
};

/* golden/text's plan file as the layers of a graded build. */
void graded_plan(const char *name, struct graded_layer layers[64]);

/* One expert matrix of the reference's low bank. */
struct wn_matrix graded_low(const struct wn_source *low, uint32_t layer, uint32_t expert, enum wn_role role);

/* The experts' parts of `bytes` bytes with `rows` experts, in the build's order. */
void graded_rows(uint8_t *to, const uint8_t *from, uint64_t bytes, const struct graded_layer *g, uint64_t rows);

/* A GGUF of the model, cut; the tails hold the low bank's values as F32. */
struct made made_tail(const struct wn_source *gguf, const struct wn_config *c, const struct graded_layer *graded,
                      const struct wn_source *low);

#endif
