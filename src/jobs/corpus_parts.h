/*
 * What reading a corpus (corpus_read.c) hands to cutting it (corpus.c).
 */
#ifndef WN_JOBS_CORPUS_PARTS_H
#define WN_JOBS_CORPUS_PARTS_H

#include "base/bytes.h"
#include "jobs/corpus.h"

#define WN_SEQUENCE_MOST ((uint32_t)1 << 24) /* tokens */

/* A sequence before the buffers of ids have found their last place. */
struct wn_span {
    size_t at;
    uint32_t n, source;
    size_t k, of; /* the k-th of its source's */
};

struct wn_gathered {
    struct wn_bytes label;
    struct wn_buf ids, labels; /* uint32_t, uint16_t */
    size_t spans;
};

struct wn_corpus_reader {
    const struct wn_corpus_options *o;
    struct wn_gathered *source;
    uint32_t source_count;
    size_t source_room;
    struct wn_buf spans; /* struct wn_span */
    bool texts, tokens;  /* kinds of lines seen */
};

/* Reads the whole file; *r stays the caller's to release. */
WN_CHECKED bool wn_corpus_gather(struct wn_corpus_reader *r, struct wn_err *err);

#endif
