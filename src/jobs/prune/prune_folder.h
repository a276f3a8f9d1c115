/*
 * The files of a model folder that are not weights: config.json is edited, tokenizer, licence and the like are copied
 * byte for byte. GGUF models have none.
 */
#ifndef WN_JOBS_PRUNE_PRUNE_FOLDER_H
#define WN_JOBS_PRUNE_PRUNE_FOLDER_H

#include "base/bytes.h"
#include "formats/safetensors_index.h"
#include "formats/sink.h"
#include "jobs/prune/keep.h"
#include "jobs/convert/recast.h"
#include <winnow/prune.h>

struct wn_folder {
    char **copied; /* names, sorted; owned */
    size_t n;
    uint64_t bytes; /* of all of them */
    bool has_config;
    struct wn_buf config; /* config.json of the output */
};

/*
 * Whether the model was named by its folder, so that all in it belongs to it. Of a single file's folder only the files
 * that a model is known to have do.
 */
bool wn_folder_is_whole(const struct wn_source *s);

/*
 * Lists what goes along with the weights of k's source and makes the config. What stays behind (folders, pipes, weights
 * that are no part of the model, hidden files) is told by job->note; job may be NULL.
 */
WN_CHECKED bool wn_folder_init(struct wn_folder *f, const struct wn_keep *k, const struct wn_plan *plan,
                               const struct wn_job *job, struct wn_err *err);
/* After init, for an MLX folder: the config is made anew (wn_recast_config). */
WN_CHECKED bool wn_folder_recast(struct wn_folder *f, const struct wn_keep *k, const struct wn_recast_out *made,
                                 const char *plan_name, struct wn_err *err);
void wn_folder_release(struct wn_folder *f);

/* Writes what is copied beside the sink's weights; and config.json, which comes last. */
WN_CHECKED bool wn_folder_write(const struct wn_folder *f, const struct wn_keep *k, struct wn_sink *sink,
                                struct wn_err *err);
WN_CHECKED bool wn_folder_write_config(const struct wn_folder *f, struct wn_sink *sink, struct wn_err *err);

#endif
