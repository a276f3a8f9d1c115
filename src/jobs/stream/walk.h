/*
 * Sequences of tokens through a model layer by layer: one layer of weights at a time and the activations in a work
 * folder (store.h), so that neither the model nor the tokens need fit into memory.
 *
 *   stream L -> layer L (fresh state for every sequence, chunk by chunk) -> stream L + 1
 *
 * What comes out depends on the tokens only: chunks and threads change no bit of a stream (graph.h).
 */
#ifndef WN_JOBS_STREAM_WALK_H
#define WN_JOBS_STREAM_WALK_H

#include "graph/graph.h"
#include "jobs/corpus/corpus.h"
#include "jobs/stream/store.h"

struct wn_walk {
    const struct wn_model *model;
    const struct wn_ctx *ctx;
    struct wn_store *store;             /* open, its shape told */
    const struct wn_sequence *sequence; /* [sequence_count]; only ids and n are looked at */
    size_t sequence_count;
    bool keep_last; /* the stream that leaves the last layer is written too, for the head */
    /*
     * Walks that share a store: this one goes the way of the one whose numbers are the layers' as far as into layer
     * `branch`, and what leaves that layer and later ones is its own, `apart` added to its numbers. apart 0: it is that
     * one itself.
     */
    uint32_t branch, apart;

    uint32_t chunk; /* tokens at a time */
    float *p;       /* [chunk][hidden] */
    float *banks;   /* [bank][chunk][hidden] */
    float *state;   /* [state_floats], the largest recurrent state of a layer */
    float *cache;   /* [longest sequence][kv_lora + rope] */
    size_t state_floats;

    /* Told which tokens come next, first ... of sequence i; and that `done` tokens of the corpus are through. */
    void (*begin)(void *arg, size_t i, size_t first);
    bool (*told)(void *arg, uint64_t done, struct wn_err *err);
    void *arg;
};

/* "model", by its headers, and "weights", by a few bytes of each of its files: what a work folder must agree in. */
#define WN_WALK_FACTS 2
WN_CHECKED bool wn_walk_facts(const struct wn_model *m, struct wn_store_fact facts[WN_WALK_FACTS], struct wn_err *err);

/* The buffers above for sequences of up to `longest` tokens; chunk must be set. */
void wn_walk_lay(struct wn_walk *w, struct wn_room *room, const struct wn_config *c, uint64_t longest);

/* Stream 0, the embeddings of all tokens. */
WN_CHECKED bool wn_walk_embed(struct wn_walk *w, struct wn_err *err);
/* Opens what layer i reads, and begins what it writes. */
WN_CHECKED bool wn_walk_open(struct wn_walk *w, uint32_t i, struct wn_err *err);
/* All sequences through the bound layer; what it wrote is not committed yet. */
WN_CHECKED bool wn_walk_layer(struct wn_walk *w, const struct wn_layer *layer, struct wn_err *err);
/* The store's number of the stream that enters layer i; i may be the number of layers. */
uint32_t wn_walk_number(const struct wn_walk *w, uint32_t i);
/* True when layer i's stream is written. */
bool wn_walk_writes(const struct wn_walk *w, uint32_t i);

/* Opens the banks that the head reads, and the last stream (keep_last). */
WN_CHECKED bool wn_walk_open_last(struct wn_walk *w, struct wn_err *err);
/* Tokens first .. first + n - 1 of the open streams: banks and running stream, in the walk's buffers. */
WN_CHECKED bool wn_walk_read(const struct wn_walk *w, uint64_t first, size_t n, struct wn_stream *stream,
                             struct wn_err *err);

#endif
