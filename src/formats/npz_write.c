/*
 * npz archives written: every array behind the header that numpy.save gives it, as an entry of a zip (zip_out.h).
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "formats/npy_header.h"
#include "formats/npz_parts.h"

#include <assert.h>
#include <stdlib.h>

#define FILL_STEP ((size_t)1 << 20)

bool wn_npz_add_filled(struct wn_npz *z, const char *name, const struct wn_npy *a, wn_npz_fill_fn *fill, void *arg,
                       struct wn_err *err)
{
    struct wn_npy copy = *a;

    assert(!a->data);
    if (!wn_npz_add(z, name, &copy, err))
        return false;
    z->entry[z->n - 1].fill = fill;
    z->entry[z->n - 1].fill_arg = arg;
    return true;
}

static bool add_filled(struct wn_zip_out *out, wn_npz_fill_fn *fill, void *arg, uint64_t bytes, struct wn_err *err)
{
    uint8_t *step = wn_alloc(FILL_STEP, 1, err);
    bool ok = step != NULL;

    for (uint64_t at = 0; ok && at < bytes; at += FILL_STEP) {
        size_t n = (size_t)wn_min_u64(FILL_STEP, bytes - at);

        ok = fill(arg, at, step, n, err) && wn_zip_out_add(out, step, n, err);
    }
    free(step);
    return ok;
}

bool wn_npz_put_entry(struct wn_zip_out *out, const struct wn_npz *z, size_t i, struct wn_err *err)
{
    const struct wn_npy *a = &z->entry[i].array;
    uint64_t bytes = a->elements * wn_npy_item_bytes(a->kind, a->width);
    char *name = wn_asprintf(err, "%s.npy", z->entry[i].name);
    struct wn_buf header = {0};
    bool ok = name && wn_npy_header_make(a, &header, err) && wn_zip_out_begin(out, name, header.n + bytes, err) &&
              wn_zip_out_add(out, header.at, header.n, err);

    if (ok && bytes > 0)
        ok = z->entry[i].fill ? add_filled(out, z->entry[i].fill, z->entry[i].fill_arg, bytes, err)
                              : wn_zip_out_add(out, a->data, (size_t)bytes, err);
    wn_buf_release(&header);
    free(name);
    return ok || wn_fail_in(err, "array '%s'", z->entry[i].name);
}

bool wn_npz_write(const struct wn_npz *z, const char *path, bool overwrite, struct wn_err *err)
{
    struct wn_zip_out out;
    bool ok = true;

    assert(z->n > 0);
    if (!wn_zip_out_open(&out, path, overwrite, err))
        return false;
    for (size_t i = 0; ok && i < z->n; i++)
        ok = wn_npz_put_entry(&out, z, i, err);
    if (ok)
        return wn_zip_out_commit(&out, err);
    wn_zip_out_abandon(&out);
    return wn_fail_in(err, "'%s'", path);
}
