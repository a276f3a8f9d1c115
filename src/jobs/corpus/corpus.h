/*
 * A calibration corpus as tagged token sequences (docs/formats/corpus.md).
 *
 * Texts of one source are encoded one by one, their ids joined in file order and cut into sequences of equal length.
 * Lines that bring their own tokens are sequences as they are. Sequences of all sources are then interleaved by share,
 * so that any prefix has the mix of the whole.
 */
#ifndef WN_JOBS_CORPUS_CORPUS_H
#define WN_JOBS_CORPUS_CORPUS_H

#include <winnow/model.h>
#include <winnow/vocab.h>

#define WN_CORPUS_SOURCES     1024
#define WN_CORPUS_LABEL_BYTES 63
#define WN_CORPUS_SEQUENCE    512 /* tokens, where nobody says otherwise */

struct wn_sequence {
    const uint32_t *ids;    /* [n]; owned by the corpus */
    const uint16_t *labels; /* [n] source of each token; NULL: all are of `source` */
    uint32_t n;             /* > 0 */
    uint32_t source;        /* the first token's */
    uint32_t half;          /* 0, 1, 0, 1 ... among the sequences of its source: the split halves */
};

struct wn_corpus_source {
    char *label;
    uint64_t tokens;  /* in the sequences taken */
    uint64_t read;    /* in the file */
    uint64_t partial; /* at its end, too few for a sequence; part of none */
};

struct wn_corpus {
    struct wn_corpus_source *source; /* [source_count], in order of first appearance; owned, like all here */
    uint32_t source_count;
    struct wn_sequence *sequence; /* [sequence_count], in the order in which they are to be taken */
    size_t sequence_count;
    uint64_t tokens;           /* of all sequences */
    uint32_t longest;          /* tokens of the longest sequence */
    bool given;                /* the file brings tokens, not text */
    uint64_t reading;          /* bytes of memory that reading took at most, what is kept included */
    uint64_t left_out;         /* bytes that were not kept because of the limit; then there are no sequences */
    char file_fingerprint[17]; /* the head of the file's SHA-256 */
    uint32_t **ids;            /* [source_count] what the sequences point into */
    uint16_t **labels;         /* [source_count] or NULLs */
};

struct wn_corpus_options {
    const char *path;
    const struct wn_vocab *vocab; /* NULL: only a corpus of tokens can be read */
    uint32_t vocab_size;          /* ids lie below it */
    uint32_t sequence;            /* tokens; 0: WN_CORPUS_SEQUENCE. Refused for a corpus of tokens */
    uint64_t max_tokens;          /* sequences are taken while they fit; 0: all */
    uint64_t memory;              /* bytes that the process may hold while it reads; 0: no limit */
    uint64_t before;              /* bytes that it holds already */
};

/*
 * Reads the whole corpus, once, so that it may come through a pipe. *c is the caller's to release, and stays empty on
 * failure. Refused, with the line's number: what is not JSON, a line of more than WN_LINE_MOST bytes, a missing or
 * empty label or one with '=' or ',' (which --weights could not name), ids outside the vocabulary, text beside tokens;
 * and a source that comes to no sequence at all, since its experts would be pruned away unseen.
 *
 * Kept are ids: four bytes a token, six where lines bring tokens, and of each source no more than max_tokens. When
 * that is more than `memory`, the rest is only counted: left_out then tells the bytes that should have been kept,
 * longest and source_count are as they would be, and there are no sequences. A long line that cannot be taken apart
 * within `memory` is refused.
 */
WN_CHECKED bool wn_corpus_read(struct wn_corpus *c, const struct wn_corpus_options *o, struct wn_err *err);
/*
 * The same for a model that it is to go through: `o` gets the model's vocabulary, and what the process holds before,
 * and sequences that are longer than the model's context are refused.
 */
WN_CHECKED bool wn_corpus_read_for(struct wn_corpus *c, const struct wn_model *m, struct wn_corpus_options *o,
                                   struct wn_err *err);
void wn_corpus_release(struct wn_corpus *c);

/* 64 bits of all labels and sequences in order: equal for equal work. As 16 hex digits. */
void wn_corpus_fingerprint(const struct wn_corpus *c, char out[17]);

#endif
