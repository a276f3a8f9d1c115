/*
 * Making a calibration corpus: texts of several sources, mixed by shares of TOKENS, so that any prefix of the output
 * has the mix of the whole (docs/formats/corpus.md). What calibrate reads is what comes out.
 *
 * The inputs are read twice: once to find the documents (cut to a sequence's length, and judged), once to write those
 * that were drawn. Between the two an index is held, 32 bytes a document, and of the inputs never more than one line,
 * or 1.3 MB.
 */
#ifndef WINNOW_CORPUS_H
#define WINNOW_CORPUS_H

#include <winnow/job.h>
#include <winnow/vocab.h>

#define WN_MIX_DOCUMENT_TOKENS 2048 /* where nobody says otherwise */

struct wn_mix_source {
    char *label;
    char *from;   /* lines of JSONL with this "source" are taken, "*": all; NULL: with the label, or without any */
    char **paths; /* [path_count] files, folders (walked), or patterns of the shell */
    size_t path_count;
    double share; /* > 0; of the sum of all */
};

/* What is wanted. All zero is an empty one; the struct is the caller's, what is inside is owned by it. */
struct wn_mix_spec {
    struct wn_mix_source *sources; /* [count] */
    size_t count, room;
    size_t percents;          /* how many shares were given in per cent: all or none, and then they are 100 together */
    uint64_t tokens;          /* of all; 0: as many as the scarcest source allows */
    uint32_t document_tokens; /* 0: WN_MIX_DOCUMENT_TOKENS */
    uint64_t seed;            /* of the order in which a source's documents are drawn */
    char *model;              /* whose tokens are meant, as a SPEC.json says; NULL: it does not */
};

/*
 * Adds "LABEL=PATH[,PATH...][:SHARE]"; SHARE is a number or "40%", and 1 where it is absent. WN_ERR_ARG says what is
 * wrong.
 */
WN_API WN_CHECKED bool wn_mix_spec_add(struct wn_mix_spec *spec, const char *text, struct wn_err *err);
/* Adds what a SPEC.json says; its paths are looked for in its own folder. Keys that are not known are refused. */
WN_API WN_CHECKED bool wn_mix_spec_read(struct wn_mix_spec *spec, const char *path, struct wn_err *err);
WN_API void wn_mix_spec_release(struct wn_mix_spec *spec);

/* Why a document is left out. */
enum wn_mix_drop {
    WN_MIX_BLANK,
    WN_MIX_NOT_UTF8,
    WN_MIX_REPLACED,       /* U+FFFD: something was lost when it was decoded */
    WN_MIX_CONTROL,        /* control characters other than white space */
    WN_MIX_DOUBLE_ENCODED, /* UTF-8 that was taken for Latin-1 and encoded again */
    WN_MIX_REPEATS,        /* nearly all of it stands in it before */
    WN_MIX_DROPS
};
/* "not UTF-8", for a person. */
WN_API const char *wn_mix_drop_name(enum wn_mix_drop why);

/*
 * Scripts are numbered 0 (characters of no script: digits, signs, spaces) to WN_MIX_SCRIPTS - 1 (scripts without a
 * number).
 */
#define WN_MIX_SCRIPTS 28
WN_API const char *wn_mix_script_name(unsigned script);

struct wn_mix_count {
    uint64_t documents, bytes, tokens;
};

struct wn_mix_taken {
    const char *label; /* the spec's */
    double share;      /* wanted, of 1 */
    uint64_t files;
    struct wn_mix_count had, got;              /* fit to be taken, and taken */
    struct wn_mix_count dropped[WN_MIX_DROPS]; /* tokens: 0 */
    uint64_t other;                            /* lines of JSONL that are of another source */
    uint64_t chars[WN_MIX_SCRIPTS];            /* of what was taken */
    uint64_t tokens[WN_MIX_SCRIPTS];           /* a token is of the script of its first character that has one */
};

struct wn_mix_result {
    struct wn_mix_taken *sources; /* [count]; owned */
    size_t count;
    uint64_t possible;       /* tokens that the scarcest source allows */
    size_t scarcest;         /* which one */
    struct wn_mix_count got; /* of all; bytes of text */
    uint32_t longest;        /* tokens of the longest document taken */
    uint64_t out_bytes;      /* of the file */
    char **warnings;         /* [warning_count] sentences; owned */
    size_t warning_count;
};

struct wn_mix_options {
    const struct wn_mix_spec *spec;
    const struct wn_vocab *vocab;
    const char *out; /* NULL: all is done but the writing */
    bool overwrite;
    bool unfiltered; /* only what is blank or not UTF-8 is left out */
};

/*
 * The same inputs, spec and vocabulary make the same bytes. After any document, no source is further ahead of its share
 * of what is written so far than a document is long, nor (as far as was tried) further behind.
 *
 * Refused (WN_ERR_ARG): a source without documents, more tokens than the sources have, an output that is an input.
 * WN_ERR_FORMAT, with the line's number: JSONL that is none, or without a text; a file that changed meanwhile. *r is
 * the caller's to release, and empty on failure. One thread.
 */
WN_API WN_CHECKED bool wn_mix(const struct wn_mix_options *o, const struct wn_job *job, struct wn_mix_result *r,
                              struct wn_err *err);
WN_API void wn_mix_result_release(struct wn_mix_result *r);

#endif
