/*
 * What a model takes when so many of its experts stay: bytes in a container, and memory when it runs. Made once from a
 * model, then asked for any number of plans.
 */
#ifndef WINNOW_FIT_H
#define WINNOW_FIT_H

#include <winnow/plan.h>
#include <winnow/prune.h>

struct wn_fit_options {
    enum wn_format format; /* of the build: as wn_prune has it */
    unsigned rest_bits;    /* the same */
    enum wn_encoder encoder;
    /* Of graded and mixed plans' second bank: 2, 3, 4, 5, 6, 8; 0: there is none, or it comes from lo_source. */
    unsigned lo_bits;
    /*
     * The GGUF that second banks are copied from, as wn_prune has it; NULL: none. Sizes are those that its experts
     * have, and plans call them after its mean bits a weight. Goes with lo_bits 0. Copied.
     */
    const char *lo_source;
    enum wn_ghosts ghosts; /* SKIP, MEAN: of the build, as wn_prune has it; needs the model open */
    /*
     * At most one budget; 0: none. memory: all that a run takes, the rows of wn_fit_ledger; size: tensors of the build.
     */
    uint64_t memory, size;
    uint32_t context;     /* tokens of a session; 0: the smaller of the model's and 4096 */
    uint32_t sessions;    /* at once; 0: 1 */
    uint32_t checkpoints; /* copies of the state kept for each session, at its full length */
    unsigned threads;     /* 0: 1 */
};

struct wn_fit;
/*
 * path: any MoE model; m: the same, open, or NULL where winnow does not compute it: then memory and bytes per token are
 * not known, and a memory budget is refused. m is borrowed and must outlive the fit. Binds every layer once.
 */
WN_API WN_CHECKED struct wn_fit *wn_fit_new(const char *path, const struct wn_model *m, const struct wn_fit_options *o,
                                            struct wn_err *err);
WN_API void wn_fit_free(struct wn_fit *f); /* NULL is all right */

/*
 * What is left of an expert's worth in lo_bits: 1 - (RMS error / RMS of the weights)^2, over rows of experts of the
 * model, encoded and decoded. *measured false: there was nothing to measure (weights of nothing but zeros), and it is a
 * number that was measured on k3-mini.
 */
WN_API double wn_fit_fidelity(const struct wn_fit *f, bool *measured);

/* What a plan's build takes. */
struct wn_fit_ledger {
    uint64_t file_bytes, tensor_bytes; /* exact: what wn_prune will write, headers and index with the first */
    uint32_t files;
    uint64_t tensors;
    /* Memory, in bytes; all 0 when the model is not one that winnow computes. */
    uint64_t experts, rest; /* weights that a token may read, mapped: routed experts with their routers; all others */
    uint64_t tables; /* the program, lists of tensors, vectors in f32, matrices that are turned, tables of experts */
    uint64_t state, cache, scratch, checkpoints; /* of all sessions */
    uint64_t total;
    uint32_t context;
    uint64_t budget;                          /* of memory or size, as it was asked for; 0: none */
    uint64_t lo_bytes, lo_weights;            /* of second banks that come from lo_source */
    uint64_t one_more;                        /* bytes of one whole expert more in each layer */
    uint64_t token_bytes, token_expert_bytes; /* read to decode one token; of that routed experts. Ghosts: at most */
    uint64_t ghosts, ghost_bytes;             /* of all layers; what the build without ghosts has not */
};

/*
 * low_routed: the share of choices that fall on experts of fewer bits (wn_plan_kept has it); it moves the bytes per
 * token only. The plan must be one for the model. Refuses what wn_prune refuses.
 */
WN_API WN_CHECKED bool wn_fit_predict(const struct wn_fit *f, const struct wn_plan *p, double low_routed,
                                      struct wn_fit_ledger *l, struct wn_err *err);

#endif
