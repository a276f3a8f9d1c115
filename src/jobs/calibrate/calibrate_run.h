/*
 * A calibration run and its parts: what is taken up of an earlier one (calibrate_resume.c), and the walk over all
 * tokens (calibrate_layers.c). The whole is in calibrate.c.
 */
#ifndef WN_JOBS_CALIBRATE_CALIBRATE_RUN_H
#define WN_JOBS_CALIBRATE_CALIBRATE_RUN_H

#include "jobs/calibrate/calibrate_parts.h"
#include "jobs/stream/store.h"

struct wn_calibration_run {
    struct wn_calibration c;
    const struct wn_job *job;
    struct wn_pool *pool;
    struct wn_store store;
    struct wn_saliency sums;
    struct wn_calibration_buffers buffers;
    struct wn_records records;
    struct wn_ctx ctx;
    char *record; /* [record_bytes]: a layer's sums, and its means behind them */
    size_t sum_bytes, record_bytes;
    struct wn_calibrate_result result;
};

/* *finished: this run was gone through already, and killed while it tidied up, which is done then. */
WN_CHECKED bool wn_calibration_tidy(struct wn_calibration_run *r, const struct wn_store_product *p, bool *finished,
                                    struct wn_err *err);
/* Opens the work folder, which must be new or that of the same run. */
WN_CHECKED bool wn_calibration_open_store(struct wn_calibration_run *r, struct wn_err *err);
/* Loads the records of the layers that are finished, and sees that the disk can hold what is to come. */
WN_CHECKED bool wn_calibration_take_up(struct wn_calibration_run *r, struct wn_err *err);

/* The embeddings, if need be, and every layer that is not finished. */
WN_CHECKED bool wn_calibration_run_layers(struct wn_calibration_run *r, struct wn_err *err);

/* The means of all layers, which are in the work folder. r stays where it is. */
struct wn_mean_source wn_calibration_means(struct wn_calibration_run *r);

#endif
