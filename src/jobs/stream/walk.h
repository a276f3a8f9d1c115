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

/* The buffers above for sequences of up to `longest` tokens; chunk must be set. */
void wn_walk_lay(struct wn_walk *w, struct wn_room *room, const struct wn_config *c, uint64_t longest);

/* walk_resume.c: what a finished layer leaves besides its stream (store.h); of every layer as many bytes. */
struct wn_walk_record {
    size_t bytes;
    void (*load)(void *arg, uint32_t layer, const char *record); /* shown what an earlier run left; NULL: none is */
    void *arg;
};
/* Says behind which layer a run goes on that takes up `done` of them; nothing when it is none. */
void wn_walk_note_resumed(const struct wn_store *s, const struct wn_job *job, uint32_t done);
/*
 * What an earlier run left in the store of a walk by itself (apart 0): layers 0 .. *done - 1 are finished, which is
 * noted. Their records are loaded, streams that nobody reads any more are removed, and those that are read next are
 * checked as a whole (WN_ERR_FORMAT).
 */
WN_CHECKED bool wn_walk_take_up(const struct wn_walk *w, const struct wn_walk_record *record, const struct wn_job *job,
                                uint32_t *done, struct wn_err *err);
/* Layer i is through: commits its stream and then the record, which makes it finished, and drops what was read. */
WN_CHECKED bool wn_walk_commit(const struct wn_walk *w, uint32_t i, struct wn_bytes record, struct wn_err *err);

/* Stream 0, the embeddings of all tokens; already there when a run is taken up: nothing is done. */
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
