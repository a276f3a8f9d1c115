/* An npz archive copied entry by entry, with some arrays new (npz.h). */
#include "base/alloc.h"
#include "base/checked.h"
#include "formats/npz_parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define COPY_STEP ((size_t)1 << 20)

struct copying {
    struct wn_file from;
    zip_t *zip;
    uint8_t *step; /* [COPY_STEP] */
    struct wn_zip_out out;
};

static bool is_new(const struct wn_npz *z, const char *file_name)
{
    size_t n = strlen(file_name);

    if (!wn_ends_with(file_name, ".npy"))
        return false;
    for (size_t i = 0; i < z->n; i++)
        if (strlen(z->entry[i].name) == n - 4 && memcmp(file_name, z->entry[i].name, n - 4) == 0)
            return true;
    return false;
}

static bool copy_bytes(struct copying *c, zip_file_t *f, uint64_t bytes, struct wn_err *err)
{
    for (uint64_t at = 0; at < bytes; at += COPY_STEP) {
        size_t n = (size_t)wn_min_u64(COPY_STEP, bytes - at);

        if (!wn_npz_entry_bytes(f, c->step, n, err) || !wn_zip_out_add(&c->out, c->step, n, err))
            return false;
        wn_file_dont_need(&c->from, 0, c->from.bytes);
    }
    return wn_npz_check_end(f, err);
}

/* Names of other characters would need a flag that zip_out.h does not set. */
static bool is_plain(const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] < ' ' || (unsigned char)name[i] > '~')
            return false;
    return n > 0 && n <= UINT16_MAX;
}

static bool copy_entry(struct copying *c, zip_uint64_t i, const zip_stat_t *st, struct wn_err *err)
{
    zip_file_t *f;
    bool ok;

    if (!is_plain(st->name))
        return wn_fail(err, WN_ERR_FORMAT, "its name is not one that can be copied");
    if (!wn_npz_check_claims(st, (size_t)c->from.bytes, err))
        return false;
    f = zip_fopen_index(c->zip, i, 0);
    if (!f)
        return wn_npz_fail(err, zip_get_error(c->zip));
    ok = wn_zip_out_begin(&c->out, st->name, st->size, err) && copy_bytes(c, f, st->size, err);
    (void)zip_fclose(f);
    return ok;
}

static bool copy_all(struct copying *c, const struct wn_npz *z, struct wn_err *err)
{
    for (zip_int64_t i = 0, n = zip_get_num_entries(c->zip, 0); i < n; i++) {
        zip_stat_t st;

        if (zip_stat_index(c->zip, (zip_uint64_t)i, 0, &st) != 0)
            return wn_npz_fail(err, zip_get_error(c->zip));
        if (!(st.valid & ZIP_STAT_NAME))
            return wn_fail(err, WN_ERR_FORMAT, "an entry has no name");
        if (!is_new(z, st.name) && !copy_entry(c, (zip_uint64_t)i, &st, err))
            return wn_fail_in(err, "entry '%s'", st.name);
    }
    return true;
}

static bool run(struct copying *c, const struct wn_npz *z, const char *path, bool overwrite, struct wn_err *err)
{
    bool ok = wn_file_map(&c->from, err) && (c->zip = wn_npz_open_zip(c->from.map, (size_t)c->from.bytes, err)) &&
              (c->step = wn_alloc(COPY_STEP, 1, err)) && wn_zip_out_open(&c->out, path, overwrite, err) &&
              copy_all(c, z, err);

    if (!ok)
        return wn_fail_in(err, "'%s'", c->from.path);
    for (size_t i = 0; ok && i < z->n; i++)
        ok = wn_npz_put_entry(&c->out, z, i, err);
    return ok ? wn_zip_out_commit(&c->out, err) : wn_fail_in(err, "'%s'", path);
}

bool wn_npz_extend(const char *from, const struct wn_npz *z, const char *path, bool overwrite, struct wn_err *err)
{
    struct copying c = {.zip = NULL};
    bool ok;

    assert(z->n > 0);
    if (!wn_file_open(&c.from, from, err))
        return false;
    ok = run(&c, z, path, overwrite, err);
    if (!ok)
        wn_zip_out_abandon(&c.out);
    if (c.zip)
        zip_discard(c.zip);
    free(c.step);
    wn_file_close(&c.from);
    return ok;
}
