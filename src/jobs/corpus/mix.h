/*
 * The parts of mixing a corpus (<winnow/corpus.h>): files found, documents cut and judged, the index of them, and what
 * the result deserves as warnings.
 */
#ifndef WN_JOBS_CORPUS_MIX_H
#define WN_JOBS_CORPUS_MIX_H

#include "base/bytes.h"
#include "base/rng.h"
#include "sys/file.h"
#include <winnow/corpus.h>

/* The paths of one source, sorted bytewise, each once. */
struct wn_mix_files {
    char **paths; /* [n]; owned */
    size_t n, room;
};

/*
 * Adds what path means: a file, all files in a folder (but for names that begin with a dot), or those that a pattern
 * matches.
 */
WN_CHECKED bool wn_mix_files_add(struct wn_mix_files *f, const char *path, struct wn_err *err);
void wn_mix_files_sort(struct wn_mix_files *f);
void wn_mix_files_release(struct wn_mix_files *f);

/* Bytes that a document has at most, whatever its tokens; so text/split.h has no cut of its own within one. */
#define WN_MIX_DOCUMENT_BYTES ((size_t)1 << 18)
#define WN_MIX_DOCUMENT_LEAST ((uint32_t)16) /* tokens that a limit allows at least */
#define WN_MIX_DOCUMENT_MOST  ((uint32_t)1 << 16)

/*
 * The document at the start of text, which is not empty: its bytes and its tokens, exactly as if it stood alone, `most`
 * of them at most. It ends with the text; else where a paragraph does, if that fills half of it; else where a line
 * does; and within a line only when that alone is too long: behind a sentence, a word, a character. text is all there
 * is, or WN_MIX_DOCUMENT_BYTES and more.
 */
WN_CHECKED bool wn_mix_cut(const struct wn_vocab *v, struct wn_bytes text, uint32_t most, size_t *bytes,
                           uint32_t *tokens, struct wn_err *err);

/* Judges documents; WN_MIX_DROPS when nothing is wrong with one. `seen` is scratch; release it with wn_buf_release. */
struct wn_mix_judge {
    bool lenient; /* only what is blank or no UTF-8 is refused */
    struct wn_buf seen;
};
WN_CHECKED bool wn_mix_judge(struct wn_mix_judge *j, struct wn_bytes text, enum wn_mix_drop *why, struct wn_err *err);

/* Where a document lies. */
struct wn_mix_document {
    uint64_t line;       /* offset in the file: of the document, or of the line of JSON that has it */
    uint32_t line_bytes; /* of that line; 0: it is plain text */
    uint32_t at;         /* its place in the line's text */
    uint32_t bytes, tokens;
    uint32_t file; /* of the source's */
    uint32_t hash; /* of its text */
};

struct wn_mix_pile {
    struct wn_mix_files files;
    struct wn_buf documents; /* struct wn_mix_document */
    size_t drawn, taken;     /* those before `drawn` are in the order in which they come, those before `taken` came */
    uint32_t longest;        /* tokens of the longest */
    struct wn_rng rng;
};

struct wn_mix_read {
    const struct wn_mix_options *o;
    const struct wn_job *job;
    struct wn_mix_judge judge;
    uint64_t bytes, total; /* read, of all files */
};

/* Finds the documents of a source: into the pile, and counted in t. */
WN_CHECKED bool wn_mix_find(struct wn_mix_read *r, const struct wn_mix_source *s, struct wn_mix_pile *pile,
                            struct wn_mix_taken *t, struct wn_err *err);

/* One file that is open for reading documents at their places. All zero: none. */
struct wn_mix_open {
    struct wn_file file;
    const char *path; /* NULL: none is open */
    struct wn_buf bytes;
};
/* The document's text; free it. WN_ERR_FORMAT when it is not any more what was found. */
WN_CHECKED char *wn_mix_fetch(struct wn_mix_open *open, const struct wn_mix_pile *pile, const struct wn_mix_document *d,
                              struct wn_err *err);
void wn_mix_close(struct wn_mix_open *open);

/* Sources and scripts that are nearly absent. */
WN_CHECKED bool wn_mix_warn(struct wn_mix_result *r, struct wn_err *err);

#endif
