/*
 * npy bytes to arrays and back. Reading goes magic, length, dict, sizes, and only then memory for the data; numbers
 * that have no kind of their own are widened, Fortran order is turned.
 */
#include "formats/npy_io.h"
#include "formats/npy_header.h"
#include "base/bits.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "quant/quant.h"
#include "sys/file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_MAX (1u << 20) /* numpy itself refuses more than 10 000 bytes of dict */

/* Magic, version and dict; *used counts their bytes. */
static bool read_header(struct wn_npy_header *h, const struct wn_npy_input *in, uint64_t *used, struct wn_err *err)
{
    uint8_t start[12];
    unsigned length_bytes;
    uint64_t length;
    char *text;
    bool ok;

    if (in->bytes < sizeof start)
        return wn_fail(err, WN_ERR_FORMAT, "not an npy array: only %" PRIu64 " bytes", in->bytes);
    if (!in->read(in->arg, start, 8, err))
        return false;
    if (memcmp(start, "\x93NUMPY", 6) != 0)
        return wn_fail(err, WN_ERR_FORMAT, "not an npy array: it does not start with its magic");
    if (start[6] < 1 || start[6] > 3 || start[7] != 0)
        return wn_fail(err, WN_ERR_FORMAT, "npy format %u.%u, wanted 1.0, 2.0 or 3.0", start[6], start[7]);
    length_bytes = start[6] == 1 ? 2 : 4;
    if (!in->read(in->arg, start + 8, length_bytes, err))
        return false;
    length = wn_load_le(start + 8, length_bytes);
    *used = 8 + length_bytes + length;
    if (length > HEADER_MAX || *used > in->bytes)
        return wn_fail(err, WN_ERR_FORMAT, "npy header of %" PRIu64 " bytes in %" PRIu64, length, in->bytes);
    text = wn_alloc((size_t)length, 1, err);
    ok = text && in->read(in->arg, text, (size_t)length, err) &&
         wn_npy_header_parse(h, (struct wn_bytes){text, (size_t)length}, err);
    free(text);
    return ok;
}

static bool widen_u64(int64_t *to, const uint8_t *from, uint64_t n, struct wn_err *err)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t v = wn_load64(from + 8 * i);

        if (v > INT64_MAX)
            return wn_fail(err, WN_ERR_FORMAT,
                           "element %" PRIu64 " of a '<u8' array is %" PRIu64 ", more than int64 holds", i, v);
        to[i] = (int64_t)v;
    }
    return true;
}

/* Fills a from bytes in the file's number type. */
static bool widen(struct wn_npy *a, enum wn_npy_stored stored, const uint8_t *from, struct wn_err *err)
{
    int32_t *i32 = a->data;
    int64_t *i64 = a->data;

    switch (stored) {
    case WN_NPY_FROM_F16:
        wn_quant_decoder(WN_F16)(from, a->data, (size_t)a->elements);
        break;
    case WN_NPY_FROM_I8:
        for (uint64_t i = 0; i < a->elements; i++)
            i32[i] = (int8_t)from[i]; /* NOLINT(bugprone-signed-char-misuse): a number, not a character */
        break;
    case WN_NPY_FROM_I16:
        for (uint64_t i = 0; i < a->elements; i++)
            i32[i] = (int16_t)wn_load16(from + 2 * i);
        break;
    case WN_NPY_FROM_U16:
        for (uint64_t i = 0; i < a->elements; i++)
            i32[i] = wn_load16(from + 2 * i);
        break;
    case WN_NPY_FROM_U32:
        for (uint64_t i = 0; i < a->elements; i++)
            i64[i] = wn_load32(from + 4 * i);
        break;
    case WN_NPY_FROM_U64:
        return widen_u64(i64, from, a->elements, err);
    case WN_NPY_AS_IS:
        break;
    }
    return true;
}

/* Element positions in C order, each with its place in Fortran order (first index fastest). */
static void turn(const struct wn_npy *a, const uint8_t *from, uint8_t *to, size_t item)
{
    uint64_t index[WN_NPY_DIMS] = {0}, stride[WN_NPY_DIMS] = {1}, place = 0;

    for (uint32_t d = 1; d < a->dims; d++)
        stride[d] = stride[d - 1] * a->shape[d - 1];
    for (uint64_t i = 0; i < a->elements; i++) {
        memcpy(to + i * item, from + place * item, item);
        for (uint32_t d = a->dims; d-- > 0;) {
            place += stride[d];
            if (++index[d] < a->shape[d])
                break;
            place -= stride[d] * a->shape[d];
            index[d] = 0;
        }
    }
}

static bool turn_to_c_order(struct wn_npy *a, struct wn_err *err)
{
    size_t item = (size_t)wn_npy_item_bytes(a->kind, a->width);
    uint8_t *turned;

    if (a->dims < 2)
        return true;
    turned = wn_alloc((size_t)a->elements, item, err);
    if (!turned)
        return false;
    turn(a, a->data, turned, item);
    free(a->data);
    a->data = turned;
    return true;
}

/* The data into a, whose kind and shape are set. */
static bool read_data(struct wn_npy *a, const struct wn_npy_header *h, const struct wn_npy_input *in,
                      struct wn_err *err)
{
    uint8_t *raw;
    bool ok;

    if (h->stored == WN_NPY_AS_IS)
        return in->read(in->arg, a->data, (size_t)h->bytes, err);
    raw = wn_alloc((size_t)h->bytes, 1, err);
    ok = raw && in->read(in->arg, raw, (size_t)h->bytes, err) && widen(a, h->stored, raw, err);
    free(raw);
    return ok;
}

bool wn_npy_read_head(struct wn_npy_header *h, const struct wn_npy_input *in, uint64_t *used, struct wn_err *err)
{
    if (!read_header(h, in, used, err))
        return false;
    return !h->known || h->bytes == in->bytes - *used ||
           wn_fail(err, WN_ERR_FORMAT, "%" PRIu64 " bytes of data, but shape and dtype '%s' ask for %" PRIu64,
                   in->bytes - *used, h->descr, h->bytes);
}

bool wn_npy_read_from(struct wn_npy *a, const struct wn_npy_input *in, bool *known, char descr[24], struct wn_err *err)
{
    struct wn_npy_header h;
    uint64_t used;

    *a = (struct wn_npy){0};
    if (!wn_npy_read_head(&h, in, &used, err))
        return false;
    *known = h.known;
    memcpy(descr, h.descr, sizeof h.descr);
    if (!h.known)
        return true;
    if (wn_npy_init(a, h.kind, h.width, h.dims, h.shape, err) && read_data(a, &h, in, err) &&
        (!h.fortran || turn_to_c_order(a, err)))
        return true;
    wn_npy_release(a);
    return false;
}

static bool read_known(struct wn_npy *a, const struct wn_npy_input *in, struct wn_err *err)
{
    char descr[24];
    bool known;

    if (!wn_npy_read_from(a, in, &known, descr, err))
        return false;
    return known || wn_fail(err, WN_ERR_FORMAT, "arrays of dtype '%s' are not read here", descr);
}

static bool read_memory(void *arg, void *dst, size_t n, struct wn_err *err)
{
    struct wn_bytes *left = arg;

    if (n > left->n)
        return wn_fail(err, WN_ERR_FORMAT, "%zu bytes wanted, %zu left", n, left->n);
    if (n > 0)
        memcpy(dst, left->at, n);
    left->at += n;
    left->n -= n;
    return true;
}

bool wn_npy_parse(struct wn_npy *a, const void *bytes, size_t n, struct wn_err *err)
{
    struct wn_bytes left = {bytes, n};
    const struct wn_npy_input in = {read_memory, &left, n};

    return read_known(a, &in, err);
}

struct file_place {
    struct wn_file file;
    uint64_t at;
};

static bool read_file(void *arg, void *dst, size_t n, struct wn_err *err)
{
    struct file_place *p = arg;

    if (!wn_file_read(&p->file, p->at, dst, n, err))
        return false;
    p->at += n;
    return true;
}

bool wn_npy_read(struct wn_npy *a, const char *path, struct wn_err *err)
{
    struct file_place p = {.at = 0};
    struct wn_npy_input in = {read_file, &p, 0};
    bool ok;

    *a = (struct wn_npy){0};
    if (!wn_file_open(&p.file, path, err))
        return false;
    in.bytes = p.file.bytes;
    ok = read_known(a, &in, err) || wn_fail_in(err, "'%s'", path);
    wn_file_close(&p.file);
    return ok;
}

bool wn_npy_write(const struct wn_npy *a, const char *path, bool overwrite, struct wn_err *err)
{
    size_t bytes = (size_t)(a->elements * wn_npy_item_bytes(a->kind, a->width));
    struct wn_buf header = {0};
    struct wn_outfile out = {0};
    bool ok = wn_npy_header_make(a, &header, err) && wn_outfile_open(&out, path, overwrite, err);

    if (ok) {
        ok = wn_outfile_write(&out, header.at, header.n, err) && wn_outfile_write(&out, a->data, bytes, err) &&
             wn_outfile_commit(&out, err);
        if (!ok)
            wn_outfile_abandon(&out);
    }
    wn_buf_release(&header);
    return ok;
}
