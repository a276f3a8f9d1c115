/* npy arrays in memory: making them, strings in and out, numbers as double or int64. Files are in npy_io.c. */
#include "formats/npz.h"
#include "formats/npy_header.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/utf8.h"
#include "quant/quant.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__BYTE_ORDER__)
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arrays are kept as the files have them");
#endif

void wn_npy_release(struct wn_npy *a)
{
    free(a->data);
    *a = (struct wn_npy){0};
}

bool wn_npy_shape(struct wn_npy *a, enum wn_npy_kind kind, uint32_t width, uint32_t dims, const uint64_t *shape,
                  struct wn_err *err)
{
    uint64_t item = wn_npy_item_bytes(kind, width), bytes;

    *a = (struct wn_npy){.kind = kind, .width = width, .dims = dims};
    assert((kind == WN_NPY_UNICODE) == (width > 0));
    if (dims > WN_NPY_DIMS)
        return wn_fail(err, WN_ERR_ARG, "an array of %" PRIu32 " dimensions; npy files get at most %d here", dims,
                       WN_NPY_DIMS);
    for (uint32_t i = 0; i < dims; i++)
        a->shape[i] = shape[i];
    return (wn_npy_count(dims, a->shape, &a->elements) && wn_mul_u64(a->elements, item, &bytes) && bytes <= SIZE_MAX) ||
           wn_fail(err, WN_ERR_ARG, "an array of more than 2^64 bytes");
}

bool wn_npy_init(struct wn_npy *a, enum wn_npy_kind kind, uint32_t width, uint32_t dims, const uint64_t *shape,
                 struct wn_err *err)
{
    if (!wn_npy_shape(a, kind, width, dims, shape, err))
        return false;
    a->data = wn_alloc((size_t)a->elements, (size_t)wn_npy_item_bytes(kind, width), err);
    return a->data != NULL;
}

static const uint8_t *item_at(const struct wn_npy *a, uint64_t i)
{
    assert(i < a->elements);
    return (const uint8_t *)a->data + i * wn_npy_item_bytes(a->kind, a->width);
}

static uint32_t code_at(const uint8_t *item, uint32_t i)
{
    uint32_t code;

    memcpy(&code, item + 4 * (size_t)i, 4);
    return code;
}

bool wn_npy_get_string(const struct wn_npy *a, uint64_t i, char *out, size_t size, struct wn_err *err)
{
    const uint8_t *item = item_at(a, i);
    uint32_t n = a->width;
    size_t used = 0;

    assert(a->kind == WN_NPY_UNICODE && size > 0);
    while (n > 0 && code_at(item, n - 1) == 0)
        n--;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t code = code_at(item, k);
        char utf8[4];
        size_t len;

        if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
            return wn_fail(err, WN_ERR_FORMAT, "string %" PRIu64 " has character %" PRIu32 ", which is none", i, code);
        len = wn_utf8_encode(code, utf8);
        if (len >= size - used)
            return wn_fail(err, WN_ERR_FORMAT, "string %" PRIu64 " is longer than %zu bytes", i, size - 1);
        memcpy(out + used, utf8, len);
        used += len;
    }
    out[used] = '\0';
    return true;
}

bool wn_npy_set_string(struct wn_npy *a, uint64_t i, const char *utf8, struct wn_err *err)
{
    uint8_t *item = (uint8_t *)a->data + (item_at(a, i) - (const uint8_t *)a->data);
    size_t left = strlen(utf8);
    const char *s = utf8;

    assert(a->kind == WN_NPY_UNICODE);
    memset(item, 0, 4 * (size_t)a->width);
    for (uint32_t k = 0; left > 0; k++) {
        uint32_t code;
        size_t len = wn_utf8_decode(s, left, &code);

        if (len == 0)
            return wn_fail(err, WN_ERR_ARG, "'%s' is not UTF-8", utf8);
        if (k == a->width)
            return wn_fail(err, WN_ERR_ARG, "'%s' has more than %" PRIu32 " characters", utf8, a->width);
        memcpy(item + 4 * (size_t)k, &code, 4);
        s += len;
        left -= len;
    }
    return true;
}

bool wn_npy_as_f64(const struct wn_npy *a, uint64_t i, double *v)
{
    const uint8_t *item = item_at(a, i);
    int64_t whole;
    float f;

    switch (a->kind) {
    case WN_NPY_F64:
        memcpy(v, item, sizeof *v);
        return true;
    case WN_NPY_F32:
        memcpy(&f, item, sizeof f);
        *v = (double)f;
        return true;
    case WN_NPY_F16:
        wn_quant_decoder(WN_F16)(item, &f, 1);
        *v = (double)f;
        return true;
    default:
        if (!wn_npy_as_i64(a, i, &whole))
            return false;
        *v = (double)whole;
        return true;
    }
}

/* A whole number within int64; the comparisons are false for NaN. */
static bool whole_number(double v, int64_t *whole)
{
    if (!(v >= -0x1p63 && v < 0x1p63) || v != floor(v))
        return false;
    *whole = (int64_t)v;
    return true;
}

bool wn_npy_as_i64(const struct wn_npy *a, uint64_t i, int64_t *v)
{
    const uint8_t *item = item_at(a, i);
    int32_t small;
    double real;

    switch (a->kind) {
    case WN_NPY_F64:
    case WN_NPY_F32:
    case WN_NPY_F16:
        return wn_npy_as_f64(a, i, &real) && whole_number(real, v);
    case WN_NPY_I64:
        memcpy(v, item, sizeof *v);
        return true;
    case WN_NPY_I32:
        memcpy(&small, item, sizeof small);
        *v = small;
        return true;
    case WN_NPY_U8:
        *v = *item;
        return true;
    case WN_NPY_BOOL:
        *v = *item != 0;
        return true;
    case WN_NPY_UNICODE:
        break;
    }
    return false;
}
