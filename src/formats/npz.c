/*
 * npz archives: a list of named arrays in memory, read from a zip and written as one. libzip reads from and writes to
 * memory; files go through sys/file.h, so an archive appears whole or not at all.
 *
 * Entries are stored, not deflated, and carry the first date that a zip can have: the same arrays give the same bytes
 * with every version of zlib and at any hour.
 */
#include "formats/npz.h"
#include "formats/npy_header.h"
#include "formats/npy_io.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/checked.h"
#include "sys/file.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#define FIRST_DATE     0x21 /* 1980-01-01: month 1 in bits 5-8, day 1 in bits 0-4 */
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
    z->entry[z->n++].array = *a;
    *a = (struct wn_npy){0};
    return true;
}

static bool fail_zip(struct wn_err *err, zip_error_t *e)
{
    bool memory = zip_error_code_zip(e) == ZIP_ER_MEMORY;

    return wn_fail(err, memory ? WN_ERR_NOMEM : WN_ERR_FORMAT, "zip: %s", zip_error_strerror(e));
}

static bool read_entry_bytes(void *arg, void *dst, size_t n, struct wn_err *err)
{
    zip_file_t *f = arg;
    char *p = dst;

    while (n > 0) {
        zip_int64_t got = zip_fread(f, p, n);

        if (got < 0)
            return fail_zip(err, zip_file_get_error(f));
        if (got == 0)
            return wn_fail(err, WN_ERR_FORMAT, "the data ends %zu bytes early", n);
        p += got;
        n -= (size_t)got;
    }
    return true;
}

/* libzip compares the checksum when it reads the end. */
static bool check_end(zip_file_t *f, struct wn_err *err)
{
    char more;
    zip_int64_t got = zip_fread(f, &more, 1);

    if (got < 0)
        return fail_zip(err, zip_file_get_error(f));
    return got == 0 || wn_fail(err, WN_ERR_FORMAT, "there is data behind the array");
}

/* The size that an entry claims must be one that its bytes in the archive can have. */
static bool check_claims(const zip_stat_t *st, size_t archive_bytes, struct wn_err *err)
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

static bool read_array(zip_t *zip, zip_uint64_t i, const zip_stat_t *st, struct wn_npy *a, bool *known,
                       struct wn_err *err)
{
    struct wn_npy_input in = {read_entry_bytes, NULL, st->size};
    char descr[24];
    zip_file_t *f = zip_fopen_index(zip, i, 0);
    bool ok;

    if (!f)
        return fail_zip(err, zip_get_error(zip));
    in.arg = f;
    ok = wn_npy_read_from(a, &in, known, descr, err);
    if (ok && *known && !check_end(f, err)) {
        wn_npy_release(a);
        ok = false;
    }
    (void)zip_fclose(f);
    return ok;
}

/* Entry i into z; entries without ".npy" or of dtypes without use here are passed over. */
static bool read_entry(struct wn_npz *z, zip_t *zip, zip_uint64_t i, size_t archive_bytes, struct wn_err *err)
{
    struct wn_npy a = {0};
    zip_stat_t st;
    size_t n;
    bool known, ok;
    char *name;

    if (zip_stat_index(zip, i, 0, &st) != 0)
        return fail_zip(err, zip_get_error(zip));
    if (!(st.valid & ZIP_STAT_NAME))
        return true;
    n = strlen(st.name);
    if (n <= 4 || !wn_ends_with(st.name, ".npy"))
        return true;
    name = wn_strndup(st.name, n - 4, err);
    if (!name)
        return false;
    ok = check_claims(&st, archive_bytes, err) && read_array(zip, i, &st, &a, &known, err) &&
         (!known || wn_npz_add(z, name, &a, err));
    wn_npy_release(&a);
    if (!ok && err->code == WN_ERR_ARG) /* what is a caller's mistake elsewhere is the file's here */
        err->code = WN_ERR_FORMAT;
    if (!ok)
        wn_fail_in(err, "array '%s'", name);
    free(name);
    return ok;
}

bool wn_npz_parse(struct wn_npz *z, const void *bytes, size_t n, struct wn_err *err)
{
    zip_error_t e;
    zip_source_t *source;
    zip_t *zip;
    bool ok = true;

    *z = (struct wn_npz){0};
    if (n < SMALLEST_ZIP)
        return wn_fail(err, WN_ERR_FORMAT, "not an npz archive: only %zu bytes", n);
    zip_error_init(&e);
    source = zip_source_buffer_create(bytes, n, 0, &e);
    zip = source ? zip_open_from_source(source, ZIP_RDONLY, &e) : NULL;
    if (!zip) {
        zip_source_free(source);
        fail_zip(err, &e);
        zip_error_fini(&e);
        return false;
    }
    for (zip_int64_t i = 0, count = zip_get_num_entries(zip, 0); ok && i < count; i++)
        ok = read_entry(z, zip, (zip_uint64_t)i, n, err);
    zip_discard(zip);
    zip_error_fini(&e);
    if (!ok)
        wn_npz_release(z);
    return ok;
}

bool wn_npz_read(struct wn_npz *z, const char *path, struct wn_err *err)
{
    struct wn_file file;
    bool ok;

    *z = (struct wn_npz){0};
    if (!wn_file_open(&file, path, err))
        return false;
    ok = wn_file_map(&file, err) &&
         (wn_npz_parse(z, file.map, (size_t)file.bytes, err) || wn_fail_in(err, "'%s'", path));
    wn_file_close(&file);
    return ok;
}

/* What is borrowed by libzip until zip_close: the headers. The arrays' data are the caller's. */
struct headers {
    struct wn_buf *buf; /* owned */
    size_t n;
};

static void release_headers(struct headers *h)
{
    for (size_t i = 0; h->buf && i < h->n; i++)
        wn_buf_release(&h->buf[i]);
    free(h->buf);
}

static bool add_entry(zip_t *zip, const char *name, const struct wn_npy *a, struct wn_buf *header, struct wn_err *err)
{
    char *file_name = wn_asprintf(err, "%s.npy", name);
    zip_buffer_fragment_t parts[2];
    zip_source_t *source;
    zip_int64_t at = -1;

    if (!file_name || !wn_npy_header_make(a, header, err)) {
        free(file_name);
        return false;
    }
    parts[0] = (zip_buffer_fragment_t){(zip_uint8_t *)header->at, header->n};
    parts[1] = (zip_buffer_fragment_t){a->data, a->elements * wn_npy_item_bytes(a->kind, a->width)};
    source = zip_source_buffer_fragment(zip, parts, parts[1].length ? 2 : 1, 0);
    if (source) {
        at = zip_file_add(zip, file_name, source, ZIP_FL_ENC_UTF_8);
        if (at < 0)
            zip_source_free(source);
    }
    free(file_name);
    if (at < 0 || zip_set_file_compression(zip, (zip_uint64_t)at, ZIP_CM_STORE, 0) != 0 ||
        zip_file_set_dostime(zip, (zip_uint64_t)at, 0, FIRST_DATE, 0) != 0)
        return fail_zip(err, zip_get_error(zip));
    return true;
}

/* The archive's bytes into `to`, which is the caller's reference to an empty buffer source. */
static bool fill(const struct wn_npz *z, zip_source_t *to, zip_error_t *e, struct wn_err *err)
{
    struct headers headers = {wn_alloc(z->n, sizeof *headers.buf, err), z->n};
    zip_t *zip = headers.buf ? zip_open_from_source(to, ZIP_CREATE | ZIP_TRUNCATE, e) : NULL;
    bool ok = zip != NULL;

    if (!headers.buf)
        return false;
    if (zip)
        zip_source_keep(to); /* zip_close drops the one that opening took */
    else
        fail_zip(err, e);
    for (size_t i = 0; ok && i < z->n; i++)
        ok = add_entry(zip, z->entry[i].name, &z->entry[i].array, &headers.buf[i], err) ||
             wn_fail_in(err, "array '%s'", z->entry[i].name);
    if (ok && zip_close(zip) != 0)
        ok = fail_zip(err, zip_get_error(zip));
    else if (ok)
        zip = NULL;
    if (zip)
        zip_discard(zip);
    release_headers(&headers);
    return ok;
}

/* All bytes of a source in new memory. */
static bool drain(zip_source_t *from, uint8_t **bytes, size_t *n, struct wn_err *err)
{
    zip_stat_t st;
    bool ok;

    if (zip_source_stat(from, &st) != 0 || !(st.valid & ZIP_STAT_SIZE) || zip_source_open(from) != 0)
        return fail_zip(err, zip_source_error(from));
    *n = (size_t)st.size;
    *bytes = wn_alloc(*n, 1, err);
    ok = *bytes != NULL;
    if (ok && zip_source_read(from, *bytes, *n) != (zip_int64_t)*n)
        ok = fail_zip(err, zip_source_error(from));
    (void)zip_source_close(from);
    return ok;
}

bool wn_npz_write(const struct wn_npz *z, const char *path, bool overwrite, struct wn_err *err)
{
    zip_error_t e;
    zip_source_t *source;
    uint8_t *bytes = NULL;
    size_t n;
    bool ok;

    assert(z->n > 0); /* libzip writes no file for an empty archive */
    if (!overwrite && wn_path_exists(path))
        return wn_fail(err, WN_ERR_ARG, "'%s' exists already", path);
    zip_error_init(&e);
    source = zip_source_buffer_create(NULL, 0, 0, &e);
    ok = source ? fill(z, source, &e, err) && drain(source, &bytes, &n, err) : fail_zip(err, &e);
    if (source)
        zip_source_free(source);
    zip_error_fini(&e);
    ok = ok ? wn_file_put(path, bytes, n, overwrite, err) : wn_fail_in(err, "'%s'", path);
    free(bytes);
    return ok;
}
