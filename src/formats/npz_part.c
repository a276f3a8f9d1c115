/*
 * One array of an npz read in parts. The archive is mapped; pages that were read are given back at once, so that an
 * array larger than memory can be gone through.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "formats/npy_header.h"
#include "formats/npy_io.h"
#include "formats/npz_parts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#define SKIP_STEP ((size_t)1 << 20)
#define NOWHERE   UINT64_MAX /* after a failure */

static bool open_entry(struct wn_npz_part *p, struct wn_err *err)
{
    if (p->entry)
        (void)zip_fclose(p->entry);
    p->entry = zip_fopen_index(p->zip, p->index, 0);
    p->at = 0;
    return p->entry || wn_npz_fail(err, zip_get_error(p->zip));
}

/* Reads n bytes of the entry and forgets them. */
static bool skip(struct wn_npz_part *p, uint64_t n, struct wn_err *err)
{
    uint8_t *step = wn_alloc(SKIP_STEP, 1, err);
    bool ok = step != NULL;

    for (uint64_t done = 0; ok && done < n; done += SKIP_STEP) {
        ok = wn_npz_entry_bytes(p->entry, step, (size_t)wn_min_u64(SKIP_STEP, n - done), err);
        wn_file_dont_need(&p->file, 0, p->file.bytes);
    }
    free(step);
    return ok;
}

static bool take_header(struct wn_npz_part *p, uint64_t entry_bytes, struct wn_err *err)
{
    const struct wn_npy_input in = {wn_npz_entry_bytes, p->entry, entry_bytes};
    struct wn_npy_header h;

    if (!wn_npy_read_head(&h, &in, &p->head, err))
        return false;
    if (!h.known || h.fortran || (h.stored != WN_NPY_AS_IS && h.stored != WN_NPY_FROM_F16))
        return wn_fail(err, WN_ERR_FORMAT, "arrays of dtype '%s'%s cannot be read in parts", h.descr,
                       h.fortran ? " in Fortran order" : "");
    p->array = wn_npy_of_header(&h);
    p->bytes = h.bytes;
    return true;
}

static bool open_array(struct wn_npz_part *p, struct wn_err *err)
{
    zip_stat_t st;

    if (zip_stat_index(p->zip, p->index, 0, &st) != 0)
        return wn_npz_fail(err, zip_get_error(p->zip));
    return wn_npz_check_claims(&st, (size_t)p->file.bytes, err) && open_entry(p, err) && take_header(p, st.size, err) &&
           skip(p, p->bytes, err) && wn_npz_check_end(p->entry, err) && open_entry(p, err);
}

static bool find_array(struct wn_npz_part *p, const char *name, bool *there, struct wn_err *err)
{
    char *file_name = wn_asprintf(err, "%s.npy", name);
    zip_int64_t index;

    if (!file_name)
        return false;
    index = zip_name_locate(p->zip, file_name, 0);
    free(file_name);
    *there = index >= 0;
    p->index = *there ? (uint64_t)index : 0;
    return !*there || open_array(p, err) || wn_fail_in(err, "array '%s'", name);
}

bool wn_npz_part_open(struct wn_npz_part *p, const char *path, const char *name, bool *there, struct wn_err *err)
{
    bool ok;

    *p = (struct wn_npz_part){0};
    *there = false;
    if (!wn_file_open(&p->file, path, err))
        return false;
    ok = wn_file_map(&p->file, err) && (p->zip = wn_npz_open_zip(p->file.map, (size_t)p->file.bytes, err)) &&
         find_array(p, name, there, err);
    if (!ok || !*there)
        wn_npz_part_close(p);
    return ok || wn_fail_in(err, "'%s'", path);
}

/* Stored entries can be gone about in; others are read anew up to there. */
static bool go_to(struct wn_npz_part *p, uint64_t to, struct wn_err *err)
{
    if (p->at == to || (p->entry && zip_fseek(p->entry, (zip_int64_t)to, SEEK_SET) == 0))
        return true;
    return open_entry(p, err) && skip(p, to, err);
}

bool wn_npz_part_read(struct wn_npz_part *p, uint64_t at, void *dst, size_t n, struct wn_err *err)
{
    bool ok;

    assert(at <= p->bytes && n <= p->bytes - at);
    ok = go_to(p, p->head + at, err) && wn_npz_entry_bytes(p->entry, dst, n, err);
    p->at = ok ? p->head + at + n : NOWHERE;
    wn_file_dont_need(&p->file, 0, p->file.bytes);
    return ok || wn_fail_in(err, "'%s'", p->file.path);
}

void wn_npz_part_close(struct wn_npz_part *p)
{
    if (p->entry)
        (void)zip_fclose(p->entry);
    if (p->zip)
        zip_discard(p->zip);
    if (p->file.path)
        wn_file_close(&p->file);
    *p = (struct wn_npz_part){0};
}
