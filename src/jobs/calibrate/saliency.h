/*
 * The saliency archive in memory: what calibration adds up and planning reads. On disk it is an npz that numpy and
 * other tools for this model read (docs/formats/saliency.md has the keys).
 *
 * All sums are over tokens; "gate" is the router weight after renormalising and scaling, "norm" the length of the
 * expert's output before it is weighted. Rows of dense layers, and experts that a layer does not have, stay zero.
 */
#ifndef WN_JOBS_CALIBRATE_SALIENCY_H
#define WN_JOBS_CALIBRATE_SALIENCY_H

#include "jobs/calibrate/probes.h"
#include "jobs/exact_sum.h"
#include <winnow/error.h>

/* The sums over tokens. Each has a pointer in the struct, and beside it in `low` what its doubles leave out. */
enum wn_sum {
    WN_SUM_SALIENCY,
    WN_SUM_GATE,
    WN_SUM_NORM,
    WN_SUM_SQ,
    WN_SUM_TOP2,
    WN_SUM_SHARE,
    WN_SUM_LOO,
    WN_SUM_LOO_SQ,
    WN_SUM_LOO_UP,
    WN_SUM_LOO_UP_SQ,
    WN_SUM_RESIDUAL,
    WN_SUM_HALF,
    WN_SUM_INPUT,
    WN_SUMS
};

struct wn_saliency {
    uint32_t layer_count;  /* all layers of the model, dense ones too */
    uint32_t expert_count; /* of the widest layer */
    uint32_t source_count; /* 0: an archive by others that has no sums per source */
    uint32_t latent_size;  /* channels of act_mag; 0: none */
    uint32_t top_k;        /* 0: an archive by others that does not tell */
    uint64_t token_count;  /* tokens that went through the model; 0: not told */

    uint32_t *layer_experts; /* [layer] experts of that layer; 0: dense. Owned, like every pointer here */
    char **source;           /* [source] labels */
    uint64_t *source_tokens; /* [source] */

    /* Totals over all sources, [layer][expert]. wn_saliency_add_up makes them from the sums per source. */
    double *saliency; /* gate * norm */
    uint64_t *counts; /* tokens that chose the expert */

    /* [source][layer][expert]; NULL when source_count is 0. */
    double *source_saliency;
    uint64_t *source_counts;
    /* Our own, [source][layer][expert]; NULL in archives by others. */
    double *sum_gate, *sum_norm, *sum_sq /* (gate * norm)^2 */, *max_norm;
    double *sum_top2;  /* gate * norm of the tokens in which the expert has one of the two largest gates */
    double *sum_share; /* gate * norm by the length of the token's whole routed output */
    /* How far the routed output, normed, moves when the expert is gone and the router's next choice enters; squared. */
    double *loo, *loo_sq;
    /* [source][layer]: the same behind the way up, by the length of the residual mix, over all chosen; squared ... */
    double *loo_up, *loo_up_sq;
    double *residual_norm; /* ... and the length of that mix */

    uint32_t mean_width; /* channels of the mean outputs that its file has (saliency_means.h); 0: none */

    double *act_mag; /* [layer][latent] sum of the absolute latent input; NULL when latent_size is 0 */
    uint64_t *act_n; /* [layer] tokens summed in act_mag */

    /*
     * Split halves for stability: sequences 0, 2, 4 ... and 1, 3, 5 ... of each source. A sequence is its first token's
     * source's, whatever else is in it. NULL in archives by others.
     */
    double *half_saliency; /* [2][layer][expert], of all sources; wn_saliency_add_halves makes it */
    uint64_t half_tokens[2];
    double *source_half;          /* [2][source][layer][expert] gate * norm of the source's sequences */
    uint64_t *source_half_tokens; /* [2][source] */
    uint64_t *source_sequences;   /* [source] */

    /*
     * Sums are exact (exact_sum.h): the whole of one is its double and this, shaped like it. While a layer is being
     * summed the two are whole and part. NULL in archives by others; there the doubles are all there is.
     */
    double *low[WN_SUMS];

    /* What it was made from; empty when not told. */
    char model_fingerprint[17], corpus_fingerprint[17];
    char (*corpora)[17]; /* [corpus_count] of a merged archive: what its parts were made from, rising */
    uint32_t corpus_count;
    char settings[256]; /* for people: "winnow 0.1.0, sequences of 512" */

    struct wn_probes probes; /* read, not written: a merged archive has none */
};

/*
 * All zero sums for a model of this shape. layer_experts [layer_count] and labels [source_count] are copied.
 * labels are unique, not empty, UTF-8.
 */
WN_CHECKED bool wn_saliency_init(struct wn_saliency *s, uint32_t layer_count, const uint32_t *layer_experts,
                                 uint32_t top_k, uint32_t latent_size, uint32_t source_count, const char *const *labels,
                                 struct wn_err *err);
void wn_saliency_release(struct wn_saliency *s);

/* Whether sums that an archive need not have are there (not NULL), with something in them. */
static inline bool wn_saliency_tells(const double *sums, size_t n)
{
    for (size_t i = 0; sums && i < n; i++)
        if (sums[i] > 0)
            return true;
    return false;
}

/* Index of expert 0 in a [layer][expert] array, and in a [source][layer][expert] one (or [half][layer][expert]). */
static inline size_t wn_saliency_row(const struct wn_saliency *s, uint32_t layer)
{
    return (size_t)layer * s->expert_count;
}

static inline size_t wn_saliency_source_row(const struct wn_saliency *s, uint32_t source, uint32_t layer)
{
    return ((size_t)source * s->layer_count + layer) * s->expert_count;
}

/*
 * What is the same for all sums: the key in the archive, the pointer's place, and the shape, which is
 * [blocks][layer][width]; a width of 1 is no dimension of its own in the archive.
 */
const char *wn_sum_key(enum wn_sum k);
double **wn_sum_at(struct wn_saliency *s, enum wn_sum k);
size_t wn_sum_blocks(const struct wn_saliency *s, enum wn_sum k);
uint32_t wn_sum_width(const struct wn_saliency *s, enum wn_sum k);
/* The shape as an array, its outer 1 left out; returns how many dimensions. */
uint32_t wn_sum_shape(const struct wn_saliency *s, enum wn_sum k, uint64_t shape[4]);

/* Ends the summing of a layer, in which wn_exact_add puts addends into a sum and its low: exact_sum.h. */
void wn_saliency_settle(struct wn_saliency *s, uint32_t layer);

/*
 * Sets saliency to the sum over sources, whose order does not matter; add_up counts, too, and token_count to all
 * tokens.
 */
void wn_saliency_total(struct wn_saliency *s);
void wn_saliency_add_up(struct wn_saliency *s);
/* Sets half_saliency and half_tokens to the sums of source_half and source_half_tokens over sources. */
void wn_saliency_add_halves(struct wn_saliency *s);

/*
 * Reads and checks an archive, ours or by others: shapes must agree with each other, sums be finite and not negative,
 * counts not exceed tokens. Only `saliency` is required. What cannot be told is zero or NULL as said above.
 */
WN_CHECKED bool wn_saliency_read(struct wn_saliency *s, const char *path, struct wn_err *err);
/* Whole or not at all. Equal sums give equal bytes. */
WN_CHECKED bool wn_saliency_write(const struct wn_saliency *s, const char *path, bool overwrite, struct wn_err *err);
/* 16 hex digits that tie a plan to the archive it was made from: the head of the file's SHA-256. */
WN_CHECKED bool wn_saliency_fingerprint(const char *path, char out[17], struct wn_err *err);

#endif
