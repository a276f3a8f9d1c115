/*
 * npz archives: a list of named arrays in memory, read from a zip. libzip does the zip, from the file's map.
 * npz_part.c reads an array piece by piece; npz_write.c writes.
 */
#include "formats/npz_parts.h"
#include "formats/npy_header.h"
#include "formats/npy_io.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/checked.h"
#include "sys/file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SMALLEST_ZIP   22   /* the end record of an empty archive */
#define DEFLATE_FACTOR 1032 /* no deflated byte stands for more than that */

void wn_npz_release(struct wn_npz *z)
{
    for (size_t i = 0; i < z->n; i++) {
        free(z->entry[i].name);
        wn_npy_release(&z->entry[i].array);
    }
    free(z->entry);
    *z = (struct wn_npz){0};
}

const struct wn_npy *wn_npz_find(const struct wn_npz *z, const char *name)
{
    for (size_t i = 0; i < z->n; i++)
        if (strcmp(z->entry[i].name, name) == 0)
            return &z->entry[i].array;
    return NULL;
}

bool wn_npz_add(struct wn_npz *z, const char *name, struct wn_npy *a, struct wn_err *err)
{
    void *grown;
    char *copy;

    if (wn_npz_find(z, name))
        return wn_fail(err, WN_ERR_ARG, "two arrays named '%s'", name);
    grown = wn_realloc(z->entry, z->n + 1, sizeof *z->entry, err);
    if (!grown)
        return false;
    z->entry = grown;
    copy = wn_strdup(name, err);
    if (!copy)
        return false;
    z->entry[z->n].name = copy;
    z->entry[z->n].fill = NULL;
    z->entry[z->n].fill_arg = NULL;
    z->entry[z->n++].array = *a;
    *a = (struct wn_npy){0};
    return true;
}

bool wn_npz_fail(struct wn_err *err, zip_error_t *e)
{
    bool memory = zip_error_code_zip(e) == ZIP_ER_MEMORY;

    return wn_fail(err, memory ? WN_ERR_NOMEM : WN_ERR_FORMAT, "zip: %s", zip_error_strerror(e));
}

bool wn_npz_entry_bytes(void *arg, void *dst, size_t n, struct wn_err *err)
{
    zip_file_t *f = arg;
    char *p = dst;

    while (n > 0) {
        zip_int64_t got = zip_fread(f, p, n);

        if (got < 0)
            return wn_npz_fail(err, zip_file_get_error(f));
        if (got == 0)
            return wn_fail(err, WN_ERR_FORMAT, "the data ends %zu bytes early", n);
        p += got;
        n -= (size_t)got;
    }
    return true;
}

/* libzip compares the checksum when it reads the end. */
bool wn_npz_check_end(zip_file_t *f, struct wn_err *err)
{
    char more;
    zip_int64_t got = zip_fread(f, &more, 1);

    if (got < 0)
        return wn_npz_fail(err, zip_file_get_error(f));
    return got == 0 || wn_fail(err, WN_ERR_FORMAT, "there is data behind the array");
}

bool wn_npz_check_claims(const zip_stat_t *st, size_t archive_bytes, struct wn_err *err)
{
    const zip_uint64_t wanted = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    uint64_t most;

    if ((st->valid & wanted) != wanted || st->comp_size > archive_bytes)
        return wn_fail(err, WN_ERR_FORMAT, "bad sizes in the archive's directory");
    if (st->comp_method != ZIP_CM_STORE && st->comp_method != ZIP_CM_DEFLATE)
        return wn_fail(err, WN_ERR_FORMAT, "compression method %u, wanted stored or deflated", st->comp_method);
    most = st->comp_method == ZIP_CM_STORE ? st->comp_size : st->comp_size * DEFLATE_FACTOR;
    if (st->size > most)
        return wn_fail(err, WN_ERR_FORMAT, "%" PRIu64 " bytes cannot come out of %" PRIu64, (uint64_t)st->size,
                       (uint64_t)st->comp_size);
    return true;
}

/* Kind and shape alone. */
static bool read_head(struct wn_npy *a, const struct wn_npy_input *in, bool *known, struct wn_err *err)
{
    struct wn_npy_header h;
    uint64_t used;

    if (!wn_npy_read_head(&h, in, &used, err))
        return false;
    *known = h.known;
    *a = wn_npy_of_header(&h);
    return true;
}

static bool read_array(zip_t *zip, zip_uint64_t i, const zip_stat_t *st, bool head_only, struct wn_npy *a, bool *known,
                       struct wn_err *err)
{
    struct wn_npy_input in = {wn_npz_entry_bytes, NULL, st->size};
    char descr[24];
    zip_file_t *f = zip_fopen_index(zip, i, 0);
    bool ok;

    if (!f)
        return wn_npz_fail(err, zip_get_error(zip));
    in.arg = f;
    ok = head_only ? read_head(a, &in, known, err) : wn_npy_read_from(a, &in, known, descr, err);
    if (ok && *known && !head_only && !wn_npz_check_end(f, err)) {
        wn_npy_release(a);
        ok = false;
    }
    (void)zip_fclose(f);
    return ok;
}

/*
 * Entry i into z; entries without ".npy" or of dtypes without use here are passed over. `but` comes without its data.
 */
static bool read_entry(struct wn_npz *z, zip_t *zip, zip_uint64_t i, size_t archive_bytes, const char *but,
                       struct wn_err *err)
{
    struct wn_npy a = {0};
    zip_stat_t st;
    size_t n;
    bool known, ok;
    char *name;

    if (zip_stat_index(zip, i, 0, &st) != 0)
        return wn_npz_fail(err, zip_get_error(zip));
    if (!(st.valid & ZIP_STAT_NAME))
        return true;
    n = strlen(st.name);
    if (n <= 4 || !wn_ends_with(st.name, ".npy"))
        return true;
    name = wn_strndup(st.name, n - 4, err);
    if (!name)
        return false;
    ok = wn_npz_check_claims(&st, archive_bytes, err) &&
         read_array(zip, i, &st, but && strcmp(name, but) == 0, &a, &known, err) &&
         (!known || wn_npz_add(z, name, &a, err));
    wn_npy_release(&a);
    if (!ok && err->code == WN_ERR_ARG) /* what is a caller's mistake elsewhere is the file's here */
        err->code = WN_ERR_FORMAT;
    if (!ok)
        wn_fail_in(err, "array '%s'", name);
    free(name);
    return ok;
}

zip_t *wn_npz_open_zip(const void *bytes, size_t n, struct wn_err *err)
{
    zip_error_t e;
    zip_source_t *source;
    zip_t *zip;

    if (n < SMALLEST_ZIP) {
        wn_fail(err, WN_ERR_FORMAT, "not an npz archive: only %zu bytes", n);
        return NULL;
    }
    zip_error_init(&e);
    source = zip_source_buffer_create(bytes, n, 0, &e);
    zip = source ? zip_open_from_source(source, ZIP_RDONLY, &e) : NULL;
    if (!zip) {
        zip_source_free(source);
        wn_npz_fail(err, &e);
    }
    zip_error_fini(&e);
    return zip;
}

static bool parse(struct wn_npz *z, const void *bytes, size_t n, const char *but, struct wn_err *err)
{
    zip_t *zip = wn_npz_open_zip(bytes, n, err);
    bool ok = true;

    *z = (struct wn_npz){0};
    if (!zip)
        return false;
    for (zip_int64_t i = 0, count = zip_get_num_entries(zip, 0); ok && i < count; i++)
        ok = read_entry(z, zip, (zip_uint64_t)i, n, but, err);
    zip_discard(zip);
    if (!ok)
        wn_npz_release(z);
    return ok;
}

bool wn_npz_parse(struct wn_npz *z, const void *bytes, size_t n, struct wn_err *err)
{
    return parse(z, bytes, n, NULL, err);
}

bool wn_npz_read(struct wn_npz *z, const char *path, struct wn_err *err)
{
    return wn_npz_read_but(z, path, NULL, err);
}

bool wn_npz_read_but(struct wn_npz *z, const char *path, const char *but, struct wn_err *err)
{
    struct wn_file file;
    bool ok;

    *z = (struct wn_npz){0};
    if (!wn_file_open(&file, path, err))
        return false;
    ok = wn_file_map(&file, err) && (parse(z, file.map, (size_t)file.bytes, but, err) || wn_fail_in(err, "'%s'", path));
    wn_file_close(&file);
    return ok;
}
