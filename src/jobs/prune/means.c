/* See means.h. */
#include "jobs/prune/means.h"
#include "base/alloc.h"
#include "base/bits.h"
#include "jobs/calibrate/saliency_means.h"
#include "jobs/hashing.h"
#include <winnow/config.h>

#include <inttypes.h>
#include <stdlib.h>

/* Far above any model; no product of them overflows. */
#define WIDTH_MAX (1u << 20)

static bool take_shape(struct wn_means *m, struct wn_err *err)
{
    const struct wn_npy *a = &m->part.array;

    if (a->kind != WN_NPY_F16 || a->dims != 3 || a->elements == 0 || a->shape[0] > WN_LAYERS_MAX ||
        a->shape[1] > WN_EXPERTS_MAX || a->shape[2] > WIDTH_MAX)
        return wn_fail(err, WN_ERR_FORMAT, "'%s' is no array of 16-bit floats by layer, expert and channel",
                       WN_MEANS_KEY);
    m->layers = (uint32_t)a->shape[0];
    m->experts = (uint32_t)a->shape[1];
    m->width = (uint32_t)a->shape[2];
    return true;
}

/* What the archive says of itself is little beside the means, which are not read here. */
static bool take_fingerprint(struct wn_means *m, const char *path, struct wn_err *err)
{
    const struct wn_npy *model;
    struct wn_npz z;
    bool ok = wn_npz_read_but(&z, path, WN_MEANS_KEY, err);

    if (!ok)
        return false;
    model = wn_npz_find(&z, "winnow_model");
    ok = !model || model->kind != WN_NPY_UNICODE || model->elements != 1 ||
         wn_npy_get_string(model, 0, m->model_fingerprint, sizeof m->model_fingerprint, err);
    wn_npz_release(&z);
    return ok;
}

static bool open_part(struct wn_means *m, const char *path, struct wn_err *err)
{
    bool there;

    if (!wn_npz_part_open(&m->part, path, WN_MEANS_KEY, &there, err))
        return false;
    if (!there)
        return wn_fail(err, WN_ERR_ARG, "'%s' has no means of outputs, which 'calibrate --means' writes", path);
    if (!take_shape(m, err))
        return wn_fail_in(err, "'%s'", path);
    m->rows = wn_alloc((size_t)m->experts * m->width, 2, err);
    return m->rows != NULL;
}

struct wn_means *wn_means_open(const char *path, struct wn_err *err)
{
    struct wn_means *m = wn_alloc(1, sizeof *m, err);
    uint8_t digest[WN_DIGEST_BYTES];

    if (!m)
        return NULL;
    if (wn_hash_file(path, digest, err) && open_part(m, path, err) && take_fingerprint(m, path, err)) {
        wn_hash_text(digest, WN_DIGEST_BYTES, m->sha256);
        return m;
    }
    wn_means_close(m);
    return NULL;
}

void wn_means_close(struct wn_means *m)
{
    if (!m)
        return;
    wn_npz_part_close(&m->part);
    free(m->rows);
    free(m);
}

uint64_t wn_means_memory(const struct wn_means *m)
{
    return m ? (uint64_t)2 * m->experts * m->width : 0;
}

static bool read_layer(struct wn_means *m, uint32_t layer, struct wn_err *err)
{
    size_t n = (size_t)m->experts * m->width;

    if (!wn_npz_part_read(&m->part, 2 * n * layer, m->rows, 2 * n, err))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!wn_means_finite(wn_load16(m->rows + 2 * i)))
            return wn_fail(err, WN_ERR_FORMAT,
                           "'%s': the mean output of expert %zu in layer %" PRIu32 " is not finite (channel %zu)",
                           m->part.file.path, i / m->width, layer, i % m->width);
    return true;
}

bool wn_means_fit(const struct wn_means *m, uint32_t layers, uint32_t experts, uint32_t width, struct wn_err *err)
{
    return (m->layers == layers && m->experts == experts && m->width == width) ||
           wn_fail(err, WN_ERR_ARG,
                   "its means are of %" PRIu32 " layers, %" PRIu32 " experts and %" PRIu32
                   " channels, the model has %" PRIu32 ", %" PRIu32 " and %" PRIu32,
                   m->layers, m->experts, m->width, layers, experts, width);
}

static bool need_layer(struct wn_means *m, uint32_t layer, struct wn_err *err)
{
    if (!m->read || m->layer != layer) {
        m->read = read_layer(m, layer, err);
        m->layer = layer;
    }
    return m->read;
}

bool wn_means_check(struct wn_means *m, struct wn_err *err)
{
    for (uint32_t i = 0; i < m->layers; i++)
        if (!need_layer(m, i, err))
            return false;
    return true;
}

const uint8_t *wn_means_row(struct wn_means *m, uint32_t layer, uint32_t expert, struct wn_err *err)
{
    if (layer >= m->layers || expert >= m->experts) {
        wn_fail(err, WN_ERR_ARG, "the archive has no mean of expert %" PRIu32 " of layer %" PRIu32, expert, layer);
        return NULL;
    }
    return need_layer(m, layer, err) ? m->rows + (size_t)2 * m->width * expert : NULL;
}
