/*
 * See zip_out.h. After PKWARE's description of the format (APPNOTE.TXT): a header before each entry's data, all of them
 * again with their places in a directory behind the data, and a last record that says where the directory is. A number
 * of 32 bits that is too small for what it says is all ones, and an extra field (or a second last record) has it in 64.
 */
#include "formats/zip_out.h"

#include "base/bits.h"

#include <assert.h>
#include <string.h>

#define FIRST_DATE  0x21 /* 1980-01-01: month 1 in bits 5-8, day 1 in bits 0-4 */
#define PLAIN       20   /* the version of the format that a reader must know: 2.0, ... */
#define ZIP64       45   /* ... and 4.5 */
#define CRC_AT      14   /* in an entry's header ... */
#define CRC_AT_LAST 16   /* ... and in its entry of the directory */
#define ALL_ONES    UINT32_C(0xffffffff)

/* CRC-32 with the reversed polynomial of zip, of the bits before and these bytes. */
static uint32_t crc_on(uint32_t crc, const uint8_t *bytes, size_t n)
{
    static const uint32_t nibble[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};

    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ nibble[crc & 15];
        crc = crc >> 4 ^ nibble[crc & 15];
    }
    return ~crc;
}

static bool put(struct wn_buf *b, unsigned bytes, uint64_t v, struct wn_err *err)
{
    uint8_t le[8];

    wn_store_le(le, bytes, v);
    return wn_buf_add(b, le, bytes, err);
}

/* A field of four bytes, all ones where v is in the extra field. */
static bool put_capped(const struct wn_zip_out *z, struct wn_buf *b, uint64_t v, struct wn_err *err)
{
    return put(b, 4, v > z->most ? ALL_ONES : v, err);
}

/* What the two headers of an entry have in common, from the needed version to the name's length. */
static bool put_common(const struct wn_zip_out *z, struct wn_buf *b, unsigned version, size_t name, uint64_t bytes,
                       struct wn_err *err)
{
    return put(b, 2, version, err) && put(b, 2, 0, err) /* no flags */ && put(b, 2, 0, err) /* stored */ &&
           put(b, 2, 0, err) && put(b, 2, FIRST_DATE, err) && put(b, 4, 0, err) /* the CRC comes later */ &&
           put_capped(z, b, bytes, err) && put_capped(z, b, bytes, err) && put(b, 2, name, err);
}

/* The zip64 extra field: the sizes where they need it, then the place. */
static bool put_extra(struct wn_buf *b, bool sizes, uint64_t bytes, bool place, uint64_t at, struct wn_err *err)
{
    if (!sizes && !place)
        return true;
    if (!put(b, 2, 1, err) || !put(b, 2, (sizes ? 16 : 0) + (place ? 8 : 0), err))
        return false;
    for (int i = 0; sizes && i < 2; i++) /* unpacked, and packed */
        if (!put(b, 8, bytes, err))
            return false;
    return !place || put(b, 8, at, err);
}

static size_t extra_bytes(bool sizes, bool place)
{
    return sizes || place ? 4 + (sizes ? 16 : 0) + (place ? 8 : 0) : 0;
}

static bool put_header(const struct wn_zip_out *z, struct wn_buf *b, const char *name, uint64_t bytes,
                       struct wn_err *err)
{
    size_t n = strlen(name);
    bool sizes = bytes > z->most;

    return put(b, 4, 0x04034b50, err) && put_common(z, b, sizes ? ZIP64 : PLAIN, n, bytes, err) &&
           put(b, 2, extra_bytes(sizes, false), err) && wn_buf_add(b, name, n, err) &&
           put_extra(b, sizes, bytes, false, 0, err);
}

static bool put_directory(struct wn_zip_out *z, const char *name, uint64_t bytes, struct wn_err *err)
{
    struct wn_buf *b = &z->directory;
    size_t n = strlen(name);
    bool sizes = bytes > z->most, place = z->header_at > z->most;
    unsigned version = sizes || place ? ZIP64 : PLAIN;

    return put(b, 4, 0x02014b50, err) && put(b, 2, version, err) && put_common(z, b, version, n, bytes, err) &&
           put(b, 2, extra_bytes(sizes, place), err) && put(b, 4, 0, err) /* no comment, first disk */ &&
           put(b, 2, 0, err) && put(b, 4, 0, err) /* no attributes */ && put_capped(z, b, z->header_at, err) &&
           wn_buf_add(b, name, n, err) && put_extra(b, sizes, bytes, place, z->header_at, err);
}

bool wn_zip_out_open(struct wn_zip_out *z, const char *path, bool overwrite, struct wn_err *err)
{
    *z = (struct wn_zip_out){.most = ALL_ONES - 1};
    return wn_outfile_open(&z->file, path, overwrite, err);
}

bool wn_zip_out_begin(struct wn_zip_out *z, const char *name, uint64_t bytes, struct wn_err *err)
{
    struct wn_buf header = {0};
    bool ok;

    assert(z->left == 0 && strlen(name) <= UINT16_MAX);
    z->header_at = z->file.at;
    z->in_directory = z->directory.n;
    z->left = bytes;
    z->crc = 0;
    z->entries++;
    ok = put_header(z, &header, name, bytes, err) && wn_outfile_write(&z->file, header.at, header.n, err) &&
         put_directory(z, name, bytes, err);
    wn_buf_release(&header);
    return ok;
}

bool wn_zip_out_add(struct wn_zip_out *z, const void *bytes, size_t n, struct wn_err *err)
{
    uint8_t crc[4];

    assert(n <= z->left);
    z->crc = crc_on(z->crc, bytes, n);
    z->left -= n;
    if (!wn_outfile_write(&z->file, bytes, n, err))
        return false;
    if (z->left > 0)
        return true;
    wn_store32(crc, z->crc);
    memcpy(z->directory.at + z->in_directory + CRC_AT_LAST, crc, sizeof crc);
    return wn_outfile_write_at(&z->file, z->header_at + CRC_AT, crc, sizeof crc, err);
}

/* The last records: in the zip64 form first, where some number needs it, and where to find that. */
static bool put_end(const struct wn_zip_out *z, struct wn_buf *b, uint64_t at, uint64_t bytes, struct wn_err *err)
{
    uint64_t entries = z->entries > UINT16_MAX - 1 ? UINT16_MAX : z->entries;

    if (at > z->most || bytes > z->most || entries != z->entries) {
        if (!put(b, 4, 0x06064b50, err) || !put(b, 8, 44, err) || !put(b, 2, ZIP64, err) || !put(b, 2, ZIP64, err) ||
            !put(b, 8, 0, err) /* disks */ || !put(b, 8, z->entries, err) || !put(b, 8, z->entries, err) ||
            !put(b, 8, bytes, err) || !put(b, 8, at, err))
            return false;
        if (!put(b, 4, 0x07064b50, err) || !put(b, 4, 0, err) || !put(b, 8, at + bytes, err) || !put(b, 4, 1, err))
            return false;
    }
    return put(b, 4, 0x06054b50, err) && put(b, 4, 0, err) && put(b, 2, entries, err) && put(b, 2, entries, err) &&
           put_capped(z, b, bytes, err) && put_capped(z, b, at, err) && put(b, 2, 0, err);
}

bool wn_zip_out_commit(struct wn_zip_out *z, struct wn_err *err)
{
    uint64_t at = z->file.at, bytes = z->directory.n;
    bool ok;

    assert(z->left == 0);
    ok = put_end(z, &z->directory, at, bytes, err) &&
         wn_outfile_write(&z->file, z->directory.at, z->directory.n, err) && wn_outfile_commit(&z->file, err);
    if (!ok)
        wn_outfile_abandon(&z->file);
    wn_buf_release(&z->directory);
    return ok;
}

void wn_zip_out_abandon(struct wn_zip_out *z)
{
    wn_outfile_abandon(&z->file);
    wn_buf_release(&z->directory);
    *z = (struct wn_zip_out){0};
}
