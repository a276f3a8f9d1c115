/* See archive_arrays.h. */
#include "jobs/calibrate/archive_arrays.h"

#include "base/alloc.h"
#include "base/bytes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static bool fail_shape(const char *key, const struct wn_npy *a, uint32_t dims, const uint64_t *shape,
                       struct wn_err *err)
{
    char text[2][128];

    for (int k = 0; k < 2; k++) {
        const uint64_t *side = k ? a->shape : shape;
        uint32_t n = k ? a->dims : dims;
        size_t used = 0;

        text[k][0] = 0;
        for (uint32_t i = 0; i < n && used < sizeof(text[k]) - 24; i++)
            used += (size_t)snprintf(text[k] + used, sizeof(text[k]) - used, "%s%" PRIu64, i ? ", " : "", side[i]);
    }
    return wn_fail(err, WN_ERR_FORMAT, "'%s' has shape [%s], wanted [%s]", key, text[1], text[0]);
}

/* *a is the array of that key and shape, or NULL when there is none. */
static bool find_shaped(const struct wn_npz *z, const char *key, uint32_t dims, const uint64_t *shape,
                        const struct wn_npy **a, struct wn_err *err)
{
    *a = wn_npz_find(z, key);
    if (!*a)
        return true;
    if ((*a)->kind == WN_NPY_UNICODE)
        return wn_fail(err, WN_ERR_FORMAT, "'%s' holds text, wanted numbers", key);
    if ((*a)->dims != dims)
        return fail_shape(key, *a, dims, shape, err);
    for (uint32_t i = 0; i < dims; i++)
        if ((*a)->shape[i] != shape[i])
            return fail_shape(key, *a, dims, shape, err);
    return true;
}

bool wn_archive_find_room(const struct wn_npz *z, const char *key, uint32_t dims, const uint64_t *shape, size_t size,
                          const struct wn_npy **a, void **room, struct wn_err *err)
{
    *room = NULL;
    if (!find_shaped(z, key, dims, shape, a, err))
        return false;
    if (*a)
        *room = wn_alloc((*a)->elements, size, err);
    return !*a || *room;
}

bool wn_archive_take_sums(const struct wn_npz *z, const char *key, uint32_t dims, const uint64_t *shape, double **dst,
                          struct wn_err *err)
{
    const struct wn_npy *a;
    void *room;

    if (!wn_archive_find_room(z, key, dims, shape, sizeof(**dst), &a, &room, err))
        return false;
    *dst = room;
    for (uint64_t i = 0; a && i < a->elements; i++) {
        if (!wn_npy_as_f64(a, i, &(*dst)[i]) || !isfinite((*dst)[i]) || (*dst)[i] < 0)
            return wn_fail(err, WN_ERR_FORMAT, "'%s': entry %" PRIu64 " is not a finite number >= 0", key, i);
    }
    return true;
}

bool wn_archive_take_counts(const struct wn_npz *z, const char *key, uint32_t dims, const uint64_t *shape,
                            uint64_t **dst, struct wn_err *err)
{
    const struct wn_npy *a;
    void *room;
    int64_t v;

    if (!wn_archive_find_room(z, key, dims, shape, sizeof(**dst), &a, &room, err))
        return false;
    *dst = room;
    for (uint64_t i = 0; a && i < a->elements; i++) {
        if (!wn_npy_as_i64(a, i, &v) || v < 0)
            return wn_fail(err, WN_ERR_FORMAT, "'%s': entry %" PRIu64 " is not a whole number >= 0", key, i);
        (*dst)[i] = (uint64_t)v;
    }
    return true;
}

bool wn_archive_take_number(const struct wn_npz *z, const char *key, uint64_t *value, struct wn_err *err)
{
    const struct wn_npy *a = wn_npz_find(z, key);
    int64_t v;

    if (!a)
        return true;
    if (a->elements != 1 || !wn_npy_as_i64(a, 0, &v) || v < 0)
        return wn_fail(err, WN_ERR_FORMAT, "'%s' is not one whole number >= 0", key);
    *value = (uint64_t)v;
    return true;
}

bool wn_archive_take_text(const struct wn_npz *z, const char *key, char *out, size_t size, struct wn_err *err)
{
    const struct wn_npy *a = wn_npz_find(z, key);

    out[0] = 0;
    return !a || a->kind != WN_NPY_UNICODE || a->elements != 1 || wn_npy_get_string(a, 0, out, size, err);
}

/* Hands the array over, or releases it. */
static bool add(struct wn_npz *z, const char *key, struct wn_npy *a, struct wn_err *err)
{
    if (wn_npz_add(z, key, a, err))
        return true;
    wn_npy_release(a);
    return false;
}

/* Adds an array of values that have the same bytes in memory and in the file; NULL adds nothing. */
static bool put_as_is(struct wn_npz *z, const char *key, enum wn_npy_kind kind, size_t size, const void *values,
                      uint32_t dims, const uint64_t *shape, struct wn_err *err)
{
    struct wn_npy a;

    if (!values)
        return true;
    if (!wn_npy_init(&a, kind, 0, dims, shape, err))
        return false;
    memcpy(a.data, values, (size_t)a.elements * size);
    return add(z, key, &a, err);
}

bool wn_archive_put_f64(struct wn_npz *z, const char *key, const double *values, uint32_t dims, const uint64_t *shape,
                        struct wn_err *err)
{
    return put_as_is(z, key, WN_NPY_F64, sizeof *values, values, dims, shape, err);
}

bool wn_archive_put_i64(struct wn_npz *z, const char *key, const uint64_t *values, uint32_t dims, const uint64_t *shape,
                        struct wn_err *err)
{
    return put_as_is(z, key, WN_NPY_I64, sizeof *values, values, dims, shape, err);
}

bool wn_archive_put_flags(struct wn_npz *z, const char *key, const uint8_t *values, uint32_t dims,
                          const uint64_t *shape, struct wn_err *err)
{
    return put_as_is(z, key, WN_NPY_U8, sizeof *values, values, dims, shape, err);
}

bool wn_archive_put_counts(struct wn_npz *z, const char *key, const uint64_t *values, uint32_t dims,
                           const uint64_t *shape, struct wn_err *err)
{
    struct wn_npy a;

    if (!values)
        return true;
    if (!wn_npy_init(&a, WN_NPY_F64, 0, dims, shape, err))
        return false;
    for (uint64_t i = 0; i < a.elements; i++)
        ((double *)a.data)[i] = (double)values[i];
    return add(z, key, &a, err);
}

bool wn_archive_put_number(struct wn_npz *z, const char *key, uint64_t value, struct wn_err *err)
{
    return wn_archive_put_i64(z, key, &value, 0, NULL, err);
}

bool wn_archive_put_texts(struct wn_npz *z, const char *key, const char *const *texts, uint32_t dims,
                          const uint64_t *shape, struct wn_err *err)
{
    struct wn_npy a;
    uint64_t n = dims ? shape[0] : 1;
    size_t width = 1;

    /* a text has at most as many characters as bytes */
    for (uint64_t i = 0; i < n; i++)
        width = strlen(texts[i]) > width ? strlen(texts[i]) : width;
    if (!wn_npy_init(&a, WN_NPY_UNICODE, (uint32_t)width, dims, shape, err))
        return false;
    for (uint64_t i = 0; i < n; i++) {
        if (!wn_npy_set_string(&a, i, texts[i], err)) {
            wn_npy_release(&a);
            return false;
        }
    }
    return add(z, key, &a, err);
}

bool wn_archive_put_text(struct wn_npz *z, const char *key, const char *text, struct wn_err *err)
{
    return !*text || wn_archive_put_texts(z, key, &text, 0, NULL, err);
}
