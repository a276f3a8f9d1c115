/*
 * The work folder of a walk (walk.h): the activations of all tokens between two layers, and what finished layers gave.
 *
 *     winnow.lock    held while a run works here
 *     state.json     what the run is made of: model, corpus, settings; the mark of a folder that is ours
 *     stream-LLL     the running stream as it enters layer LLL, f32 [token][hidden]; complete when it has its name;
 *                    behind it the SHA-256 of that
 *     layer-LLL      the record of a finished layer
 *
 * (A job of several walks gives their streams other numbers, and its steps records of their own.)
 *
 * A layer is finished when its record is there: it is put in place (whole, durable) only after the stream that leaves
 * the layer. So whenever a run is killed, the next one goes on behind the last record and nothing is computed twice. A
 * stream that a layer banks (AttnRes) is that layer's bank for all later ones, so it is kept, and no bank is written
 * twice; the others go as soon as the next one and the record are in place.
 *
 * Streams can be held in memory besides (store_held.c). They are written all the same, so that a killed run can be
 * taken up, but not read.
 *
 * One thread at a time.
 */
#ifndef WN_JOBS_STREAM_STORE_H
#define WN_JOBS_STREAM_STORE_H

#include "base/bytes.h"
#include "formats/source.h"
#include "jobs/fingerprint.h"
#include "jobs/talk.h"
#include "sys/file.h"

/* One thing that must not change between a run and the one that takes it up. */
struct wn_store_fact {
    const char *what; /* "model": a word for a person, and a key in state.json */
    char value[64];
};

/* All of them; the first says which kind of work it is. All zero: none yet. */
#define WN_STORE_FACTS 12
struct wn_store_facts {
    struct wn_store_fact fact[WN_STORE_FACTS];
    size_t n;
};
/* store_facts.c: one more, as printf would say it; what a model is known by: its headers, and a sample of its data. */
void wn_store_know(struct wn_store_facts *f, const char *what, const char *fmt, ...) WN_PRINTF(3, 4);
WN_CHECKED bool wn_store_know_model(struct wn_store_facts *f, const struct wn_source *s, struct wn_err *err);

/* How a folder is opened: what its run is made of, and what becomes of what another run left there. */
struct wn_store_open {
    struct wn_store_facts facts;
    enum {
        WN_LEFT_REFUSED,  /* the first fact that differs is named as the reason */
        WN_LEFT_REPLACED, /* noted, and thrown away; work of another kind is refused */
        WN_LEFT_CLEARED,  /* thrown away, even the same run's */
        WN_LEFT_FINISHED, /* as it is, to be removed: see wn_store_tidy */
    } left;
    const struct wn_job *job; /* is told the note */
};

/* A stream that is in memory, too. */
struct wn_held {
    float *data; /* owned; NULL: not allocated yet */
    uint32_t layer;
    enum { WN_HELD_FREE, WN_HELD_FILLING, WN_HELD_WHOLE } state;
};

struct wn_store {
    char *folder; /* owned, like all pointers here */
    struct wn_lock lock;
    bool made;                    /* the folder was not there before */
    uint64_t token_bytes, tokens; /* a stream's shape */
    struct wn_file *stream;       /* [stream_count] open for reading: the entering stream's banks, then itself */
    const float **memory; /* [stream_count] where the stream is in memory; NULL: in its file, which then is open */
    size_t stream_count;
    struct wn_held *held;        /* [held_count] */
    size_t held_count;           /* 0: nothing is held */
    struct wn_outfile out;       /* the leaving stream ... */
    struct wn_fingerprint print; /* ... and what it is known by */
};

/*
 * Makes the folder, or takes it up. Refused: one that another run holds (WN_ERR_BUSY), one that was made with other
 * facts unless `left` says otherwise, one with something in it that no run left there. Files of other names are never
 * touched.
 */
WN_CHECKED bool wn_store_open(struct wn_store *s, const char *folder, const struct wn_store_open *o,
                              struct wn_err *err);
/* Closes what is open and keeps the folder. Does nothing to a struct that is all zero. */
void wn_store_close(struct wn_store *s);
/* Removes winnow's files, the folder too when a run made it and nothing else is in it, and closes. */
void wn_store_remove(struct wn_store *s);

/* What a run is for: a file, made of what the facts tell and, if it is not NULL, of one more. */
struct wn_store_product {
    const char *out, *from;
    bool overwrite;
};
/* Writes the product to path, which it may overwrite. */
typedef bool wn_store_write_fn(void *arg, const char *path, struct wn_err *err);
/*
 * The end of a run: the product is written (as OUT.part), gets its name, and the folder goes, as wn_store_remove has
 * it. When the run is killed anywhere behind the naming, the folder tells that it was finished.
 */
WN_CHECKED bool wn_store_finish(struct wn_store *s, const struct wn_store_product *p, wn_store_write_fn *write,
                                void *arg, struct wn_err *err);
/* Path of the folder of a run that makes `out`: the one that was named, or if that is NULL, OUT.work. Free it. */
WN_CHECKED char *wn_store_folder(const char *named, const char *out, struct wn_err *err);
/*
 * Before a run: *left, the product is there, and so is the folder, which some run left that had made it: wn_store_tidy
 * tells which. A bare folder beside the product goes.
 */
WN_CHECKED bool wn_store_look(const char *named, const struct wn_store_product *p, bool *left, struct wn_err *err);
/* *finished: it was a run with the facts of o. Then what it left in the folder is removed, and o->job is told. */
WN_CHECKED bool wn_store_tidy(const char *folder, const struct wn_store_product *p, struct wn_store_open *o,
                              bool *finished, struct wn_err *err);

/* Refused (WN_ERR_IO) when the folder's file system has no room for so many bytes. */
WN_CHECKED bool wn_store_check_room(const struct wn_store *s, uint64_t bytes, struct wn_err *err);

/* The shape of all streams; to be called before any is touched. */
void wn_store_shape(struct wn_store *s, uint64_t tokens, uint64_t token_bytes);

/*
 * From now on up to `streams` streams are held in memory; more than that may not be there at a time (banks, what enters
 * a layer, what leaves it). Memory is taken as it is needed. The second lets go of all of them.
 */
WN_CHECKED bool wn_store_hold(struct wn_store *s, size_t streams, struct wn_err *err);
void wn_store_let_go(struct wn_store *s);

bool wn_store_has_stream(const struct wn_store *s, uint32_t layer);
bool wn_store_has_record(const struct wn_store *s, uint32_t layer);

/* Opens streams [n] (numbers of layers) for reading, in that order. A wrong size is refused. */
WN_CHECKED bool wn_store_open_streams(struct wn_store *s, const uint32_t *layers, size_t n, struct wn_err *err);
void wn_store_close_streams(struct wn_store *s);
/* Reads a whole stream and refuses one that is not what was written. */
WN_CHECKED bool wn_store_check_stream(const struct wn_store *s, uint32_t layer, const struct wn_job *job,
                                      struct wn_err *err);
/* Tokens first .. first + n - 1 of the i-th open stream. */
WN_CHECKED bool wn_store_read(const struct wn_store *s, size_t i, uint64_t first, size_t n, float *dst,
                              struct wn_err *err);

/* Writes the stream that enters `layer`, from its first token to its last, then commits it. */
WN_CHECKED bool wn_store_begin_stream(struct wn_store *s, uint32_t layer, struct wn_err *err);
WN_CHECKED bool wn_store_write(struct wn_store *s, size_t n, const float *src, struct wn_err *err);
WN_CHECKED bool wn_store_commit_stream(struct wn_store *s, struct wn_err *err);
void wn_store_drop_stream(struct wn_store *s, uint32_t layer);

/* A finished layer's record, with a checksum behind it. read: a new string of exactly n bytes. */
WN_CHECKED bool wn_store_put_record(struct wn_store *s, uint32_t layer, struct wn_bytes record, struct wn_err *err);
WN_CHECKED char *wn_store_get_record(const struct wn_store *s, uint32_t layer, size_t n, struct wn_err *err);

#endif
