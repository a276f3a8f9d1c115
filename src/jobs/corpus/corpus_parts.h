/*
 * What reading a corpus (corpus_read.c) hands to cutting it (corpus.c).
 */
#ifndef WN_JOBS_CORPUS_CORPUS_PARTS_H
#define WN_JOBS_CORPUS_CORPUS_PARTS_H

#include "base/bytes.h"
#include "jobs/corpus/corpus.h"

#define WN_SEQUENCE_MOST ((uint32_t)1 << 24) /* tokens */

/* A sequence before the buffers of ids have found their last place. */
struct wn_span {
    size_t at;
    uint32_t n, source;
    size_t k, of; /* the k-th of its source's */
};

struct wn_gathered {
    struct wn_bytes label;
    struct wn_buf ids, labels; /* uint32_t, uint16_t; what may be taken of them */
    uint64_t tokens;           /* in the file */
    size_t spans;
};

struct wn_corpus_reader {
    const struct wn_corpus_options *o;
    struct wn_gathered *source;
    uint32_t source_count;
    size_t source_room;
    struct wn_buf spans; /* struct wn_span */
    bool texts, tokens;  /* kinds of lines seen */
    /* Of the line at hand, where it brings tokens. */
    struct wn_buf ids, labels;
    uint32_t longest;    /* of the lines that bring tokens */
    uint64_t line_bytes; /* of memory, to take the line at hand apart */
    uint64_t held, most; /* bytes kept, or only counted; and at most, with what came and went */
    bool counting;       /* nothing is kept any more */
    char fingerprint[17];
};

/* n bytes more are kept, and so many come and go beside what is kept. Turns to counting when that is too much. */
void wn_corpus_use(struct wn_corpus_reader *r, uint64_t kept, uint64_t passing);

/* Reads the whole file; *r stays the caller's to release. */
WN_CHECKED bool wn_corpus_gather(struct wn_corpus_reader *r, struct wn_err *err);

#endif
