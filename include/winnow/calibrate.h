/*
 * Saliency, streamed layer by layer: one layer of weights and the activations of the calibration set, never the model.
 *
 * The activations lie in a work folder on disk. A run that was stopped, killed or cut off goes on behind the last layer
 * that it finished, and ends with the same archive, byte for byte. The archive depends on the model, the corpus and its
 * cutting, and on nothing else: not on threads, memory or interruptions.
 */
#ifndef WINNOW_CALIBRATE_H
#define WINNOW_CALIBRATE_H

#include <winnow/job.h>
#include <winnow/model.h>
#include <winnow/pool.h>

struct wn_calibrate_need;
typedef bool wn_calibrate_need_fn(void *arg, const struct wn_calibrate_need *need);

struct wn_calibrate_options {
    const char *corpus; /* JSONL of {"source","text"} (or "tokens": [ids]); or plain text, its source then "text" */
    const char *out;    /* SAL.npz; must not exist unless overwrite */
    bool overwrite;
    uint32_t sequence;   /* tokens; 0: 512. Texts of one source are joined and cut; what is left over is dropped */
    uint64_t max_tokens; /* 0: all. Taken evenly from the front of the corpus, so the mix stays */
    const char *work;    /* folder of the resumable state (its parent must exist); NULL: OUT.work. Removed when done */
    bool fresh;          /* ignore what an earlier run left */
    bool means;          /* the archive has the mean output of every expert, too */
    uint64_t ram;        /* bytes; 0: no limit. A need above it is refused with the smallest workable number */
    /* Told by wn_calibrate what the run takes, before anything is written; false stops it there. May be NULL. */
    wn_calibrate_need_fn *told;
    void *told_arg;
};

/*
 * What a run takes. peak is the largest resident set of the whole process: what it holds when the run begins (program,
 * tables of the model, the corpus' ids: base), and on top the mapped and owned bytes of the largest layer, the scratch
 * and the records. Activations are read and written through buffers that are part of the scratch; the system's file
 * cache is not counted. Where `ram` has room for all of them they are held in memory and read from there; they are
 * written in any case, so that the run can be taken up. Under `ram` fewer tokens go through a layer at a time, which
 * makes the scratch smaller.
 */
struct wn_calibrate_need {
    uint64_t sequences, tokens, sources;
    uint64_t activations; /* bytes on disk at most: of all tokens the banks, and what enters and leaves a layer */
    uint64_t held;        /* of those, bytes in memory besides: all where `ram` allows for it, otherwise 0 */
    uint64_t model_read;  /* bytes of the model's files that the layers and the embedding have; each is read once */
    uint64_t moved;       /* bytes of activations read and written in all, mostly within the system's file cache */
    uint64_t layer;       /* largest layer */
    uint64_t means;       /* bytes of mean outputs in the archive, and at most in the work folder before; 0: none */
    uint64_t scratch, records, base, peak;
    uint32_t chunk; /* tokens at a time */
};

struct wn_calibrate_result {
    struct wn_calibrate_need need;
    uint32_t layers_done, layers_resumed; /* computed by this run; taken over from an earlier one */
    double seconds;
};

/* What the job will take, without running it: for a dry run. Reads the corpus and binds all layers. */
WN_API WN_CHECKED bool wn_calibrate_plan(const struct wn_model *m, unsigned threads,
                                         const struct wn_calibrate_options *o, struct wn_calibrate_need *need,
                                         struct wn_err *err);

/*
 * How fast the model's files are read here: up to 64 pieces of 4 MiB from all over them, for half a second at most.
 * What the system holds in its cache is read from there, as a run would. *bytes_per_second is 0 when there was nothing
 * to read.
 */
WN_API WN_CHECKED bool wn_calibrate_read_speed(const struct wn_model *m, double *bytes_per_second, struct wn_err *err);

/*
 * Runs it. Canceled (WN_ERR_CANCELED) or failed, it leaves the work folder, and the same call goes on from there; a
 * folder left by a run with another model, corpus or setting is refused (WN_ERR_ARG, naming what differs) unless
 * `fresh`. Only one run at a time may use a work folder. Pages of the model's files are dropped as layers are done, so
 * sessions of the same model slow down while this runs.
 */
WN_API WN_CHECKED bool wn_calibrate(const struct wn_model *m, struct wn_pool *pool,
                                    const struct wn_calibrate_options *o, const struct wn_job *job,
                                    struct wn_calibrate_result *result, struct wn_err *err);

#endif
