/*
 * Logits of every position, written row by row as they are computed. See winnow/logits.h.
 */
#include <winnow/logits.h>

#include "formats/npy_header.h"
#include "jobs/talk.h"
#include "sys/file.h"

struct writer {
    struct wn_outfile out;
    const struct wn_job *job;
    size_t count;
    size_t row_bytes;
    struct wn_err err; /* why failed is set */
    bool failed;
};

static bool write_row(void *arg, uint64_t position, const float *logits)
{
    struct writer *w = arg;

    if (!wn_outfile_write(&w->out, logits, w->row_bytes, &w->err)) {
        w->failed = true;
        return false;
    }
    w->failed = !wn_job_progress(w->job, "computing logits", position + 1, w->count, "tokens", &w->err);
    return !w->failed;
}

static bool write_header(struct writer *w, uint32_t vocab_size, struct wn_err *err)
{
    struct wn_npy shape = {.kind = WN_NPY_F32, .dims = 2, .shape = {w->count, vocab_size}};
    struct wn_buf header = {0};
    bool ok = wn_npy_header_make(&shape, &header, err) && wn_outfile_write(&w->out, header.at, header.n, err);

    wn_buf_release(&header);
    return ok;
}

/* wn_watch_fn: a chunk of a large model takes minutes before its first row is written. */
static bool on_layer(void *arg, uint64_t position, uint32_t layer)
{
    struct writer *w = arg;

    (void)layer;
    w->failed = !wn_job_progress(w->job, "computing logits", position, w->count, "tokens", &w->err);
    return !w->failed;
}

static bool compute(struct writer *w, struct wn_session *s, const uint32_t *ids, struct wn_err *err)
{
    wn_session_watch(s, on_layer, w);
    if (wn_session_feed(s, ids, w->count, write_row, w, err))
        return true;
    if (w->failed)
        *err = w->err;
    return false;
}

bool wn_logits_write(const struct wn_model *m, const struct wn_weights *weights, struct wn_pool *pool,
                     const uint32_t *ids, size_t count, const char *path, bool overwrite, const struct wn_job *job,
                     struct wn_err *err)
{
    uint32_t vocab_size = wn_model_config(m)->vocab_size;
    struct writer w = {.job = job, .count = count, .row_bytes = vocab_size * sizeof(float)};
    struct wn_session_options o;
    struct wn_session *s;
    bool ok;

    if (count == 0)
        return wn_fail(err, WN_ERR_ARG, "no token ids: there are no logits to compute");
    if (count > UINT32_MAX)
        return wn_fail(err, WN_ERR_ARG, "%zu token ids are more than a session can hold", count);
    if (!wn_outfile_may_open(path, overwrite, err) || !wn_output_spares(path, NULL, 0, m, err))
        return false;
    o = (struct wn_session_options){.context = (uint32_t)count};
    s = wn_session_new(m, weights, pool, &o, err);
    if (!s)
        return false;
    ok = wn_outfile_open(&w.out, path, overwrite, err);
    if (ok) {
        ok = write_header(&w, vocab_size, err) && compute(&w, s, ids, err);
        if (ok)
            ok = wn_outfile_commit(&w.out, err);
        else
            wn_outfile_abandon(&w.out);
    }
    wn_session_free(s);
    return ok;
}
