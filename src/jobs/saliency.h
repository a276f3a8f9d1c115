/*
 * The saliency archive in memory: what calibration adds up and planning reads. On disk it is an npz that numpy and
 * other tools for this model read (docs/formats/saliency.md has the keys).
 *
 * All sums are over tokens; "gate" is the router weight after renormalising and scaling, "norm" the length of the
 * expert's output before it is weighted. Rows of dense layers, and experts that a layer does not have, stay zero.
 */
#ifndef WN_JOBS_SALIENCY_H
#define WN_JOBS_SALIENCY_H

#include <winnow/error.h>

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

    double *act_mag; /* [layer][latent] sum of the absolute latent input; NULL when latent_size is 0 */
    uint64_t *act_n; /* [layer] tokens summed in act_mag */

    /* Split halves for stability: sequences 0, 2, 4 ... and 1, 3, 5 ... of each source. NULL in archives by others. */
    double *half_saliency; /* [2][layer][expert] */
    uint64_t half_tokens[2];

    /* What it was made from; empty when not told. */
    char model_fingerprint[17], corpus_fingerprint[17];
    char settings[256]; /* for people: "winnow 0.1.0, sequences of 512" */
};

/*
 * All zero sums for a model of this shape. layer_experts [layer_count] and labels [source_count] are copied.
 * source_count >= 1; labels are unique, not empty, UTF-8.
 */
WN_CHECKED bool wn_saliency_init(struct wn_saliency *s, uint32_t layer_count, const uint32_t *layer_experts,
                                 uint32_t top_k, uint32_t latent_size, uint32_t source_count, const char *const *labels,
                                 struct wn_err *err);
void wn_saliency_release(struct wn_saliency *s);

/* Index of expert 0 in a [layer][expert] array, and in a [source][layer][expert] one (or [half][layer][expert]). */
static inline size_t wn_saliency_row(const struct wn_saliency *s, uint32_t layer)
{
    return (size_t)layer * s->expert_count;
}

static inline size_t wn_saliency_source_row(const struct wn_saliency *s, uint32_t source, uint32_t layer)
{
    return ((size_t)source * s->layer_count + layer) * s->expert_count;
}

/* Sets saliency and counts to the sums over sources (in source order), and token_count to the sum of source_tokens. */
void wn_saliency_add_up(struct wn_saliency *s);

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
