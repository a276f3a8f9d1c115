/*
 * Golden models and their reference numbers: opened with everything bound, run with chosen kernels, threads and cuts.
 */
#ifndef GOLDEN_H
#define GOLDEN_H

#include "wn_test.h"

#include "engine/engine.h"

struct loaded {
    struct wn_model *model;
    struct wn_weights *weights;
    const struct wn_config *config;
};

/* By the name of test data; skips when it is not here. */
struct loaded golden_load(const char *name);
/* By its path. */
struct loaded golden_open(const char *path);
void golden_unload(struct loaded *l);
/* Opening or binding must fail with a sentence that has `part` in it. */
void golden_refused(const char *path, const char *part);

/* A safetensors file of reference numbers; skips when it is not here. */
struct wn_source *golden_ref(const char *name);
/* The numbers of one tensor, borrowed; *n elements. Fails when it is not there or of another type. */
const float *golden_f32(const struct wn_source *ref, const char *name, size_t *n);
const uint32_t *golden_ids(const struct wn_source *ref, const char *name, size_t *n);

struct how {
    unsigned threads;                 /* 0: 1 */
    uint32_t chunk;                   /* 0: all at once */
    const struct wn_kernels *kernels; /* NULL: the process's */
    const struct wn_probe *probe;
};

/* The process's pool of so many threads; made once, freed at exit. */
struct wn_pool *golden_pool(unsigned threads);
struct wn_session *golden_session(const struct wn_weights *w, struct how how);
/* Feeds ids and stores the logits of each position: [n][vocab]. */
void golden_feed(struct wn_session *s, const uint32_t *ids, size_t n, float *logits);
/* The same from an empty session; the array is new. */
float *golden_logits(const struct wn_weights *w, struct how how, const uint32_t *ids, size_t n);
/* Feeds the prompt and then `n` greedy tokens, which are stored. */
void golden_greedy(const struct wn_weights *w, struct how how, const uint32_t *prompt, size_t prompt_n,
                   uint32_t *tokens, size_t n);

struct distance {
    double most, mean;
};
struct distance golden_distance(const float *a, const float *b, size_t n);
/* Fails unless both are below the bounds; says what they were. */
void golden_close(const char *what, const float *got, const float *wanted, size_t n, double most, double mean);

/*
 * A model with experts removed, in memory. keep[layer] lists old numbers in new order, counts[layer] of them. Two ways:
 * masked (bias -inf, numbers stay) and renumbered (as a pruned file has it). Free with golden_variant_free.
 */
struct variant {
    struct wn_weights weights;
    struct wn_config config;
    void *owned[512];
    size_t owned_n;
};
struct keeps {
    uint32_t counts[64];
    uint32_t old[64][64];
};
/* {"keep": {"1": [3, 12, ...], ...}} */
struct keeps golden_keeps(const char *name);
struct variant *golden_masked(const struct wn_weights *w, const struct keeps *k);
struct variant *golden_renumbered(const struct wn_weights *w, const struct keeps *k);
void golden_variant_free(struct variant *v);

#endif
